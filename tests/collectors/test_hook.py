"""The hook as Claude Code runs it: whatever goes wrong, it ends well and says nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.plugin import hook, hook_answer, installed_commands, standby
from ctxtop.collectors.plugin.hook_answer import HookCall, HookReply
from ctxtop.collectors.plugin_files import plugin_log
from ctxtop.core.store.database import open_writer

from ..extra_feature import feature

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = str(Path(hook.__file__).with_name("run.py"))

LIMIT_S = 30.0
"""A hook that hangs fails the test; how fast it is says tests/bench/bench_hook.py."""

GIVEN = b'{"session_id":"s1","hook_event_name":"Stop"}\n'

Ended = subprocess.CompletedProcess[bytes]

# What a hook that only records may import, beside what Python itself starts with.
ALLOWED = {
    "_json",
    "ctxtop",
    "ctxtop.collectors",
    "ctxtop.collectors.plugin",
    "ctxtop.collectors.plugin.hook",
    "ctxtop.collectors.plugin_files",
    "ctxtop.collectors.plugin_files.plugin_log",
    "__future__",
    "os",
    "os.path",
    "_stat",
    "stat",
    "genericpath",
    "posixpath",
    "_collections_abc",
    "abc",
    "_abc",
}


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "state" / "ctxtop.db"
    yield path
    # Whoever stands by after an answer ends.
    Path(standby.socket_path(str(path))).unlink(missing_ok=True)


def run(store: Path, *words: str, given: bytes = GIVEN) -> Ended:
    flags = ["-I"] if words[1:] else ["-I", "-S"]
    command = [sys.executable, *flags, RUN, "hook", str(store), *words]
    return subprocess.run(command, input=given, capture_output=True, timeout=LIMIT_S, check=False)


def is_silent(ended: Ended) -> bool:
    return (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def records(store: Path) -> list[dict[str, Any]]:
    data = Path(plugin_log.log_path(str(store), plugin_log.HOOKS_LOG)).read_bytes()
    return [json.loads(line) for line in data.split(b"\n") if line]


def faults(store: Path, name: str = plugin_log.ANSWER_FAULTS) -> str:
    return Path(plugin_log.fault_path(plugin_log.log_path(str(store), name))).read_text()


def ask(tmp_path: Path, store: Path, event: str, body: str, given: bytes = GIVEN) -> Ended:
    script = feature(tmp_path, body)
    words = [sys.executable, "-I", "-S", script, "hook", str(store), event, "extra"]
    return subprocess.run(words, input=given, capture_output=True, timeout=LIMIT_S, check=False)


def test_one_record_and_nothing_said(store: Path) -> None:
    assert is_silent(run(store, "Stop"))
    (found,) = records(store)

    assert (found["event"], found["given"]["session_id"]) == ("Stop", "s1")
    folder = store.with_name("ctxtop.db.logs")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    assert not store.exists()


def test_an_installation_that_is_edited(store: Path, tmp_path: Path) -> None:
    # Beside the sources there is no package of our name.
    script = tmp_path / "collectors" / "plugin" / "run.py"
    script.parent.mkdir(parents=True)
    script.write_bytes(Path(RUN).read_bytes())
    command = [sys.executable, "-I", "-S", str(script), "hook", str(store), "Stop"]
    ended = subprocess.run(command, input=GIVEN, capture_output=True, timeout=LIMIT_S, check=False)

    assert is_silent(ended)
    assert len(records(store)) == 1


def test_only_what_is_needed_is_imported(store: Path) -> None:
    script = (
        "import sys\nbefore = set(sys.modules)\n"
        f"sys.path.append({str(Path(RUN).parents[3])!r})\n"
        "from ctxtop.collectors.plugin.hook import main\n"
        "main([sys.argv[1], 'Stop'])\n"
        "print('\\n'.join(set(sys.modules) - before))\n"
    )
    words = [sys.executable, "-I", "-S", "-c", script, str(store)]
    ended = subprocess.run(words, input=GIVEN, capture_output=True, timeout=LIMIT_S, check=True)

    assert set(ended.stdout.decode().split()) - ALLOWED == set()
    assert len(records(store)) == 1


@pytest.mark.parametrize(
    "given",
    [b"", b"garbage", b"[" * 100_000, b"\xff\xfe\x00", b'{"session_id":"\xed\xa0\x80"}', b"{}" * 9],
)
def test_garbage_on_stdin(store: Path, given: bytes) -> None:
    assert is_silent(run(store, "Stop", given=given))
    assert is_silent(run(store, "UserPromptSubmit", "prompts", given=given))
    assert [each["bytes"] for each in records(store)] == [len(given)] * 2


def test_fifty_megabytes_on_stdin(store: Path) -> None:
    given = json.dumps({"session_id": "s1", "tool_response": "x" * 50_000_000}).encode()
    assert is_silent(run(store, "PostToolUse", given=given))
    (found,) = records(store)

    assert (found["bytes"], found["given"]) == (len(given), {"session_id": "s1"})
    assert found["cut"] == {"tool_response": 50_000_000}


def test_more_than_is_looked_at_is_taken_all_the_same(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_log, "MAX_STDIN_BYTES", 10)
    taken, given = os.pipe()
    os.write(given, b"x" * 60_000)
    os.close(given)
    saved = os.dup(0)
    os.dup2(taken, 0)
    try:
        monkeypatch.setattr(plugin_log, "_CHUNK_BYTES", 100)
        assert plugin_log.read_stdin() == b"x" * 100
        assert os.read(0, 1) == b""
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(taken)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "<&- >&-"])
def test_closed_streams(store: Path, closed: str) -> None:
    for features in ("", "prompts"):
        flags = "-I" if features else "-I -S"
        words = f'"{sys.executable}" {flags} "{RUN}" hook "{store}" UserPromptSubmit {features}'
        ended = subprocess.run(
            ["sh", "-c", f"exec {words} {closed}"],
            input=GIVEN,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert is_silent(ended)
    assert len(records(store)) == 2


def test_a_reader_that_went_away(tmp_path: Path, store: Path) -> None:
    script = feature(tmp_path, "return Reply(context='x' * 9000)")
    gone, out = os.pipe()
    os.close(gone)
    words = [sys.executable, "-I", "-S", script, "hook", str(store), "SubagentStart", "extra"]
    ended = subprocess.run(
        words, input=GIVEN, stdout=out, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False
    )
    os.close(out)

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert "BrokenPipeError" in faults(store)


def test_no_state_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = tmp_path / "file" / "ctxtop.db"
    assert is_silent(run(store, "Stop"))
    assert is_silent(run(store, "UserPromptSubmit", "prompts"))


def test_a_full_disk(store: Path) -> None:
    run(store, "Stop")
    # No file may grow beyond 512 bytes.
    words = f'ulimit -f 1; exec "{sys.executable}" -I -S "{RUN}" hook "{store}" Stop'
    given = json.dumps({"session_id": "s1", "last_assistant_message": "x" * 1900}).encode()
    ended = subprocess.run(
        ["sh", "-c", words], input=given, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert is_silent(ended)
    assert "bytes were written" in faults(store, plugin_log.HOOKS_LOG)

    assert is_silent(run(store, "Stop"))
    found = Path(plugin_log.log_path(str(store), plugin_log.HOOKS_LOG)).read_bytes().split(b"\n")
    whole = [json.loads(line) for line in found if line.endswith(b"}")]
    assert len(whole) == 2, "what was cut off harms no other record"


@pytest.mark.parametrize("kind", ["garbage", "folder", "locked", "empty"])
def test_a_store_that_cannot_be_read(store: Path, tmp_path: Path, kind: str) -> None:
    store.parent.mkdir(mode=0o700)
    transcript = tmp_path / "0a000000-0000-4000-8000-000000000001.jsonl"
    usage = {"input_tokens": 950_000}
    message = {"role": "assistant", "model": "claude-opus-5-5", "usage": usage, "content": []}
    line = {"type": "assistant", "message": message, "version": "2.1.329"}
    transcript.write_text(json.dumps(line, separators=(",", ":")) + "\n")
    given = json.dumps({"session_id": "s1", "transcript_path": str(transcript)}).encode()
    holder: sqlite3.Connection | None = None
    if kind == "garbage":
        store.write_bytes(b"no store\n" * 1000)
    elif kind == "folder":
        store.mkdir()
    elif kind == "empty":
        store.touch()
    else:
        writer, _ = open_writer(store)
        writer.close()
        holder = sqlite3.connect(store, isolation_level=None)
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
    ended = run(store, "UserPromptSubmit", "prompts", given=given)
    if holder:
        holder.close()

    # The transcript alone says enough of a model with one window.
    assert (ended.returncode, ended.stderr) == (0, b"")
    said = json.loads(ended.stdout)["hookSpecificOutput"]
    assert said["hookEventName"] == "UserPromptSubmit"
    assert "High context usage" in said["additionalContext"]
    assert len(records(store)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('it\\nbroke')",
        "return 1 / 0",
        "import nowhere",
        "return 'no reply'",
        "return Reply(context=7)",
    ],
)
def test_a_fault_of_a_feature_is_noted_and_not_said(tmp_path: Path, store: Path, body: str) -> None:
    assert is_silent(ask(tmp_path, store, "UserPromptSubmit", body))
    assert len(records(store)) == 1
    (line,) = faults(store).splitlines()
    assert line.split(" ", 2)[1] == "UserPromptSubmit:"


def test_an_answer_that_takes_too_long_is_given_up(tmp_path: Path, store: Path) -> None:
    script = feature(tmp_path, "\n    while True: pass")
    source = Path(script).with_name("hook_answer.py")
    source.write_text(
        source.read_text().replace(
            ("ANSWER_TIMEOUT_S: Final = 8.0"), "ANSWER_TIMEOUT_S: Final = 0.2"
        )
    )
    words = [sys.executable, "-I", "-S", script, "hook", str(store), "SubagentStart", "extra"]
    ended = subprocess.run(words, input=GIVEN, capture_output=True, timeout=LIMIT_S, check=False)

    assert is_silent(ended)
    assert "took longer" in faults(store)


def test_an_unknown_feature_is_a_fault(store: Path) -> None:
    assert is_silent(run(store, "Stop", "nowhere"))
    assert is_silent(run(store, "Stop", "../log"))
    assert [line.split()[2] for line in faults(store).splitlines()] == ["nowhere:", "../log:"]


def test_nothing_is_asked_for_without_an_event(store: Path) -> None:
    assert is_silent(run(store))
    assert not store.parent.exists()


def test_a_block_goes_out_as_json_and_the_code_is_0(tmp_path: Path, store: Path) -> None:
    ended = ask(
        tmp_path, store, "SubagentStop", ("return Reply(block_reason='rule 3:\\n\"no\" marker')")
    )

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert json.loads(ended.stdout) == {"decision": "block", "reason": 'rule 3:\n"no" marker'}


def call(event: str) -> HookCall:
    return HookCall(event, {}, Path("s.db"), 0)


def test_replies_are_joined() -> None:
    replies = [HookReply(context="one\n"), HookReply(), HookReply(context=" two")]

    assert json.loads(hook_answer.render_replies(call("SubagentStart"), replies)) == {
        "hookSpecificOutput": {
            "hookEventName": "SubagentStart",
            "additionalContext": "one\n\ntwo",
        }
    }
    assert hook_answer.render_replies(call("PreCompact"), replies) == "one\n\ntwo"
    assert (
        hook_answer.render_replies(call("PreCompact"), [HookReply(context="{} kept")])
        == "- {} kept"
    )
    assert hook_answer.render_replies(call("Stop"), [HookReply()]) == ""


def test_only_an_agent_is_held_up() -> None:
    assert "block" in hook_answer.render_replies(
        call("SubagentStop"), [HookReply(block_reason="no")]
    )
    with pytest.raises(ValueError, match="Stop cannot be blocked"):
        hook_answer.render_replies(call("Stop"), [HookReply(block_reason="no")])


def test_a_reply_is_never_longer_than_the_client_takes() -> None:
    said = hook_answer.render_replies(call("PreCompact"), [HookReply(context="x" * 20_000)])

    assert len(said) == hook_answer.MAX_REPLY_CHARS
    assert said.endswith("[cut]")


def test_faults_are_bounded(store: Path) -> None:
    path = plugin_log.log_path(str(store), plugin_log.ANSWER_FAULTS)
    for number in range(300):
        plugin_log.note_fault(path, f"{number} " + "x" * 1000)
    sizes = [each.stat().st_size for each in Path(path).parent.iterdir()]

    assert len(sizes) == 2
    assert max(sizes) <= plugin_log.FAULTS_BYTES + 2 * plugin_log.FAULT_CHARS
    assert faults(store).splitlines()[-1].split()[1] == "299"


def test_a_command_ends_well_where_ctxtop_is_gone(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, place in (("executable", "/nowhere/python"), ("", "")):
        if name:
            monkeypatch.setattr(sys, name, place)
        else:
            monkeypatch.setattr(installed_commands, "_script_path", lambda: "/nowhere/run.py")
        command = installed_commands.hook_command(store, "Stop", ["prompts"])
        monkeypatch.undo()
        given = b"x" * 1_000_000
        ended = subprocess.run(["sh", "-c", command], input=given, capture_output=True, check=False)
        assert is_silent(ended)
    assert not store.parent.exists()


def test_the_line_before_goes_on_where_ctxtop_is_gone(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    command = installed_commands.statusline_command(store, "wc -c; echo 'it''s theirs'")
    monkeypatch.undo()
    ended = subprocess.run(["sh", "-c", command], input=b"12345", capture_output=True, check=False)

    assert ended.stdout.decode().split() == ["5", "its", "theirs"]


@pytest.mark.parametrize("name", ["a b", "it's", 'a"b', "a$HOME`x`;b", "ü"])
def test_a_command_is_quoted_and_known_again(tmp_path: Path, name: str) -> None:
    store = tmp_path / name / "ctxtop.db"
    command = installed_commands.hook_command(store, "SubagentStop")
    ended = subprocess.run(["sh", "-c", command], input=GIVEN, capture_output=True, check=False)

    assert is_silent(ended)
    assert len(records(store)) == 1
    assert installed_commands.parse_command(command) == installed_commands.InstalledCommand(
        sys.executable, RUN, str(store), "SubagentStop"
    )
    wrapped = f"echo '{name}' ; then x; else y"
    line = installed_commands.parse_command(installed_commands.statusline_command(store, wrapped))
    assert line is not None
    assert (line.event, line.wrapped, line.store) == ("", wrapped, str(store))
    features = installed_commands.parse_command(
        installed_commands.hook_command(store, "Stop", ["a", "b"])
    )
    assert features is not None
    assert features.features == ("a", "b")


@pytest.mark.parametrize(
    "command",
    ["", "echo hi", "ctxtop hook Stop", "'open", "python /x/collectors/plugin/run.py", "if then"],
)
def test_a_command_of_somebody_else(command: str) -> None:
    assert installed_commands.parse_command(command) is None


def test_a_locked_store_is_not_waited_for_when_only_recording(store: Path) -> None:
    store.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(store, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        assert is_silent(run(store, "Stop"))
    assert len(records(store)) == 1
