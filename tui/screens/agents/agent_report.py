"""An agent as a text to read, its result with numbered lines; and a session's agents in sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ....core.compliance.findings import (
    FAILED_VERDICTS,
    PASSED_VERDICTS,
    ComplianceFinding,
    ExpectationSource,
    FindingCode,
    ResultFormat,
)
from ....core.compliance.run_verdict import MarkerLocation, RunVerdict
from ....core.model.agent import Agent
from ....core.store.log_records import AnswerItemRecord
from ....core.transcript.sanitize import one_line
from ...text.compliance_text import VERDICT_MEANINGS, VERDICT_NAMES, VERDICT_SIGNS
from ...text.formats import (
    NOTHING,
    duration,
    model_name,
    percent,
    sparkline,
    tokens,
    tokens_of_window,
)
from ...text.gauge import MIN_GAUGE_CELLS, gauge
from ...text.text_lines import hanging_lines, labelled_line, section_heading
from .agent_details import AgentDetails, injected_lines
from .agent_tree import agent_sign, returned_text
from .agents_table import AgentTreeRow, duration_text

if TYPE_CHECKING:
    from ....core.injection.context_selection import Injection


MAX_LINES: Final = 2_000  # shown of one text; a compressed one has ten. `y` copies all of it.
MAX_LINE_CHARS: Final = 4_000  # shown of one line: more fills several screens
PLAIN_BAR: Final = "│"
VIOLATION_BAR: Final = "▌"  # beside a line that breaks a rule: not by its colour alone
_VIOLATION_STYLE: Final = "$level-warning"


def numbered_lines(text: str, findings: Iterable[ComplianceFinding], width: int) -> list[Content]:
    """Write a text for lines of `width` cells; `findings` count its lines from 1."""
    lines = text.replace("\r\n", "\n").split("\n")
    by_line: dict[int, list[ComplianceFinding]] = {}
    for each in findings:
        by_line.setdefault(each.line, []).append(each)
    limits = [line for line, found in by_line.items() for each in found if _is_limit(each)]
    first_too_many = min(limits, default=len(lines) + 1)
    sheet = _NumberedText(len(str(min(len(lines), MAX_LINES))), width)
    shown: list[Content] = []
    for number, line in enumerate(lines[:MAX_LINES], 1):
        found = by_line.get(number, [])
        style = _VIOLATION_STYLE if number >= first_too_many else _worst_style(found)
        shown += sheet.line(number, line, style)
        for each in found:
            shown += sheet.name(each, style)
    if len(lines) > MAX_LINES:
        rest = f"… {len(lines) - MAX_LINES:,} lines more; y copies all"
        shown.append(Content.styled(rest, "$quiet"))
    return shown


@dataclass(frozen=True, slots=True)
class _NumberedText:
    """How wide the numbers are, and all of it."""

    digits: int
    width: int

    def line(self, number: int, line: str, style: str) -> Iterator[Content]:
        cut = line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…"
        heads = self._heads(f"{number}", style)
        room = max(1, self.width - self.digits - 3)
        for head, part in zip(heads, Content(cut).wrap(room), strict=False):
            yield Content.assemble((head, style or "$quiet"), part.stylize(style or "$foreground"))

    def name(self, found: ComplianceFinding, style: str) -> Iterator[Content]:
        """Yield the lines below a text line that name the rule it breaks."""
        room = max(1, self.width - self.digits - 5)
        parts = Content(f"{found.label} {found.sentence}").wrap(room)
        for sign, head, part in zip(
            chain("└", repeat(" ")), self._heads("", style), parts, strict=False
        ):
            yield Content.assemble((f"{head}{sign} ", style), part.stylize(style))

    def _heads(self, number: str, style: str) -> Iterator[str]:
        sign = VIOLATION_BAR if style else PLAIN_BAR
        return (f"{each:>{self.digits}} {sign} " for each in chain([number], repeat("")))


def _is_limit(found: ComplianceFinding) -> bool:
    return found.code is FindingCode.LINE_LIMIT


def _worst_style(found: Iterable[ComplianceFinding]) -> str:
    """Choose by the worst: a violation, or a warning."""
    codes = [each.code for each in found]
    if any(each.is_violation for each in codes):
        return _VIOLATION_STYLE
    return "$level-notice" if codes else ""


MAX_EXCLUDED: Final = 8  # lines of what was left out; `ctxtop inject` has all
FILL_CELLS: Final = 40  # of the row of blocks that shows how a context filled
BAR_CELLS: Final = 24
CONTEXT_TEXT_CELLS: Final = 34  # beside the bar: its share, tokens of the window, the model
MAX_TASK_LINES: Final = 200
MAX_TASK_LINE_CHARS: Final = 2_000
"""Lines shown of a task, and characters of one: its file has all of it."""

NO_DETAILS: Final = AgentDetails()

INJECTED_TITLE: Final = "What ctxtop gave it at its start"
INJECTABLE_TITLE: Final = "What ctxtop could have given it at its start"
EXCLUDED_TITLE: Final = "What there was and did not fit it"

_FORMATS: Final = {
    ResultFormat.OUTPUT: "the format of compress-output",
    ResultFormat.REVIEW: "the format of compress-review",
    ResultFormat.NONE: "no format",
}

_EXPECTED_BECAUSE: Final = {
    ExpectationSource.PRELOADED: "its transcript shows that it was given the skill",
    ExpectationSource.DECLARED: "its definition declares the skill",
    ExpectationSource.PROMPT: "its prompt asks for it",
    ExpectationSource.RULE: "the policy says so for its type",
    ExpectationSource.NOBODY: "nobody asks for one",
}

_MARKER_ORIGINS: Final = {
    MarkerLocation.FINAL_ASSISTANT: "in its final message",
    MarkerLocation.EARLIER_ASSISTANT: "in an earlier message of its own",
    MarkerLocation.TASK_PROMPT: "in the task that it was given",
    MarkerLocation.HOOK_FEEDBACK: "in what a hook told it",
    MarkerLocation.TOOL_RESULT: "in a tool's result",
    MarkerLocation.SKILL_TEXT: "in the skill's own text",
    MarkerLocation.INJECTED_CONTEXT: "in context that a hook gave it",
    MarkerLocation.OTHER: "in the client's own lines",
    MarkerLocation.REQUEST_COPY: "in the client's record of what it sent",
}


def agent_report(
    agent: Agent, detail: AgentDetails = NO_DETAILS, width: int = 80, now_ms: int | None = None
) -> Content:
    """Write all that is known of an agent for lines of `width` cells."""
    now = now_ms if now_ms is not None else agent.ended_at or agent.started_at or 0
    lines = [
        *_head(agent, width, now),
        *_ruling(agent, width),
        *_result(agent, width),
        *_task(agent, detail, width),
        *_context(agent, detail, width),
        *_injected(detail.injected, detail.injection_choice, width),
    ]
    return Content("\n").join(lines)


def agent_result_text(agent: Agent) -> str:
    """Return the result that was added to the parent's context, else the last message."""
    return (agent.result.text if agent.result else agent.last_message) or ""


