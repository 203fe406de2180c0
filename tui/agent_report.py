"""One agent as a text to read: its verdict with the lines that show it, its task, its context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.compliance.codes import PASSED, Format
from ..core.compliance.expected import Ground
from ..core.compliance.origin import Origin
from .agent_detail import Detail
from .agent_page_rows import took
from .agent_rows import mark, returned
from .compliance_words import MEANINGS, SIGNS, WORDS
from .formats import NOTHING, age, model, one_line, percent, tokens
from .gauge import SHORTEST, fill, gauge
from .given_lines import given_lines
from .marked_text import numbered
from .report_lines import hung, line, section
from .spark import spark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.agents import Agent
    from ..core.compliance.findings import Finding
    from ..core.compliance.states import Ruling
    from ..core.injection.past import Injection
    from ..core.store.answer_queries import GivenRow

LEFT_OUT_SHOWN: Final = 8
"""Lines of what was left out; `ctxtop inject` has all."""

FILL_CELLS: Final = 40
"""Of the row of blocks that shows how a context filled."""

BAR_CELLS: Final = 24
NUMBERS_CELLS: Final = 34
"""Beside the bar: its share, tokens of the window, the model."""

TASK_LINES: Final = 200
TASK_CHARS: Final = 2_000
"""Lines shown of a task, and characters of one: its file has all of it."""

NO_DETAIL: Final = Detail()

GIVEN: Final = "What ctxtop gave it at its start"
COULD_BE_GIVEN: Final = "What ctxtop could have given it at its start"
LEFT_OUT: Final = "What there was and did not fit it"

_FORMATS: Final = {
    Format.OUTPUT: "the format of compress-output",
    Format.REVIEW: "the format of compress-review",
    Format.NONE: "no format",
}

_GROUNDS: Final = {
    Ground.PRELOADED: "its transcript shows that it was given the skill",
    Ground.DECLARED: "its definition declares the skill",
    Ground.PROMPT: "its prompt asks for it",
    Ground.RULE: "the policy says so for its type",
    Ground.NOBODY: "nobody asks for one",
}

_ORIGINS: Final = {
    Origin.FINAL_ASSISTANT: "in its final message",
    Origin.EARLIER_ASSISTANT: "in an earlier message of its own",
    Origin.TASK_PROMPT: "in the task that it was given",
    Origin.HOOK_FEEDBACK: "in what a hook told it",
    Origin.TOOL_RESULT: "in a tool's result",
    Origin.SKILL_TEXT: "in the skill's own text",
    Origin.INJECTED_CONTEXT: "in context that a hook gave it",
    Origin.OTHER: "in the client's own lines",
    Origin.REQUEST_COPY: "in the client's record of what it sent",
}


def agent_report(
    agent: Agent, detail: Detail = NO_DETAIL, width: int = 80, now_ms: int | None = None
) -> Content:
    """Write all that is known of an agent for lines of `width` cells."""
    now = now_ms if now_ms is not None else agent.ended_at or agent.started_at or 0
    lines = [
        *_head(agent, width, now),
        *_ruling(agent, width),
        *_result(agent, width),
        *_task(agent, detail, width),
        *_context(agent, detail, width),
        *_given(detail.injected, detail.injection_choice, width),
    ]
    return Content("\n").join(lines)


def result_of(agent: Agent) -> str:
    """Give the text that an agent put into its parent, or what it said last."""
    return (agent.result.text if agent.result else agent.last_message) or ""


def _head(agent: Agent, width: int, now_ms: int) -> Iterator[Content]:
    sign, style = mark(agent)
    yield Content.assemble(
        (f"{sign} ", style),
        (agent.agent_type, "bold $foreground"),
        (f"  {one_line(agent.description)}", "$foreground"),
    )
    yield Content.assemble(
        gauge(agent.context, min(BAR_CELLS, max(SHORTEST, width - NUMBERS_CELLS))),
        (f"  {fill(agent.context)}  {model(agent.model)}", "$quiet"),
    )
    plural = "" if agent.tool_uses == 1 else "s"
    uses = "" if agent.tool_uses is None else f", {agent.tool_uses} tool use{plural}"
    ended = "" if agent.ended_at is None else f", ended {age(now_ms - agent.ended_at)} ago"
    said = "" if agent.result is None else f", gave back {returned(agent, now_ms)}"
    stands = f"{agent.status.label}, {took(agent, now_ms)} at work{uses}{ended}{said}"
    yield from hung(Content(""), Content.styled(stands, "$quiet"), width)


def _ruling(agent: Agent, width: int) -> Iterator[Content]:
    ruling = agent.compliance
    asked = _is_asked(ruling)
    if ruling is None or not (asked or ruling.blocked):
        return
    style = "$level-warning" if ruling.failed else "$foreground"
    words = f"{SIGNS[ruling.verdict].strip()} {WORDS[ruling.verdict]}".strip()
    yield Content("")
    said = Content.assemble((words, f"bold {style}"), (f": {MEANINGS[ruling.verdict]}", "$quiet"))
    yield from hung(Content(""), said, width)
    if ruling.violations:
        yield from line("broke", _places(ruling.violations), width, "$level-warning")
    if ruling.warnings:
        yield from line("besides", _places(ruling.warnings), width, "$level-notice")
    yield from _reasons(ruling, width) if asked else ()
    if ruling.blocked:
        yield from line("blocked", "a hook held it up when it first wanted to stop", width)
    if ruling.retry_tokens:
        spent = f"{tokens(ruling.retry_tokens)} tokens were spent by its requests after that"
        yield from line("", spent, width)
    if ruling.refired:
        often = "it was asked to stop more often than one block explains"
        yield from line("stops", often, width)


def _is_asked(ruling: Ruling | None) -> bool:
    return ruling is not None and ruling.expected.format is not Format.NONE


def _reasons(ruling: Ruling, width: int) -> Iterator[Content]:
    expected = f"{_FORMATS[ruling.expected.format]}: {_GROUNDS[ruling.expected.source]}"
    yield from line("expected", expected, width)
    if ruling.marker_location:
        yield from line("marker", _ORIGINS[ruling.marker_location], width)
    if ruling.grep_passes is not None:
        passed = ruling.verdict in PASSED
        what = "would have let it stop at once" if ruling.grep_passes else "would have blocked it"
        wrong = ", wrongly" if ruling.grep_passes is not passed and ruling.grep_passes else ""
        yield from line("a grep", f"over the whole transcript {what}{wrong}", width)


def _places(found: Iterable[Finding]) -> str:
    """Name what is wrong and where; the lines themselves say it in words."""
    return ", ".join(f"{each.label} in line {each.line}" for each in found)


def _result(agent: Agent, width: int) -> Iterator[Content]:
    ruling, text = agent.compliance, result_of(agent)
    if not text:
        yield from section(f"{agent.agent_type} has not returned anything yet.")
        return
    judged = agent.last_message if agent.last_message is not None and _is_asked(ruling) else text
    findings = (*ruling.violations, *ruling.warnings) if ruling else ()
    if judged.strip() == text.strip():
        yield from section("What it gave back" if agent.result else "What it said last")
        yield from numbered(judged, findings, width)
        return
    # The verdict is on its last words, and something else came to its parent.
    yield from section("Its final message, which was judged")
    yield from numbered(judged, findings, width)
    yield from section("What its parent was given")
    yield from numbered(text, (), width)


def _task(agent: Agent, detail: Detail, width: int) -> Iterator[Content]:
    task = detail.task or agent.description
    if task:
        yield from section("Its task")
        for each in task.split("\n")[:TASK_LINES]:
            yield from hung(Content("  "), Content.styled(each[:TASK_CHARS], "$foreground"), width)


def _context(agent: Agent, detail: Detail, width: int) -> Iterator[Content]:
    yield from section("Its context")
    steps = [each for each in detail.context_history if each.tokens is not None]
    answers = [each for each in steps if not each.is_compaction]
    if steps:
        drawn = spark([each.tokens for each in steps], FILL_CELLS)
        first, last = steps[0].tokens, steps[-1].tokens
        cut = len(steps) - len(answers)
        cuts = f", {cut} compactions" if cut > 1 else ", 1 compaction" if cut else ""
        count = f"{len(answers)} answer{'s' if len(answers) != 1 else ''}{cuts}"
        yield Content.assemble(
            ("  ", ""),
            (drawn, "$accent"),
            (f"  {tokens(first)} to {tokens(last)}, {count}", "$quiet"),
        )
    trigger = agent.context.trigger
    if trigger is not None and trigger.tokens is not None:
        way = percent(agent.context.trigger_ratio)
        yield from line("compaction", f"at {tokens(trigger.tokens)}, {way} of the way", width)
    if agent.usage is not None:
        spent = agent.usage
        some = agent.progress_responses
        more = f"; {some} of its answers are only in its parent's progress lines" if some else ""
        yield from line(
            "spent",
            f"{tokens(spent.input_tokens)} fresh, {tokens(spent.cache_creation_tokens)} written to"
            f" the cache, {tokens(spent.cache_read_tokens)} read from it,"
            f" {tokens(spent.output_tokens)} put out{more}",
            width,
        )
    yield from line("id", agent.agent_id, width)
    yield from line("model", agent.model or NOTHING, width)


def _given(given: Iterable[GivenRow], choice: Injection | None, width: int) -> Iterator[Content]:
    rows = list(given)
    if rows:
        yield from section(GIVEN)
        for words in given_lines(rows):
            yield from hung(Content("  "), Content(one_line(words)), width)
    if choice is None or not (choice.entries or choice.excluded):
        return
    if not rows:
        yield from section(COULD_BE_GIVEN)
        for each in choice.entries:
            who = each.agent_id or "its tasks"
            words = f"{each.stage.value.replace('_', ' ')}: {who}, {each.reason}"
            yield from hung(Content("  "), Content(one_line(words)), width)
        if not choice.entries:
            yield Content.styled("  nothing fits", "$quiet")
    if choice.excluded:
        yield from section(LEFT_OUT)
        for out in choice.excluded[:LEFT_OUT_SHOWN]:
            words = f"{out.agent_type} {out.agent_id} of {out.session_id[:8]}: {out.reason}"
            yield from hung(Content("  "), Content.styled(one_line(words), "$quiet"), width)
        more = len(choice.excluded) - LEFT_OUT_SHOWN
        if more > 0:
            yield Content.styled(f"  … {more} more; `ctxtop inject` lists all", "$quiet")
