"""What warnings before a cache expires, and compacting before a pause, would have saved or cost.

Every wait of a session for its person is a case: from an answer that ends a turn to the next
request, or to nothing. A warning comes two minutes before the cache expires, if the session holds
as many tokens as the threshold. It is right if the person came back after the cache had expired
and the request wrote the conversation again; needless if they came back in time, or never.

Whoever compacts at each warning reads the conversation once more, pays for the summary, and later
writes the small context. Each later request then reads less, and each later loss of the cache
costs less, until the recording's own next compaction. Where a compaction would leave no less than
there is, no warning counts. Sessions are replayed whole, with what earlier compactions have taken
away. `breaks only` is a person who knows: they compact before the waits alone after which they
came back to an expired cache. Dollars are list prices. What a summary forgets has no price here.
`later` is what reading a smaller context saved: that comes of any compaction, whenever it is made.

How small a session gets is the median of the recorded compactions, but never below what was sent
with its first prompt, and the summary. The made histories are of two people: one comes back within
minutes mostly, one works in several sessions and leaves each for hours; both have a window of
200,000 tokens. A recording that ends counts as a session that nobody went on with, although its
person may have.
Usage: CTXTOP_SHARED=../shared python -m tests.bench.bench_pauses
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from ctxtop.core.model.claude_models import (
    FIVE_MINUTES_MS,
    HOUR_MS,
    MILLION,
    TokenPrice,
    find_price,
    prompt_rate,
)

from .recordings import as_config, recordings, shared_folder, too_few

THRESHOLDS: Final = (0, 20_000, 50_000, 75_000, 100_000, 150_000)

NOTICE_MS: Final = 120_000
"""How long before the cache expires a warning comes."""

SUMMARY_TOKENS: Final = 3_000
"""Of a summary that the client writes: 2,000 to 5,000 in the recorded sessions."""

ASKING_TOKENS: Final = 2_000
"""Of the instructions for a summary, which no cache holds."""

COMPACTED_TOKENS: Final = 30_000
"""Of a session after a compaction, if none is recorded."""


@dataclass(frozen=True, slots=True)
class Request:
    at: int
    model: str
    input_tokens: int
    read_tokens: int
    written_tokens: int
    lasts_hour: bool
    """The cache that was last written."""
    ends_turn: bool
    """The person is asked next."""
    is_compacted: bool = False
    """The conversation was compacted just before."""

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.read_tokens + self.written_tokens

    @property
    def lifetime_ms(self) -> int:
        return HOUR_MS if self.lasts_hour else FIVE_MINUTES_MS


@dataclass(frozen=True, slots=True)
class Session:
    requests: Sequence[Request]
    first_tokens: int
    """Sent with its first prompt: no compaction leaves less."""


@dataclass(slots=True)
class Outcome:
    """What one way of acting would have come to."""

    right: int = 0
    in_time: int = 0
    """The person came back before the cache had expired."""
    never: int = 0
    """The session was not gone on with."""
    saved_tokens: int = 0
    """That would not have been written again."""
    saved_usd: float = 0.0
    """Of writing them."""
    later_usd: float = 0.0
    """Saved by reading less."""
    right_cost_usd: float = 0.0
    needless_cost_usd: float = 0.0
    losses: int = 0
    """Warnings that were right, but whose compaction cost more than it saved."""

    @property
    def net_usd(self) -> float:
        return self.saved_usd + self.later_usd - self.right_cost_usd - self.needless_cost_usd


@dataclass(slots=True)
class Replay:
    """One session as it would have gone on with what was compacted away."""

    session: Session
    compacted_tokens: int
    threshold: int
    wants: Callable[[Request, Request | None], bool]
    outcome: Outcome = field(default_factory=Outcome)
    away: int = 0
    """Tokens that are not in the context any more."""

    def run(self) -> Outcome:
        requests = self.session.requests
        saved_since, cost_since, is_right = 0.0, 0.0, False
        for place, request in enumerate(requests):
            following = requests[place + 1] if place + 1 < len(requests) else None
            if request.is_compacted:
                self.away = 0
            if place:
                saved_since += self._save(requests[place - 1], request)
            if not self._is_warned(request, following) or not self.wants(request, following):
                continue
            self.outcome.losses += is_right and saved_since < cost_since
            cost_since = self._compact(request, following)
            saved_since, is_right = 0.0, bool(following and is_lost(request, following))
        self.outcome.losses += is_right and saved_since < cost_since
        return self.outcome

    def _is_warned(self, request: Request, following: Request | None) -> bool:
        if not request.ends_turn or request.tokens - self.away < max(self.threshold, 1):
            return False
        warned_at = request.at + request.lifetime_ms - NOTICE_MS
        return following is None or following.at > warned_at

    def _save(self, before: Request, request: Request) -> float:
        """Price what a request would not have read, or written again."""
        price = price_of(request)
        if not self.away or price is None:
            return 0.0
        again = 0
        if is_lost(before, request):
            again = min(self.away, request.written_tokens)
            self.outcome.saved_tokens += again
        read = min(self.away - again, request.read_tokens)
        saved, later = again * write_price(request, price) / MILLION, read * price.read / MILLION
        self.outcome.saved_usd += saved
        self.outcome.later_usd += later
        return saved + later

    def _compact(self, request: Request, following: Request | None) -> float:
        """Subtract what a compaction removes; return what it costs."""
        first = self.session.first_tokens
        small = max(self.compacted_tokens, first + SUMMARY_TOKENS)
        tokens = request.tokens - self.away
        price = price_of(request)
        if tokens <= small or price is None:
            return 0.0
        cost = tokens * price.read + ASKING_TOKENS * price.input + SUMMARY_TOKENS * price.output
        self.away += tokens - small
        if following is None:
            self.outcome.never += 1
        elif is_lost(request, following):
            self.outcome.right += 1
        else:
            self.outcome.in_time += 1
            # It would have been read: now it is another text.
            cost += (small - first) * (write_price(request, price) - price.read)
        if following is not None and is_lost(request, following):
            self.outcome.right_cost_usd += cost / MILLION
        else:
            self.outcome.needless_cost_usd += cost / MILLION
        return cost / MILLION


def price_of(request: Request) -> TokenPrice | None:
    return find_price(request.model, prompt_rate(request.tokens))


def write_price(request: Request, price: TokenPrice) -> float:
    return price.write_1h if request.lasts_hour else price.write_5m


def is_lost(before: Request, request: Request) -> bool:
    """Whether the cache had expired, and the request wrote the conversation again."""
    repeated = min(before.tokens, request.tokens)
    expired = request.at - before.at > before.lifetime_ms
    return expired and request.read_tokens < repeated * 0.95 and not request.is_compacted


def heeds_all(_request: Request, _following: Request | None) -> bool:
    return True


def knows(request: Request, following: Request | None) -> bool:
    return following is not None and is_lost(request, following)


WAYS: Final = {"each warning": heeds_all, "breaks only": knows}


def replay_all(
    sessions: Iterable[Session],
    compacted_tokens: int,
    threshold: int,
    wants: Callable[[Request, Request | None], bool],
) -> Outcome:
    total = Outcome()
    for session in sessions:
        Replay(session, compacted_tokens, threshold, wants, total).run()
    return total


def read_sessions(config: Path, scratch: Path) -> tuple[list[Session], list[int]]:
    """Read each session's own requests, each once; and the sizes after compactions."""
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.collectors.store_update import ScanOutcome
    from ctxtop.core.measure.prompt_cache.rewrites import cached_tokens, chains
    from ctxtop.core.store.database import open_reader
    from ctxtop.core.store.queries import cache_queries
    from ctxtop.core.store.writer import Writer

    store = scratch / "store.db"
    folder = ClaudeFolder(config)
    with closing(Writer(store)) as writer:
        Collector(folder, writer, ScanOutcome()).scan()
    with closing(open_reader(store)) as db:
        found = chains(cache_queries.cache_answers(db))
    sessions, sizes = [], []
    for chain in found:
        marks = marks_of(folder.projects / chain[0].path)
        requests = []
        lasts_hour = False
        for row in chain:
            if row.cache_creation_tokens:
                lasts_hour = row.cache_1h_tokens > 0
            if row.agent_id is not None or row.at is None or not row.is_counted:
                continue
            ends_turn, is_compacted = marks.get(row.message_id, (False, False))
            requests.append(
                Request(
                    row.at,
                    row.model,
                    row.input_tokens,
                    row.cache_read_tokens,
                    row.cache_creation_tokens,
                    lasts_hour,
                    ends_turn,
                    is_compacted,
                )
            )
        # Of a fork only what it added: its parent's requests are replayed with the parent.
        if requests and requests[0].tokens:
            sessions.append(Session(requests, cached_tokens(chain[0]) + chain[0].input_tokens))
            sizes += [each.tokens for each in requests if each.is_compacted]
    return sessions, sizes