def _head(agent: Agent, width: int, now_ms: int) -> Iterator[Content]:
    sign, style = agent_sign(agent)
    yield Content.assemble(
        (f"{sign} ", style),
        (agent.agent_type, "bold $foreground"),
        (f"  {one_line(agent.description)}", "$foreground"),
    )
    yield Content.assemble(
        gauge(agent.context, min(BAR_CELLS, max(MIN_GAUGE_CELLS, width - CONTEXT_TEXT_CELLS))),
        (f"  {tokens_of_window(agent.context)}  {model_name(agent.model)}", "$quiet"),
    )
    plural = "" if agent.tool_uses == 1 else "s"
    uses = "" if agent.tool_uses is None else f", {agent.tool_uses} tool use{plural}"
    ended = "" if agent.ended_at is None else f", ended {duration(now_ms - agent.ended_at)} ago"
    said = "" if agent.result is None else f", gave back {returned_text(agent, now_ms)}"
    stands = f"{agent.status.label}, {duration_text(agent, now_ms)} at work{uses}{ended}{said}"
    yield from hanging_lines(Content(""), Content.styled(stands, "$quiet"), width)


def _ruling(agent: Agent, width: int) -> Iterator[Content]:
    ruling = agent.compliance
    asked = _is_format_expected(ruling)
    if ruling is None or not (asked or ruling.blocked):
        return
    style = "$level-warning" if ruling.failed else "$foreground"
    words = f"{VERDICT_SIGNS[ruling.verdict].strip()} {VERDICT_NAMES[ruling.verdict]}".strip()
    yield Content("")
    said = Content.assemble(
        (words, f"bold {style}"), (f": {VERDICT_MEANINGS[ruling.verdict]}", "$quiet")
    )
    yield from hanging_lines(Content(""), said, width)
    if ruling.violations:
        yield from labelled_line(
            "broke", _violations_text(ruling.violations), width, "$level-warning"
        )
    if ruling.warnings:
        yield from labelled_line(
            "besides", _violations_text(ruling.warnings), width, "$level-notice"
        )
    yield from _reasons(ruling, width) if asked else ()
    if ruling.blocked:
        yield from labelled_line("blocked", "a hook held it up when it first wanted to stop", width)
    if ruling.retry_tokens:
        spent = f"{tokens(ruling.retry_tokens)} tokens were spent by its requests after that"
        yield from labelled_line("", spent, width)
    if ruling.refired:
        often = "it was asked to stop more often than one block explains"
        yield from labelled_line("stops", often, width)


