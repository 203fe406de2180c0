"""What it costs to measure contexts from the store: one session, and a thousand.

Window and trigger by evidence, the four numbers, level and forecast of each. The store is
made of a thousand sessions of 100 answers each, by itself, without transcripts.
Usage: python -m tests.bench.bench_measure [sessions] [answers]
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxtop.core.model.transcript_records import (
    BoundaryRecord,
    FileKind,
    ResponseRecord,
    SessionRecord,
    SourceFile,
    TailState,
    TranscriptRecords,
)
from ctxtop.core.readers import fleet_reader
from ctxtop.core.readers.fleet_reader import FleetReader
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

MODELS: Final = ("claude-opus-5-5", "claude-haiku-4-5", "claude-sonnet-4-6", "my-own-model")
NOW_MS: Final = 1_795_168_800_000
ONE_MS: Final = 5.0
ALL_S: Final = 1.0


def fill_store(writer: Writer, sessions: int, answers: int) -> list[str]:
    """Store sessions that grow, and are compacted, as a heavy user's do."""
    source = random.Random(7)
    names: list[str] = []
    with writer.transaction():
        for number in range(sessions):
            name = f"{number:08x}-0000-4000-8000-000000000000"
            names.append(name)
            file = SourceFile(f"-p/{name}.jsonl", FileKind.SESSION, "-p", name)
            after = TailState(offset=answers * 2000, anchor="x", size=1, mtime_ns=number)
            writer.append(file, TailState(), after, facts_of(source, answers, number))
    return names


def facts_of(source: random.Random, answers: int, number: int) -> TranscriptRecords:
    """One session's answers, and a boundary wherever it came to 167,000 tokens."""
    model = MODELS[number % len(MODELS)]
    tokens, responses, boundaries = 20_000, list[ResponseRecord](), list[BoundaryRecord]()
    for turn in range(answers):
        offset = turn * 2000
        tokens += int(source.lognormvariate(6.5, 1.2))
        if tokens > 167_000:
            uuid = f"{number}-{turn}"
            boundaries.append(
                BoundaryRecord(offset + 1, uuid, NOW_MS, "auto", tokens, 9_000, 1, 1, 2)
            )
            tokens = 25_000
        at = NOW_MS + turn * 20_000
        message = f"msg_{number}_{turn}"
        counts = (3, 500, tokens - 503, 400, tokens)
        responses.append(ResponseRecord(offset, offset, message, at, model, *counts, False))
    return TranscriptRecords(
        lines=answers,
        session=SessionRecord(NOW_MS, NOW_MS, NOW_MS, None, "/home/dev/shop", "2.1.329"),
        responses=tuple(responses),
        boundaries=tuple(boundaries),
    )


def median_ms(what: Callable[[], object], runs: int) -> float:
    """Milliseconds that something takes, the middle of several runs."""
    took: list[float] = []
    for _ in range(runs):
        began = time.perf_counter()
        what()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def show(db: sqlite3.Connection, names: list[str]) -> None:
    """Print what it costs to measure all, one of them, and one that changed while we watch."""
    whole = median_ms(lambda: fleet_reader.read_sessions(db, NOW_MS), 3)
    reader = FleetReader(db, NOW_MS)
    reader.read(None, NOW_MS)
    one = median_ms(lambda: fleet_reader.read_sessions(db, NOW_MS, [names[-1]]), 50)
    changed = median_ms(lambda: reader.read([names[-1]], NOW_MS), 50)
    for what, took, most in (
        (f"{len(names):,} sessions", whole, ALL_S * 1000),
        ("one session, by itself", one, ONE_MS),
        ("one session of a dashboard", changed, ONE_MS),
    ):
        print(f"{what:28}{took:10.2f} ms{took / most:8.2f} of {most:,.0f} ms")


def main() -> None:
    """Make the store, measure, and print."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    answers = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "store.db"
        with closing(Writer(store)) as writer:
            names = fill_store(writer, sessions, answers)
        with closing(open_reader(store)) as db:
            show(db, names)


if __name__ == "__main__":
    main()
