"""What is kept of sessions that Claude Code deletes; imports nothing slow."""

from enum import StrEnum


class ArchiveMode(StrEnum):
    OFF = "off"
    SUMMARIES = "summaries"  # the lines that summaries, agents' results, plans and rules are of
    ALL = "all"  # whole files: the session can be restored and resumed
