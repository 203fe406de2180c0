"""Whether the cache ledger names the causes that the API named, and counts every token once.

Each answer of the recorded sessions whose API said why its cache was missed is a case: the cause
that is inferred without that word beside the word itself. Which causes agree with which word, and
why, stands with `AGREEING_CAUSES`. Answers in several files (forks) are one case. `unavailable`
agrees with anything, so those cases are listed apart, and so are words without a loss: answers
that rewrote nothing, by the client's own rule of what a miss is.

The sums are compared with the transcripts themselves, read with plain json: all tokens that were
written to the cache, each message once.
Usage: CTXTOP_SHARED=../shared python -m tests.bench.bench_cache
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.measure.cache_ledger import (
    AGREEING_CAUSES,
    UNAVAILABLE,
    CacheCause,
    CacheLedger,
    CacheMiss,
    add_up,
    totals_by_cause,
)

from .recordings import as_config, recordings, shared_folder, too_few

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTS: Final = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")


def read_ledger(config: Path, scratch: Path) -> tuple[CacheLedger, float]:
    """Read every recorded session into a throw-away store; the ledger, and how long that took."""
    from ctxtop.collectors.claude_code.cache_ledger_reader import read_cache_ledger
    from ctxtop.collectors.claude_code.collector_thread import Collector
    from ctxtop.collectors.claude_code.discover import ClaudeFolder
    from ctxtop.collectors.store_update import ScanOutcome
    from ctxtop.core.store.database import open_reader
    from ctxtop.core.store.writer import Writer

    store = scratch / "store.db"
    folder = ClaudeFolder(config)
    with closing(Writer(store)) as writer:
        Collector(folder, writer, ScanOutcome()).scan()
    with closing(open_reader(store)) as db:
        start = time.perf_counter()
        ledger = read_cache_ledger(db, folder.projects, store, {})
        return ledger, time.perf_counter() - start


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


def print_confusion(labelled: dict[str, str], misses: dict[str, CacheMiss]) -> bool:
    """Print the table; return whether a cause was inferred that contradicts the API."""
    cases: Counter[tuple[str, str, bool]] = Counter()
    for message_id, word in labelled.items():
        miss = misses.get(message_id)
        if miss and word != UNAVAILABLE:
            agrees = miss.inferred in AGREEING_CAUSES.get(word, frozenset(CacheCause))
            cases[word, miss.inferred.value, agrees] += 1
    right = sum(count for (*_, agrees), count in cases.items() if agrees)
    total = sum(cases.values())
    print(f"{'the API says':28} {'inferred without it':22} {'cases':>5}  agrees")
    for (word, cause, agrees), count in sorted(cases.items()):
        print(f"{word:28} {cause:22} {count:5}  {'yes' if agrees else 'NO'}")
    print(f"agreement: {right} of {total} ({right / total:.0%})" if total else "no labels")
    silent = [each for each, word in labelled.items() if word == UNAVAILABLE]
    lost = sum(each in misses for each in silent)
    print(f"{UNAVAILABLE}, apart: {len(silent)} answers, {lost} of which rewrote anything")
    without = sum(each not in misses for each, word in labelled.items() if word != UNAVAILABLE)
    print(f"another word without a loss: {without} answers")
    return right == total


def print_causes(ledger: CacheLedger) -> None:
    totals = add_up(ledger)
    print(f"\n{'cause':28} {'misses':>6} {'rewritten':>10} {'of writes':>9} {'dollars':>8}")
    for cause, of in totals_by_cause(ledger).items():
        share = of.rewritten_tokens / totals.written_tokens
        print(
            f"{cause.value:28} {of.misses:6} {of.rewritten_tokens:10,} {share:9.1%}"
            f" {of.cost_usd:8.2f}"
        )
    print(
        f"{'all':28} {totals.misses:6} {totals.rewritten_tokens:10,}"
        f" {totals.rewritten_ratio or 0:9.1%} {totals.cost_usd:8.2f}"
    )
    print(f"read from the cache: {totals.read_ratio or 0:.1%} of all input")


def main() -> int:
    shared = shared_folder()
    if not recordings(shared):
        print(too_few(shared, "recorded sessions are", 0))
        return 0
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        config = as_config(shared, scratch)
        ledger, seconds = read_ledger(config, scratch)
        labelled = labels(config)
        counted = {message_id: written_tokens(each) for message_id, each in messages(config)}
    misses = {each.request.message_id: each for each in ledger.misses}
    agrees = print_confusion(labelled, misses)
    print_causes(ledger)
    ours, theirs = add_up(ledger).written_tokens, sum(counted.values())
    print(f"\nwritten to the cache, each message once: ledger {ours:,}, transcripts {theirs:,}")
    print(f"read in {seconds * 1000:.0f} ms: {len(ledger.requests):,} requests")
    return 0 if agrees and ours == theirs else 1


if __name__ == "__main__":
    sys.exit(main())
