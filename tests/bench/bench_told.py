"""What is told of the recorded sessions' compactions, and how well others would find them.

Reads the corpus of the folder that CTXTOP_SHARED names (../shared beside the repository where
it names none), says so where there is none, and changes nothing there.
Usage: python -m tests.bench.bench_told
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.model.conversation import split_segments
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import session_queries
from ctxtop.core.store.writer import Writer
from ctxtop.core.summaries.artifacts import (
    ArtifactCounts,
    Artifacts,
    collect_artifacts,
    count_artifacts,
    split_retained_and_lost,
)
from ctxtop.core.summaries.compaction_report import find_refill
from ctxtop.core.transcript.entry_decoder import read_entries

from ..recorder import Recorder
from .peers import RULES, Row, Score, add, score
from .recordings import recordings, shared_folder, too_few

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    """Print the figures."""
    shared = shared_folder()
    sessions = recordings(shared)
    if not sessions:
        print(too_few(shared, "a recorded session is", 0))
        return
    for path in sessions:
        _print_told(path)
    print_detection(sessions)


def print_detection(sessions: list[Path]) -> None:
    """Print how ctxtop and the peers' rules find the compactions of these files."""
    truth = {path: _boundaries(path) for path in sessions}
    lines = {path: _rows(path) for path in sessions}
    count = sum(map(len, truth.values()))
    print(f"\n{count} compactions in {len(sessions)} sessions")
    print(f"{'':44}{'found':>6}{'false':>6}{'precision':>11}{'recall':>8}")
    _print_score("every compact_boundary, once (ctxtop)", _own_score(truth))
    for rule in RULES:
        scores = (score(rule.spans(lines[path]), truth[path].values()) for path in sessions)
        _print_score(rule.name, add(scores))


def _print_told(path: Path) -> None:
    began = time.perf_counter()
    entries = read_entries(path)
    read = time.perf_counter() - began
    standing, first = Artifacts(), True
    for segment in split_segments([entry for entry in entries if not entry.sidechain]):
        began = time.perf_counter()
        before = collect_artifacts(segment.entries, standing)
        standing, lost = split_retained_and_lost(before, segment.summary, segment.kept)
        took = time.perf_counter() - began
        print(f"{path.name} line {segment.end.line}: read in {read:.3f} s, told in {took:.3f} s")
        for what, found in (("before", before), ("kept", standing), ("forgotten", lost)):
            print(f"  {what:<10} {_in_words(count_artifacts(found))}")
        if not first and find_refill(segment.entries, segment.boundary).is_thrash:
            print(f"  thrash     {find_refill(segment.entries, segment.boundary)}")
        first = False


def _in_words(counts: ArtifactCounts) -> str:
    names = counts.__struct_fields__
    return ", ".join(f"{getattr(counts, name)} {name}" for name in names)


def _print_score(name: str, got: Score) -> None:
    shares = [
        "–" if each is None else f"{100 * each:.0f} %" for each in (got.precision, got.recall)
    ]
    print(f"{name:<44}{got.found:>6}{got.false:>6}{shares[0]:>11}{shares[1]:>8}")


def _own_score(truth: dict[Path, dict[str, int]]) -> Score:
    """Scan copies of the sessions into a store of their own, and compare by uuid."""
    wanted = {uuid for boundaries in truth.values() for uuid in boundaries}
    with tempfile.TemporaryDirectory() as top:
        folder = ClaudeFolder(Path(top, "claude").resolve())
        for number, path in enumerate(truth):
            place = folder.projects / f"-corpus-{number}"
            place.mkdir(parents=True)
            shutil.copy(path, place)
        store = Path(top, "state", "store.db")
        with closing(Writer(store)) as writer:
            Collector(folder, writer, Recorder()).scan()
        with closing(open_reader(store)) as db:
            said = [row.uuid for row in session_queries.compactions(db)]
    found = wanted & set(said)
    return Score(len(found), len(wanted - found), len(said) - len(found))


def _boundaries(path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, line in enumerate(_decoded(path), 1):
        if line.get("subtype") == "compact_boundary":
            found.setdefault(str(line.get("uuid")), number)
    return found


def _rows(path: Path) -> list[Row]:
    rows = []
    for number, line in enumerate(_decoded(path), 1):
        message = line.get("message")
        if line.get("type") != "assistant" or not isinstance(message, dict):
            continue
        usage = message.get("usage") or {}
        rows.append(
            Row(
                number,
                usage.get("input_tokens") or 0,
                usage.get("cache_creation_input_tokens") or 0,
                usage.get("cache_read_input_tokens") or 0,
                bool(line.get("isSidechain")),
                message.get("model") == "<synthetic>",
            )
        )
    return rows


def _decoded(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for data in file:
            try:
                line = json.loads(data)
            except ValueError:
                line = {}
            yield line if isinstance(line, dict) else {}


if __name__ == "__main__":
    main()
