"""The ways to pause a session, and what is assumed of the pause unless a policy says otherwise."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

DEFAULT_REQUESTS: Final = 20
"""Requests over which ways are compared. Of 45 breaks of more than five minutes in recorded
sessions, three in four were followed by at least 16 requests, half of them by 39."""

DEFAULT_REREAD_TOKENS: Final = 24_000
"""What a session that starts from a hand-off note reads again: recorded sessions grew by this much
in their first ten requests (median of 13)."""


class PauseWay(StrEnum):
    LEAVE = "leave"  # go on as it is
    PLAN = "plan"  # ctxtop's plan for the session itself
    CLIENT = "client"  # Claude Code's own /compact
    HAND_OFF = "hand-off"  # a new session that starts with a note
