"""What the steps of a recovery look at, and what each of them proposes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..plan import Operation, Refusal, Remove, Replace
from ..pointer import value_at
from ..view import View  # noqa: TC001 -- msgspec reads it
from .run import Counters, Found
from .settings import RecoverySettings, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

OUTPUT_RESERVE: Final = 20_000
"""Tokens that a request leaves for the answer (`limit.output_reserve`)."""


class Ground(msgspec.Struct, frozen=True):
    """A session that is to be mended."""

    view: View
    refusal: Found
    settings: RecoverySettings
    counters: Counters = Counters()
    window_tokens: int | None = None
    """Where the refusal names no limit; None where that is not known either."""
    reserve_tokens: int = OUTPUT_RESERVE
    """That are to be free afterwards."""
    planned_operations: tuple[Operation, ...] = ()
    """What steps before this one do, and what does not suffice."""

    @property
    def limit_tokens(self) -> int | None:
        """What a request may hold."""
        return self.refusal.max_tokens or self.window_tokens

    @property
    def tokens(self) -> int:
        """What the request holds after what is planned already: as the API counted it."""
        now = self.refusal.current_tokens or self.view.tokens
        return now - sum(each.tokens_saved for each in self.planned_operations)

    @property
    def max_fitting_tokens(self) -> int | None:
        """Tokens at which there is room for an answer; None without a limit."""
        limit = self.limit_tokens
        if limit is None:
            return None
        # A reserve that is larger than half of a small window would leave no conversation.
        return max(limit - self.reserve_tokens, int(limit * self.settings.target_ratio))

    @property
    def changed_lines(self) -> frozenset[int]:
        """Lines that what is planned already changes."""
        return frozenset(
            edit.line
            for operation in self.planned_operations
            for edit in operation.edits
            if isinstance(edit, (Replace, Remove))
        )

    @property
    def truncations_left(self) -> int:
        """Results that may still be truncated (002-64)."""
        return max(0, self.settings.max_truncate - self.counters.truncated)

    def fits_after(self, operations: Iterable[Operation]) -> bool:
        """Say whether the request fits after these; without a limit anything less does."""
        saved = sum(each.tokens_saved for each in operations)
        return (
            saved > 0
            if self.max_fitting_tokens is None
            else self.tokens - saved <= self.max_fitting_tokens
        )


class Proposal(msgspec.Struct, frozen=True):
    """What one step would do."""

    step: Step
    operations: tuple[Operation, ...] = ()
    insufficient: Refusal | None = None
    """Why it does not suffice; None where it does."""
    prompt: str | None = None
    """Of a person, that a revert takes out: to be asked again."""
    reverted_uuid: str | None = None
    """Uuid of that prompt's line."""

    @property
    def truncated_results(self) -> int:
        """Results that it truncates."""
        return sum(each.strategy in {Step.TRUNCATE, Step.AGGRESSIVE} for each in self.operations)


def replaced(view: View, number: int, pointer: str, value: str) -> tuple[Replace, int]:
    """Make the edit of one value, and say how many bytes it frees.

    Raises PointerError where the line has no such value, OSError where it cannot be read.
    """
    raw = view.line_bytes(number)
    edit = Replace(number, view.lines[number - 1].offset, _sha256(raw), pointer, value)
    return edit, len(value_at(raw, pointer)) - len(value.encode())


def content_of(view: View, number: int) -> Any:  # noqa: ANN401 -- any JSON
    """Give the content of a line's message; None where it has none."""
    value = view.decoded_line(number)
    message = value.get("message") if isinstance(value, dict) else None
    return message.get("content") if isinstance(message, dict) else None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
