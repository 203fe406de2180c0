"""Saves as files and transcripts tell of them, whatever happens to either meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import closing
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.config.save_files import MAX_SAVE_FILE_BYTES
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.readers.saves_reader import read_saves
from ctxtop.core.saves.save_noise import SaveNoise, decode_noise
from ctxtop.core.saves.save_status import SaveState
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import config_queries
from ctxtop.core.store.writer import Writer

from ..dump import FILE_STATE, dump
from ..recorder import Recorder
from ..save_rows import FILE_REASON
from ..surroundings import project, put, put_save
from ..transcripts import (
    SESSION,
    START_MS,
    JsonLine,
    append,
    assistant,
    attachment,
    chained,
    encode,
    launch,
    launched,
    notification,
    text,
    tool,
    tool_result,
    user,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.saves.project_saves import ProjectSaves

S = SaveState
AT_NS = START_MS * 1_000_000
NOW = START_MS + 60_000

FILES: dict[str, dict[str, Any] | str] = {
    "triage-data.json": {"categories": [{"category": "decision"}, {"category": "runbook"}]},
    ".triage-handled": {"session_id": "a", "state": "saving", "pid": 1},
    "context-decision.txt": "what was said",
    "last-save-result.json": {"categories": ["decision"], "titles": ["Use [red]JWT[/]\x1b[31m"]},
    ".triage-pending.json": {"categories": ["runbook"], "reason": "partial_failure"},
}


@pytest.fixture
def here(claude: ClaudeFolder, tmp_path: Path) -> Path:
    """A project that a session worked in."""
    return project(claude, tmp_path / "a")


@pytest.fixture
def place(here: Path) -> Path:
    return here / ".claude/memory/.staging"


def put_at(path: Path, content: str | bytes | dict[str, Any], second: int) -> Path:
    put_save(path, content)
    written = AT_NS + second * 10**9
    os.utime(path, ns=(written, written))
    return path


def look(store: Path, folder: Path, now_ms: int = NOW) -> ProjectSaves | None:
    with closing(open_reader(store)) as db:
        report = read_saves(db, (), now_ms)
    return next((each for each in report.projects if each.project == str(folder)), None)


def state_of(store: Path, folder: Path, now_ms: int = NOW) -> SaveState:
    found = look(store, folder, now_ms)
    return found.status.state if found else S.NONE


def tree(top: Path) -> dict[str, tuple[int, str]]:
    """Every file below a folder: its inode, and a hash of its bytes and times."""
    found = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        said = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        mark = f"{status.st_mode}:{status.st_mtime_ns}:".encode() + said
        found[str(path)] = status.st_ino, hashlib.sha256(mark).hexdigest()
    return found


@pytest.mark.parametrize("order", list(permutations(range(5)))[::17])
def test_files_that_appear_in_any_order_end_in_one_state(
    order: tuple[int, ...], here: Path, place: Path, collector: Collector, store: Path
) -> None:
    names = list(FILES)
    for number in order:
        put_at(place / names[number], FILES[names[number]], number)
        collector.scan()
        assert state_of(store, here) is not S.CORRUPT
    found = look(store, here)

    assert found
    assert found.status.state is S.PARTIAL
    assert found.status.saved_categories == ("decision",)
    assert found.status.categories == ("runbook",)
    assert found.status.titles == ("Use [red]JWT[/][31m",)
    assert len(found.staged_files) == 2


def test_the_life_of_a_save(here: Path, place: Path, collector: Collector, store: Path) -> None:
    collector.scan()
    seen = [state_of(store, here)]
    steps: list[tuple[str, dict[str, Any] | None]] = [
        ("triage-data.json", {"categories": ["decision"]}),
        (".triage-handled", {"state": "pending"}),
        (".triage-handled", {"state": "saving"}),
        (".triage-pending.json", {"categories": []}),
        (".triage-pending.json", {"categories": ["decision"]}),
        (".triage-pending.json", None),
        ("last-save-result.json", {"categories": ["decision"], "titles": ["a"]}),
        ("triage-data.json", None),
        ("last-save-result.json", None),
    ]
    for second, (name, said) in enumerate(steps):
        path = place / name
        if said is None:
            path.unlink()
        else:
            put_at(path, said, second)
        collector.scan()
        seen.append(state_of(store, here))

    assert [each.value for each in seen] == [
        "none",
        "triaged",
        "triaged",
        "saving",
        "failed_unknown",
        "pending",
        "saving",
        "saved",
        "saved",
        "saved",
    ]
    found = look(store, here)
    assert found
    # The plugin deletes the result once a prompt was told of it.
    assert found.was_confirmed
    assert found.status.titles == ("a",)


def test_nothing_of_it_is_ever_changed(
    here: Path, place: Path, collector: Collector, store: Path, tmp_path: Path
) -> None:
    for second, (name, said) in enumerate(FILES.items()):
        put_at(place / name, said, second)
    put(here / ".claude/memory/logs/save/d.jsonl", '{"event_type": "save.start"}\n')
    outside = put(tmp_path / "outside.json", "{}")
    (place / ".stop_hook_lock").symlink_to(outside)
    before = tree(here), tree(tmp_path / "claude"), outside.read_bytes()

    collector.scan_and_measure_saves()
    collector.scan_and_measure_saves()
    assert look(store, here)
    assert (tree(here), tree(tmp_path / "claude"), outside.read_bytes()) == before


def test_every_version_is_kept(here: Path, place: Path, collector: Collector, store: Path) -> None:
    path = place / ".triage-handled"
    told = [b'{"state": "pending"}', b'{"state": "sav', b"\x00\xff garbage", b'{"state": "saved"}']
    for second, data in enumerate(told):
        put_at(path, data, second)
        collector.scan()
        collector.scan()
    with closing(open_reader(store)) as db:
        kept = [*config_queries.earlier_save_files(db), *config_queries.current_save_files(db)]

    assert [each.mark.mtime_ns for each in kept] == [AT_NS + n * 10**9 for n in range(4)]
    assert [each.problem is None for each in kept] == [True, False, True, True]


@pytest.mark.parametrize("name", ["last-save-result.json", ".triage-pending.json"])
def test_a_file_in_the_middle_of_a_write_is_corrupt_until_it_is_whole(
    name: str, here: Path, place: Path, collector: Collector, store: Path
) -> None:
    whole = json.dumps(FILES[name]).encode()
    for cut in range(0, len(whole), 7):
        put_at(place / name, whole[:cut], cut)
        collector.scan()
        assert state_of(store, here) is S.CORRUPT
    put_at(place / name, whole, len(whole))
    collector.scan()
    assert state_of(store, here) in {S.SAVED, S.PARTIAL}


def test_a_file_that_is_far_too_large(
    here: Path, place: Path, collector: Collector, store: Path
) -> None:
    path = put_at(place / "last-save-result.json", b'{"titles": ["' + b"x" * 10_000_000, 0)
    collector.scan()
    found = look(store, here)

    assert found
    assert found.status.state is S.CORRUPT
    assert "larger than" in found.status.reason
    put_at(path, b'{"titles": ["x"], "pad": "' + b"y" * (MAX_SAVE_FILE_BYTES - 40) + b'"}', 1)
    collector.scan()
    assert state_of(store, here) is S.SAVED


def test_links_and_pipes_are_not_read(
    here: Path, place: Path, collector: Collector, store: Path, tmp_path: Path
) -> None:
    secret = put(tmp_path / "secret.json", {"categories": ["secret"], "titles": ["secret"]})
    place.mkdir(parents=True)
    (place / "last-save-result.json").symlink_to(secret)
    os.mkfifo(place / ".triage-pending.json")
    collector.scan()
    found = look(store, here)

    assert found
    assert found.status.state is S.CORRUPT
    assert "secret" not in str(dump(store))


def test_the_plugin_s_configuration_is_read_beside_its_files(
    here: Path, place: Path, collector: Collector, store: Path, tmp_path: Path
) -> None:
    """004-68: with save_mode deferred nothing is lost, and nothing is saved either."""
    put_at(place / "triage-data.json", FILES["triage-data.json"], 0)
    collector.scan()
    late = NOW + 600_000
    assert state_of(store, here, late) is S.ORPHANED
    config = place.parent / "memory-config.json"
    outside = put_at(tmp_path / "memory-config.json", {"triage": {"save_mode": "deferred"}}, 0)
    config.symlink_to(outside)
    collector.scan()
    assert state_of(store, here, late) is S.ORPHANED, "a link out of the project is not read"
    config.unlink()
    for content in ("[", "[]", '{"triage": 5}', '{"triage": {"save_mode": ["deferred"]}}'):
        put_at(config, content, 1)
        collector.scan()
        assert state_of(store, here, late) is S.ORPHANED
    put_at(config, {"triage": {"save_mode": "deferred"}}, 2)
    collector.scan()
    found = look(store, here, late)
    assert found
    assert (found.status.state, found.is_deferred) == (S.PENDING, True)


def test_a_place_that_is_deleted_at_any_moment(
    here: Path, place: Path, collector: Collector, store: Path, recorder: Recorder
) -> None:
    for gone in range(1, len(FILES) + 1):
        for second, (name, said) in enumerate(list(FILES.items())[:gone]):
            put_at(place / name, said, second)
        collector.scan()
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
        collector.scan()
        assert not recorder.troubles
        assert state_of(store, here) in {S.NONE, S.SAVED}


# What a transcript tells.


def feedback(words: str = FILE_REASON, at: int = 0) -> JsonLine:
    return user(words, at, isMeta=True)


def a_save(at: int = 10) -> list[JsonLine]:
    """A save by an agent, as its session's lines."""
    return [
        feedback(at=at),
        chained("system", subtype="stop_hook_summary"),
        launch("t1", message_id="m2", context=1500, at=at + 1),
        launched("t1", "a1", at=at + 2),
        assistant("m3", 1800, content=[tool("Bash", "t2", command="memory_write.py")], at=at + 3),
        tool_result("t2", "1\n2\n3\n4\n5", {}, at=at + 4),
        notification("a1", "Drafted.", at=at + 5),
        assistant("m4", 2000, 60, content=[text("Saved: decision (create)")], at=at + 6),
    ]