def _is_format_expected(ruling: RunVerdict | None) -> bool:
    return ruling is not None and ruling.expected.format is not ResultFormat.NONE


def _reasons(ruling: RunVerdict, width: int) -> Iterator[Content]:
    expected = f"{_FORMATS[ruling.expected.format]}: {_EXPECTED_BECAUSE[ruling.expected.source]}"
    yield from labelled_line("expected", expected, width)
    if ruling.marker_location:
        yield from labelled_line("marker", _MARKER_ORIGINS[ruling.marker_location], width)
    if ruling.grep_passes is not None:
        passed = ruling.verdict in PASSED_VERDICTS
        what = "would have let it stop at once" if ruling.grep_passes else "would have blocked it"
        wrong = ", wrongly" if ruling.grep_passes is not passed and ruling.grep_passes else ""
        yield from labelled_line("a grep", f"over the whole transcript {what}{wrong}", width)


def _violations_text(found: Iterable[ComplianceFinding]) -> str:
    """Name what is wrong and where; the lines themselves say it in words."""
    return ", ".join(f"{each.label} in line {each.line}" for each in found)


def _result(agent: Agent, width: int) -> Iterator[Content]:
    ruling, text = agent.compliance, agent_result_text(agent)
    if not text:
        yield from section_heading(f"{agent.agent_type} has not returned anything yet.")
        return
    judged = (
        agent.last_message
        if agent.last_message is not None and _is_format_expected(ruling)
        else text
    )
    findings = (*ruling.violations, *ruling.warnings) if ruling else ()
    if judged.strip() == text.strip():
        yield from section_heading("What it gave back" if agent.result else "What it said last")
        yield from numbered_lines(judged, findings, width)
        return
    # The verdict is on its last words, and something else came to its parent.
    yield from section_heading("Its final message, which was judged")
    yield from numbered_lines(judged, findings, width)
    yield from section_heading("What its parent was given")
    yield from numbered_lines(text, (), width)


def _task(agent: Agent, detail: AgentDetails, width: int) -> Iterator[Content]:
    task = detail.task or agent.description
    if task:
        yield from section_heading("Its task")
        for each in task.split("\n")[:MAX_TASK_LINES]:
            yield from hanging_lines(
                Content("  "), Content.styled(each[:MAX_TASK_LINE_CHARS], "$foreground"), width
            )


