"""What ctxtop says beside what the client says, after every turn, and how often that was done."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ctxtop.collectors.claude_code.own_files import own_log_folder
from ctxtop.core.model.agent import AgentStatus
from ctxtop.core.model.claude_models import LARGE_WINDOW_SUFFIX
from ctxtop.core.model.context import ContextState
from ctxtop.tui.text.formats import percent
from msgspec.structs import replace

if TYPE_CHECKING:
    from ctxtop.core.model.context import Context
    from ctxtop.core.model.session import Session

    from .lab import Lab, Turn, View

Json = dict[str, Any]

_INPUT: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_COUNTS: Final = {
    "input_tokens": ("input_tokens", "inputTokens"),
    "cache_creation_tokens": ("cache_creation_input_tokens", "cacheCreationInputTokens"),
    "cache_read_tokens": ("cache_read_input_tokens", "cacheReadInputTokens"),
    "output_tokens": ("output_tokens", "outputTokens"),
}
"""Our name, the API's, and that of the client's `modelUsage`."""


@dataclass(slots=True)
class Ledger:
    """All comparisons of a test run."""

    turns: int = 0
    compared: Counter[str] = field(default_factory=Counter)

    def same(self, what: str, ours: object, theirs: object) -> None:
        """Note one comparison; fail where the two differ."""
        assert ours == theirs, f"{what}: ctxtop says {ours!r}, the client {theirs!r}"
        self.compared[what] += 1

    def __str__(self) -> str:
        counts = ", ".join(f"{what} {count}" for what, count in self.compared.most_common())
        return f"{self.turns} turns of the real client; equal every time: {counts or 'nothing'}"


@dataclass(frozen=True, slots=True)
class _Known:
    """What one session was seen to hold after its last turn."""

    context: Context
    output_tokens: int


class Judge:
    """Compares one lab's folder with what the client and the API said, turn by turn."""

    def __init__(self, lab: Lab, ledger: Ledger) -> None:
        self._lab: Final = lab
        self._ledger: Final = ledger
        self._known: dict[str, _Known] = {}
        self._starts = 0

    def turn(self, turn: Turn, *, resumed: str | None = None) -> Session:
        """Compare after a headless turn; `resumed` names the session that a fork came from."""
        view = self._view()
        session = view.sessions[turn.session_id]
        windows = {
            usage["contextWindow"]
            for model, usage in turn.said.get("modelUsage", {}).items()
            if model.removesuffix(LARGE_WINDOW_SUFFIX) == session.model
        }
        if turn.said.get("modelUsage"):
            self._ledger.same("window", {session.context.window.tokens}, windows)
        self._resume(resumed or turn.session_id)
        self._last_answer(session)
        self._totals(view, turn, resumed)
        self._agents(view)
        return session

    def anew(self) -> None:
        """A store that reads all at once says what the one says that read turn by turn."""
        store = self._lab.root / "fresh" / "ctxtop.db"
        if own_log_folder(self._lab.store).is_dir():
            shutil.copytree(own_log_folder(self._lab.store), own_log_folder(store))
        fresh = self._lab.ctxtop(store)
        kept = self._lab.ctxtop()
        self._ledger.same("read anew", kept.sessions, fresh.sessions)
        self._ledger.same("read anew", kept.spent, fresh.spent)

    def status(self, status: Json, *, resumed: str | None = None) -> Session:
        """Compare after a turn on the screen with what the status line was given."""
        self._lab.new_exchanges()
        view = self._view()
        session = view.sessions[status["session_id"]]
        window = status["context_window"]
        size = window["context_window_size"]
        self._ledger.same("window", session.context.window.tokens, size)
        self._resume(resumed or session.session_id)
        self._last_answer(session)
        self._totals(view, None, None)
        self._agents(view)
        if session.context.state is ContextState.MEASURED:
            told = _seen(window["current_usage"])
            self._ledger.same("status line's usage", session.context.tokens, told)
            shown = percent(session.context.ratio)
            self._ledger.same("status line's percentage", shown, f"{window['used_percentage']} %")
        else:
            self._ledger.same(
                "status line's zero", sum((window["current_usage"] or {}).values()), 0
            )
        return session

    def _view(self) -> View:
        self._ledger.turns += 1
        view = self._lab.ctxtop()
        self._ledger.same("lines set aside", view.bad_lines, [])
        self._ledger.same("unknown types", view.unknown_types, {})
        self._ledger.same("troubles", view.troubles, [])
        return view

    def _last_answer(self, session: Session) -> None:
        """What the API reported last, or the boundary that came after it."""
        own = [one for one in self._lab.exchanges if is_main(one, session.session_id)]
        last = next((one for one in reversed(own) if "usage" in one), None)
        if last is None:
            return
        if last["what"] == "summary":
            boundary = [
                line["compactMetadata"]
                for line in self._lab.transcript(session.session_id)
                if line.get("subtype") == "compact_boundary"
            ][-1]
            self._ledger.same("state", session.context.state, ContextState.ESTIMATED)
            row = next(
                each
                for each in self._lab.ctxtop().compactions
                if (each.session_id, each.agent_id) == (session.session_id, None)
            )
            self._ledger.same("boundary", row.post_tokens, boundary["postTokens"])
            # With the system prompt, the tools and the listings, which the client leaves out.
            assert (session.context.tokens or 0) > boundary["postTokens"]
            # When it is resumed the client counts as it did.
            counted = replace(session.context, tokens=boundary["postTokens"])
            self._known[session.session_id] = _Known(counted, 0)
            return
        used = _seen(last["usage"])
        self._ledger.same("state", session.context.state, ContextState.MEASURED)
        self._ledger.same("API's usage", session.context.tokens, used)
        self._known[session.session_id] = _Known(session.context, _made(last["usage"]))

    def _resume(self, resumed: str) -> None:
        """What the client counted when it resumed is what ctxtop had said before."""
        starts = self._lab.hooks("SessionStart")
        new, self._starts = starts[self._starts :], len(starts)
        for start in new:
            if start["source"] in {"resume", "fork"} and "context_tokens" in start:
                known = self._known[resumed]
                told = start["context_tokens"] - known.output_tokens
                self._ledger.same("resume hook", known.context.tokens, told)
                hook = known.context.token_counts.hook
                self._ledger.same("hook's context_tokens", hook, start["context_tokens"])

    def _agents(self, view: View) -> None:
        """What the API answered an agent last, and what its hooks said of it."""
        stops = {stop["agent_id"]: stop for stop in self._lab.hooks("SubagentStop")}
        for agent in view.agents:
            own = [one for one in self._lab.exchanges if _agent_of(one) == agent.agent_id]
            answered = [one for one in own if one["what"] == "answer" and "usage" in one]
            if not answered or _session_of(own[-1]) != agent.session_id:
                continue  # refused at once, or copied into a fork
            used = _seen(answered[-1]["usage"])
            self._ledger.same("agent's usage", agent.context.tokens, used)
            stop = stops.get(agent.agent_id)
            if stop and own[-1] is answered[-1]:
                self._ledger.same("agent's type", agent.agent_type, stop["agent_type"])
                self._ledger.same(
                    "agent's words", agent.last_message, stop["last_assistant_message"]
                )
                self._ledger.same("agent's end", agent.status, AgentStatus.COMPLETED)

    def _totals(self, view: View, turn: Turn | None, resumed: str | None) -> None:
        """Every answer of the API counts once, over all sessions and forks."""
        answers = [one for one in self._lab.exchanges if one["what"] == "answer" and "usage" in one]
        self._ledger.same(
            "answers", sum(row.responses for row in view.spent.values()), len(answers)
        )
        for ours, (theirs, by_model) in _COUNTS.items():
            spent = {name: int(getattr(row, ours)) for name, row in view.spent.items()}
            told = sum(one["usage"][theirs] for one in answers)
            self._ledger.same("totals", sum(spent.values()), told)
            if turn and turn.said.get("modelUsage") and resumed is None:
                # The client counts the requests that made summaries too; no line records them.
                summaries = sum(
                    one["usage"][theirs]
                    for one in self._lab.exchanges
                    if one["what"] == "summary" and _session_of(one) == turn.session_id
                )
                client = sum(usage[by_model] for usage in turn.said["modelUsage"].values())
                self._ledger.same(
                    "client's totals", spent.get(turn.session_id, 0) + summaries, client
                )


def _seen(usage: Json) -> int:
    """What the model saw: of a server-side loop the last pass, not the sum."""
    last = (usage.get("iterations") or [usage])[-1]
    return sum(last[name] for name in _INPUT)


def _made(usage: Json) -> int:
    return int((usage.get("iterations") or [usage])[-1]["output_tokens"])


def _session_of(exchange: Json) -> str | None:
    headers: dict[str, str] = exchange["headers"]
    return headers.get("x-claude-code-session-id")


def _agent_of(exchange: Json) -> str | None:
    headers: dict[str, str] = exchange["headers"]
    return headers.get("x-claude-code-agent-id")


def is_main(exchange: Json, session_id: str) -> bool:
    if exchange["what"] == "probe":
        return False
    return _session_of(exchange) == session_id and _agent_of(exchange) is None
