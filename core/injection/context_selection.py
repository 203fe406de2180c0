"""Chooses the context of an agent that starts: six stages, each result once, within a budget.

Tags name what a result or an agent is about. The convention is ours: a line `tags: cart, payment`
among the first lines of a prompt, in the head of an agent's definition, or in a result. `all` is
for every agent (R000-13).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from ..measure.token_estimate import token_upper_bound
from ..model.conversation import DONE_STATUSES, IN_PROGRESS
from ..transcript.redaction import redact
from .injected_text import CONTEXT_HEADING, format_entry, format_source, join_entries

if TYPE_CHECKING:
    from ..policy.policy import Policy


class InjectionStage(StrEnum):
    """Why something is injected (requirements 000-26 to 000-31)."""

    SIBLING = "sibling"
    SAME_TYPE = "same_type"
    CROSS_SESSION = "cross_session"
    TAGGED = "tagged"
    FALLBACK = "fallback"
    TASK = "assigned_task"


class RunOutcome(StrEnum):
    FINISHED = "finished"
    RUNNING = "running"  # also if no record says that it ended
    FAILED = "failed"  # refused, killed or stopped: its last message is no result


class EarlierResult(msgspec.Struct, frozen=True):
    """A run of an agent; its texts are sanitized."""

    agent_id: str
    session_id: str
    project: str  # the folder below projects/ that holds its session
    agent_type: str
    text: str = ""  # its last message, or the compliant one that this replaced
    outcome: RunOutcome = RunOutcome.FINISHED
    parent_agent_id: str | None = None
    at: int | None = None  # time of that message, in milliseconds since 1970 (UTC)
    tags: frozenset[str] = frozenset()
    description: str = ""  # of its task
    changed_at: int | None = None  # when its file last changed, in milliseconds since 1970 (UTC)
    was_replaced: bool = False  # `text` is the last compliant message, not the last one

    @property
    def key(self) -> tuple[str, str]:
        """The session's and the agent's id, which no other result shares."""
        return self.session_id, self.agent_id


class OpenTask(msgspec.Struct, frozen=True):
    subject: str
    status: str
    description: str = ""
    owner: str | None = None  # the agent's name or type, as the model gave it


class StartingAgent(msgspec.Struct, frozen=True):
    session_id: str
    project: str
    agent_type: str
    agent_id: str | None = None
    possible_parents: frozenset[str | None] = frozenset({None})
    """Who may have started it; None is the session itself. The client (2.1.329) does not tell
    a starting agent's hook who that was."""
    tags: frozenset[str] = frozenset()  # besides its type, which is one
    tasks: tuple[OpenTask, ...] = ()  # open ones of its session
    plan: str = ""  # the newest plan of its session


class InjectionLimits(msgspec.Struct, frozen=True):
    """How much is injected; the defaults are those of requirements 2.2."""

    sibling: int = 5
    same_type: int = 3
    all_projects: bool = False  # take results of the same type from any project: a leak (R000-13)
    cross_session: int = 5
    tagged: int = 5
    fallback: int = 10
    task_description_chars: int = 100
    plan_chars: int = 200
    budget: int = 4_000  # tokens that no model's estimate exceeds


class InjectedEntry(msgspec.Struct, frozen=True):
    stage: InjectionStage
    reason: str
    text: str  # with its heading and quote marks
    token_bound: int  # by `token_upper_bound`
    session_id: str | None = None
    agent_id: str | None = None  # None for tasks


class ExcludedResult(msgspec.Struct, frozen=True):
    agent_id: str
    session_id: str
    agent_type: str
    reason: str


class Injection(msgspec.Struct, frozen=True):
    context: str = ""  # empty if nothing fits (R000-16)
    entries: tuple[InjectedEntry, ...] = ()  # the most useful first
    excluded: tuple[ExcludedResult, ...] = ()
    token_bound: int = 0  # of the whole context


def injection_limits(policy: Policy) -> InjectionLimits | None:
    """Read the limits (requirements 2.2); None if the policy switches injection off."""
    if "injection" in policy.texts("disabled_modules"):
        return None
    return InjectionLimits(
        all_projects=policy.text("injection.same_type_scope") == "all",
        task_description_chars=policy.count("injection.task_desc"),
        plan_chars=policy.count("injection.plan"),
        sibling=policy.count("injection.sibling"),
        same_type=policy.count("injection.same_type"),
        cross_session=policy.count("injection.cross_session"),
        tagged=policy.count("injection.tagged"),
        fallback=policy.count("injection.fallback"),
        budget=policy.count("injection.budget"),
    )


