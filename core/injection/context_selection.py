"""Chooses what an agent that starts is given: six stages, each result once, within a budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from ..summaries.artifacts import DONE_STATUSES, IN_PROGRESS
from ..transcript.redaction import redact
from .injection_candidates import (
    CONTEXT_HEADING,
    EVERY_AGENT_TAG,
    MAX_CONTEXT_CHARS,
    EarlierResult,
    ExcludedResult,
    InjectedEntry,
    Injection,
    InjectionLimits,
    InjectionStage,
    OpenTask,
    RunOutcome,
    StartingAgent,
    format_entry,
    format_source,
    join_entries,
    token_upper_bound,
)

StageSelector = Callable[[StartingAgent, Iterable[EarlierResult]], Iterator["SelectedResult"]]


BRIEF_CHARS: Final = 300  # of a result that is not compressed, or of one field of one that is
_FIELD_KEY: Final = re.compile(r"^([A-Z][A-Za-z ]{1,30}):[ \t]*(.*)$")

LASTING_FIELDS: Final = frozenset({"Decisions", "Blockers"})
"""What holds for later work whoever did it: the seed's decision and blocker (R000-13)."""

OUTCOME_FIELDS: Final = LASTING_FIELDS | {"Result", "Verdict"}


def extract_fields(text: str, wanted: frozenset[str]) -> str:
    """Extract fields of a compressed result (requirements 3); empty if it has none."""
    found: list[str] = []
    key = ""
    for line in text.splitlines():
        match = _FIELD_KEY.match(line)
        if match:
            key = match[1]
        if key in wanted and line.strip() and not line.startswith("[COMPRESSED]"):
            found.append(line.rstrip()[:BRIEF_CHARS])
    return "\n".join(found)


def brief_outcome(text: str) -> str:
    """Summarize how a run ended: its fields for that, else the start of its text."""
    return (
        extract_fields(text, OUTCOME_FIELDS)
        or " ".join(text[: 4 * BRIEF_CHARS].split())[:BRIEF_CHARS]
    )


class SelectedResult(msgspec.Struct, frozen=True):
    """A result that a stage would give."""

    stage: InjectionStage
    result: EarlierResult
    reason: str
    text: str  # the whole result, or what of it concerns the agent


def select_siblings(
    start: StartingAgent, pasts: Iterable[EarlierResult]
) -> Iterator[SelectedResult]:
    """Pick what agents of the same parent found (000-26)."""
    reason = "finished in this session, of the same parent"
    if len(start.possible_parents) > 1:
        reason = "finished in this session, perhaps of the same parent"
    for past in pasts:
        if past.session_id == start.session_id and past.parent_agent_id in start.possible_parents:
            yield SelectedResult(InjectionStage.SIBLING, past, reason, past.text)


def select_same_type(
    start: StartingAgent, pasts: Iterable[EarlierResult]
) -> Iterator[SelectedResult]:
    """Pick what earlier agents of the same type found (000-27)."""
    for past in pasts:
        if past.agent_type == start.agent_type:
            where = "of this session" if past.session_id == start.session_id else "earlier"
            if past.project != start.project:
                where = "of another project, as the policy allows"
            yield SelectedResult(
                InjectionStage.SAME_TYPE, past, f"of the same type, {where}", past.text
            )


def select_cross_session(
    start: StartingAgent, pasts: Iterable[EarlierResult]
) -> Iterator[SelectedResult]:
    """Pick what earlier sessions of the project left (000-28).

    Of another type only what it decided and what blocked it (000-33, R000-13).
    """
    for past in pasts:
        if past.session_id == start.session_id:
            continue
        if past.agent_type == start.agent_type:
            yield SelectedResult(
                InjectionStage.CROSS_SESSION, past, "of an earlier session", past.text
            )
        elif lasting := extract_fields(past.text, LASTING_FIELDS):
            reason = f"decided, or blocked, in an earlier session by {past.agent_type}"
            yield SelectedResult(InjectionStage.CROSS_SESSION, past, reason, lasting)


