"""How much of a context its breakdown leaves unexplained: right after compactions, and otherwise.

A context is taken apart as it was at the first answer after each compaction, and at the newest
answer. What is put together from recorded requests is left out: all of its parts are known, and in
the corpus their counts are made up.
Usage: python -m tests.bench.bench_breakdown [start of an id], with CTXTOP_SHARED naming the shared
folder; a session's breakdowns are printed with their parts.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ctxtop.collectors.claude_code.transcript_details import (
    TranscriptUnavailableError,
    read_composition,
)
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.store_update import ScanOutcome
from ctxtop.core.measure.composition import CompositionSource
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript.entry_decoder import read_entries

from .recordings import as_config, is_session, shared_folder, too_few

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from ctxtop.core.measure.composition import Composition

WANTED: Final = {"after a compaction": 0.05, "otherwise": 0.02}
"""The most that may be unexplained."""


class Breakdown(NamedTuple):
    session_id: str
    when: str
    composition: Composition

    @property
    def share(self) -> float:
        found = self.composition
        return found.unexplained_tokens / found.total_tokens if found.total_tokens else 0.0


def answers_of(path: Path) -> Iterator[tuple[str, int]]:
    """Yield when an answer came, and the offset of its last line."""
    entries = [each for each in read_entries(path) if not each.sidechain]
    boundaries = [each.offset for each in entries if each.boundary]
    ends: dict[str, int] = {}
    starts: dict[str, int] = {}
    for each in entries:
        if each.message_id and each.context_tokens:
            ends[each.message_id] = each.offset
            starts.setdefault(each.message_id, each.offset)
    firsts = {
        next((name for name, start in starts.items() if start > offset), None)
        for offset in boundaries
    }
    yield from (("after a compaction", ends[name]) for name in ends if name in firsts)
    newest = next(reversed(ends), None)
    if newest and newest not in firsts:
        yield "otherwise", ends[newest]


def breakdowns(db: sqlite3.Connection, projects: Path, wanted: str) -> Iterator[Breakdown]:
    for path in sorted(projects.glob("*/*.jsonl")):
        if not is_session(path) or not path.stem.startswith(wanted):
            continue
        for when, offset in answers_of(path):
            try:
                found = read_composition(db, projects, path.stem, until_offset=offset)
            except TranscriptUnavailableError:
                continue
            is_reconstructed = found.source is CompositionSource.PROJECTION
            if is_reconstructed and not found.estimated:
                yield Breakdown(path.stem, when, found)


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory() as scratch:
        folder = ClaudeFolder(as_config(shared_folder(), Path(scratch)).resolve())
        store = Path(scratch) / "store.db"
        with closing(Writer(store)) as writer:
            Collector(folder, writer, ScanOutcome()).scan()
        with closing(open_reader(store)) as db:
            found = list(breakdowns(db, folder.projects, wanted))
    if not found:
        print(too_few(shared_folder(), "sessions with answers are", 0))
        return
    for when, most in WANTED.items():
        shares = sorted(each.share for each in found if each.when == when)
        if shares:
            within = sum(share <= most for share in shares)
            print(
                f"{when:20} {len(shares):3} answers: unexplained median"
                f" {statistics.median(shares):.1%}, p90 {shares[len(shares) * 9 // 10]:.1%},"
                f" worst {shares[-1]:.1%}; {within} within {most:.0%}"
            )
    for each in sorted(found, key=lambda each: -each.share)[: len(found) if wanted else 10]:
        total = each.composition.total_tokens
        print(f"  {each.session_id[:8]} {each.when:20} {each.share:6.1%} of {total:,}")
        if wanted:
            for part in each.composition.categories:
                print(f"      {part.name:24} {part.tokens:8,} {part.share:6.1%}")


if __name__ == "__main__":
    main()
