"""What an agent gave back, and whether it compressed that, as a text to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.compliance.codes import PASSED, Format
from ..core.compliance.expected import Ground
from ..core.compliance.origin import Origin
from .compliance_words import MEANINGS, SIGNS, WORDS
from .formats import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.agents import Agent
    from ..core.compliance.findings import Finding
    from ..core.compliance.states import Ruling

_LABEL: Final = 12

_FORMATS: Final = {
    Format.OUTPUT: "the format of compress-output",
    Format.REVIEW: "the format of compress-review",
    Format.NONE: "no format",
}

_GROUNDS: Final = {
    Ground.PRELOADED: "its transcript shows that it was given the skill",
    Ground.DECLARED: "its definition declares the skill",
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


def agent_report(agent: Agent) -> Content:
    """Write the verdict with its reasons, where there is one, and below it the result."""
    text = agent.result.text if agent.result else agent.reply
    shown = Content(text or f"{agent.agent_type} has not returned anything yet.")
    lines = list(_ruling(agent.ruling)) if agent.ruling else []
    return Content("\n").join([*lines, Content(""), shown]) if lines else shown


def _ruling(ruling: Ruling) -> Iterator[Content]:
    asked = ruling.expected.format is not Format.NONE
    if not asked and not ruling.blocked:
        return
    style = "$level-warning" if ruling.failed else "$foreground"
    sign = SIGNS[ruling.verdict].strip()
    words = f"{sign} {WORDS[ruling.verdict]}".strip()
    yield Content.assemble((words, f"bold {style}"), (f": {MEANINGS[ruling.verdict]}", "$quiet"))
    for finding in (*ruling.violations, *ruling.warnings):
        yield from _finding(finding)
    expected = f"{_FORMATS[ruling.expected.format]}: {_GROUNDS[ruling.expected.ground]}"
    yield _line("expected", expected)
    if ruling.origin:
        yield _line("marker", _ORIGINS[ruling.origin])
    if ruling.grep is not None and asked:
        passed = ruling.verdict in PASSED
        what = "would have let it stop at once" if ruling.grep else "would have blocked it"
        wrong = ", wrongly" if ruling.grep is not passed and ruling.grep else ""
        yield _line("a grep", f"over the whole transcript {what}{wrong}")
    if ruling.blocked:
        yield _line("blocked", "a hook held it up when it first wanted to stop")
    if ruling.refired:
        yield _line("stops", "it was asked to stop more often than one block explains")


def _finding(found: Finding) -> Iterator[Content]:
    style = "$level-warning" if found.code.is_violation else "$level-notice"
    yield Content.assemble((f"  {found.code.value}  ", style), (found.sentence, "$foreground"))
    yield Content.assemble(
        (f"       line {found.line}: ", "$quiet"), (one_line(found.text), "$quiet")
    )


def _line(label: str, value: str) -> Content:
    return Content.assemble((f"  {label:<{_LABEL}}", "$quiet"), (value, "$foreground"))