def marks_of(path: Path) -> dict[str, tuple[bool, bool]]:
    """Map answers to whether they end a turn, and whether they follow a compaction."""
    found: dict[str, tuple[bool, bool]] = {}
    is_compacted = False
    for data in path.read_bytes().splitlines():
        try:
            line = json.loads(data)
        except ValueError:
            continue
        if line.get("subtype") == "compact_boundary":
            is_compacted = True
        if line.get("type") != "assistant" or line.get("isSidechain"):
            continue
        message = line["message"]
        blocks = message.get("content")
        calls = isinstance(blocks, list) and any(each.get("type") == "tool_use" for each in blocks)
        ended, was_compacted = found.get(message.get("id"), (True, is_compacted))
        found[message.get("id")] = (ended and not calls, was_compacted)
        is_compacted = False
    return found


@dataclass(frozen=True, slots=True)
class Person:
    """How somebody works whose history is made."""

    name: str
    short: float
    """Share of waits that are of minutes; the others are of hours."""
    minutes: float
    """Median of the short waits."""
    leaves: float
    """Share of waits after which a session is never gone on with."""
    lasts_hour: bool


PEOPLE: Final = tuple(
    Person(name, short, minutes, leaves, lasts_hour)
    for name, short, minutes, leaves in (("stays", 0.95, 6.0, 0.04), ("switches", 0.6, 12.0, 0.08))
    for lasts_hour in (False, True)
)

