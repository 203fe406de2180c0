"""What is known of an agent, read from the store and its file, and written as a text to read."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from textual.content import Content

from ....core.model.agent import Agent, AgentStatus
from ....core.model.findings import (
    FAILED_VERDICTS,
    PASSED_VERDICTS,
    ComplianceFinding,
    ExpectationSource,
    FindingCode,
    MarkerLocation,
    RunVerdict,
)
from ....core.model.log_records import AnswerItemRecord
from ....core.model.result_formats import ResultFormat
from ....core.model.stored_rows import FillRow
from ....core.store.queries.agent_queries import answer_items
from ....core.store.queries.context_queries import fill_history, find_transcript
from ....core.transcript.sanitize import one_line, sanitize_text
from ...entities.agent_tree import AgentTreeRow, agent_sign, duration_text, returned_text
from ...text import formats
from ...text.compliance_text import VERDICT_NAMES, VERDICT_SIGNS, verdict_meaning
from ...text.formats import NOTHING, duration, percent, plural, tokens
from ...text.gauge import MIN_GAUGE_CELLS, gauge
from ...text.markdown_text import TextForm, markdown_lines
from ...text.text_lines import Fact, hanging_lines, labeled_lines, section_heading

if TYPE_CHECKING:
    from ....core.injection.context_selection import Injection
    from ....core.model.session import Session
    from ....core.policy.resolve import Policies


class AgentDetails(msgspec.Struct, frozen=True):
    task: str = ""  # the prompt that it began with; empty if no file of its own has it
    context_history: tuple[FillRow, ...] = ()
    injected: tuple[AnswerItemRecord, ...] = ()  # at its start, as our hook recorded it
    injection_choice: Injection | None = None
    """What could have been injected when it started, by `read_injection_choice`."""


NO_DETAILS: Final = AgentDetails()

CLOCK_TOLERANCE_MS: Final = 1_000
"""A result that arrived with an agent's start was not there for it: clocks of two files."""


def read_agent_details(db: sqlite3.Connection, projects: Path, agent: Agent) -> AgentDetails:
    """Read all but the choice, from the store and from the beginning of the agent's own file."""
    return AgentDetails(
        _read_task(db, projects, agent),
        tuple(fill_history(db, agent.session_id, agent.agent_id, counting=agent.context.counting)),
        tuple(
            row
            for row in answer_items(db, "inject", agent.session_id)
            if row.agent_id == agent.agent_id
        ),
    )


def _read_task(db: sqlite3.Connection, projects: Path, agent: Agent) -> str:
    from ....collectors.claude_code.transcripts.transcript_ends import (
        first_prompt_text,
        read_head_lines,
    )

    transcript = find_transcript(db, agent.session_id, agent.agent_id)
    if transcript is None:
        return ""
    try:
        return sanitize_text(first_prompt_text(read_head_lines(projects / transcript[1])))
    except OSError:
        # The file is gone; what the store has of it stays.
        return ""


def read_injection_choice(
    db: sqlite3.Connection, projects: Path, agent: Agent, session: Session, policies: Policies
) -> Injection | None:
    """Compute what could have been injected, from what is known now; reads all agents' files.

    None if the policy switches injection off, or if it is not known when the agent started.
    """
    from ....collectors.claude_code.injection_sources import (
        InjectionRequest,
        gather_injection_sources,
    )
    from ....core.injection.context_selection import injection_limits, select_context

    limits = injection_limits(policies.acting.for_project(session.project_root))
    if limits is None or agent.started_at is None:
        return None
    request = InjectionRequest(
        projects / session.path,
        agent.agent_type,
        agent.agent_id,
        project_root=Path(session.project_root) if session.project_root else None,
    )
    start, results = gather_injection_sources(request, db, limits)
    latest = agent.started_at - CLOCK_TOLERANCE_MS
    before = [each for each in results if each.at is not None and each.at <= latest]
    # Its tasks are as they are now: nobody recorded what they were then.
    return select_context(msgspec.structs.replace(start, tasks=(), plan=""), before, limits)


