"""Which summaries can be exported: the open one, the selected ones, all that are shown."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from ..export_screen import ExportChoice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ....core.store.queries.query_rows import SummaryRow
    from ....core.summaries.summary_search import PlanSummary


EXPORT_NAME: Final = "summaries"

EXPORT_BATCH: Final = 200
"""Summaries that are held at once while many are written."""


def single_export_choice(row: SummaryRow, session_labels: Mapping[str, str]) -> ExportChoice:
    """Offer the one in sight; `where` names sessions."""
    return ExportChoice("this one", _count(1), partial(_markdown_of, row, session_labels))


def list_export_choices(
    selected: Sequence[int],
    shown: Sequence[int],
    plans: tuple[PlanSummary, ...],
    session_labels: Mapping[str, str],
    store: Path,
) -> tuple[ExportChoice, ...]:
    """Offer the marked ones, and all that the filters show, where there are any."""
    offered = (
        (f"the {len(selected):,} marked", selected, 1),
        (f"all {len(shown):,} shown", shown, 2),
    )
    return tuple(
        ExportChoice(
            words, _count(len(ids)), partial(_markdown_of_many, store, plans, ids, session_labels)
        )
        for words, ids, least in offered
        if len(ids) >= least
    )


def _count(count: int) -> str:
    return "1 summary" if count == 1 else f"{count:,} summaries"


def _markdown_of(row: SummaryRow, where: Mapping[str, str]) -> Iterator[str]:
    from ...text.summary_text import summaries_markdown

    yield from summaries_markdown(iter([row]), where)


def _markdown_of_many(
    store: Path, plans: tuple[PlanSummary, ...], ids: Sequence[int], where: Mapping[str, str]
) -> Iterator[str]:
    from ....core.store.database import open_reader
    from ....core.summaries.summary_search import read_summary_rows
    from ...text.summary_text import summaries_markdown

    def rows() -> Iterator[SummaryRow]:
        with closing(open_reader(store)) as db:
            for start in range(0, len(ids), EXPORT_BATCH):
                yield from read_summary_rows(db, plans, ids[start : start + EXPORT_BATCH])

    yield from summaries_markdown(rows(), where)
