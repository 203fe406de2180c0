"""How right ctxtop's numbers are on the recorded sessions, beside the rules of other tools.

Each session is cut where the client itself then said the truth, so that ctxtop sees no more
than it would have seen at that moment: before each automatic compaction its counter is
compared with `preTokens`; before the evidence for its window with what that evidence says.
Reads the corpus of the folder that CTXTOP_SHARED names (../shared beside the repository where
it names none), or any sessions in it, and changes nothing there.
Usage: python -m tests.bench.bench_accuracy
"""

from __future__ import annotations

import json
import statistics
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.readers import fleet_reader
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from .bench_told import print_detection
from .peers import FORMULAS, LARGE, SMALL, WINDOW_RULES, Row, whole
from .recordings import recordings, shared_folder, too_few

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctxtop.core.model.context import Context

Json = dict[str, Any]

LAST_SMALL: Final = (150_000, 180_000)
"""An automatic compaction between these is one of a window of 200,000: of a larger one the
trigger is elsewhere, whatever the version (peers 0.2)."""

FIRST_LARGE: Final = 200_000


class Answer(NamedTuple):
    """One line of an answer, and its model and output."""

    row: Row
    model: str
    output: int


class Truth(NamedTuple):
    """What the client said of a session's window, where, and by what."""

    window: int
    line: int
    """What stands before it does not know yet."""
    by: str


def main() -> None:
    """Print the figures."""
    shared = shared_folder()
    paths = recordings(shared)
    if not paths:
        print(too_few(shared, "a recorded session is", 0))
        return
    files = {path: path.read_bytes().splitlines(keepends=True) for path in paths}
    print_counters(files)
    print_windows(files, shown_windows(shared / "corpus" / "current" / "statusline.jsonl"))
    print_detection(paths)


def print_counters(files: dict[Path, list[bytes]]) -> None:
    """Print how far each number is from the client's own, just before automatic compactions."""
    ours: list[int] = []
    theirs: dict[str, list[int]] = {formula.name: [] for formula in FORMULAS}
    print("\njust before each automatic compaction, beside the client's own preTokens")
    for path, lines in files.items():
        for number, boundary in automatic(lines):
            context = measured(path, lines[:number])
            if context is None:
                continue
            told = context.token_counts.counter or 0
            ours.append(told - boundary["preTokens"])
            print(f"  {path.stem[:13]}  {boundary['preTokens']:>8,}  counter {told:>8,}")
            answers = list(read_answers(lines[:number]))
            if not answers:
                # A file that begins at its boundary has none: no formula has anything to add.
                continue
            for formula in FORMULAS:
                last = answers[-1]
                theirs[formula.name].append(
                    formula.tokens(last.row, last.output) - boundary["preTokens"]
                )
    print(f"{'':52}{'mean':>9}{'median':>9}{'worst':>10}")
    print_errors("the compaction counter (ctxtop)", ours)
    for name, errors in theirs.items():
        print_errors(name, errors)


def print_errors(name: str, errors: Sequence[int]) -> None:
    """Print the absolute errors of one rule, in tokens."""
    if not errors:
        print(f"{name:<52}no automatic compaction")
        return
    off = [abs(error) for error in errors]
    print(f"{name:<52}{statistics.mean(off):>9,.0f}{statistics.median(off):>9,.0f}{max(off):>10,}")


def print_windows(files: dict[Path, list[bytes]], shown: dict[str, int]) -> None:
    """Print how often each rule knows the window, before its evidence and with it."""
    rules = ["ctxtop", *(rule.name for rule in WINDOW_RULES)]
    right = {name: [0, 0] for name in rules}
    known = 0
    for path, lines in files.items():
        truth = window_truth(lines, shown.get(path.stem))
        if truth is None:
            continue
        known += 1
        for place, part in enumerate((lines[: truth.line], lines)):
            context = measured(path, part)
            right["ctxtop"][place] += context is not None and context.window.tokens == truth.window
            answers = list(read_answers(part))
            model = answers[-1].model if answers else ""
            peak = max((whole(answer.row) for answer in answers), default=0)
            for rule in WINDOW_RULES:
                right[rule.name][place] += rule.window(model, peak) == truth.window
    print(f"\nwindows of {known} sessions of which the client said them: status line, automatic")
    print("compaction, or more than 200,000 in use")
    print(f"{'':28}{'before it was said':>20}{'at the end':>14}")
    for name in rules:
        early, late = right[name]
        print(f"{name:<28}{f'{early} of {known}':>20}{f'{late} of {known}':>14}")


def window_truth(lines: Sequence[bytes], shown: int | None) -> Truth | None:
    """Find what the client itself said of a session's window; None where it said nothing."""
    if shown:
        return Truth(shown, len(lines), "status line")
    for number, boundary in automatic(lines):
        if LAST_SMALL[0] <= boundary["preTokens"] <= LAST_SMALL[1]:
            return Truth(SMALL, number, "automatic compaction")
    for answer in read_answers(lines):
        if whole(answer.row) > FIRST_LARGE:
            return Truth(LARGE, answer.row.line - 1, "usage")
    return None


def shown_windows(log: Path) -> dict[str, int]:
    """Read the windows that the recorded status line showed, the last one of each session."""
    found: dict[str, int] = {}
    for data in log.read_bytes().splitlines() if log.exists() else ():
        status: Json = json.loads(data)
        found[status["session_id"]] = status["context_window"]["context_window_size"]
    return found


def automatic(lines: Iterable[bytes]) -> Iterable[tuple[int, Json]]:
    """Find the automatic compactions: lines before each, and what it says."""
    for number, data in enumerate(lines):
        if b"compact_boundary" in data:
            line = decoded(data)
            metadata = line.get("compactMetadata") or {}
            if line.get("subtype") == "compact_boundary" and metadata.get("trigger") == "auto":
                yield number, metadata


def read_answers(lines: Iterable[bytes]) -> Iterable[Answer]:
    """Yield the answers of the main conversation that report usage."""
    for number, data in enumerate(lines, 1):
        line = decoded(data)
        message = line.get("message")
        if line.get("type") != "assistant" or line.get("isSidechain") or not message:
            continue
        usage = message.get("usage") or {}
        if message.get("model") != "<synthetic>" and usage:
            row = Row(
                number,
                usage.get("input_tokens") or 0,
                usage.get("cache_creation_input_tokens") or 0,
                usage.get("cache_read_input_tokens") or 0,
            )
            yield Answer(row, str(message.get("model")), usage.get("output_tokens") or 0)


def decoded(data: bytes) -> Json:
    """Read a line; empty where it is no object."""
    try:
        line = json.loads(data)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}


def measured(path: Path, lines: Sequence[bytes]) -> Context | None:
    """Measure a session whose transcript has these lines, and nothing else; None without lines."""
    with tempfile.TemporaryDirectory() as top:
        folder = ClaudeFolder(Path(top, "claude").resolve())
        place = folder.projects / "-home-dev-recorded"
        place.mkdir(parents=True)
        (place / path.name).write_bytes(b"".join(lines))
        store = Path(top, "state", "store.db")
        with closing(Writer(store)) as writer:
            Collector(folder, writer, Recorder()).scan()
        with closing(open_reader(store)) as db:
            sessions = fleet_reader.read_sessions(db, 0)
    return sessions[0].context if sessions else None


if __name__ == "__main__":
    main()