@pytest.fixture
def path(claude: ClaudeFolder, tmp_path: Path) -> Path:
    return claude.projects / "p" / f"{SESSION}.jsonl"


def before(folder: Path) -> list[JsonLine]:
    words = [text("Done.")]
    return [user("work", cwd=str(folder)), assistant("m1", 1000, 50, content=words)]


def noises(store: Path) -> list[SaveNoise]:
    with closing(open_reader(store)) as db:
        return [
            found for row in config_queries.stop_blocks(db) if (found := decode_noise(row.noise))
        ]


def growing(lines: list[JsonLine]) -> Iterator[bytes]:
    """The bytes that a client writes, in pieces that end anywhere."""
    data = encode(lines)
    for start in range(0, len(data), 400):
        yield data[start : start + 400]


def test_a_save_is_measured_while_it_goes_on_and_once_it_is_over(
    path: Path, tmp_path: Path, collector: Collector, store: Path
) -> None:
    lines = [*before(tmp_path / "x"), *a_save(), user("next", at=99)]
    path.parent.mkdir()
    sizes = []
    for piece in growing(lines):
        with path.open("ab") as file:
            file.write(piece)
        collector.scan_and_measure_saves()
        sizes += [each.lines for each in noises(store)]
    (grown,) = noises(store)

    assert sizes == sorted(sizes)
    assert grown.closed
    assert (grown.lines, grown.items) == (6 + 1 + 1 + 1 + 4 + 1 + 1, 2)
    assert (grown.tokens, grown.is_estimated) == (2060 - 1050, False)
    assert (grown.agents, grown.agents_in_background, grown.leaked_calls) == (1, 0, 1)

    again = store.with_name("again.db")
    with closing(Writer(again)) as writer:
        Collector(collector.folder, writer, Recorder()).scan_and_measure_saves()
    assert noises(again) == [grown]
    # Measured for good: what comes after it costs nothing.
    rows = dump(store, FILE_STATE)["save_noise"]
    append(path, [user("more", at=100)])
    collector.scan_and_measure_saves()
    assert dump(store, FILE_STATE)["save_noise"] == rows


