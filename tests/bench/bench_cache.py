"""Whether the cache ledger names the causes that the API named, and counts every token once.

Each answer of the recorded sessions whose API said why its cache was missed is a case: the cause
that is inferred without that word beside the word itself. Which causes agree with which word, and
why, stands with `AGREEING_CAUSES`. Answers in several files (forks) are one case. `unavailable`
agrees with anything, so those cases are listed apart, and so are words without a loss: answers
that rewrote nothing, by the client's own rule of what a miss is.

An inferred cause needs evidence of its own (`infer_cause`); without it the cause is unknown. So
two shares are asked for: of those that are named, how many agree, and how many are named. They
are printed again without each session, the worst first: no rule may hold because of one.

A miss is no request that reads all but a little. Beside the ledger's misses stands the naive
count of requests that read less than the one before had read and written.

The sums are compared with the transcripts themselves, read with plain json: all tokens that were
written to the cache, each message once.
Usage: CTXTOP_SHARED=../shared python -m tests.bench.bench_cache
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.measure.prompt_cache.cache_ledger import (
    AGREEING_CAUSES,
    UNAVAILABLE,
    CacheCause,
    CacheLedger,
    CacheMiss,
    CacheRequest,
    add_up,
    rewrite_factor,
    totals_by_cause,
)
from ctxtop.core.measure.prompt_cache.rewrites import cached_tokens, chains
from ctxtop.tui.text.cache_text import cause_name

from .recordings import as_config, recordings, shared_folder, too_few

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxtop.core.model.answer_rows import CacheAnswerRow

LEAST_RIGHT: Final = 0.9
LEAST_NAMED: Final = 0.6

COUNTS: Final = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")


@dataclass(frozen=True, slots=True)
class Reading:
    ledger: CacheLedger
    rows: list[CacheAnswerRow]
    seconds: float


def read_ledger(config: Path, scratch: Path) -> Reading:
    """Read every recorded session into a throw-away store; the ledger, and how long that took."""
    from ctxtop.collectors.claude_code.cache_ledger_reader import read_cache_ledger
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.collectors.store_update import ScanOutcome
    from ctxtop.core.store.database import open_reader
    from ctxtop.core.store.queries.cache_queries import cache_answers
    from ctxtop.core.store.writer import Writer

    store = scratch / "store.db"
    folder = ClaudeFolder(config)
    with closing(Writer(store)) as writer:
        Collector(folder, writer, ScanOutcome()).scan()
    with closing(open_reader(store)) as db:
        start = time.perf_counter()
        ledger = read_cache_ledger(db, folder.projects, store, {})
        seconds = time.perf_counter() - start
        return Reading(ledger, cache_answers(db), seconds)


def messages(config: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each answer in any transcript by its id, also those in `progress` lines."""
    for path in sorted(config.glob("projects/**/*.jsonl")):
        for number, data in enumerate(path.read_bytes().splitlines()):
            try:
                line = json.loads(data)
            except ValueError:
                continue
            if line.get("type") == "progress" and isinstance(line.get("data"), dict):
                line = line["data"].get("message")
            if not isinstance(line, dict) or line.get("type") != "assistant":
                continue
            message = line.get("message")
            if isinstance(message, dict) and isinstance(message.get("usage"), dict):
                yield message.get("id") or f"{path} {number}", message


def written_tokens(message: dict[str, Any]) -> int:
    """Clients before 2.1.152 wrote 0 beside the counts by lifetime."""
    usage = message["usage"]
    nested = usage.get("cache_creation") or {}
    return max(
        usage.get("cache_creation_input_tokens") or 0, sum(nested.get(each) or 0 for each in COUNTS)
    )


def labels(config: Path) -> dict[str, str]:
    """Map answers to the API's word."""
    found = {}
    for message_id, message in messages(config):
        reason = (message.get("diagnostics") or {}).get("cache_miss_reason") or {}
        if reason.get("type"):
            found[message_id] = reason["type"]
    return found


@dataclass(frozen=True, slots=True)
class Case:
    """A miss that the API named: its word, and what is inferred without it."""

    word: str
    miss: CacheMiss

    @property
    def is_named(self) -> bool:
        return self.miss.inferred is not CacheCause.UNKNOWN

    @property
    def agrees(self) -> bool:
        return self.miss.inferred in AGREEING_CAUSES.get(self.word, frozenset(CacheCause))


def shares(cases: Sequence[Case]) -> tuple[float, float]:
    """Return the share of the named that agree, and the share that is named."""
    named = [case for case in cases if case.is_named]
    right = sum(case.agrees for case in named)
    return right / (len(named) or 1), len(named) / (len(cases) or 1)