MAX_LINES: Final = 2_000  # shown of one text; a compressed one has ten. `y` copies all of it.
MAX_LINE_CHARS: Final = 4_000  # shown of one line: more fills several screens
PLAIN_BAR: Final = "│"
VIOLATION_BAR: Final = "▌"  # beside a line that breaks a rule: not by its color alone
_VIOLATION_STYLE: Final = "$broken"


def numbered_lines(text: str, findings: Iterable[ComplianceFinding], width: int) -> list[Content]:
    """Write a text for lines of `width` cells; `findings` count its lines from 1."""
    lines = text.replace("\r\n", "\n").split("\n")
    by_line: dict[int, list[ComplianceFinding]] = {}
    for finding in findings:
        by_line.setdefault(finding.line, []).append(finding)
    limits = [
        line
        for line, found in by_line.items()
        if any(finding.code is FindingCode.LINE_LIMIT for finding in found)
    ]
    first_too_many = min(limits, default=len(lines) + 1)
    digits = len(str(min(len(lines), MAX_LINES)))
    shown: list[Content] = []
    for number, line in enumerate(lines[:MAX_LINES], 1):
        found = by_line.get(number, [])
        style = "$level-notice" if found else ""
        if number >= first_too_many or any(finding.code.is_violation for finding in found):
            style = _VIOLATION_STYLE
        shown += _numbered_line(number, line, style, digits, width)
        for finding in found:
            shown += _finding_lines(finding, style, digits, width)
    if len(lines) > MAX_LINES:
        rest = f"… {len(lines) - MAX_LINES:,} more lines; y copies all"
        shown.append(Content.styled(rest, "$quiet"))
    return shown


def _numbered_line(
    number: int, line: str, style: str, digits: int, width: int
) -> Iterator[Content]:
    cut = line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…"
    parts = Content(cut).wrap(max(1, width - digits - 3))
    for margin, part in zip(_margins(str(number), style, digits), parts, strict=False):
        yield Content.assemble((margin, style or "$quiet"), part.stylize(style or "$foreground"))


def _finding_lines(
    finding: ComplianceFinding, style: str, digits: int, width: int
) -> Iterator[Content]:
    """Yield the lines below a text line that name the rule it breaks."""
    parts = Content(f"{finding.label} {finding.sentence}").wrap(max(1, width - digits - 5))
    signs = chain("└", repeat(" "))
    for sign, margin, part in zip(signs, _margins("", style, digits), parts, strict=False):
        yield Content.assemble((f"{margin}{sign} ", style), part.stylize(style))


def _margins(number: str, style: str, digits: int) -> Iterator[str]:
    bar = VIOLATION_BAR if style else PLAIN_BAR
    return (f"{shown:>{digits}} {bar} " for shown in chain([number], repeat("")))


MAX_EXCLUDED: Final = 8  # lines of what did not fit; `ctxtop inject` has all
FILL_CELLS: Final = 40  # of the row of blocks that shows how a context filled
BAR_CELLS: Final = 24
CONTEXT_TEXT_CELLS: Final = 34  # beside the bar: its share, tokens of the window, the model
MAX_TASK_LINES: Final = 200  # shown of a task; its file has all of it
MAX_TASK_LINE_CHARS: Final = 2_000

INJECTED_TITLE: Final = "Context injected at its start"
INJECTABLE_TITLE: Final = "Context that could have been injected at its start"
EXCLUDED_TITLE: Final = "Not injected"
REPLACED_TITLE: Final = "Last compliant message, which its final one replaced"

_FORMATS: Final = {
    ResultFormat.OUTPUT: "the format of compress-output",
    ResultFormat.REVIEW: "the format of compress-review",
    ResultFormat.NONE: "no format",
}

_EXPECTED_BECAUSE: Final = {
    ExpectationSource.PRELOADED: "its transcript shows that the skill was loaded",
    ExpectationSource.DECLARED: "its definition declares the skill",
    ExpectationSource.PROMPT: "its prompt asks for it",
    ExpectationSource.RULE: "a setting requires it for its type",
    ExpectationSource.NONE: "none was asked for",
}

