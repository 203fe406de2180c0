"""Telling a process from another one that has its number by now."""

from __future__ import annotations

from typing import Final

START_SLACK_S: Final = 1.0
"""Two readings of one process's start differ by less."""


def start_of(pid: int) -> float | None:
    """Say when a process began, in seconds since 1970; None where there is none."""
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except (psutil.Error, ValueError, OverflowError):
        return None


def is_running(pid: int, start: float) -> bool:
    """Say whether the process that began then under this number still runs."""
    now = start_of(pid)
    return now is not None and abs(now - start) < START_SLACK_S
