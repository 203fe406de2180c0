"""Random stories of a fleet before breaks: sessions change, pauses overlap, processes crash.

The rules, the claims and the receipts are ctxtop's own; sessions, clients and the clock are made.
At each moment at which ctxtop looks at something or waits for it, the world may go on: a person
begins a turn, a client asks for permission, a second process pauses the same fleet, the first one
is killed. What a pause does to a session is judged when it happens.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from ctxtop.collectors.plugin_files.compact_requests import make_request_folders
from ctxtop.collectors.terminal.request_receipts import CompactRequest, read_client_receipts
from ctxtop.core.actions.pause_rules import PauseCandidate, PauseItem, preview_pause
from ctxtop.core.actions.session_access import (
    ActionFailure,
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    SessionAccess,
    Via,
)
from ctxtop.core.actions.session_pause import PauseLook, PauseTarget, pause_session
from ctxtop.core.compaction.plan import RefusalKind
from ctxtop.core.model.claude_models import FIVE_MINUTES_MS, HOUR_MS
from ctxtop.core.model.context import Context, ContextState
from ctxtop.core.model.session import Session, SessionStatus
from ctxtop.core.model.session_activity import UNKNOWN_CACHE, PromptCache
from ctxtop.core.policy.policy import Policy, PolicyOrigin
from ctxtop.core.policy.resolve import RawValue, resolve_policy
from ctxtop.core.store.automation_records import read_pauses
from ctxtop.core.store.writer import Writer

from .pausing import MINUTE, idle_session
from .tui.makers import WINDOW
from .tui.support import NOW_MS

if TYPE_CHECKING:
    from pathlib import Path

SESSIONS: Final = 8
RUNS: Final = 5
"""Pauses in a story, those that begin inside others not counted."""

MIN_TOKENS: Final = 50_000
LEFT_TOKENS: Final = 38_000
"""What the client's compaction leaves."""

QUICK_MS: Final = 3_000
"""The most that passes while a pause looks at a session and asks its client."""

TURN_MS: Final = 20_000
"""A turn takes at least that long."""


class KilledProcess(BaseException):
    """Ends a pause where it is, as a kill does."""


class BrokenRuleError(AssertionError):
    """A session was changed that should have been left."""


@dataclass
class MadeSession:
    """A session, its client, and what was done to it."""

    session_id: str
    status: str | None = "idle"
    """None where no client has it open."""
    tokens: int = 150_000
    bytes: int = 1_000
    answered_at: int = 0
    lifetime_ms: int = HOUR_MS
    is_cached: bool = True
    """False after a compaction, until the next answer."""
    via: Via | None = Via.PLUGIN
    idle_from: int | None = None
    busy_until: int = 0
    is_locked: bool = False
    paused: list[int] = field(default_factory=list)
    """The newest answer at each time it was paused."""

    @property
    def expires_at(self) -> int:
        return self.answered_at + self.lifetime_ms

    def as_session(self) -> Session:
        cache = PromptCache(self.expires_at, tokens=self.tokens, lifetime_ms=self.lifetime_ms)
        return idle_session(
            session_id=self.session_id,
            status=SessionStatus(self.status) if self.status else SessionStatus.ENDED,
            live=self.status is not None,
            context=Context(self.tokens, ContextState.MEASURED, WINDOW),
            cache=cache if self.is_cached else UNKNOWN_CACHE,
        )