EVERY_AGENT_TAG: Final = "all"
TAG_SEARCH_CHARS: Final = 4_000  # a prompt's first lines, and all of a compressed result
MAX_TAGS: Final = 20  # of one text: more distinguish nothing
_TAG_LINE: Final = re.compile(r"^[ \t>*-]*tags:[ \t]*\[?([^\]\n]{1,400})\]?[ \t]*$", re.I | re.M)
_TAG: Final = re.compile(r"[\w.:/-]{1,60}")


def find_tags(text: str) -> frozenset[str]:
    """Return the case-folded tags of a text: `tags: a, b` or `tags: [a, b]`, in any line."""
    tags = [
        tag[0].casefold()
        for line in _TAG_LINE.finditer(text[:TAG_SEARCH_CHARS])
        for part in line[1].split(",")
        if (tag := _TAG.fullmatch(part.strip(" \t\"'#")))
    ]
    return frozenset(tags[:MAX_TAGS])


def outcome_of_status(status: str | None) -> RunOutcome:
    """Return how a run ended, by the client's status.

    Clients without a status return a result only once: None means finished.
    """
    if status is None or status in {"completed", "shut_down"}:
        return RunOutcome.FINISHED
    # A teammate that sends a message works on.
    return RunOutcome.RUNNING if status == "message" else RunOutcome.FAILED


BRIEF_CHARS: Final = 300  # of an uncompressed result, or of one field of a compressed one
_FIELD_KEY: Final = re.compile(r"^([A-Z][A-Za-z ]{1,30}):[ \t]*(.*)$")
LASTING_FIELDS: Final = frozenset({"Decisions", "Blockers"})  # for any later agent (R000-13)


def _extract_fields(text: str, keys: frozenset[str]) -> str:
    """Return the lines of these fields of a compressed result (requirements 3)."""
    lines: list[str] = []
    key = ""
    for line in text.splitlines():
        match = _FIELD_KEY.match(line)
        if match:
            key = match[1]
        if key in keys and line.strip() and not line.startswith("[COMPRESSED]"):
            lines.append(line.rstrip()[:BRIEF_CHARS])
    return "\n".join(lines)


def _brief_outcome(text: str) -> str:
    """Return how a run ended: the fields for that, else the start of the text."""
    fields = _extract_fields(text, LASTING_FIELDS | {"Result", "Verdict"})
    return fields or " ".join(text[: 4 * BRIEF_CHARS].split())[:BRIEF_CHARS]


class _Pick(NamedTuple):
    result: EarlierResult
    reason: str
    text: str  # the whole result, or the part that concerns the agent


def _pick_siblings(start: StartingAgent, results: Iterable[EarlierResult]) -> Iterator[_Pick]:
    """Pick results of agents of the same parent (000-26)."""
    reason = "finished in this session under the same parent"
    if len(start.possible_parents) > 1:
        reason = "finished in this session, perhaps under the same parent"
    for each in results:
        if each.session_id == start.session_id and each.parent_agent_id in start.possible_parents:
            yield _Pick(each, reason, each.text)


def _pick_same_type(start: StartingAgent, results: Iterable[EarlierResult]) -> Iterator[_Pick]:
    """Pick results of earlier agents of the same type (000-27)."""
    for each in results:
        if each.agent_type == start.agent_type:
            where = "in this session" if each.session_id == start.session_id else "earlier"
            if each.project != start.project:
                where = "in another project, as your settings allow"
            yield _Pick(each, f"of the same type, {where}", each.text)


def _pick_cross_session(start: StartingAgent, results: Iterable[EarlierResult]) -> Iterator[_Pick]:
    """Pick results of the project's earlier sessions (000-28).

    Of another type only decisions and blockers (000-33, R000-13).
    """
    for each in results:
        if each.session_id == start.session_id:
            continue
        if each.agent_type == start.agent_type:
            yield _Pick(each, "from an earlier session", each.text)
        elif lasting := _extract_fields(each.text, LASTING_FIELDS):
            reason = f"a decision or blocker of {each.agent_type} in an earlier session"
            yield _Pick(each, reason, lasting)


