"""Agents and types of agents as Markdown tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .agent_page_rows import took
from .agent_report import result_of
from .compliance_words import WORDS
from .findings_markdown import plain
from .formats import NOTHING, model, percent, tokens
from .type_rows import complied

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..core.agents import Agent
    from ..core.compliance_summary import Part

_FENCE = "```"


def agents_markdown(agents: Sequence[Agent], titles: Mapping[str, str]) -> str:
    """Write a table of agents, and below it what each gave back; empty where there are none."""
    if not agents:
        return ""
    heads = ("agent", "task", "session", "model", "context", "took", "gave back", "verdict")
    rows = [
        (
            each.agent_type,
            each.description,
            titles.get(each.session_id, each.session_id),
            model(each.model),
            percent(each.context.ratio),
            took(each, each.ended_at or each.started_at or 0),
            f"{each.result.lines} lines" if each.result else each.status.label,
            WORDS[each.compliance.verdict] if each.compliance else NOTHING,
        )
        for each in agents
    ]
    lines = ["# Agents", "", *_table(heads, rows)]
    for each in agents:
        text = result_of(each)
        if text:
            fence = _fence(text)
            title = f"{plain(each.agent_type)}: {plain(each.description)}"
            lines += ["", f"## {title}", "", f"{fence}text", text, fence]
    return "\n".join([*lines, ""])


def types_markdown(parts: Iterable[Part]) -> str:
    """Write a table of types; empty where there are none."""
    heads = ("type", "runs", "complied", "median lines", "90 % lines", "≈tokens", "≈too many")
    rows = [
        (
            each.name,
            str(each.runs),
            complied(each.score),
            str(each.sizes.median_lines) if each.sizes.results else NOTHING,
            str(each.sizes.p90_lines) if each.sizes.results else NOTHING,
            tokens(each.cost.result_tokens),
            tokens(each.cost.excess_tokens),
        )
        for each in parts
    ]
    return "\n".join(["# Types of agents", "", *_table(heads, rows), ""]) if rows else ""


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_row(heads), _row(["---"] * len(heads)), *(_row(map(_cell, each)) for each in rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(words: str) -> str:
    return plain(words).replace("|", "\\|")


def _fence(text: str) -> str:
    """Choose a fence that the text does not end."""
    fence = _FENCE
    while fence in text:
        fence += "`"
    return fence
