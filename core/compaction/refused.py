"""Why a plan was not carried out, or not taken back."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from .plan import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence


class Stop(StrEnum):
    """What kind of no it is; a command's exit code follows from it."""

    NOTHING = "nothing"
    """There is nothing to do."""
    LIVE = "live"
    """The session is, or may be, at work."""
    UNSAFE = "unsafe"
    """It cannot be shown that it does no harm."""
    UNVERIFIED = "unverified"
    """It was tried, a check failed, and everything is as it was."""


class NotAppliedError(Exception):
    """Nothing was changed; the refusals say which checks said so and what to do."""

    def __init__(self, kind: Stop, refusals: Sequence[Refusal]) -> None:
        self.kind = kind
        self.refusals = tuple(refusals)
        super().__init__(
            "; ".join(f"{each.check}: {each.why}: {each.what_to_do}" for each in refusals)
        )


def refuse(kind: Stop, check: str, why: str, what_to_do: str) -> NotAppliedError:
    """Make the error of one check."""
    return NotAppliedError(kind, [Refusal(check, why, what_to_do)])
