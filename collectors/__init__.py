"""Reads what was written, and stores it without interpreting it."""
