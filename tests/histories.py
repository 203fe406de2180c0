"""Random histories: what may happen to a folder of transcripts, and who looks at it meanwhile."""

from __future__ import annotations

import os
import shutil
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from ctxtop.collectors import collector_thread
from ctxtop.collectors.claude_code import reader_pool, tail
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.store.writer import GONE_SIZE, Writer
from hypothesis import strategies as st

from .recorder import Recorder
from .transcripts import (
    PROJECT,
    SESSION,
    agent_result,
    assistant,
    attachment,
    boundary,
    chained,
    encode,
    launch,
    launched,
    notification,
    notification_text,
    refusal,
    summary,
    text,
    time,
    tool,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctxtop.collectors.collector_thread import StoredChange
    from ctxtop.core.model.transcript_records import SourceFile, TailState, TranscriptRecords

OTHER: Final = "22222222-2222-4333-8444-555555555555"
PROJECTS: Final = (PROJECT, "-home-dev-other")
FILES: Final = (
    f"{PROJECTS[0]}/{SESSION}.jsonl",
    f"{PROJECTS[0]}/{SESSION}/subagents/agent-a1.jsonl",
    f"{PROJECTS[0]}/agent-old.jsonl",
    f"{PROJECTS[0]}/{OTHER}.jsonl",
    f"{PROJECTS[0]}/{SESSION}/subagents/workflows/wf_1/journal.jsonl",
    f"{PROJECTS[1]}/{SESSION}.jsonl",
    f"{PROJECTS[1]}/{SESSION}/subagents/agent-a1.jsonl",
    f"{PROJECTS[1]}/agent-old.jsonl",
)

LONGEST: Final = 20_000
"""Bytes of a line, in place of 64 MiB; every block is smaller."""
WHOLE_BLOCK: Final = 16_384
"""What the clean look reads at once: most files whole."""
ANCHOR: Final = 1024 * 1024
"""In place of 4 KiB: a change in place far before the end, of the same length, may go unseen
where the file grew before the next look. So the histories' files are hashed whole."""
START_NS: Final = 1_795_168_800_000_000_000

ASIDE: Final = user("look around", at=7, isSidechain=True)
STEP: Final = assistant("p1", 700, output=2, at=8, content=[tool("Bash", "toolu_a")])
STEPS: Final = {"type": "agent_progress", "agentId": "a1", "message": STEP}
FORK: Final[dict[str, Any]] = {
    "sessionId": OTHER,
    "forkedFrom": {"sessionId": SESSION, "messageUuid": "u"},
}

LINES: Final = tuple(
    encode([line])
    for line in (
        user("fix the parser", at=4),
        user("an earlier prompt", at=1),
        user() | {"timestamp": None},
        assistant("m1", 1000, output=1, at=5),
        assistant("m1", 1000, output=90, at=5),
        assistant("m1", 400, output=30, at=6, model="claude-opus-4-6"),
        assistant("m2", 2000, at=6),
        assistant("m3", 900, at=6, isSidechain=True),
        launch("t1", at=7),
        launched("t1", "a1", at=7),
        agent_result("t1", "a1", "found two commas", at=8),
        notification("a1", "found three commas", at=9),
        boundary(at=10, postTokens=300),
        boundary(at=11, uuid="b", postTokens=900),
        boundary(at=12, uuid="b", postTokens=800),
        summary("kept commas"),
        refusal("prompt is too long: 7 tokens > 5 maximum"),
        user("Return it as [COMPRESSED]", at=5),
        user("<command-name>compress-output</command-name> [COMPRESSED]", isMeta=True, at=5),
        user("Stop hook feedback:\n[check]: again", isMeta=True, at=6),
        assistant("m7", 1200, at=7, content=[text("[COMPRESSED] agent_type: x")]),
        b'{"type":"user","message":{"role":"user","content":"[COMPRESSED] \xff"}}',
        {"type": "custom-title", "customTitle": "commas"},
        {"type": "ai-title", "aiTitle": "dots", "sessionId": SESSION},
        {"type": "summary", "summary": "dashes", "leafUuid": "x"},
        {"type": "last-prompt", "lastPrompt": "go on"},
        {"type": "of-tomorrow"},
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {"a": 1}},
        ASIDE,
        assistant("m4", 950, at=8, isSidechain=True, parentUuid=ASIDE["uuid"]),
        assistant("m5", 1000, at=8, content=[tool("Bash", "t8")]),
        assistant("m5", 1000, at=8, content=[tool("Read", "t9")], requestRef="r1"),
        assistant("m5", 1000, at=8, content=[tool("Read", "t9"), tool("Bash", "t8")]),
        assistant("m6", 1100, at=9, content=[text("first part")]),
        assistant("m6", 1100, at=9, content=[text("second part")]),
        chained("progress", at=8, data=STEPS, parentToolUseID="t1"),
        attachment("model", identity={"modelId": "claude-opus-4-6"}),
        attachment("queued_command", prompt=notification_text("a1", "found a third")),
        user("from another", sessionId=OTHER),
        user("forked", at=2, **FORK),
        assistant("m2", 2000, at=6, **FORK),
        {"type": "continued-in", "continuedInSessionId": "x", "timestamp": time(12)},
        {"type": "queue-operation", "content": notification_text("a1", "found three commas")},
        {"type": "api-request-blob", "sessionId": SESSION, "hash": "h", "message": {}},
        {"type": "api-request-shape", "sessionId": SESSION, "id": "r1", "tools": []},
        {"type": "api-request", "sessionId": SESSION, "id": "r1", "keep": 0, "tail": ["h"]},
        {"type": "result", "agentId": "a1", "key": "k", "result": "done in a workflow"},
        user("a lone surrogate \ud800 and a NUL \x00, a line's end \u2028 in the line", at=3),
        '{"type":"user","message":{"role":"user","content":"raw \u2028 \u2029 \x85"}}'.encode(),
        b'{"type":"user","message":{"role":"user","content":"no \xff UTF-8"}}',
        b'{"type":"custom-title","customTitle":"half a pair \xed\xa0\x80"}',
        b'{"type":"user","torn',
        b'{"type":"user","message":7}',
        b"[1,2]",
        b"\0" * 40,
        b'\0\0{"type":"of-a-crash"}\r',
        b'{"type":"user","message":{"role":"user","content":"a \0 inside"}}',
        b'{"type":"ai-title","aiTitle":"' + b"y" * (LONGEST + 1) + b'"}',
    )
)

