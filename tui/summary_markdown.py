"""Summaries as Markdown: their facts as front matter, their text fenced so that it stays text."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from ..core.tokens import count_of
from .formats import one_line
from .summary_rows import who_said

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ..core.store.rows import SummaryRow

SHORTEST_FENCE: Final = 3
"""Backticks (CommonMark 4.5)."""

_TICKS: Final = re.compile("`+")


def summaries_markdown(
    rows: Iterable[SummaryRow], session_labels: Mapping[str, str]
) -> Iterator[str]:
    """Write summaries one after another, as parts of one file; `where` names sessions.

    A file of one begins with its facts as front matter; of several each has its own, in a block,
    for a file has but one front matter.
    """
    waiting = iter(rows)
    first = next(waiting, None)
    if first is None:
        return
    second = next(waiting, None)
    if second is None:
        yield from _alone(first, session_labels)
        return
    yield "# Summaries\n"
    for row in (first, second):
        yield from _one_of_many(row, session_labels)
    for row in waiting:
        yield from _one_of_many(row, session_labels)


def fenced(text: str, info: str = "text") -> str:
    """Fence a text with more backticks than stand in a row anywhere in it (CommonMark 4.5)."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(SHORTEST_FENCE, longest + 1)
    return f"{fence}{info}\n{text}\n{fence}\n"


def facts(row: SummaryRow, session_labels: Mapping[str, str]) -> dict[str, str | int | None]:
    """Name the facts of a summary."""
    from .cli.times import time_of

    return {
        "kind": row.kind,
        "session_id": row.session_id,
        "session": session_labels.get(row.session_id),
        "agent_id": row.agent_id,
        "agent_type": row.agent_type,
        "description": row.description,
        "at": time_of(row.at),
        "lines": row.lines,
        "estimated_tokens": count_of(row.estimated_tokens, row.text),
    }


def _alone(row: SummaryRow, where: Mapping[str, str]) -> Iterator[str]:
    yield f"---\n{_yaml(row, where)}---\n\n"
    yield f"# {_heading(row)}\n\n"
    yield fenced(row.text)


def _one_of_many(row: SummaryRow, where: Mapping[str, str]) -> Iterator[str]:
    yield f"\n## {_heading(row)}\n\n"
    yield f"```yaml\n{_yaml(row, where)}```\n\n"
    yield fenced(row.text)


def _yaml(row: SummaryRow, where: Mapping[str, str]) -> str:
    # A JSON value is a YAML value too, on one line, and nothing in it ends it; of backticks
    # none is left that could end the block around it.
    return "".join(
        f"{name}: {json.dumps(value, ensure_ascii=False).replace('`', chr(92) + 'u0060')}\n"
        for name, value in facts(row, where).items()
        if value is not None
    )


def _heading(row: SummaryRow) -> str:
    # What Markdown could read as more than words is escaped.
    return re.sub(r"([\\`*_{}\[\]<>#|!&~$])", r"\\\1", one_line(who_said(row)))
