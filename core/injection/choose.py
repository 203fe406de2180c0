"""From all earlier results to what one agent is given: six stages, each once, in a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..redaction import redact
from . import stages
from .bound import most_tokens
from .frame import CONTEXT_CHARS, HEAD, entry, source_of, together
from .past import Entry, Excluded, Injection, Limits, Outcome, Past, Stage, Start, Task
from .tasks import assigned, task_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .stages import Pick

    Choose = Callable[[Start, Iterable[Past]], Iterator[Pick]]

_JOINT: Final = "\n\n"

_DEFAULTS: Final = Limits()


def choose(start: Start, earlier: Iterable[Past], limits: Limits = _DEFAULTS) -> Injection:
    """Choose what an agent that starts is given (buildSmartContext, requirements 000-25).

    Its tasks come first, then siblings, same type, earlier sessions, tags, and the newest
    where none of these four found anything; within each the newest first. A result is given
    once. The budget is of tokens by `most_tokens`: no model's estimate of the context is above
    it. Agents that run, failed or said nothing, and other projects are never given.
    """
    selection = _Selection(start, limits)
    usable = selection.usable(earlier)
    for choice, most in (
        (stages.siblings, limits.sibling),
        (stages.same_type, limits.same_type),
        (stages.cross_session, limits.cross_session),
        (stages.tagged, limits.tagged),
    ):
        selection.take(choice, usable, most)
    if not selection.picks:
        selection.take(stages.fallback, usable, limits.fallback)
    for past in usable:
        selection.leave_out(past, f"of another type ({past.agent_type}), with no tag in common")
    return selection.within_budget()


class _Selection:
    """What was picked so far, and what was left out, with the first reason for it."""

    def __init__(self, start: Start, limits: Limits) -> None:
        self._start = start
        self._limits = limits
        self.picks: list[Pick] = []
        self._picked: dict[str, str] = {}
        """Texts without regard to spaces, and who said them first."""
        self._taken: set[tuple[str, str]] = set()
        self._out: dict[tuple[str, str], Excluded] = {}

    def usable(self, pasts: Iterable[Past]) -> list[Past]:
        """Leave out what is never given; newest first."""
        known: dict[tuple[str, str], Past] = {}
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

    def take(self, choice: Choose, pasts: list[Past], most: int) -> None:
        """Let one stage pick of what no earlier one has picked."""
        own = [past for past in pasts if past.project == self._start.project]
        allowed = pasts if choice is stages.same_type else own
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

    def leave_out(self, past: Past, why: str) -> None:
        """Note why a result is not given; the first reason stays."""
        if past.key not in self._out and not any(pick.result is past for pick in self.picks):
            self._out[past.key] = Excluded(past.agent_id, past.session_id, past.agent_type, why)

    def within_budget(self) -> Injection:
        """Frame what was picked as far as the budget goes; a smaller one may still fit."""
        left, chars = self._limits.budget - most_tokens(HEAD), CONTEXT_CHARS - len(HEAD)
        entries: list[Entry] = []
        for each, pick in self._framed():
            tokens = most_tokens(_JOINT + each.text)
            if tokens <= left and len(_JOINT + each.text) <= chars:
                left, chars = left - tokens, chars - len(_JOINT + each.text)
                entries.append(each)
            elif pick is not None:
                self.picks.remove(pick)
                self.leave_out(pick.result, f"over the budget: up to {tokens} tokens, {left} left")
        context = together([each.text for each in entries])
        return Injection(context, tuple(entries), tuple(self._out.values()), most_tokens(context))

    def _framed(self) -> list[tuple[Entry, Pick | None]]:
        framed: list[tuple[Entry, Pick | None]] = [(each, None) for each in self._tasks()]
        for pick in self.picks:
            past = pick.result
            source = source_of(past.agent_type, past.agent_id, past.at)
            text = entry(source, pick.reason, redact(pick.text))
            found = Entry(
                pick.stage, pick.reason, text, most_tokens(text), past.session_id, past.agent_id
            )
            framed.append((found, pick))
        return framed

    def _tasks(self) -> Iterator[Entry]:
        own: list[Task] = assigned(self._start)
        if own:
            lines = task_lines(
                own, self._start.plan, self._limits.task_description_chars, self._limits.plan_chars
            )
            reason = f"assigned to {self._start.agent_type}"
            text = entry("Tasks", reason, redact("\n".join(lines)))
            yield Entry(Stage.TASK, reason, text, most_tokens(text), self._start.session_id)

    def _why_never(self, past: Past) -> str | None:
        if past.project != self._start.project and not (
            self._limits.all_projects and past.agent_type == self._start.agent_type
        ):
            return "of another project"
        if past.outcome is Outcome.RUNNING:
            return "not finished"
        if past.outcome is Outcome.FAILED:
            return "failed or was stopped"
        return None if past.text.strip() else "said nothing"
