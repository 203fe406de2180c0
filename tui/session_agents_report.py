"""What a session's agents have come to, together."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.compliance.codes import FAILED, PASSED
from .formats import one_line, percent, tokens
from .gauge import fill, gauge
from .report_lines import line

if TYPE_CHECKING:
    from .agent_page_rows import Line

BAR_CELLS: Final = 24


def session_agents_report(row: Line, width: int) -> Content:
    """Write the report of a session's own row."""
    session, agents = row.session, row.agents
    if session is None:
        return Content(row.key.rstrip("/"))
    states = Counter(each.status for each in agents)
    judged = [each.compliance for each in agents if each.compliance]
    asked = [each for each in judged if each.verdict in PASSED | FAILED]
    failed = sum(each.failed for each in asked)
    results = [each.result for each in agents if each.result is not None]
    # An estimate that is still to be made is not made here: the screen never counts tokens.
    returned = sum(each.estimated_tokens or 0 for each in results)
    share = returned / session.context.window.tokens
    lines = [
        Content.styled(one_line(session.title), "bold $foreground"),
        Content.styled(f"{session.project}", "$quiet"),
        gauge(session.context, BAR_CELLS) + Content.styled(f"  {fill(session.context)}", "$quiet"),
        Content(""),
        *line("agents", str(len(agents)), width),
        *line(
            "states", ", ".join(f"{count} {each.value}" for each, count in states.items()), width
        ),
    ]
    if asked:
        style = "$level-warning" if failed else "$foreground"
        lines += line("complied", f"{len(asked) - failed} of {len(asked)}", width, style)
    if results:
        words = f"≈{tokens(returned)} tokens, {percent(share)} of its window"
        lines += line("gave back", words, width)
    spent = [each.usage for each in agents if each.usage is not None]
    if spent:
        out = sum(each.output_tokens for each in spent)
        fresh = sum(each.input_tokens + each.cache_creation_tokens for each in spent)
        lines += line("spent", f"{tokens(fresh)} new tokens in, {tokens(out)} out", width)
    return Content("\n").join(lines)