def select_tagged(start: StartingAgent, pasts: Iterable[EarlierResult]) -> Iterator[SelectedResult]:
    """Pick results that name a tag of the agent, its type, or everybody (000-29, R000-13)."""
    wanted = start.tags | {start.agent_type.casefold(), EVERY_AGENT_TAG}
    for past in pasts:
        shared = sorted(past.tags & wanted)
        if shared:
            yield SelectedResult(
                InjectionStage.TAGGED, past, f"tagged {', '.join(shared)}", past.text
            )


def select_fallback(
    start: StartingAgent, pasts: Iterable[EarlierResult]
) -> Iterator[SelectedResult]:
    """Pick the newest of the project in short, for where nothing else was found (000-30)."""
    for past in pasts:
        same = past.agent_type == start.agent_type
        text = past.text if same else brief_outcome(past.text)
        yield SelectedResult(
            InjectionStage.FALLBACK, past, "nothing is closer: among the newest here", text
        )


MAX_TASKS: Final = 10  # of one agent: the seed shows as many (R000-17)
MAX_SUBJECT_CHARS: Final = 200

_NOT_OPEN: Final = frozenset({*DONE_STATUSES, "idea"})


def assigned_tasks(start: StartingAgent) -> list[OpenTask]:
    """List the open tasks that name the agent, what is being done first.

    Its owner names it, or, where a task has none, its own words do: lists of todos know no
    owner.
    """
    own = [
        task for task in start.tasks if task.status not in _NOT_OPEN and _is_assigned(start, task)
    ]
    return sorted(own, key=lambda task: task.status != IN_PROGRESS)[:MAX_TASKS]


def task_lines(
    tasks: list[OpenTask], plan: str, description_chars: int, plan_chars: int
) -> list[str]:
    """Write tasks as lines; the plan only where one of them has not been begun (R000-14)."""
    lines = []
    for task in tasks:
        said = " ".join(task.description.split())[:description_chars]
        about = f": {said}" if said else ""
        lines.append(f"[{task.status}] {' '.join(task.subject.split())[:MAX_SUBJECT_CHARS]}{about}")
    if plan and plan_chars and any(task.status != IN_PROGRESS for task in tasks):
        lines.append(f"Plan: {' '.join(plan.split())[:plan_chars]}")
    return lines


def _is_assigned(start: StartingAgent, task: OpenTask) -> bool:
    names = {start.agent_type.casefold(), (start.agent_id or start.agent_type).casefold()}
    if task.owner:
        return task.owner.casefold() in names
    name = re.escape(start.agent_type)
    return re.search(rf"(?<![\w-]){name}(?![\w-])", task.subject, re.IGNORECASE) is not None


_SEPARATOR: Final = "\n\n"

_DEFAULTS: Final = InjectionLimits()


def select_context(
    start: StartingAgent, earlier: Iterable[EarlierResult], limits: InjectionLimits = _DEFAULTS
) -> Injection:
    """Choose what an agent that starts is given (buildSmartContext, requirements 000-25).

    Its tasks come first, then siblings, same type, earlier sessions, tags, and the newest
    where none of these four found anything; within each the newest first. A result is given
    once. The budget is of tokens by `token_upper_bound`: no model's estimate is above
    it. Agents that run, failed or said nothing, and other projects are never given.
    """
    selection = _Selection(start, limits)
    usable = selection.usable(earlier)
    for choice, most in (
        (select_siblings, limits.sibling),
        (select_same_type, limits.same_type),
        (select_cross_session, limits.cross_session),
        (select_tagged, limits.tagged),
    ):
        selection.take(choice, usable, most)
    if not selection.picks:
        selection.take(select_fallback, usable, limits.fallback)
    for past in usable:
        selection.leave_out(past, f"of another type ({past.agent_type}), with no tag in common")
    return selection.within_budget()


