"""Which summaries can be exported together: the one in sight, the marked ones, all shown."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from .screens.export import Choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ..core.store.rows import SummaryRow
    from ..core.summary_list import PlanText

NAME: Final = "summaries"

PAGE: Final = 200
"""Summaries that are held at once while many are written."""


def one_choice(row: SummaryRow, session_labels: Mapping[str, str]) -> Choice:
    """Offer the one in sight; `where` names sessions."""
    return Choice("this one", _count(1), partial(_markdown_of, row, session_labels))


def many_choices(
    selected: Sequence[int],
    shown: Sequence[int],
    plans: tuple[PlanText, ...],
    session_labels: Mapping[str, str],
    store: Path,
) -> tuple[Choice, ...]:
    """Offer the marked ones, and all that the filters show, where there are any."""
    offered = (
        (f"the {len(selected):,} marked", selected, 1),
        (f"all {len(shown):,} shown", shown, 2),
    )
    return tuple(
        Choice(
            words, _count(len(ids)), partial(_markdown_of_many, store, plans, ids, session_labels)
        )
        for words, ids, least in offered
        if len(ids) >= least
    )


def _count(count: int) -> str:
    return "1 summary" if count == 1 else f"{count:,} summaries"


def _markdown_of(row: SummaryRow, where: Mapping[str, str]) -> Iterator[str]:
    from .summary_markdown import summaries_markdown

    yield from summaries_markdown(iter([row]), where)


def _markdown_of_many(
    store: Path, plans: tuple[PlanText, ...], ids: Sequence[int], where: Mapping[str, str]
) -> Iterator[str]:
    from ..core.store.database import open_reader
    from ..core.summary_list import read_rows
    from .summary_markdown import summaries_markdown

    def rows() -> Iterator[SummaryRow]:
        with closing(open_reader(store)) as db:
            for start in range(0, len(ids), PAGE):
                yield from read_rows(db, plans, ids[start : start + PAGE])

    yield from summaries_markdown(rows(), where)