def test_what_the_hooks_did_is_kept(path: Path, tmp_path: Path, collector: Collector) -> None:
    note = "<memory-note>Memories saved (decision): Use\x1b PG</memory-note>"
    said = chained("attachment", 60, attachment={"type": "hook_success", "content": note})
    other = attachment("hook_success", content="<memory-note>other</memory-note>", stdout=5)
    write(path, [*before(tmp_path), *a_save(), said, other, feedback("Stop hook feedback:\nlint")])
    collector.scan_and_measure_saves()
    store = collector.writer.path

    with closing(open_reader(store)) as db:
        (kept,) = config_queries.memory_notes(db)
        assert kept.text == "Memories saved (decision): Use PG"
        ours, lint = config_queries.stop_blocks(db)
        assert ours.text == FILE_REASON
        assert (ours.lines, ours.chars) == (6, len(FILE_REASON))
        # Another hook's words are kept, and are no save.
        assert lint.noise is None
    assert len(noises(store)) == 1
    found = look(store, Path(user()["cwd"]))
    assert found
    assert (found.status.state, found.was_confirmed) == (S.SAVED, True)


def test_a_rewritten_transcript_is_measured_anew(
    path: Path, tmp_path: Path, collector: Collector, store: Path
) -> None:
    write(path, [*before(tmp_path), *a_save()])
    collector.scan_and_measure_saves()
    assert len(noises(store)) == 1
    write(path, before(tmp_path / "quite another folder"))
    collector.scan_and_measure_saves()
    assert noises(store) == []


