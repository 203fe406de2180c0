"""The client's own measurement beside what the transcript says: they must be the same number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .store.log_queries import ComparedRow


class Comparison(msgspec.Struct, frozen=True):
    """How many sessions were measured, and which of them the transcript tells otherwise."""

    equal: int
    not_comparable: int
    """The transcript has no answer of that moment: nothing to compare with."""
    different: tuple[ComparedRow, ...]


def compare(rows: Iterable[ComparedRow]) -> Comparison:
    """Compare the newest measurement of each session with the transcript's answer, in tokens.

    `session.measure` tells the input side of the last answer, as the status line does (seen
    in 2.1.329): it is equal or one of the two is wrong.
    """
    listed = list(rows)
    told = [row for row in listed if row.answer_tokens is not None]
    different = tuple(row for row in told if row.answer_tokens != row.measured_tokens)
    return Comparison(len(told) - len(different), len(listed) - len(told), different)