def print_cases(cases: Sequence[Case]) -> bool:
    """Print the table; return whether enough is named, and rightly."""
    counts = Counter((case.word, case.miss.inferred.value, case.agrees) for case in cases)
    print(f"{'the API says':28} {'inferred without it':22} {'cases':>5}  agrees")
    for (word, cause, agrees), count in sorted(counts.items()):
        verdict = "yes" if agrees else "-" if cause == CacheCause.UNKNOWN else "NO"
        print(f"{word:28} {cause:22} {count:5}  {verdict}")
    if not cases:
        print("no labels")
        return True
    right, named = shares(cases)
    print(f"named: {named:.0%} of {len(cases)}; right among the named: {right:.0%}")
    by_session = Counter(case.miss.request.session_id for case in cases)
    for session, count in by_session.most_common():
        others = [case for case in cases if case.miss.request.session_id != session]
        if others:
            right_of_others, named_of_others = shares(others)
            print(
                f"  without {session[:8]} ({count}): named {named_of_others:.0%},"
                f" right {right_of_others:.0%}"
            )
    return right >= LEAST_RIGHT and named >= LEAST_NAMED


def print_apart(labeled: dict[str, str], misses: dict[str, CacheMiss]) -> None:
    silent = [each for each, word in labeled.items() if word == UNAVAILABLE]
    lost = sum(each in misses for each in silent)
    print(f"{UNAVAILABLE}, apart: {len(silent)} answers, {lost} of which rewrote anything")
    without = sum(each not in misses for each, word in labeled.items() if word != UNAVAILABLE)
    print(f"another word without a loss: {without} answers")


def naive_breaks(rows: Sequence[CacheAnswerRow]) -> set[str]:
    """List the answers that read less than the one before had read and written."""
    found = set()
    for chain in chains(rows):
        cached = [row for row in chain if row.cache_read_tokens + row.cache_creation_tokens]
        found |= {
            row.message_id
            for before, row in pairwise(cached)
            if row.is_counted and row.cache_read_tokens < cached_tokens(before)
        }
    return found


def print_naive(naive: set[str], labeled: dict[str, str], misses: dict[str, CacheMiss]) -> None:
    real = naive & misses.keys()
    words = {each for each, word in labeled.items() if word != UNAVAILABLE}
    print(
        f"\nrequests that read less than the one before had left: {len(naive)}; misses:"
        f" {len(misses)} ({len(misses.keys() - naive)} of which are none of those)"
    )
    print(
        f"of the {len(naive - real)} that read all but a little, the API named"
        f" {len((naive - real) & words)}; of the misses {len(misses.keys() & words)}"
    )


def print_causes(ledger: CacheLedger) -> None:
    totals = add_up(ledger)
    print(f"\n{'cause':28} {'misses':>6} {'rewritten':>10} {'of writes':>9} {'dollars':>8}")
    for (cause, source), of in totals_by_cause(ledger).items():
        share = of.rewritten_tokens / totals.written_tokens
        print(
            f"{cause_name(cause, source):28} {of.misses:6} {of.rewritten_tokens:10,} {share:9.1%}"
            f" {of.cost_usd:8.2f}"
        )
    print(
        f"{'all':28} {totals.misses:6} {totals.rewritten_tokens:10,}"
        f" {totals.rewritten_ratio or 0:9.1%} {totals.cost_usd:8.2f}"
    )
    print(f"read from the cache: {totals.read_ratio or 0:.1%} of all input")
    print_factors(ledger)


def print_factors(ledger: CacheLedger) -> None:
    """Print how often sessions wrote their largest context."""
    by_session: dict[str, list[CacheRequest]] = {}
    for each in ledger.requests:
        by_session.setdefault(each.session_id, []).append(each)
    found = sorted(
        factor
        for requests in by_session.values()
        if (factor := rewrite_factor(CacheLedger(tuple(requests)))) is not None
    )
    print(
        f"re-write factor of {len(found)} sessions: median {statistics.median(found):.2f},"
        f" least {found[0]:.2f}, most {found[-1]:.2f}"
    )


def main() -> int:
    shared = shared_folder()
    if not recordings(shared):
        print(too_few(shared, "recorded sessions are", 0))
        return 0
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        config = as_config(shared, scratch)
        reading = read_ledger(config, scratch)
        labeled = labels(config)
        counted = {message_id: written_tokens(each) for message_id, each in messages(config)}
    ledger = reading.ledger
    misses = {each.request.message_id: each for each in ledger.misses}
    cases = [
        Case(word, misses[each])
        for each, word in labeled.items()
        if each in misses and word != UNAVAILABLE
    ]
    is_enough = print_cases(cases)
    print_apart(labeled, misses)
    print_naive(naive_breaks(reading.rows), labeled, misses)
    print_causes(ledger)
    ours, theirs = add_up(ledger).written_tokens, sum(counted.values())
    print(f"\nwritten to the cache, each message once: ledger {ours:,}, transcripts {theirs:,}")
    print(f"read in {reading.seconds * 1000:.0f} ms: {len(ledger.requests):,} requests")
    return 0 if is_enough and ours == theirs else 1


if __name__ == "__main__":
    sys.exit(main())