def test_lines_of_any_shape(path: Path, tmp_path: Path, collector: Collector) -> None:
    odd: list[JsonLine] = [
        attachment("hook_success", content=[1, None], stdout={}),
        user([], isMeta=True),
        user([{"type": "image"}], isMeta=True),
        feedback("Stop hook feedback:"),
        feedback("Stop hook feedback:\n" + "<triage_data>" * 50_000),
    ]
    write(path, [*before(tmp_path), *odd])
    collector.scan_and_measure_saves()
    with closing(open_reader(collector.writer.path)) as db:
        found = config_queries.stop_blocks(db)
    assert len(found) == 2
    assert found[1].chars > len(found[1].text)


def test_the_installed_plugin_is_looked_into(
    claude: ClaudeFolder, here: Path, collector: Collector, store: Path
) -> None:
    place = claude.root / "plugins/cache/claude-memory"
    entry = {"scope": "user", "installPath": str(place), "version": "5.1.0"}
    installed = {"version": 2, "plugins": {"claude-memory@shop": [entry]}}
    put(claude.root / "plugins/installed_plugins.json", installed)
    put(place / "skills/memory-management/SKILL.md", "Read <triage_data>.")
    triage = put(place / "hooks/scripts/memory_triage.py", "print('<triage_data_file>')")

    def fit() -> list[tuple[str, str]]:
        collector.scan()
        collector.scan()
        with closing(open_reader(store)) as db:
            found = read_saves(db, (), NOW).plugins
        return [(each.fit.value, each.architecture.value) for each in found]

    assert fit() == [("broken", "file")]
    put(triage, "print('<triage_data>')")
    assert fit() == [("ok", "inline")]
    triage.unlink()
    assert fit() == [("unknown", "unknown")]
    put(claude.root / "plugins/installed_plugins.json", {"version": 2, "plugins": {}})
    assert fit() == []