MADE_SESSIONS: Final = 500
MODEL: Final = "claude-opus-5-5"
FULL_TOKENS: Final = 167_000
"""At which the client compacts by itself in a window of 200,000 tokens."""


def make_session(person: Person, chosen: random.Random) -> Session:
    """Make a session whose cache is lost when it has expired, and when it was compacted."""
    at, cached, requests, is_compacted = 0, 0, list[Request](), False
    least = size = chosen.randrange(15_000, 25_000)
    lifetime = HOUR_MS if person.lasts_hour else FIVE_MINUTES_MS
    while True:
        for left in reversed(range(chosen.randrange(1, 20))):
            if requests and at - requests[-1].at > lifetime:
                cached = 0
            written, ends_turn = size - cached, left == 0
            requests.append(
                Request(at, MODEL, 4, cached, written, person.lasts_hour, ends_turn, is_compacted)
            )
            cached = size
            size += int(chosen.lognormvariate(6.8, 1.2))
            at += int(chosen.lognormvariate(9.2, 0.8))
            is_compacted = size > FULL_TOKENS
            if is_compacted:
                cached, size = least, COMPACTED_TOKENS
        if chosen.random() < person.leaves:
            return Session(requests, least)
        at = requests[-1].at
        if chosen.random() < person.short:
            at += int(chosen.lognormvariate(0, 1.2) * person.minutes * 60_000)
        else:
            at += int(chosen.uniform(1.5, 16) * HOUR_MS)


def make_sessions(person: Person) -> list[Session]:
    chosen = random.Random(20)
    return [make_session(person, chosen) for _ in range(MADE_SESSIONS)]


def print_table(title: str, sessions: Sequence[Session], compacted: int) -> None:
    waits = sum(each.ends_turn for of in sessions for each in of.requests)
    lost = list(lost_waits(sessions))
    again = sum(each.written_tokens for each in lost)
    print(f"\n{title}: {len(sessions)} sessions, {waits} waits for a person, {len(lost)} of which")
    print(f"lasted longer than the cache; {again:,} tokens were written after them")
    print(
        f"{'compacts before':15} {'from':>7} {'warnings':>8} {'right':>5} {'in time':>7}"
        f" {'never':>5} {'tokens saved':>12} {'saved':>8} {'later':>8} {'cost':>7}"
        f" {'needless':>8} {'net':>9} {'at a loss':>9}"
    )
    for way, wants in WAYS.items():
        for threshold in THRESHOLDS:
            of = replay_all(sessions, compacted, threshold, wants)
            warnings = of.right + of.in_time + of.never
            print(
                f"{way:15} {threshold:7,} {warnings:8} {of.right:5} {of.in_time:7} {of.never:5}"
                f" {of.saved_tokens:12,} {of.saved_usd:8.2f} {of.later_usd:8.2f}"
                f" {of.right_cost_usd:7.2f} {of.needless_cost_usd:8.2f} {of.net_usd:+9.2f}"
                f" {of.losses:9}"
            )


def lost_waits(sessions: Iterable[Session]) -> Iterator[Request]:
    for session in sessions:
        for before, request in pairwise(session.requests):
            if before.ends_turn and is_lost(before, request):
                yield request


def main() -> int:
    shared = shared_folder()
    if not recordings(shared):
        print(too_few(shared, "recorded sessions are", 0))
    else:
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            sessions, sizes = read_sessions(as_config(shared, scratch), scratch)
        compacted = int(statistics.median(sizes)) if sizes else COMPACTED_TOKENS
        print(f"after {len(sizes)} compactions: {compacted:,} tokens (median of {sorted(sizes)})")
        print_table("recorded", sessions, compacted)
    for person in PEOPLE:
        lifetime = "an hour" if person.lasts_hour else "five minutes"
        title = f"made, {person.name}, cache of {lifetime}"
        print_table(title, make_sessions(person), COMPACTED_TOKENS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
