"""Reading the log of our own hooks: every record once, whatever its file is called by then."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.claude_code import own_files
from ctxtop.collectors.claude_code.own_files import CUT_OFF_REASON, LogReader, own_log_folder
from ctxtop.collectors.claude_code.own_log_records import HOOK_EVENTS
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.model.problem import ProblemReporter
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import log_queries, session_queries
from ctxtop.core.store.writer import Writer

from tests.log_rows import log_rows

from ..dump import dump
from ..logs import line, lines, log_file, part_name, tell
from ..transcripts import SESSION

if TYPE_CHECKING:
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.problem import Problem

    from ..recorder import Recorder

ROOT: Final = Path(__file__).parents[2]
DAY_S: Final = 86_400


def events(store: Path, session: str = SESSION) -> list[Any]:
    with closing(open_reader(store)) as db:
        return log_rows(db, "hook_event", session)


def offsets(store: Path) -> list[tuple[Any, ...]]:
    with closing(open_reader(store)) as db:
        return [tuple(row) for row in db.execute("SELECT at FROM hook_event ORDER BY at")]


def bad(store: Path) -> list[tuple[str, int, int, str]]:
    with closing(open_reader(store)) as db:
        return log_queries.bad_log_lines(db)


def age(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def test_what_a_hook_was_told(collector: Collector, recorder: Recorder, store: Path) -> None:
    tell(
        store,
        "SubagentStop",
        session_id=SESSION.upper(),
        transcript_path="/x/y.jsonl",
        cwd="/home/me",
        agent_id="a1",
        agent_type="reviewer\x1b[2J",
        last_assistant_message="done\x07",
        prompt="secret",
        stop_hook_active=False,
        tool_name=["no", "text"],
        context_tokens=-3,
    )
    tell(store, "SessionStart", session_id=SESSION, source="resume", context_tokens=25_613)
    tell(store, "PreCompact", session_id=SESSION, trigger="auto", custom_instructions=None)
    tell(store, "PreToolUse", session_id=SESSION, tool_name="Bash", tool_use_id="t1")
    collector.scan()

    agent, start, compact, tool = events(store)
    assert (agent.event, agent.agent_id, agent.agent_type) == ("SubagentStop", "a1", "reviewer[2J")
    detail = json.loads(agent.detail)
    assert detail["given"] == {
        "cwd": "/home/me",
        "last_assistant_message": "done",
        "stop_hook_active": False,
        "tool_name": ["no", "text"],
        "context_tokens": -3,
    }
    assert detail["cut"] == {"prompt": 6}
    assert json.loads(start.detail)["given"] == {"source": "resume", "context_tokens": 25_613}
    assert json.loads(compact.detail)["given"] == {"trigger": "auto", "custom_instructions": None}
    assert (tool.tool_name, json.loads(tool.detail)["given"]) == ("Bash", {"tool_use_id": "t1"})
    assert SESSION in recorder.sessions


def test_every_event_of_the_client_is_known() -> None:
    assert len(HOOK_EVENTS) == 34
    assert "PreSkillShellCommand" in HOOK_EVENTS  # since 2.1.330


def test_an_unknown_event_is_kept_and_counted(collector: Collector, store: Path) -> None:
    for event in ("Stop", "OfTomorrow", "OfTomorrow"):
        tell(store, event, session_id=SESSION)
    collector.scan()

    with closing(open_reader(store)) as db:
        assert session_queries.unknown_types(db) == {"hook OfTomorrow": 2}
        assert log_queries.event_counts(db) == {"OfTomorrow": 2, "Stop": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{torn", "not JSON"),
        (b"[]", "array"),
        (b'{"session_id":"x"}', "not a ctxtop record"),
        (b'{"v":2,"given":{}}', "another version"),
        (b'{"v":1,"given":[]}', "array"),
        (b'{"v":1,"garbage":"x","bytes":9}', "not JSON (9 bytes)"),
        (b'{"v":1,"given":{"a":' + b"[" * 3000 + b"]" * 3000 + b"}}", "deep"),
        (b'{"v":1,"at":"now","given":{}}', "int"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_a_line_that_is_no_record_is_set_aside(
    collector: Collector, store: Path, text: bytes, reason: str
) -> None:
    log_file(store).write_bytes(lines([line(1, session_id=SESSION), text, line(2)]))
    collector.scan()

    ((name, offset, length, why),) = bad(store)
    assert (name, length) == (LogKind.HOOKS, len(text))
    assert log_file(store).read_bytes()[offset : offset + length] == text
    assert reason in why
    assert offsets(store) == [(1,), (2,)]
    with closing(open_reader(store)) as db:
        assert session_queries.store_counts(db)["bad_lines"] == 1


def test_a_torn_last_line_waits(collector: Collector, store: Path) -> None:
    path, whole = log_file(store), lines([line(1)])
    path.write_bytes(whole + lines([line(2)])[:-9])
    collector.scan()
    assert (offsets(store), bad(store)) == ([(1,)], [])

    path.write_bytes(whole + lines([line(2)]))
    collector.scan()
    assert (offsets(store), bad(store)) == ([(1,), (2,)], [])


def test_a_file_is_followed_under_its_new_name(
    claude: ClaudeFolder, writer: Writer, recorder: Recorder, store: Path
) -> None:
    path = log_file(store)
    path.write_bytes(lines([line(1)]))
    Collector(claude, writer, recorder).scan()
    part = path.rename(path.with_name(part_name(LogKind.HOOKS, 5)))
    path.write_bytes(lines([line(3)]))
    with part.open("ab") as file:
        file.write(lines([line(2)]))
    for _ in range(2):
        Collector(claude, writer, recorder).scan()

    assert offsets(store) == [(1,), (2,), (3,)]
    with closing(open_reader(store)) as db:
        assert {row.name for row in log_queries.log_parts(db)} == {LogKind.HOOKS, part.name}


def test_a_copy_or_another_disk_changes_nothing(
    claude: ClaudeFolder, writer: Writer, recorder: Recorder, store: Path
) -> None:
    path = log_file(store)
    path.write_bytes(lines([line(1), line(2)]))
    Collector(claude, writer, recorder).scan()
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)
    shutil.copy(path, path.with_name(part_name(LogKind.HOOKS, 1)))
    Collector(claude, writer, recorder).scan()

    assert offsets(store) == [(1,), (2,)]


def test_a_file_that_was_rewritten_is_read_again_whole(collector: Collector, store: Path) -> None:
    path = log_file(store)
    path.write_bytes(lines([line(1), line(2), line(3)]))
    collector.scan()
    path.write_bytes(lines([line(1), line(3)]))
    collector.scan()

    assert offsets(store) == [(1,), (3,)]


def test_other_files_of_the_folder_are_left_alone(collector: Collector, store: Path) -> None:
    folder = log_file(store).parent
    for name in ("hooks.jsonl.fault", "hooks.jsonl.old", "hooks.jsonl.1-2", "x.jsonl"):
        (folder / name).write_bytes(lines([line(1)]))
    (folder / LogKind.HOOKS).symlink_to(folder / "x.jsonl")
    os.mkfifo(folder / part_name(LogKind.HOOKS, 1))
    collector.scan()

    assert offsets(store) == []
    assert len(list(folder.iterdir())) == 6


def test_two_ctxtop_on_one_store(
    claude: ClaudeFolder, writer: Writer, recorder: Recorder, store: Path
) -> None:
    path = log_file(store)
    path.write_bytes(lines([line(1)]))
    with closing(Writer(store)) as other:
        both = [Collector(claude, each, recorder) for each in (writer, other)]
        for collector in both:
            collector.scan()
        with path.open("ab") as file:
            file.write(lines([line(2)]))
        for collector in (*both, *both):
            collector.read_sidecars()
        with path.open("ab") as file:
            file.write(lines([line(3)]))
        for collector in (*reversed(both), *both):
            collector.read_sidecars()

    assert offsets(store) == [(1,), (2,), (3,)]


def parts_of_ages(store: Path, ages: list[float]) -> list[Path]:
    made = []
    for number, seconds in enumerate(ages):
        part = log_file(store).with_name(part_name(LogKind.HOOKS, number))
        part.write_bytes(lines([line(number)]))
        age(part, seconds)
        made.append(part)
    return made


def test_a_part_is_removed_when_it_was_read_and_is_old(collector: Collector, store: Path) -> None:
    old, young = parts_of_ages(store, [15 * DAY_S, 13 * DAY_S])
    current = log_file(store)
    current.write_bytes(lines([line(9)]))
    age(current, 99 * DAY_S)
    collector.scan()

    assert not old.exists()
    assert young.exists()
    assert current.exists()
    assert offsets(store) == [(0,), (1,), (9,)]


def test_parts_beyond_what_is_kept_go_oldest_first_but_never_young(
    collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(lines([line(0)]))
    monkeypatch.setattr(own_files, "MAX_KEPT_LOG_BYTES", 2 * size)
    made = parts_of_ages(store, [4 * DAY_S, 3 * DAY_S, 2 * DAY_S, 60, 30])
    collector.scan()

    assert [part.exists() for part in made] == [False, False, False, True, True]


def test_a_part_that_could_not_be_stored_is_not_removed(
    collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = parts_of_ages(store, [15 * DAY_S])
    monkeypatch.setattr(LogReader, "_read_if_changed", lambda *_: set())
    collector.scan()

    assert old.exists()


def test_the_rest_of_a_part_that_nobody_completes_is_set_aside(
    collector: Collector, store: Path
) -> None:
    part = log_file(store).with_name(part_name(LogKind.HOOKS, 1))
    part.write_bytes(lines([line(1)]) + b'\n{"v":1,"at')
    collector.scan()
    assert bad(store) == []

    age(part, 2 * 3600)
    collector.scan()
    collector.scan()

    assert [(row[0], row[3]) for row in bad(store)] == [(part.name, CUT_OFF_REASON)]
    assert part.exists()


def test_a_log_that_cannot_be_read_is_told_and_the_rest_is_read(
    collector: Collector, recorder: Recorder, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(store, "Stop", session_id=SESSION)
    real = os.open

    def refuse(path: str | Path, *args: int) -> int:
        if str(path).endswith(LogKind.HOOKS):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *args)

    monkeypatch.setattr(os, "open", refuse)
    collector.scan()
    troubles: list[Problem] = recorder.troubles
    assert [Path(trouble.where).name for trouble in troubles] == [LogKind.HOOKS]
    assert len(dump(store)["trouble"]) == 1

    monkeypatch.undo()
    collector.read_sidecars()
    assert len(recorder.ended) == 1
    assert len(events(store)) == 1


_WRITE = """
import sys
sys.path.insert(0, sys.argv[1])
import plugin_log
plugin_log.ROTATE_BYTES = 6000
sys.stdin.readline()
for number in range(int(sys.argv[4])):
    given = b'{"session_id":"s","hook_event_name":"Stop","message":"%s %d"}' % (
        sys.argv[3].encode(), number)
    assert plugin_log.append_record(sys.argv[2], "Stop", given) is None