_MARKER_ORIGINS: Final = {
    MarkerLocation.FINAL_ASSISTANT: "in its final message",
    MarkerLocation.EARLIER_ASSISTANT: "in an earlier message",
    MarkerLocation.TASK_PROMPT: "in its task",
    MarkerLocation.HOOK_FEEDBACK: "in hook feedback",
    MarkerLocation.TOOL_RESULT: "in a tool result",
    MarkerLocation.SKILL_TEXT: "in the skill's own text",
    MarkerLocation.INJECTED_CONTEXT: "in injected context",
    MarkerLocation.OTHER: "in Claude Code's own lines",
    MarkerLocation.REQUEST_COPY: "in Claude Code's record of the request",
}


def agent_report(
    agent: Agent,
    detail: AgentDetails = NO_DETAILS,
    width: int = 80,
    now_ms: int | None = None,
    form: TextForm = TextForm.RENDERED,
) -> Content:
    """Write all that is known of an agent for lines of `width` cells."""
    now = now_ms if now_ms is not None else agent.ended_at or agent.started_at or 0
    lines = [
        *_head(agent, width, now),
        *_verdict_lines(agent, width),
        *_result_lines(agent, width, form),
        *_task_lines(detail.task or agent.description, width),
        *_context_lines(agent, detail, width),
        *_injected_lines(detail.injected, detail.injection_choice, width),
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
    model = formats.model_name(agent.model)
    yield Content.assemble(
        gauge(agent.context, min(BAR_CELLS, max(MIN_GAUGE_CELLS, width - CONTEXT_TEXT_CELLS))),
        (f"  {formats.tokens_of_window(agent.context)}  {model}", "$quiet"),
    )
    facts = [agent.status_label, f"worked for {duration_text(agent, now_ms)}"]
    if agent.tool_uses is not None:
        facts.append(plural(agent.tool_uses, "tool use"))
    if agent.status is AgentStatus.ZOMBIE:
        silent = formats.age(agent.silent_since, now_ms)
        facts[1:] = [f"silent for {silent} (X in the list of agents closes it)"]
    if agent.ended_at is not None:
        facts.append(f"ended {duration(now_ms - agent.ended_at)} ago")
    if agent.result is not None:
        facts.append(f"returned {returned_text(agent, now_ms)}")
    yield from hanging_lines(Content(""), Content.styled(", ".join(facts), "$quiet"), width)


def _verdict_lines(agent: Agent, width: int) -> Iterator[Content]:
    found = agent.compliance
    if found is None or not (_is_format_expected(found) or found.blocked):
        return
    style = "$broken" if found.failed else "$foreground"
    verdict = f"{VERDICT_SIGNS[found.verdict].strip()} {VERDICT_NAMES[found.verdict]}".strip()
    line = Content.assemble((verdict, f"bold {style}"), (f": {verdict_meaning(found)}", "$quiet"))
    yield Content("")
    yield from hanging_lines(Content(""), line, width)
    yield from labeled_lines(_verdict_facts(found), width)


def _verdict_facts(found: RunVerdict) -> Iterator[Fact]:
    if found.violations:
        yield "broken rules", _violations_text(found.violations), "$broken"
    if found.warnings:
        yield "also", _violations_text(found.warnings), "$level-notice"
    if _is_format_expected(found):
        reason = _EXPECTED_BECAUSE[found.expected.source]
        yield "expected", f"{_FORMATS[found.expected.format]}: {reason}"
        if found.marker_location:
            yield "marker", _MARKER_ORIGINS[found.marker_location]
        if found.grep_passes is not None:
            passes = found.grep_passes
            outcome = "would have passed it" if passes else "would have blocked it"
            wrong = ", wrongly" if passes and found.verdict not in PASSED_VERDICTS else ""
            yield "a grep", f"a grep of the whole transcript {outcome}{wrong}"
    if found.blocked:
        yield "blocked", "a hook blocked its first attempt to stop"
    if found.retry_tokens:
        yield "", f"{tokens(found.retry_tokens)} tokens were used by the requests that followed"
    if found.refires:
        beyond = plural(found.refires, "refire")
        yield "stops", f"it stopped {found.stops} times, {beyond} beyond what a block explains"


def _is_format_expected(found: RunVerdict | None) -> bool:
    return found is not None and found.expected.format is not ResultFormat.NONE


def _violations_text(found: Iterable[ComplianceFinding]) -> str:
    """Name what is wrong and where; the lines themselves say it in words."""
    return ", ".join(f"{finding.label} on line {finding.line}" for finding in found)


MAX_MARKDOWN_CHARS: Final = 20_000  # drawn in a twentieth of a second: the screen waits for it


@lru_cache(maxsize=4)
def _rendered_lines(text: str, width: int) -> tuple[Content, ...]:
    return markdown_lines(text, width)


def _text_lines(
    text: str, findings: Sequence[ComplianceFinding], width: int, form: TextForm
) -> Iterable[Content]:
    """Render a text's Markdown, unless its lines have findings or it is too long."""
    if form is TextForm.WRITTEN or findings or len(text) > MAX_MARKDOWN_CHARS:
        return numbered_lines(text, findings, width)
    return _rendered_lines(text, width)


def _result_lines(agent: Agent, width: int, form: TextForm) -> Iterator[Content]:
    verdict, text = agent.compliance, agent_result_text(agent)
    if not text:
        yield from section_heading(f"{agent.agent_type} has not returned anything yet.")
        return
    judged = text
    if verdict and verdict.replaced_result and verdict.replaced_result.strip() != text.strip():
        yield from section_heading(REPLACED_TITLE)
        yield from numbered_lines(verdict.replaced_result, (), width)
    if agent.last_message is not None and _is_format_expected(verdict):
        judged = agent.last_message
    findings = (*verdict.violations, *verdict.warnings) if verdict else ()
    if _is_format_expected(verdict):
        form = TextForm.WRITTEN  # the format counts lines, and forbids Markdown
    if judged.strip() == text.strip():
        heading = "Result" if agent.result else "Last message"
        if agent.result and verdict is not None and not _is_format_expected(verdict):
            heading += f": {plural(len(text.splitlines()), 'line')}, no format asked for"
        yield from section_heading(heading)
        yield from _text_lines(judged, findings, width, form)
        return
    # The verdict is on its last message, and its parent received something else.
    yield from section_heading("Final message, which was checked")
    yield from _text_lines(judged, findings, width, form)
    yield from section_heading("Result added to the parent's context")
    yield from _text_lines(text, (), width, form)


def _task_lines(task: str, width: int) -> Iterator[Content]:
    if task:
        yield from section_heading("Task")
        for line in task.split("\n")[:MAX_TASK_LINES]:
            yield from _indented(line[:MAX_TASK_LINE_CHARS], width, "$foreground")


def _indented(text: str, width: int, style: str = "") -> Iterator[Content]:
    return hanging_lines(Content("  "), Content.styled(text, style), width)


def _context_lines(agent: Agent, detail: AgentDetails, width: int) -> Iterator[Content]:
    yield from section_heading("Context")
    steps = [step for step in detail.context_history if step.tokens is not None]
    if steps:
        cuts = sum(step.is_compaction for step in steps)
        counts = plural(len(steps) - cuts, "answer")
        counts += f", {plural(cuts, 'compaction')}" if cuts else ""
        yield Content.assemble(
            "  ",
            (formats.sparkline([step.tokens for step in steps], FILL_CELLS), "$accent"),
            (f"  {tokens(steps[0].tokens)} to {tokens(steps[-1].tokens)}, {counts}", "$quiet"),
        )
    yield from labeled_lines(_context_facts(agent), width)


def _context_facts(agent: Agent) -> Iterator[Fact]:
    trigger, usage = agent.context.trigger, agent.usage
    if trigger is not None and trigger.is_passed:
        yield "auto-compact", one_line(trigger.why)
    elif trigger is not None and trigger.tokens is not None:
        place = percent(trigger.tokens / agent.context.window.tokens)
        left = tokens(agent.context.trigger_left)
        yield "compaction", f"at {tokens(trigger.tokens)}, {place} of the window; {left} left"
    if usage is not None:
        some = agent.progress_responses
        more = f"; {some} of its answers are only in its parent's progress lines" if some else ""
        spent = (
            f"{tokens(usage.input_tokens)} fresh, {tokens(usage.cache_creation_tokens)} written to"
            f" the cache, {tokens(usage.cache_read_tokens)} read from it,"
            f" {tokens(usage.output_tokens)} output"
        )
        yield "used", spent + more
    yield "id", agent.agent_id
    if agent.sessions > 1:
        yield "in", f"{agent.sessions} sessions: forks contain it too; it counts once"
    yield "model", agent.model or NOTHING


def _injected_lines(
    rows: Sequence[AnswerItemRecord], choice: Injection | None, width: int
) -> Iterator[Content]:
    if rows:
        yield from section_heading(INJECTED_TITLE)
        for row in rows:
            limit = "" if row.tokens is None else f", at most {row.tokens:,} tokens"
            source = f"{row.kind.replace('_', ' ')}: {row.from_agent_id or 'its tasks'}"
            yield from _indented(one_line(f"{source}, {row.text}{limit}"), width)
    elif choice and (choice.entries or choice.excluded):
        yield from section_heading(INJECTABLE_TITLE)
        for entry in choice.entries:
            source = f"{entry.stage.value.replace('_', ' ')}: {entry.agent_id or 'its tasks'}"
            yield from _indented(one_line(f"{source}, {entry.reason}"), width)
        if not choice.entries:
            yield Content.styled("  nothing fits", "$quiet")
    if choice and choice.excluded:
        yield from section_heading(EXCLUDED_TITLE)
        for out in choice.excluded[:MAX_EXCLUDED]:
            words = f"{out.agent_type} {out.agent_id} of {out.session_id[:8]}: {out.reason}"
            yield from _indented(one_line(words), width, "$quiet")
        more = len(choice.excluded) - MAX_EXCLUDED
        if more > 0:
            yield Content.styled(f"  … {more} more; `ctxtop inject` lists all", "$quiet")


def session_agents_report(row: AgentTreeRow, width: int) -> Content:
    session = row.session
    if session is None:
        return Content(row.key.rstrip("/"))
    return Content("\n").join(
        (
            Content.styled(one_line(session.title), "bold $foreground"),
            Content.styled(f"{session.project}", "$quiet"),
            gauge(session.context, BAR_CELLS)
            + Content.styled(f"  {formats.tokens_of_window(session.context)}", "$quiet"),
            Content(""),
            *labeled_lines(_session_facts(session, row.agents), width),
        )
    )


def _session_facts(session: Session, agents: Sequence[Agent]) -> Iterator[Fact]:
    states = Counter(agent.status for agent in agents)
    yield "agents", str(len(agents))
    yield "states", ", ".join(f"{count} {status.value}" for status, count in states.items())
    verdicts = [agent.compliance for agent in agents if agent.compliance]
    judged = [each for each in verdicts if each.verdict in PASSED_VERDICTS | FAILED_VERDICTS]
    if judged:
        failed = sum(each.failed for each in judged)
        style = "$broken" if failed else "$foreground"
        yield "complied", f"{len(judged) - failed} of {len(judged)}", style
    results = [agent.result for agent in agents if agent.result is not None]
    if results:
        # A missing estimate is not made here: the screen never counts tokens.
        returned = sum(result.estimated_tokens or 0 for result in results)
        share = percent(returned / session.context.window.tokens)
        yield "returned", f"≈{tokens(returned)} tokens, {share} of its window"
    usages = [agent.usage for agent in agents if agent.usage is not None]
    if usages:
        out = sum(usage.output_tokens for usage in usages)
        new = sum(usage.input_tokens + usage.cache_creation_tokens for usage in usages)
        yield "used", f"{tokens(new)} new tokens in, {tokens(out)} out"
