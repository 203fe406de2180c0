"""Keeps some of the demo's sessions growing, as if people were at work."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING

from . import scenarios
from .registry import find_entry
from .resume import resume
from .tracks import Part, Track, climb, lead, wait

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from .model import DemoFolder, DemoSession
    from .plumbing import Clock

EVENT = timedelta(milliseconds=120)  # one event's lines are stamped within so much before its end
WAIT_TURNS = (41, 45, 49, 53)  # the steps of a round in which the waiting session moves
ROUND = 60  # steps; the waiting session waits for most of them
TRACKS: dict[str, tuple[scenarios.Scenario, Track]] = {
    scenarios.CLIMBER.spec.title: (scenarios.CLIMBER, climb),
    scenarios.LAUNCHER.spec.title: (scenarios.LAUNCHER, lead),
    scenarios.WAITING.spec.title: (scenarios.WAITING, wait),
}


@dataclass(frozen=True)
class Playing:
    """A session in play: its clock and what comes next."""

    clock: Clock
    events: Iterator[None]


class DemoWriter:
    """Appends to the growing sessions of a demo folder, one event a step."""

    def __init__(self, folder: DemoFolder, seed: int = 7, interval_s: float = 1.5) -> None:
        self._folder = folder
        self._rng = Random(f"writer {seed}")  # noqa: S311 - repeatable on purpose
        self._interval = interval_s
        self._playing: list[Playing] = []
        self._steps = 0
        self._gone = False

    def step(self, now: datetime) -> None:
        """Append the next event, as of `now`; do nothing once the folder is gone."""
        if self._gone:
            return
        try:
            self._advance(now)
        except OSError:
            # The folder was removed under us: the demo is over, and that is no error.
            self._gone = True

    def run(self, stop: threading.Event) -> None:
        """Append an event every interval until told to stop or the folder is gone."""
        while not self._gone and not stop.wait(self._interval):
            self.step(datetime.now(UTC))

    def _advance(self, now: datetime) -> None:
        if not self._playing:
            growing = {session.title: session for session in self._folder.sessions if session.grows}
            self._playing = [self._open(growing[title]) for title in TRACKS]
        playing = self._playing[self._whose_turn()]
        self._steps += 1
        playing.clock.at = max(playing.clock.at, now - EVENT)
        playing.clock.end = now
        next(playing.events)

    def _whose_turn(self) -> int:
        place = self._steps % ROUND
        if place in WAIT_TURNS:
            return 2
        return place % 2

    def _open(self, session: DemoSession) -> Playing:
        scenario, track = TRACKS[session.title]
        found = resume(session, scenario.spec, self._rng)
        entry = find_entry(self._folder.root / "sessions", session.session_id)
        part = Part(found.builder, found.conversation, entry, found.pending)
        return Playing(found.builder.clock, track(part))