def _context(agent: Agent, detail: AgentDetails, width: int) -> Iterator[Content]:
    yield from section_heading("Its context")
    steps = [each for each in detail.context_history if each.tokens is not None]
    answers = [each for each in steps if not each.is_compaction]
    if steps:
        drawn = sparkline([each.tokens for each in steps], FILL_CELLS)
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
        yield from labelled_line(
            "compaction", f"at {tokens(trigger.tokens)}, {way} of the way", width
        )
    if agent.usage is not None:
        spent = agent.usage
        some = agent.progress_responses
        more = f"; {some} of its answers are only in its parent's progress lines" if some else ""
        yield from labelled_line(
            "spent",
            f"{tokens(spent.input_tokens)} fresh, {tokens(spent.cache_creation_tokens)} written to"
            f" the cache, {tokens(spent.cache_read_tokens)} read from it,"
            f" {tokens(spent.output_tokens)} put out{more}",
            width,
        )
    yield from labelled_line("id", agent.agent_id, width)
    yield from labelled_line("model", agent.model or NOTHING, width)


def _injected(
    given: Iterable[AnswerItemRecord], choice: Injection | None, width: int
) -> Iterator[Content]:
    rows = list(given)
    if rows:
        yield from section_heading(INJECTED_TITLE)
        for words in injected_lines(rows):
            yield from hanging_lines(Content("  "), Content(one_line(words)), width)
    if choice is None or not (choice.entries or choice.excluded):
        return
    if not rows:
        yield from section_heading(INJECTABLE_TITLE)
        for each in choice.entries:
            who = each.agent_id or "its tasks"
            words = f"{each.stage.value.replace('_', ' ')}: {who}, {each.reason}"
            yield from hanging_lines(Content("  "), Content(one_line(words)), width)
        if not choice.entries:
            yield Content.styled("  nothing fits", "$quiet")
    if choice.excluded:
        yield from section_heading(EXCLUDED_TITLE)
        for out in choice.excluded[:MAX_EXCLUDED]:
            words = f"{out.agent_type} {out.agent_id} of {out.session_id[:8]}: {out.reason}"
            yield from hanging_lines(
                Content("  "), Content.styled(one_line(words), "$quiet"), width
            )
        more = len(choice.excluded) - MAX_EXCLUDED
        if more > 0:
            yield Content.styled(f"  … {more} more; `ctxtop inject` lists all", "$quiet")


SESSION_BAR_CELLS: Final = 24


def session_agents_report(row: AgentTreeRow, width: int) -> Content:
    """Write the report of a session's own row."""
    session, agents = row.session, row.agents
    if session is None:
        return Content(row.key.rstrip("/"))
    states = Counter(each.status for each in agents)
    judged = [each.compliance for each in agents if each.compliance]
    asked = [each for each in judged if each.verdict in PASSED_VERDICTS | FAILED_VERDICTS]
    failed = sum(each.failed for each in asked)
    results = [each.result for each in agents if each.result is not None]
    # An estimate that is still to be made is not made here: the screen never counts tokens.
    returned = sum(each.estimated_tokens or 0 for each in results)
    share = returned / session.context.window.tokens
    lines = [
        Content.styled(one_line(session.title), "bold $foreground"),
        Content.styled(f"{session.project}", "$quiet"),
        gauge(session.context, SESSION_BAR_CELLS)
        + Content.styled(f"  {tokens_of_window(session.context)}", "$quiet"),
        Content(""),
        *labelled_line("agents", str(len(agents)), width),
        *labelled_line(
            "states", ", ".join(f"{count} {each.value}" for each, count in states.items()), width
        ),
    ]
    if asked:
        style = "$level-warning" if failed else "$foreground"
        lines += labelled_line("complied", f"{len(asked) - failed} of {len(asked)}", width, style)
    if results:
        words = f"≈{tokens(returned)} tokens, {percent(share)} of its window"
        lines += labelled_line("gave back", words, width)
    spent = [each.usage for each in agents if each.usage is not None]
    if spent:
        out = sum(each.output_tokens for each in spent)
        fresh = sum(each.input_tokens + each.cache_creation_tokens for each in spent)
        lines += labelled_line("spent", f"{tokens(fresh)} new tokens in, {tokens(out)} out", width)
    return Content("\n").join(lines)
