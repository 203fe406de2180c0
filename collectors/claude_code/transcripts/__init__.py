"""Indexes transcript lines: each becomes the records that are stored."""