BLOCKS: Final = (64, 300, 1000, WHOLE_BLOCK)
COMMITS: Final = (1, 600, 64 * 1024 * 1024)

Step = tuple[str, str, Any]
"""What happens, to which file, and with what."""


class History(NamedTuple):
    """How much is read and committed at once, and all that happens."""

    block_bytes: int
    commit_bytes: int
    steps: list[Step]


_lines = st.lists(st.sampled_from(LINES), min_size=1, max_size=6).map(b"".join)
_file = st.sampled_from(FILES)
_place = st.integers(0, 40)
_nothing = st.just(None)


def _step(name: str, *, given: st.SearchStrategy[Any] = _nothing) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), _file, given)


histories: Final = st.builds(
    History,
    st.sampled_from(BLOCKS),
    st.sampled_from(COMMITS),
    st.lists(
        st.one_of(
            _step("append", given=_lines),
            _step("append", given=_lines),
            _step("append_crlf", given=_lines),
            _step("append_again", given=_place),
            _step("tear", given=st.tuples(st.sampled_from(LINES), st.integers(1, 200))),
            _step("complete"),
            _step("rewrite", given=_lines),
            _step("replace", given=_lines),
            _step("remove_line", given=_place),
            _step("change_in_place", given=_place),
            _step("truncate", given=st.integers(0, 900)),
            _step("delete"),
            _step("put_back"),
            _step("fork", given=_file),
            _step("move"),
            _step("move_project"),
            _step("kill", given=st.integers(1, 12)),
            _step("scan"),
            _step("scan"),
            _step("told"),
        ),
        min_size=3,
        max_size=30,
    ),
)


class _KilledError(BaseException):
    """The collector's process is no more."""


class _MortalWriter(Writer):
    """A writer whose process ends at one of its steps."""

    steps_left = 0

    def _live_on(self) -> None:
        self.steps_left -= 1
        if not self.steps_left:
            raise _KilledError

    def _insert(self, file_id: int, facts: TranscriptRecords) -> None:
        self._live_on()
        super()._insert(file_id, facts)
        self._live_on()

    def restart(self, source: SourceFile, before: TailState) -> None:
        super().restart(source, before)
        self._live_on()

    def mark_gone(self, path: str) -> None:
        super().mark_gone(path)
        self._live_on()

    def drop(self) -> None:
        """Close the connection as a killed process would: no commit, no cleanup."""
        self.connection.close()


class _Ear(Recorder):
    """Hears of a commit after it was made, where the process may end as well."""

    def __init__(self, writer: _MortalWriter) -> None:
        super().__init__()
        self.writer = writer

    def on_change(self, change: StoredChange) -> None:
        self.writer._live_on()


