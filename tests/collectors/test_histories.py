"""Whatever happens to the files, the rows end as those of one clean look at them."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxtop.collectors.collect import Collector
from ctxtop.collectors.folder import ClaudeFolder
from ctxtop.core.store.writer import Writer
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from ..dump import FILE_STATE, dump
from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    agent_result,
    assistant,
    boundary,
    chained,
    encode,
    launch,
    notification,
    notification_text,
    refusal,
    summary,
    time,
    tool,
    user,
)

if TYPE_CHECKING:
    from ..dump import Rows

FILES: Final = (
    f"{PROJECT}/{SESSION}.jsonl",
    f"{PROJECT}/{SESSION}/subagents/agent-a1.jsonl",
    f"{PROJECT}/agent-old.jsonl",
)

ASIDE: Final = user("look around", at=7, isSidechain=True)
STEP: Final = assistant("p1", 700, output=2, at=8, content=[tool("Bash", "toolu_a")])
STEPS: Final = {"type": "agent_progress", "agentId": "a1", "message": STEP}

LINES: Final = tuple(
    encode([line])
    for line in (
        user("fix the parser", at=4),
        user("an earlier prompt", at=1),
        user() | {"timestamp": None},
        assistant("m1", 1000, output=1, at=5),
        assistant("m1", 1000, output=90, at=5),
        assistant("m2", 2000, at=6),
        assistant("m3", 900, at=6, isSidechain=True),
        launch("t1", at=7),
        agent_result("t1", "a1", "found two commas", at=8),
        notification("a1", "found three commas", at=9),
        boundary(at=10, postTokens=300),
        summary("kept commas"),
        refusal("prompt is too long: 7 tokens > 5 maximum"),
        {"type": "custom-title", "customTitle": "commas"},
        {"type": "of-tomorrow"},
        ASIDE,
        assistant("m4", 950, at=8, isSidechain=True, parentUuid=ASIDE["uuid"]),
        assistant("m5", 1000, at=8, content=[tool("Bash", "t8")]),
        assistant("m5", 1000, at=8, content=[tool("Read", "t9")], requestRef="r1"),
        chained("progress", at=8, data=STEPS, parentToolUseID="t1"),
        user("from another", sessionId="22222222-2222-4333-8444-555555555555"),
        {"type": "continued-in", "continuedInSessionId": "x", "timestamp": time(12)},
        {"type": "queue-operation", "content": notification_text("a1", "found three commas")},
        {"type": "api-request-blob", "sessionId": SESSION, "hash": "h", "message": {}},
        {"type": "api-request", "sessionId": SESSION, "id": "r1", "keep": 0, "tail": ["h"]},
        b'{"type":"user","torn',
    )
)

lines = st.lists(st.sampled_from(LINES), min_size=1, max_size=6).map(b"".join)
files = st.sampled_from(FILES)
steps = st.one_of(
    st.tuples(st.just("append"), files, lines),
    st.tuples(st.just("append"), files, lines),
    st.tuples(st.just("torn"), files, st.sampled_from(LINES)),
    st.tuples(st.just("complete"), files, st.just(b"")),
    st.tuples(st.just("rewrite"), files, lines),
    st.tuples(st.just("replace"), files, lines),
    st.tuples(st.just("truncate"), files, st.integers(0, 600).map(lambda size: b"x" * size)),
    st.tuples(st.just("delete"), files, st.just(b"")),
    st.tuples(st.just("restart"), files, st.just(b"")),
    st.tuples(st.just("scan"), files, st.just(b"")),
    st.tuples(st.just("told"), files, st.just(b"")),
)


class _History:
    """A folder that changes, and a collector that looks now and then."""

    def __init__(self, place: Path) -> None:
        self.folder = ClaudeFolder(place / "claude")
        self.folder.projects.mkdir(parents=True)
        self.store = place / "kept.db"
        self.rest: dict[str, bytes] = {}
        self.now_ns = 1_795_168_800_000_000_000
        self.start()

    def start(self) -> None:
        self.writer = Writer(self.store)
        self.collector = Collector(self.folder, self.writer, Recorder())

    def step(self, name: str, file: str, data: bytes) -> None:
        path = self.folder.projects / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "restart":
            self.writer.close()
            self.start()
        elif name == "scan":
            self.collector.scan()
        elif name == "told":
            # Changes that the system tells of, of files that are known and of others.
            if self.collector.knows(file):
                self.collector.take_paths([path])
            self.collector.look_below(path.parent)
        elif name == "delete":
            path.unlink(missing_ok=True)
        elif name == "replace":
            other = path.with_suffix(".new")
            other.write_bytes(data)
            other.replace(path)
            self._stamp(path)
        else:
            self._edit(name, path, data)
            self._stamp(path)

    def _stamp(self, path: Path) -> None:
        # The system's own times are coarse: two writes of one size could look the same.
        self.now_ns += 1_000_000_000
        os.utime(path, ns=(self.now_ns, self.now_ns))

    def _edit(self, name: str, path: Path, data: bytes) -> None:
        old = path.read_bytes() if path.exists() else b""
        if name == "append":
            new = old + data
        elif name == "torn":
            new, self.rest[str(path)] = old + data[:9], data[9:]
        elif name == "complete":
            new = old + self.rest.pop(str(path), b"")
        elif name == "truncate":
            new = old[: len(data)]
        else:
            new = data
        with path.open("r+b" if path.exists() else "wb") as file:
            file.write(new)
            file.truncate()


def without_gone(rows: Rows, gone: set[str]) -> Rows:
    """Leave out what files say that are no longer there."""
    return {
        name: [row for row in found if not gone.intersection(map(str, row))]
        for name, found in rows.items()
        if name not in {"trouble", "words"}
    }


def says_something(path: Path) -> bool:
    """A file of the old layout is none before its first line names its session."""
    if path.name.startswith("agent-old"):
        return path.exists() and b"\n" in path.read_bytes()
    return path.exists()


def scanned(folder: ClaudeFolder, store: Path) -> None:
    with closing(Writer(store)) as writer:
        Collector(folder, writer, Recorder()).scan()


@settings(
    max_examples=200,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(steps, max_size=25))
def test_rows_are_those_of_one_clean_look(history: list[tuple[str, str, bytes]]) -> None:
    place = Path(tempfile.mkdtemp())
    try:
        kept = _History(place)
        for step in history:
            note(f"{step[0]} {step[1]} {len(step[2])}")
            kept.step(*step)
        kept.collector.scan()
        kept.collector.scan()
        kept.writer.close()
        scanned(kept.folder, place / "clean.db")
        there = {file for file in FILES if says_something(kept.folder.projects / file)}
        found = without_gone(dump(kept.store, FILE_STATE), {*FILES} - there)
        clean = without_gone(dump(place / "clean.db", FILE_STATE), set())

        assert found == clean
    finally:
        shutil.rmtree(place)