class PauseStory:
    """A fleet and what befell it; the seed says all of it."""

    def __init__(self, seed: int, root: Path) -> None:
        self.random: Final = random.Random(seed)
        self.now = NOW_MS
        self.ends: Counter[str] = Counter()
        self.store: Final = root / "ctxtop.db"
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        make_request_folders(str(self.store))
        self.sessions: Final = [self._make(number) for number in range(SESSIONS)]
        self.requests: Final[dict[str, str]] = {}
        """What a client has compacted, by its request: the session."""
        self.notes: Final[list[tuple[str, int]]] = []
        self._depth = 0
        ways = self.random.choice([("client", "hand-off"), ("client",), ("hand-off",)])
        self.policy: Final[Policy] = resolve_policy(
            [RawValue("pause.ways", list(ways), PolicyOrigin.USER_FILE, "here")]
        )

    def _make(self, number: int) -> MadeSession:
        chance = self.random
        return MadeSession(
            f"{number:08x}-0000-4000-8000-000000000000",
            status=chance.choice(["idle", "idle", "idle", "idle", "busy", "waiting", None]),
            tokens=chance.choice([20_000, 60_000, 120_000, 190_000, 400_000]),
            answered_at=self.now - chance.choice([0, 1, 3, 30, 70]) * MINUTE,
            lifetime_ms=chance.choice([FIVE_MINUTES_MS, HOUR_MS, HOUR_MS]),
            via=chance.choice([Via.PLUGIN, Via.TMUX, None]),
            idle_from=chance.choice([None, 200_000]),
        )

    def run(self) -> None:
        """Pause the fleet a few times, and see that all rules hold."""
        for _ in range(RUNS):
            self._let_pass(self.random.choice([0, 5_000, MINUTE, 20 * MINUTE]))
            self._pause_guarded()
        self._depth = 2  # the world is quiet now
        self._pause_guarded()
        before = sum(len(each.paused) for each in self.sessions)
        self._pause_guarded()
        if sum(len(each.paused) for each in self.sessions) != before:
            raise BrokenRuleError("a second pause of the same fleet did something")
        self._check_receipts()

    # A pause, in one process.

    def _pause_guarded(self) -> None:
        try:
            self._pause()
        except KilledProcess:
            self.ends["killed"] += 1

    def _pause(self) -> None:
        items = [
            preview_pause(self._candidate(each), self.policy, self.now) for each in self.sessions
        ]
        for item in items:
            self.ends[f"previewed: {item.decision.check or item.decision.way.value}"] += 1
        # The person reads the preview.
        self._go_on(self.random.choice([0, QUICK_MS, 2 * MINUTE]))
        for item in items:
            if item.acts:
                result = pause_session(self._target(item), lambda: self.now)
                self.ends[f"acted: {result.check or item.decision.way.value}"] += 1

    def _candidate(self, of: MadeSession) -> PauseCandidate:
        with closing(Writer(self.store)) as writer:
            earlier = {each.answered_at: each for each in read_pauses(writer.connection)
                       if each.session_id == of.session_id}  # fmt: skip
        return PauseCandidate(
            of.as_session(),
            bytes=of.bytes,
            answered_at=of.answered_at,
            via=of.via,
            idle_from=of.idle_from,
            earlier=earlier.get(of.answered_at),
        )

    def _target(self, item: PauseItem) -> PauseTarget:
        of = self._find(item.session.session_id)
        access = SessionAccess(
            item.session,
            self.policy,
            self.store,
            cast("Any", None),
            cast("Any", _MadeClient(self, of)),
        )
        return PauseTarget(
            item,
            access,
            look=lambda: self._look(of),
            write_note=lambda: self._write_note(of, item.candidate.bytes),
        )

    def _look(self, of: MadeSession) -> PauseLook:
        self._go_on(QUICK_MS)
        if self.random.random() < 0.02:
            raise FileNotFoundError(2, "No such file", of.session_id)
        return PauseLook(of.status, of.bytes)

    def _write_note(self, of: MadeSession, seen: int) -> Any:  # noqa: ANN401 -- a receipt, or why not
        """As `write_hand_off`: a note of the same state is written once, and then found."""
        self._go_on(QUICK_MS)
        if self.random.random() < 0.05:
            return ActionFailure(("the disk is full",))
        if of.bytes != seen:
            return ActionFailure(("it was written to",), RefusalKind.LIVE)
        if (of.session_id, of.answered_at) not in self.notes:
            self.judge(of)
            self.notes.append((of.session_id, of.answered_at))
        self._go_on(QUICK_MS)
        return _NOTE

    # What the client does.

    def compact(self, of: MadeSession, via: Via) -> ClientCompactResult:
        """As the collectors ask: one at a time, only if idle, and with a receipt."""
        self._go_on(QUICK_MS)
        if of.is_locked:
            raise NotCompactedError(CompactFailure.LIVE, "another ctxtop is changing this session")
        of.is_locked = True
        try:
            return self._compact_locked(of, via)
        finally:
            # The system releases the lock of a process that was killed.
            of.is_locked = False

    def _compact_locked(self, of: MadeSession, via: Via) -> ClientCompactResult:
        if of.status != "idle":
            raise NotCompactedError(CompactFailure.LIVE, f"it is {of.status}")
        request = CompactRequest(self.store, of.session_id, "")
        request.begin(via)
        try:
            self._go_on(QUICK_MS)
        except KilledProcess:
            if self.random.random() < 0.5:
                # The client has the request already.
                self._finish_compaction(of, request)
            raise
        error = self._refusal(of)
        if error is not None:
            request.fail(error)
            raise error
        done = self._finish_compaction(of, request)
        self._go_on(QUICK_MS)
        request.finish(done)
        return done

    def _refusal(self, of: MadeSession) -> NotCompactedError | None:
        if of.status != "idle":
            return NotCompactedError(CompactFailure.LIVE, "it is busy: a turn is running")
        if self.random.random() < 0.1:
            return NotCompactedError(CompactFailure.FAILED, "the API did not answer")
        return None

    def _finish_compaction(self, of: MadeSession, request: CompactRequest) -> ClientCompactResult:
        if of.status != "idle":
            raise KilledProcess
        self.judge(of)
        self.requests[request.request_id] = of.session_id
        before, of.tokens = of.tokens, LEFT_TOKENS
        of.bytes += 20_000
        of.is_cached = False
        return ClientCompactResult(
            of.session_id, Via.PLUGIN, self.now, "b", before, LEFT_TOKENS, 1.0
        )

    def judge(self, of: MadeSession) -> None:
        """Raise BrokenRuleError if a session must not be touched now."""
        reasons = {
            "busy or waiting": of.status in {"busy", "waiting"},
            "cold": not of.is_cached or self.now >= of.expires_at,
            "small": of.tokens < MIN_TOKENS,
            "paused already": of.answered_at in of.paused,
            "left to its client": self._is_idle_compacted(of),
        }
        if broken := [name for name, is_so in reasons.items() if is_so]:
            raise BrokenRuleError(f"{of.session_id[:8]} was {', '.join(broken)}")
        of.paused.append(of.answered_at)

    def _is_idle_compacted(self, of: MadeSession) -> bool:
        # A minute after it is due the client lets it be; a pause may begin a moment before.
        due = of.answered_at + 54 * MINUTE
        is_long = of.idle_from is not None and of.tokens >= of.idle_from
        return is_long and of.lifetime_ms == HOUR_MS and self.now <= due

    # The world goes on.

    def _go_on(self, most_ms: int) -> None:
        """Make something happen: to a session, another pause, or the end of this process."""
        if self._depth >= 2:
            return
        # What another process does meanwhile takes no longer than what this one waits for.
        self._let_pass(self.random.randrange(most_ms + 1) // (1 + 40 * self._depth))
        chance = self.random.random()
        if chance < 0.03:
            raise KilledProcess
        if chance < 0.10:
            self._depth += 1
            self._pause_guarded()
            self._depth -= 1

    def _let_pass(self, milliseconds: int) -> None:
        self.now += milliseconds
        for each in self.sessions:
            if each.status in {"busy", "waiting"} and self.now >= each.busy_until > 0:
                self._answer(each)
        for _ in range(self.random.randrange(3)):
            self._happen(self.random.choice(self.sessions))

    def _happen(self, of: MadeSession) -> None:
        event = self.random.random()
        if of.is_locked and event > 0.2:
            # While its client compacts a person can only begin to type.
            return
        if event < 0.15 and of.status == "idle":
            of.status, of.busy_until = "busy", self.now + TURN_MS
            of.bytes += 300
        elif event < 0.2 and of.status == "busy":
            of.status, of.busy_until = "waiting", self.now + 10 * TURN_MS
        elif event < 0.25:
            of.bytes += 100
        elif event < 0.28:
            of.status = None if of.status else "idle"

    def _answer(self, of: MadeSession) -> None:
        of.status, of.busy_until = "idle", 0
        of.answered_at, of.is_cached = self.now, True
        of.tokens += self.random.choice([500, 30_000])
        of.bytes += 2_000

    def _find(self, session_id: str) -> MadeSession:
        return next(each for each in self.sessions if each.session_id == session_id)

    def _check_receipts(self) -> None:
        found = {each.request: each for each in read_client_receipts(self.store, self.now)}
        if missing := self.requests.keys() - found.keys():
            raise BrokenRuleError(f"compactions without a receipt: {missing}")
        acts = sum(len(each.paused) for each in self.sessions)
        if acts != len(self.requests) + len(self.notes):
            raise BrokenRuleError("an act left neither a request nor a note")
        self.ends["sessions paused"] += acts
        self.ends["requests without a result"] += sum(
            each.state in {"pending", "orphan"} for each in found.values()
        )


class _MadeClient:
    def __init__(self, story: PauseStory, of: MadeSession) -> None:
        self._story: Final = story
        self._of: Final = of

    def compact(self, via: Via, _instructions: str) -> ClientCompactResult:
        return self._story.compact(self._of, via)


_NOTE: Final = SimpleNamespace(
    receipt_id="note",
    new_session_id="n",
    resume_command="claude --resume n",
    plan=SimpleNamespace(after_tokens=12_000),
)
"""The receipt of a note, as far as a pause reads it."""


def tell_pause_story(seed: int, root: Path) -> Counter[str]:
    """Run one story and count what happened; raises BrokenRuleError."""
    story = PauseStory(seed, root)
    story.run()
    return story.ends
