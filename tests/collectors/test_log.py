"""Writing ctxtop's own log: whatever the client gives, one whole record, and never a failure."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ctxtop.collectors.plugin_files import plugin_log

Json = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return plugin_log.log_path(str(tmp_path / "state" / "ctxtop.db"), plugin_log.HOOKS_LOG)


def records(path: str) -> list[Json]:
    return [json.loads(line) for line in Path(path).read_bytes().split(b"\n") if line]


def written(path: str, given: bytes) -> Json:
    """Write one record; give it back."""
    assert plugin_log.append_record(path, "Stop", given) is None
    return records(path)[-1]


def encoded(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_a_record(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_PID", "77")
    given = encoded(session_id="s1", custom_instructions=None, stop_hook_active=False, n=[1, {}])
    found = written(path, given)

    assert found.pop("at") > 1_700_000_000_000
    assert 0 <= found.pop("ns") < 1_000_000
    assert found == {
        "v": 1,
        "pid": os.getpid(),
        "client_pid": 77,
        "event": "Stop",
        "bytes": len(given),
        "given": json.loads(given),
        "cut": {},
    }


def test_the_log_is_private(path: str) -> None:
    plugin_log.append_record(path, "Stop", b"{}")
    plugin_log.append_record(f"{path}/no", "Stop", b"{}")

    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700


def test_two_stores_have_two_logs(tmp_path: Path) -> None:
    names = {
        plugin_log.log_path(str(tmp_path / name), plugin_log.HOOKS_LOG)
        for name in ("a.db", "b.db", "a.sqlite")
    }

    assert len(names) == 3


def test_long_fields_are_cut_and_private_ones_left_out_with_their_sizes(path: str) -> None:
    found = written(
        path,
        encoded(
            session_id="s1",
            last_assistant_message="ü" * 5000,
            prompt="my secret",
            tool_input={"command": "secret", "timeout": 1},
            tool_response="secret",
            background_tasks=[{"id": "a"}] * 4000,
            session_crons=[],
        ),
    )

    assert found["given"] == {
        "session_id": "s1",
        "last_assistant_message": "ü" * plugin_log.TEXT_CHARS,
        "session_crons": [],
    }
    assert found["cut"] == {
        "last_assistant_message": 5000,
        "prompt": 9,
        "tool_input": 2,
        "tool_response": 6,
        "background_tasks": 4000,
    }


def test_fifty_megabytes_make_a_small_record(path: str) -> None:
    text = 'line "quoted"\n' * (50_000_000 // 14)
    found = written(path, encoded(session_id="s1", tool_response={"t": text}, text=text, tool="x"))

    assert found["bytes"] > 50_000_000
    assert found["given"]["tool"] == "x"
    assert found["cut"] == {"tool_response": 1, "text": len(text)}
    assert Path(path).stat().st_size < 2 * plugin_log.TEXT_CHARS + 1000


def test_too_many_fields_are_dropped_and_counted(path: str) -> None:
    found = written(path, encoded(session_id="s1", **{f"field_{n}": n for n in range(100_000)}))

    assert found["given"]["session_id"] == "s1"
    assert found["dropped"] + len(found["given"]) == 100_001
    assert Path(path).stat().st_size < plugin_log.RECORD_BYTES + 1000


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (b"", ""),
        (b"not json", "not json"),
        (b"[1]", "[1]"),
        (b'{"a":1}{"b":2}', '{"a":1}{"b":2}'),
        (b'{"a":', '{"a":'),
        (b"\xff\x00\n{", "\ufffd\x00\n{"),
        (b"[" * 200_000, "[" * plugin_log.TEXT_CHARS),
    ],
)
def test_garbage_gives_a_record_that_says_so(path: str, given: bytes, kept: str) -> None:
    found = written(path, given)

    assert (found["garbage"], found["bytes"]) == (kept, len(given))
    assert "given" not in found


def test_what_json_has_not_is_left_out(path: str) -> None:
    found = written(path, b'{"a":NaN,"b":1e999,"c":"x\\ud800y","d":"\\ud83d\\ude00\\u2028\\n"}')

    assert found["given"] == {"a": None, "c": "x?y", "d": "😀\u2028\n"}
    assert found["cut"] == {"b": 0}


def test_a_file_that_has_grown_is_renamed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_log, "ROTATE_BYTES", 1500)
    for number in range(80):
        assert plugin_log.append_record(path, "Stop", encoded(number=number)) is None
    parts = sorted(
        Path(path).parent.iterdir(), key=lambda part: (part.name == plugin_log.HOOKS_LOG, part)
    )

    assert len(parts) > 4
    assert all(part.stat().st_size < 1700 for part in parts)
    found = [record["given"]["number"] for part in parts for record in records(str(part))]
    assert found == list(range(80))


def test_a_name_that_is_taken_is_never_overwritten(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_log, "ROTATE_BYTES", 1)
    monkeypatch.setattr(time, "time_ns", lambda: 5)
    said = [plugin_log.append_record(path, "Stop", encoded(number=number)) for number in range(3)]

    assert said[0] is None
    assert "FileExistsError" in str(said[1])
    found = [record["given"]["number"] for record in records(path)]
    assert found == [1, 2], "where the name is taken, the file goes on growing"
    assert [part.name for part in Path(path).parent.glob("*-*")] == [
        f"{plugin_log.HOOKS_LOG}.{5:020}-{os.getpid()}"
    ]


def test_a_writer_that_slept_until_its_file_was_removed_writes_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin_log.append_record(path, "Stop", encoded(number=1))
    opened = os.open

    def slow(name: str, flags: int, mode: int) -> int:
        descriptor = opened(name, flags, mode)
        monkeypatch.setattr(os, "open", opened)
        Path(path).unlink()
        return descriptor

    monkeypatch.setattr(os, "open", slow)
    plugin_log.append_record(path, "Stop", encoded(number=2))

    assert [record["given"]["number"] for record in records(path)] == [2]


def test_a_record_that_a_full_disk_cut_off_is_told_and_harms_no_other(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))
    said = plugin_log.append_record(path, "Stop", encoded(number=1))
    monkeypatch.undo()
    plugin_log.append_record(path, "Stop", encoded(number=2))

    assert "only 20 of" in str(said)
    torn, whole = (line for line in Path(path).read_bytes().split(b"\n") if line)
    assert not torn.endswith(b"}")
    assert json.loads(whole)["given"] == {"number": 2}


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_a_log_that_is_no_file_is_told_and_left_alone(path: str, tmp_path: Path, kind: str) -> None:
    place = Path(path)
    place.parent.mkdir(parents=True)
    target = tmp_path / "target"
    target.write_text("mine")
    make = {"fifo": lambda: os.mkfifo(path), "folder": place.mkdir}
    make.get(kind, lambda: place.symlink_to(target))()

    said = plugin_log.append_record(path, "Stop", b"{}")

    assert said
    assert target.read_text() == "mine"
    moment, _, fault = Path(plugin_log.fault_path(path)).read_text().partition(" ")
    assert moment.isdecimal()
    assert fault.strip() == said


def test_a_fault_that_cannot_be_noted_is_said_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = plugin_log.append_record(str(tmp_path / "file" / "hooks.jsonl"), "Stop", b"{}")

    assert said
    assert said.count("Not a directory") >= 1


_OTHER_PYTHON = """
import sys
sys.modules["_json"] = None
sys.path.insert(0, sys.argv[1])
import plugin_log
print(plugin_log.append_record(sys.argv[2], "Stop", sys.stdin.buffer.read()))
"""


def test_a_python_without_the_c_half_writes_the_same(path: str) -> None:
    given = b'{"a":NaN,"b":1e999,"c":"x\\ud800y\\u2028","d":[1.5,true,null,{"e":"\xc3\xbc"}]}'
    expected = written(path, given)
    done = subprocess.run(
        [sys.executable, "-I", "-c", _OTHER_PYTHON, str(Path(plugin_log.__file__).parent), path],
        input=given,
        capture_output=True,
        check=True,
    )
    found = records(path)[-1]

    assert done.stdout == b"None\n"
    new = {"at": 0, "ns": 0, "pid": 0}
    assert found | new == expected | new
