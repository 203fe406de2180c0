"""A summary in words: its name, how it begins, two lines for a pane, and Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ...core.measure.tokens import tokens_or_estimate
from ...core.transcript.sanitize import one_line
from .formats import age, fit_left, fit_right, plural, tokens

if TYPE_CHECKING:
    from ...core.store.queries.query_rows import SummaryRow
    from ...core.summaries.summary_comparison import ReplacedContent


SIZE_CELLS: Final = 24

BOUNDARY_KIND: Final = "boundary"
"""The kind of a compaction's summary; the others are agents' and plans'."""

PLAN_KIND: Final = "plan"
"""The kind of what ctxtop wrote itself, and of what was planned in plan mode."""

AGENT_KIND: Final = "agent"

KIND_SIGNS: Final = {AGENT_KIND: "◆", BOUNDARY_KIND: "↻", PLAN_KIND: "≡"}
KIND_STYLES: Final = {
    AGENT_KIND: "$accent",
    BOUNDARY_KIND: "$level-notice",
    PLAN_KIND: "$secondary",
}

KIND_NAMES: Final = {
    AGENT_KIND: "what an agent returned",
    BOUNDARY_KIND: "what a compaction kept",
    PLAN_KIND: "a plan, made in plan mode or by ctxtop",
}

BEGINNING_CHARS: Final = 4_000
"""Characters: a beginning stands in the first ones, and a text can have 200,000."""

# The client opens every compaction's summary with the same words.
_PREAMBLE: Final = "This session is being continued from a previous conversation"


def summary_lines(row: SummaryRow, titles: Mapping[str, str], width: int, now_ms: int) -> Content:
    """Write who said it, where, how long ago and how large, and below it how it begins."""
    said = row.agent_type or "agent" if row.kind == AGENT_KIND else summary_name(row)
    who = f"{KIND_SIGNS[row.kind]} {said}"
    where = titles.get(row.session_id, row.session_id[:8])
    since = age(row.at, now_ms)
    estimate = "" if row.estimated_tokens is None else f" ≈{tokens(row.estimated_tokens)}"
    lines = "1 line" if row.lines == 1 else f"{row.lines} lines"
    size = f"{lines}{estimate} · {since}"
    room = max(0, width - SIZE_CELLS - 1)
    who_cells = min(room, max(14, room // 3))
    return Content.assemble(
        (fit_left(who, who_cells), KIND_STYLES[row.kind]),
        (fit_left(f" {where}", room - who_cells), "$quiet"),
        " ",
        (fit_right(size, SIZE_CELLS), "$quiet"),
        "\n",
        (fit_left(f"  {summary_beginning(row.text)}", width), "$foreground"),
    )


def summary_name(row: SummaryRow) -> str:
    """Name a summary: a compaction, what ctxtop planned, or an agent and its task."""
    if row.kind == BOUNDARY_KIND:
        return "compaction"
    if row.kind == PLAN_KIND:
        return f"plan: {row.description}" if row.description else "plan"
    return f"{row.agent_type or 'agent'} {row.description or ''}".rstrip()


def summary_beginning(text: str) -> str:
    """Find the first words that tell something: not the marker, not the client's preamble."""
    lines = [line.strip(" #*-") for line in text[:BEGINNING_CHARS].split("\n")]
    told = [
        line
        for line in lines
        if line
        and not line.startswith(("[COMPRESSED]", "<", _PREAMBLE))
        and line not in {"Summary:", "Analysis:"}
    ]
    return " · ".join(told[:3]) if told else " ".join(text[:BEGINNING_CHARS].split())


COVERAGE_SIGNS: Final = {"summary": "✓", "stays": "•", "lost": "✗"}  # by `ItemFate`


def coverage_headline(row: SummaryRow, found: ReplacedContent) -> list[str]:
    """Return two lines: the sizes before and after, and how much was kept and lost."""
    before = f"{plural(found.messages, 'message')}, {plural(found.tool_uses, 'tool use')}"
    if found.context_tokens:
        before += f", {tokens(found.context_tokens)} tokens in context"
    size = plural(row.lines, "line")
    if row.estimated_tokens is not None:
        size += f", ≈{tokens(row.estimated_tokens)} tokens"
    named, stays, lost = (
        sum(getattr(tally, fate) for tally in found.tallies)
        for fate in ("summary", "stays", "lost")
    )
    kept = f"names {named:,} of {named + stays + lost:,} things"
    if stays:
        kept += f" · {stays:,} more stand in the messages that stayed"
    return [f"{before} → {size}", f"{kept} · leaves out {lost:,}{_last_message_note(row, found)}"]


def _last_message_note(row: SummaryRow, found: ReplacedContent) -> str:
    if row.kind != AGENT_KIND or not found.last_words:
        return ""
    if found.last_words.strip() == row.text.strip():
        return " · the result is its last message, word for word"
    return " · the result is not its last message"


MIN_FENCE: Final = 3  # backticks (CommonMark 4.5)
_BACKTICKS: Final = re.compile("`+")


def summaries_markdown(
    rows: Iterable[SummaryRow], session_labels: Mapping[str, str]
) -> Iterator[str]:
    """Write summaries one after another, as parts of one file; `session_labels` names sessions.

    A file of one begins with its facts as front matter; of several each has its own, in a block,
    for a file has but one front matter.
    """
    waiting = iter(rows)
    first = next(waiting, None)
    if first is None:
        return
    second = next(waiting, None)
    if second is None:
        yield from _single_document(first, session_labels)
        return
    yield "# Summaries\n"
    for row in (first, second):
        yield from _document_part(row, session_labels)
    for row in waiting:
        yield from _document_part(row, session_labels)


def fenced_block(text: str, info: str = "text") -> str:
    """Fence a text with more backticks than stand in a row anywhere in it (CommonMark 4.5)."""
    longest = max((len(ticks) for ticks in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(MIN_FENCE, longest + 1)
    return f"{fence}{info}\n{text}\n{fence}\n"


def front_matter(row: SummaryRow, session_labels: Mapping[str, str]) -> dict[str, str | int | None]:
    """Name the facts of a summary."""
    from .formats import iso_time

    return {
        "kind": row.kind,
        "session_id": row.session_id,
        "session": session_labels.get(row.session_id),
        "agent_id": row.agent_id,
        "agent_type": row.agent_type,
        "description": row.description,
        "at": iso_time(row.at),
        "lines": row.lines,
        "estimated_tokens": tokens_or_estimate(row.estimated_tokens, row.text),
    }


def _single_document(row: SummaryRow, where: Mapping[str, str]) -> Iterator[str]:
    yield f"---\n{_yaml(row, where)}---\n\n"
    yield f"# {_escaped_name(row)}\n\n"
    yield fenced_block(row.text)


def _document_part(row: SummaryRow, where: Mapping[str, str]) -> Iterator[str]:
    yield f"\n## {_escaped_name(row)}\n\n"
    yield f"```yaml\n{_yaml(row, where)}```\n\n"
    yield fenced_block(row.text)


def _yaml(row: SummaryRow, where: Mapping[str, str]) -> str:
    # A JSON value is a YAML value too, on one line, and nothing in it ends it; of backticks
    # none is left that could end the block around it.
    return "".join(
        f"{name}: {json.dumps(value, ensure_ascii=False).replace('`', chr(92) + 'u0060')}\n"
        for name, value in front_matter(row, where).items()
        if value is not None
    )


def _escaped_name(row: SummaryRow) -> str:
    # What Markdown could read as more than words is escaped.
    return re.sub(r"([\\`*_{}\[\]<>#|!&~$])", r"\\\1", one_line(summary_name(row)))
