"""What compactions were asked to keep, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from ...core.steered import steered_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.store.answer_queries import GivenRow
    from ...core.store.rows import CompactionRow


def steered(
    rows: Sequence[CompactionRow], asked: Sequence[GivenRow]
) -> list[list[dict[str, Any]] | None]:
    """Make the value of `steered` for each compaction, None where nothing was asked.

    The rows stand newest first.
    """
    from ...core.told import unpack

    found = steered_by([(row, unpack(row.report)) for row in rows], asked)
    return [[asdict(item) for item in items] or None for items in found]