class Folder:
    """A folder that changes, and a collector that looks now and then."""

    def __init__(self, place: Path, empty_store: Path) -> None:
        self.claude = ClaudeFolder(place / "claude")
        self.claude.projects.mkdir(parents=True)
        self.store = place / "kept.db"
        shutil.copyfile(empty_store, self.store)
        self._rest: dict[str, bytes] = {}
        self._deleted: dict[str, bytes] = {}
        self._now_ns = START_NS
        self._start()

    def _start(self) -> None:
        self._writer = _MortalWriter(self.store)
        self._writer.connection.execute("PRAGMA synchronous = OFF")
        self.collector = Collector(self.claude, self._writer, _Ear(self._writer))

    def end(self) -> set[str]:
        """Look twice, as the watcher does in the end, and close; name what is said to be gone."""
        self.collector.scan()
        self.collector.scan()
        known = self._writer.files()
        self._writer.close()
        return {path for path, (_, tail) in known.items() if tail.size == GONE_SIZE}

    def drop(self) -> None:
        """Close whatever state it is in."""
        self._writer.drop()

    def step(self, name: str, file: str, given: Any) -> None:  # noqa: ANN401 -- as the step's name says
        """Run the step called `name`: the method `_name`, with `given` as its argument."""
        happens: Callable[[str, Any], None] = getattr(self, f"_{name}")
        happens(file, given)

    def _scan(self, _: str, __: None) -> None:
        self.collector.scan()

    def _told(self, file: str, _: None) -> None:
        # What the system tells of: files that are known, and folders that hold others.
        path = self.claude.projects / file
        if self.collector.is_known(file):
            self.collector.index_paths([path])
        self.collector.scan_below(path.parent)

    def _kill(self, _: str, steps: int) -> None:
        self._writer.steps_left = steps
        with suppress(_KilledError):
            self.collector.scan()
        self._writer.drop()
        self._start()

    def _append(self, file: str, data: bytes) -> None:
        self._write(file, self._read(file) + data)

    def _append_crlf(self, file: str, data: bytes) -> None:
        self._append(file, data.replace(b"\n", b"\r\n"))

    def _append_again(self, file: str, lines: int) -> None:
        old = self._read(file).splitlines(keepends=True)
        self._append(file, b"".join(line for line in old[:lines] if line.endswith(b"\n")))

    def _tear(self, file: str, torn: tuple[bytes, int]) -> None:
        line, at = torn
        self._append(file, line[:at].rstrip(b"\n"))
        self._rest[file] = line[at:]

    def _complete(self, file: str, _: None) -> None:
        self._append(file, self._rest.pop(file, b""))

    def _rewrite(self, file: str, data: bytes) -> None:
        self._write(file, data)

    def _replace(self, file: str, data: bytes) -> None:
        path = self._path(file)
        other = path.with_suffix(".new")
        other.write_bytes(data)
        other.replace(path)
        self._stamp(path)

    def _remove_line(self, file: str, number: int) -> None:
        old = self._read(file).splitlines(keepends=True)
        if old:
            del old[number % len(old)]
        self._write(file, b"".join(old))

    def _change_in_place(self, file: str, number: int) -> None:
        # Digits for digits: the length stays.
        swap = bytes.maketrans(b"123456789", b"234567891")
        old = self._read(file).splitlines(keepends=True)
        if old:
            old[number % len(old)] = old[number % len(old)].translate(swap)
        self._write(file, b"".join(old))

    def _truncate(self, file: str, size: int) -> None:
        self._write(file, self._read(file)[:size])

    def _delete(self, file: str, _: None) -> None:
        self._deleted[file] = self._read(file)
        self._path(file).unlink(missing_ok=True)

    def _put_back(self, file: str, _: None) -> None:
        if file in self._deleted:
            self._write(file, self._deleted.pop(file))

    def _fork(self, file: str, other: str) -> None:
        copied = self._read(file).replace(SESSION.encode(), OTHER.encode())
        self._write(other, copied)

    def _move(self, file: str, _: None) -> None:
        path = self.claude.projects / file
        project, below = file.split("/", 1)
        if path.exists():
            other = PROJECTS[1 - PROJECTS.index(project)]
            path.replace(self._path(f"{other}/{below}"))

    def _move_project(self, _: str, __: None) -> None:
        first, second = (self.claude.projects / name for name in PROJECTS)
        aside = first.with_name("-aside")
        for old, new in ((first, aside), (second, first), (aside, second)):
            if old.exists():
                old.rename(new)

    def _path(self, file: str) -> Path:
        path = self.claude.projects / file
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _read(self, file: str) -> bytes:
        path = self.claude.projects / file
        return path.read_bytes() if path.exists() else b""

    def _write(self, file: str, data: bytes) -> None:
        path = self._path(file)
        with path.open("r+b" if path.exists() else "wb") as opened:
            opened.write(data)
            opened.truncate()
        self._stamp(path)

    def _stamp(self, path: Path) -> None:
        # The system's own times are coarse: two writes of one size could look the same.
        self._now_ns += 1_000_000_000
        os.utime(path, ns=(self._now_ns, self._now_ns))


@contextmanager
def cut(block_bytes: int, commit_bytes: int) -> Iterator[None]:
    """Read files in blocks of `block_bytes` and commit in batches of `commit_bytes`."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(collector_thread, "COMMIT_BYTES", commit_bytes)
        patched.setattr(tail, "ANCHOR_BYTES", ANCHOR)
        patched.setattr(tail, "MAX_LINE_BYTES", LONGEST)
        patched.setattr(tail, "BLOCK_BYTES", WHOLE_BLOCK)
        read_tail = partial(tail.read_tail, block_bytes=block_bytes)
        patched.setattr(reader_pool, "read_tail", read_tail)
        yield


def look_once(claude: ClaudeFolder, store: Path, empty_store: Path | None = None) -> None:
    """Read a folder as it is into a store of its own."""
    if empty_store:
        shutil.copyfile(empty_store, store)
    with closing(Writer(store)) as writer, cut(WHOLE_BLOCK, COMMITS[-1]):
        writer.connection.execute("PRAGMA synchronous = OFF")
        Collector(claude, writer, Recorder()).scan()