"""
WRITERS: Final = 20
EACH: Final = 150


def start_writers(store: Path) -> list[subprocess.Popen[bytes]]:
    folder = str(ROOT / "collectors" / "plugin_files")
    return [
        subprocess.Popen(
            [sys.executable, "-I", "-c", _WRITE, folder, str(log_file(store)), f"w{n}", str(EACH)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for n in range(WRITERS)
    ]


def expected() -> list[str]:
    return sorted(f"w{n} {number}" for n in range(WRITERS) for number in range(EACH))


def told(store: Path) -> list[str]:
    return sorted(json.loads(row.detail)["given"]["message"] for row in events(store, "s"))


def test_twenty_writers_at_once_while_files_are_renamed_and_read(
    claude: ClaudeFolder, store: Path, recorder: Recorder
) -> None:
    writers = start_writers(store)
    with closing(Writer(store)) as writer:
        collector = Collector(claude, writer, recorder)
        for process in writers:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        while any(process.poll() is None for process in writers):
            collector.read_sidecars()
        for process in writers:
            assert process.communicate()[1] == b""
            assert process.returncode == 0
        collector.read_sidecars()

    assert told(store) == expected()
    assert bad(store) == []
    assert len(list(log_file(store).parent.iterdir())) > 20


_READ = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.recorder import Recorder
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.store.writer import Writer
writer = Writer(Path(sys.argv[3]))
left = int(sys.argv[4])
def statement(_):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
writer.connection.set_trace_callback(statement)
Collector(ClaudeFolder(Path(sys.argv[2])), writer, Recorder()).read_sidecars()
"""