def _pick_tagged(start: StartingAgent, results: Iterable[EarlierResult]) -> Iterator[_Pick]:
    """Pick results with a tag of the agent, its type, or every agent's tag (000-29, R000-13)."""
    tags = start.tags | {start.agent_type.casefold(), EVERY_AGENT_TAG}
    for each in results:
        shared = sorted(each.tags & tags)
        if shared:
            yield _Pick(each, f"tagged {', '.join(shared)}", each.text)


def _pick_fallback(start: StartingAgent, results: Iterable[EarlierResult]) -> Iterator[_Pick]:
    """Pick the project's newest results in brief, if no other stage picked any (000-30)."""
    for each in results:
        same = each.agent_type == start.agent_type
        text = each.text if same else _brief_outcome(each.text)
        yield _Pick(each, "no closer match; one of the newest here", text)


_Picker = Callable[[StartingAgent, Iterable[EarlierResult]], Iterator[_Pick]]
MAX_TASKS: Final = 10  # of one agent, as in the seed (R000-17)
MAX_SUBJECT_CHARS: Final = 200
_NOT_OPEN: Final = frozenset({*DONE_STATUSES, "idea"})


def _assigned_tasks(start: StartingAgent) -> list[OpenTask]:
    """Return the open tasks that name the agent, those in progress first."""
    own = [
        task for task in start.tasks if task.status not in _NOT_OPEN and _is_assigned(start, task)
    ]
    return sorted(own, key=lambda task: task.status != IN_PROGRESS)[:MAX_TASKS]


def _is_assigned(start: StartingAgent, task: OpenTask) -> bool:
    if task.owner:
        names = {start.agent_type.casefold(), (start.agent_id or start.agent_type).casefold()}
        return task.owner.casefold() in names
    # Todo lists have no owners: the subject may name the agent.
    name = re.escape(start.agent_type)
    return re.search(rf"(?<![\w-]){name}(?![\w-])", task.subject, re.IGNORECASE) is not None


def _describe_tasks(tasks: list[OpenTask], plan: str, limits: InjectionLimits) -> str:
    """Return a line for each task, and the plan if one of them has not been begun (R000-14)."""
    lines = []
    for task in tasks:
        description = " ".join(task.description.split())[: limits.task_description_chars]
        about = f": {description}" if description else ""
        lines.append(f"[{task.status}] {' '.join(task.subject.split())[:MAX_SUBJECT_CHARS]}{about}")
    if plan and limits.plan_chars and any(task.status != IN_PROGRESS for task in tasks):
        lines.append(f"Plan: {' '.join(plan.split())[: limits.plan_chars]}")
    return "\n".join(lines)


REPLACED_NOTE: Final = "its last compliant message, which a later one replaced"

MAX_CONTEXT_CHARS: Final = 9_500
"""The most for the whole context: the client (2.1.329) turns more than 10,000 characters into a
preview of a file (claude-code-formats 4.5)."""

_SEPARATOR: Final = "\n\n"


def select_context(
    start: StartingAgent,
    earlier: Iterable[EarlierResult],
    limits: InjectionLimits = InjectionLimits(),  # noqa: B008 -- frozen
) -> Injection:
    """Choose the context of an agent that starts (buildSmartContext, requirements 000-25).

    Its tasks come first, then siblings, same type, earlier sessions, tags, and the newest
    results if none of these four picked any; within each stage the newest first, and each result
    once. The budget is in tokens by `token_upper_bound`. Agents that run, failed or returned
    nothing, and other projects are never included.
    """
    selection = _Selection(start, limits)
    usable = selection.usable(earlier)
    for stage, pick_results, limit in (
        (InjectionStage.SIBLING, _pick_siblings, limits.sibling),
        (InjectionStage.SAME_TYPE, _pick_same_type, limits.same_type),
        (InjectionStage.CROSS_SESSION, _pick_cross_session, limits.cross_session),
        (InjectionStage.TAGGED, _pick_tagged, limits.tagged),
    ):
        selection.add_stage(stage, pick_results, usable, limit)
    if not selection.picks:
        selection.add_stage(InjectionStage.FALLBACK, _pick_fallback, usable, limits.fallback)
    for result in usable:
        reason = f"of another type ({result.agent_type}), with no tag in common"
        selection.exclude(result, reason)
    return selection.within_budget()