class _Selection:
    """What was picked so far, and what was left out, with the first reason for it."""

    def __init__(self, start: StartingAgent, limits: InjectionLimits) -> None:
        self._start = start
        self._limits = limits
        self.picks: list[SelectedResult] = []
        self._picked: dict[str, str] = {}
        """Texts without regard to spaces, and who said them first."""
        self._taken: set[tuple[str, str]] = set()
        self._out: dict[tuple[str, str], ExcludedResult] = {}

    def usable(self, pasts: Iterable[EarlierResult]) -> list[EarlierResult]:
        """Leave out what is never given; newest first."""
        known: dict[tuple[str, str], EarlierResult] = {}
        for past in pasts:
            if past.key not in known or (past.at or 0) > (known[past.key].at or 0):
                known[past.key] = past
        known.pop((self._start.session_id, self._start.agent_id or ""), None)
        found = []
        for past in sorted(known.values(), key=lambda each: (-(each.at or 0), each.key)):
            why = self._why_never(past)
            if why:
                self.leave_out(past, why)
            else:
                found.append(past)
        return found

    def take(self, choice: StageSelector, pasts: list[EarlierResult], most: int) -> None:
        """Add what one stage selects of the results that no earlier stage took."""
        own = [past for past in pasts if past.project == self._start.project]
        allowed = pasts if choice is select_same_type else own
        count = 0
        for pick in choice(self._start, [past for past in allowed if past.key not in self._taken]):
            said = " ".join(pick.text.split())
            if said in self._picked:
                self._taken.add(pick.result.key)
                self.leave_out(pick.result, f"says the same as {self._picked[said]}")
            elif count == most:
                self.leave_out(pick.result, f"older than the newest {most} of {pick.stage}")
            else:
                count += 1
                self._picked[said] = pick.result.agent_id
                self._taken.add(pick.result.key)
                self._out.pop(pick.result.key, None)
                self.picks.append(pick)

    def leave_out(self, past: EarlierResult, why: str) -> None:
        """Note why a result is not given; the first reason stays."""
        if past.key not in self._out and not any(pick.result is past for pick in self.picks):
            self._out[past.key] = ExcludedResult(
                past.agent_id, past.session_id, past.agent_type, why
            )

    def within_budget(self) -> Injection:
        """Frame what was picked as far as the budget goes; a smaller one may still fit."""
        left, chars = (
            self._limits.budget - token_upper_bound(CONTEXT_HEADING),
            MAX_CONTEXT_CHARS - len(CONTEXT_HEADING),
        )
        entries: list[InjectedEntry] = []
        for each, pick in self._framed():
            tokens = token_upper_bound(_SEPARATOR + each.text)
            if tokens <= left and len(_SEPARATOR + each.text) <= chars:
                left, chars = left - tokens, chars - len(_SEPARATOR + each.text)
                entries.append(each)
            elif pick is not None:
                self.picks.remove(pick)
                self.leave_out(pick.result, f"over the budget: up to {tokens} tokens, {left} left")
        context = join_entries([each.text for each in entries])
        return Injection(
            context, tuple(entries), tuple(self._out.values()), token_upper_bound(context)
        )

    def _framed(self) -> list[tuple[InjectedEntry, SelectedResult | None]]:
        framed: list[tuple[InjectedEntry, SelectedResult | None]] = [
            (each, None) for each in self._tasks()
        ]
        for pick in self.picks:
            past = pick.result
            source = format_source(past.agent_type, past.agent_id, past.at)
            text = format_entry(source, pick.reason, redact(pick.text))
            found = InjectedEntry(
                pick.stage,
                pick.reason,
                text,
                token_upper_bound(text),
                past.session_id,
                past.agent_id,
            )
            framed.append((found, pick))
        return framed

    def _tasks(self) -> Iterator[InjectedEntry]:
        own: list[OpenTask] = assigned_tasks(self._start)
        if own:
            lines = task_lines(
                own, self._start.plan, self._limits.task_description_chars, self._limits.plan_chars
            )
            reason = f"assigned to {self._start.agent_type}"
            text = format_entry("Tasks", reason, redact("\n".join(lines)))
            yield InjectedEntry(
                InjectionStage.TASK, reason, text, token_upper_bound(text), self._start.session_id
            )

    def _why_never(self, past: EarlierResult) -> str | None:
        if past.project != self._start.project and not (
            self._limits.all_projects and past.agent_type == self._start.agent_type
        ):
            return "of another project"
        if past.outcome is RunOutcome.RUNNING:
            return "not finished"
        if past.outcome is RunOutcome.FAILED:
            return "failed or was stopped"
        return None if past.text.strip() else "said nothing"
