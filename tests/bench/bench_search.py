"""Prints the search's size, build time and query times, on a generated folder or a given one.

Usage: python -m tests.bench.bench_search [MEGABYTES | FOLDER …]. Words are as frequent as in real
sessions, where 27,000 words are 3,400 different ones, and a message of 84 words has 57.
"""

from __future__ import annotations

import itertools
import random
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxtop.collectors.claude_code.turn_finder import FIRST_TURNS, search_turns
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.store_update import ScanOutcome
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.search_queries import find_blocks, search_index_size
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript.entry_decoder import iter_entries
from ctxtop.core.transcript.turn_search import parse_turn_query, searched_text, split_words

from . import heavy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from sqlite3 import Connection

MEGABYTES: Final = 350
WHOLE_MEGABYTES: Final = 1_240
"""Of the folder that `heavy.make` writes at scale 1."""
WORDS: Final = 60_000
PAGE_WORDS: Final = 2_000_000
"""A text is a piece of the page: a long page repeats few of them."""
ZIPF_EXPONENT: Final = 1.5
ZIPF_SHIFT: Final = 15
"""Fitted to the sessions of shared/corpus."""
QUERIES: Final = 25
"""Of each kind."""
RESULTS: Final = 50
BUDGET_MS: Final = 150
BUDGET_SHARE: Final = 0.15


def page(seed: int = 5) -> str:
    """Write a text whose words are as frequent as those of a language."""
    chance = random.Random(seed)
    letters = "etaoinshrdlucmfwypvbgk"
    names = list({*heavy.WORDS, "the", "a", "of", "to", "and", "in"})
    known = set(names)
    while len(names) < WORDS:
        word = "".join(chance.choices(letters, k=min(12, 3 + int(len(names) ** 0.18))))
        if word not in known:
            known.add(word)
            names.append(word)
    weights = list(
        itertools.accumulate((rank + ZIPF_SHIFT) ** -ZIPF_EXPONENT for rank in range(len(names)))
    )
    return " ".join(chance.choices(names, cum_weights=weights, k=PAGE_WORDS))


def measure(root: Path, work: Path) -> bool:
    """Scan and index a folder, search in it, print the figures; say whether the budgets hold."""
    store = work / "store.db"
    with closing(Writer(store)) as writer:
        collector = Collector(ClaudeFolder(root), writer, ScanOutcome())
        start = time.perf_counter()
        collector.scan()
        scanned = time.perf_counter() - start
        start = time.perf_counter()
        collector.post_scan_jobs.index_all_turns()
        indexed = time.perf_counter() - start
    files = sorted((root / "projects").rglob("*.jsonl"))
    total = sum(file.stat().st_size for file in files)
    texts = [text for file in files for each in iter_entries(file) if (text := searched_text(each))]
    text_bytes = sum(len(text.encode()) for text in texts)
    with closing(open_reader(store)) as db:
        index = search_index_size(db)
        share = index.size / text_bytes
        print(
            f"{root.name}: {len(files):,} transcripts, {total / 1e6:,.1f} MB,"
            f" {len(texts):,} prompts and answers of {text_bytes / 1e6:,.2f} MB\n"
            f"  scan {scanned:.1f} s, then the index {indexed:.1f} s: {index.size / 1e6:,.2f} MB,"
            f" {share:.1%} of the prompts' and answers' bytes,"
            f" {index.size / total:.2%} of the transcripts' bytes;"
            f" {_empty_bytes(db):,} bytes are empty parts of pages"
        )
        most = 0.0
        for name, queries in kinds_of_queries(texts):
            first, every = (
                [_time_search(db, root, typed, turns) for typed in queries]
                for turns in (FIRST_TURNS, None)
            )
            most = max(most, _p95([each[1] for each in first]))
            match = parse_turn_query(queries[0], 0).fts_match
            found = sum(1 for _ in find_blocks(db, match, None, None))
            print(
                f"  {name:<24} first results {_times(first)}; all {_times(every)}"
                f"   {queries[0]!r}: {found:,} blocks"
            )
    return most < BUDGET_MS and share <= BUDGET_SHARE


def _empty_bytes(db: Connection) -> int:
    """Count the bytes of the index's pages that hold nothing: at least some in each table."""
    sql = """SELECT SUM(unused) FROM dbstat WHERE aggregate = TRUE
        AND (name GLOB 'search_fts*' OR name = 'searched_block')"""
    return int(db.execute(sql).fetchone()[0])


def _p95(spans: list[float]) -> float:
    return statistics.quantiles(spans, n=20)[-1]


def _times(spans: list[tuple[float, float]]) -> str:
    median = statistics.median(wall for wall, _ in spans)
    wall, cpu = _p95([each[0] for each in spans]), _p95([each[1] for each in spans])
    return f"median {median:5.1f} ms, p95 {wall:6.1f} ms (CPU {cpu:6.1f} ms)"


def _time_search(
    db: Connection, root: Path, typed: str, max_turns: int | None
) -> tuple[float, float]:
    """Search once; return wall and CPU time in ms, which differ on a busy machine."""
    start, began = time.perf_counter(), time.process_time()
    search_turns(db, ClaudeFolder(root), parse_turn_query(typed, 0), {}, RESULTS, max_turns)
    return (time.perf_counter() - start) * 1000, (time.process_time() - began) * 1000


def kinds_of_queries(texts: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield what people search for: words of every frequency, several, phrases, beginnings."""
    counts: dict[str, int] = {}
    for text in texts:
        for word in {*split_words(text)}:
            counts[word] = counts.get(word, 0) + 1
    words = sorted(counts, key=lambda word: (-counts[word], word))
    common, rare = words[:QUERIES], words[-QUERIES:]
    middle = words[len(words) // 20 :][:QUERIES]
    chance = random.Random(1)
    pairs = [chance.choice(texts).split() for _ in range(QUERIES)]
    yield "a common word", [f"{word} " for word in common]
    yield "a word", [f"{word} " for word in middle]
    yield "a rare word", [f"{word} " for word in rare]
    yield "two common words", [f"{a} {b} " for a, b in itertools.pairwise([*common, common[0]])]
    yield "a phrase of two words", [f'"{" ".join(each[:2])}"' for each in pairs]
    yield "a phrase that is nowhere", [f'"{a} {a} {b}"' for a, b in zip(common, rare, strict=True)]
    yield "one letter", list("etaoinshrdlucmfwypvbgkxjq")[:QUERIES]
    yield "a word that is nowhere", [f"zzq{number}x" for number in range(QUERIES)]


def run(words: list[str]) -> int:
    """Measure the given folders, or one of so many megabytes; 1 where a budget is exceeded."""
    roots = [Path(word) for word in words if not word.isdecimal()]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if not roots:
            megabytes = int(words[0]) if words else MEGABYTES
            roots = [work / f"generated-{megabytes}"]
            heavy.make(roots[0], megabytes / WHOLE_MEGABYTES, page=page())
        held = []
        for number, root in enumerate(roots):
            (work / str(number)).mkdir()
            held.append(measure(root, work / str(number)))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
