"""Reads what Claude Code writes, and what ctxtop's own hooks log."""