class _Selection:
    """The picks so far, and the first reason against every other result."""

    def __init__(self, start: StartingAgent, limits: InjectionLimits) -> None:
        self._start = start
        self._limits = limits
        self.picks: list[tuple[InjectionStage, _Pick]] = []
        self._agent_of_text: dict[str, str] = {}  # by text with single spaces
        self._taken: set[tuple[str, str]] = set()
        self._excluded: dict[tuple[str, str], ExcludedResult] = {}

    def usable(self, results: Iterable[EarlierResult]) -> list[EarlierResult]:
        newest: dict[tuple[str, str], EarlierResult] = {}
        for result in results:
            known = newest.get(result.key)
            if known is None or (result.at or 0) > (known.at or 0):
                newest[result.key] = result
        newest.pop((self._start.session_id, self._start.agent_id or ""), None)
        usable = []
        for result in sorted(newest.values(), key=lambda each: (-(each.at or 0), each.key)):
            reason = self._why_unusable(result)
            if reason:
                self.exclude(result, reason)
            else:
                usable.append(result)
        return usable

    def add_stage(
        self, stage: InjectionStage, pick_results: _Picker, usable: list[EarlierResult], limit: int
    ) -> None:
        allowed = [
            result
            for result in usable
            if result.key not in self._taken
            and (stage is InjectionStage.SAME_TYPE or result.project == self._start.project)
        ]
        count = 0
        for pick in pick_results(self._start, allowed):
            result, text = pick.result, " ".join(pick.text.split())
            if text in self._agent_of_text:
                self._taken.add(result.key)
                self.exclude(result, f"has the same text as {self._agent_of_text[text]}")
            elif count == limit:
                self.exclude(result, f"older than the newest {limit} of {stage}")
            else:
                count += 1
                self._agent_of_text[text] = result.agent_id
                self._taken.add(result.key)
                self._excluded.pop(result.key, None)
                self.picks.append((stage, pick))

    def exclude(self, result: EarlierResult, reason: str) -> None:
        """Record why a result is left out; the first reason stays."""
        if result.key not in self._excluded and not any(
            pick.result is result for _, pick in self.picks
        ):
            self._excluded[result.key] = ExcludedResult(
                result.agent_id, result.session_id, result.agent_type, reason
            )

    def within_budget(self) -> Injection:
        """Make entries of the picks as far as the budget goes; a smaller one may still fit."""
        tokens_left = self._limits.budget - token_upper_bound(CONTEXT_HEADING)
        chars_left = MAX_CONTEXT_CHARS - len(CONTEXT_HEADING)
        entries: list[InjectedEntry] = []
        for entry, pick in self._make_entries():
            tokens = token_upper_bound(_SEPARATOR + entry.text)
            chars = len(_SEPARATOR + entry.text)
            if tokens <= tokens_left and chars <= chars_left:
                tokens_left, chars_left = tokens_left - tokens, chars_left - chars
                entries.append(entry)
            elif pick is not None:
                self.picks.remove((entry.stage, pick))
                reason = f"over the budget: up to {tokens} tokens, {tokens_left} left"
                self.exclude(pick.result, reason)
        context = join_entries([entry.text for entry in entries])
        return Injection(
            context, tuple(entries), tuple(self._excluded.values()), token_upper_bound(context)
        )

    def _make_entries(self) -> list[tuple[InjectedEntry, _Pick | None]]:
        entries: list[tuple[InjectedEntry, _Pick | None]] = []
        start, limits = self._start, self._limits
        if tasks := _assigned_tasks(start):
            lines = _describe_tasks(tasks, start.plan, limits)
            reason = f"assigned to {start.agent_type}"
            text = format_entry("Tasks", reason, redact(lines))
            bound = token_upper_bound(text)
            entries.append(
                (InjectedEntry(InjectionStage.TASK, reason, text, bound, start.session_id), None)
            )
        for stage, pick in self.picks:
            result = pick.result
            source = format_source(result.agent_type, result.agent_id, result.at)
            reason = pick.reason + (f"; {REPLACED_NOTE}" if result.was_replaced else "")
            text = format_entry(source, reason, redact(pick.text))
            bound = token_upper_bound(text)
            entry = InjectedEntry(stage, reason, text, bound, result.session_id, result.agent_id)
            entries.append((entry, pick))
        return entries

    def _why_unusable(self, result: EarlierResult) -> str | None:
        if result.project != self._start.project and not (
            self._limits.all_projects and result.agent_type == self._start.agent_type
        ):
            return "of another project"
        if result.outcome is RunOutcome.RUNNING:
            return "not finished"
        if result.outcome is RunOutcome.FAILED:
            return "failed or was stopped"
        return None if result.text.strip() else "empty result"
