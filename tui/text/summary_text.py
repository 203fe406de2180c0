"""A summary in words: its name, how it begins, two lines for a pane, and Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ...core.measure.stored_tokens import tokens_or_estimate
from ...core.model.rule import ListedRule, RuleMark, RuleState
from ...core.transcript.sanitize import one_line
from .formats import age, date_time_and_age, fit_left, fit_right, iso_time, plural, tokens

if TYPE_CHECKING:
    from ...core.model.stored_rows import SummaryRow
    from ...core.summaries.summary_comparison import ReplacedContent
    from ...core.summaries.summary_facts import QuotedAnchor


# What an agent returned; a compaction's summary; what ctxtop wrote or plan mode planned; a rule.
AGENT_KIND, BOUNDARY_KIND, PLAN_KIND, RULE_KIND = "agent", "boundary", "plan", "rule"

KIND_SIGNS: Final = {AGENT_KIND: "◆", BOUNDARY_KIND: "↻", PLAN_KIND: "≡", RULE_KIND: "§"}
KIND_STYLES: Final = {
    AGENT_KIND: "$accent",
    BOUNDARY_KIND: "$level-notice",
    PLAN_KIND: "$secondary",
    RULE_KIND: "$primary",
}
KIND_NAMES: Final = {
    AGENT_KIND: "what an agent returned",
    BOUNDARY_KIND: "what a compaction kept",
    PLAN_KIND: "a plan, made in plan mode or by ctxtop",
    RULE_KIND: "a rule of yours or of a memory file",
}

SIZE_CELLS: Final = 24
BEGINNING_CHARS: Final = 4_000  # that hold a text's beginning; a text can have 200,000
_PREAMBLE: Final = "This session is being continued from a previous conversation"
"""The client opens every compaction's summary with these words."""


def summary_lines(row: SummaryRow, titles: Mapping[str, str], width: int, now_ms: int) -> Content:
    """Write the author, the session, the size and the age, and below them how the text begins."""
    author = row.agent_type or "agent" if row.kind == AGENT_KIND else summary_name(row)
    session = titles.get(row.session_id, row.session_id[:8])
    estimate = "" if row.estimated_tokens is None else f" ≈{tokens(row.estimated_tokens)}"
    lines = "1 line" if row.lines == 1 else f"{row.lines} lines"
    room = max(0, width - SIZE_CELLS - 1)
    author_cells = min(room, max(14, room // 3))
    return Content.assemble(
        (fit_left(f"{KIND_SIGNS[row.kind]} {author}", author_cells), KIND_STYLES[row.kind]),
        (fit_left(f" {session}", room - author_cells), "$quiet"),
        " ",
        (fit_right(f"{lines}{estimate} · {age(row.at, now_ms)}", SIZE_CELLS), "$quiet"),
        "\n",
        (fit_left(f"  {summary_beginning(row.text)}", width), "$foreground"),
    )


def summary_name(row: SummaryRow) -> str:
    if row.kind == BOUNDARY_KIND:
        return "compaction"
    if row.kind == PLAN_KIND:
        return f"plan: {row.description}" if row.description else "plan"
    if row.kind == RULE_KIND:
        # Described by the memory file that states it.
        return f"rule in {_file_name(row.description)}" if row.description else "rule"
    return f"{row.agent_type or 'agent'} {row.description or ''}".rstrip()


def _file_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def rule_state(rule: ListedRule) -> str:
    if rule.mark is RuleMark.NONE:
        return rule.state.value
    is_lost = rule.mark is RuleMark.PINNED and rule.state is RuleState.LOST
    return f"{rule.mark}, {rule.state}" if is_lost else rule.mark.value


def rule_facts(rule: ListedRule, now_ms: int) -> list[str]:
    """Write a rule's source, what compactions did to it, and the person's choice."""
    at = date_time_and_age(rule.state_at, now_ms)
    states = {
        RuleState.IN_CONTEXT: "in context",
        RuleState.LOST: f"lost in the compaction of {at}",
        RuleState.GIVEN_BACK: f"lost in a compaction, given back {at}",
    }
    marks = {
        RuleMark.NONE: [],
        RuleMark.PINNED: ["pinned: always carried, and given back first"],
        RuleMark.DROPPED: ["dropped: ignored until you state it again"],
    }
    source = "stated in a prompt" if rule.path is None else f"stated in {rule.path}"
    return [f"{source} · {states[rule.state]}", *marks[rule.mark]]


def anchors_text(anchors: Iterable[QuotedAnchor]) -> str:
    """List the messages that a summary quotes word for word, by their importance.

    Marked ones come first, then the highest scores: `lines 8, 2 (1.00, marked), line 4 (0.80)`.
    """
    lines: dict[tuple[bool, float], list[int]] = {}
    for each in sorted(anchors, key=lambda each: (not each.is_marked, -each.score, -each.line)):
        lines.setdefault((each.is_marked, each.score), []).append(each.line)
    return ", ".join(
        f"line{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"
        f" ({score:.2f}{', marked' if is_marked else ''})"
        for (is_marked, score), found in lines.items()
    )


def summary_beginning(text: str) -> str:
    """Return the first three lines with content: not the marker, not the client's preamble."""
    start = text[:BEGINNING_CHARS]
    lines = [
        line
        for line in (line.strip(" #*-") for line in start.split("\n"))
        if line
        and not line.startswith(("[COMPRESSED]", "<", _PREAMBLE))
        and line not in {"Summary:", "Analysis:"}
    ]
    return " · ".join(lines[:3]) if lines else " ".join(start.split())


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
        kept += f" · {stays:,} more are in the messages that were kept"
    return [f"{before} → {size}", f"{kept} · leaves out {lost:,}{_last_message_note(row, found)}"]


def _last_message_note(row: SummaryRow, found: ReplacedContent) -> str:
    if row.kind != AGENT_KIND or not found.last_words:
        return ""
    if found.last_words.strip() == row.text.strip():
        return " · the result is its last message, word for word"
    return " · the result is not its last message"


def summaries_markdown(
    rows: Iterable[SummaryRow], session_labels: Mapping[str, str]
) -> Iterator[str]:
    """Write summaries as parts of one file; `session_labels` names sessions.

    A single summary begins with its facts as front matter. A file has but one front matter, so
    each of several has its own in a block.
    """
    remaining = iter(rows)
    first = list(islice(remaining, 2))
    if len(first) == 1:
        row = first[0]
        yield f"---\n{_yaml(row, session_labels)}---\n\n"
        yield f"# {_escaped_name(row)}\n\n"
        yield fenced_block(row.text)
    elif first:
        yield "# Summaries\n"
        for row in chain(first, remaining):
            yield f"\n## {_escaped_name(row)}\n\n"
            yield f"```yaml\n{_yaml(row, session_labels)}```\n\n"
            yield fenced_block(row.text)


def fenced_block(text: str) -> str:
    """Fence a text with more backticks than it has in a row, at least 3 (CommonMark 4.5)."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}\n"


def _yaml(row: SummaryRow, session_labels: Mapping[str, str]) -> str:
    facts = {
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
    # A JSON value is a YAML value on one line, and no backtick is left to end the block.
    return "".join(
        f"{name}: {json.dumps(value, ensure_ascii=False).replace('`', chr(92) + 'u0060')}\n"
        for name, value in facts.items()
        if value is not None
    )


def _escaped_name(row: SummaryRow) -> str:
    # Escape what Markdown could read as markup.
    return re.sub(r"([\\`*_{}\[\]<>#|!&~$])", r"\\\1", one_line(summary_name(row)))
