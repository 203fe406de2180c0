"""The result of one check of `ctxtop doctor`."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class CheckState(StrEnum):
    OK = "ok"
    NOTE = "note"  # something is wrong with a session or a file; ctxtop itself works
    FAILED = "failed"  # ctxtop does not work, or not safely, until it is fixed


class DoctorCheck(msgspec.Struct, frozen=True):
    """The result of one check, and what to do if something is wrong."""

    name: str
    state: CheckState
    detail: str
    fix: str | None = None

    @property
    def ok(self) -> bool:
        return self.state is not CheckState.FAILED


def passed(name: str, detail: str, hint: str | None = None) -> DoctorCheck:
    """Make a check that passed; a hint may suggest an improvement."""
    return DoctorCheck(name, CheckState.OK, detail, hint)


def noted(name: str, detail: str, fix: str | None = None) -> DoctorCheck:
    """Make a check that found something wrong with a session or a file, not with ctxtop."""
    return DoctorCheck(name, CheckState.NOTE, detail, fix)


def failed(name: str, detail: str, fix: str) -> DoctorCheck:
    """Make a check that found what keeps ctxtop from working."""
    return DoctorCheck(name, CheckState.FAILED, detail, fix)


def and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