def test_killed_between_any_two_statements_and_read_again(
    claude: ClaudeFolder, store: Path, child_env: dict[str, str]
) -> None:
    seed = time.time_ns() % 1_000_000
    print("seed", seed)
    chance = random.Random(seed)
    made = log_file(store)
    killed = 0
    for number in range(8):
        part = made.with_name(part_name(LogKind.HOOKS, number))
        part.write_bytes(
            lines(line(n, session_id="s", message=f"{number} {n}") for n in range(200))
        )
        command = [sys.executable, "-c", _READ, str(ROOT), str(claude.root), str(store)]
        done = subprocess.run(
            [*command, str(chance.randint(1, 400))], env=child_env, capture_output=True, check=False
        )
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr.decode()
        killed += done.returncode != 0
    with closing(Writer(store)) as writer:
        reader = LogReader(writer, ProblemReporter(print, print, print))
        reader.read()
        reader.read()

    assert killed
    assert told(store) == sorted(f"{number} {n}" for number in range(8) for n in range(200))


CORPUS = os.environ.get("CTXTOP_SHARED")


@pytest.mark.skipif(not CORPUS, reason="CTXTOP_SHARED does not name the shared folder")
def test_recorded_hooks(collector: Collector, store: Path) -> None:
    from ctxtop.collectors.plugin_files.plugin_log import append_record

    recorded = (Path(str(CORPUS)) / "corpus/current/hooks.jsonl").read_bytes().splitlines()
    given = [each for each in recorded if each.strip()]
    for each in given:
        assert (
            append_record(str(log_file(store)), json.loads(each)["hook_event_name"], each) is None
        )
    collector.scan()

    with closing(open_reader(store)) as db:
        counts = log_queries.event_counts(db)
        assert session_queries.unknown_types(db) == {}
    assert sum(counts.values()) == len(given)
    assert counts["PreCompact"] >= 1
    assert log_file(store).stat().st_size < sum(map(len, given))
    assert own_log_folder(store).is_dir()
    resumed = [
        json.loads(each) for each in given if json.loads(each).get("context_tokens") is not None
    ]
    sessions = {each["session_id"] for each in resumed}
    details = [json.loads(row.detail)["given"] for each in sessions for row in events(store, each)]
    found = [given.get("context_tokens") for given in details]
    assert sorted(filter(None, found)) == sorted(each["context_tokens"] for each in resumed)
