"""The process that stays after a slow answer: what it says, to whom, and when it ends."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.collectors.plugin import standby
from ctxtop.collectors.plugin.installed_commands import hook_command
from ctxtop.core.summaries.steering import RULES_HEADING

from ..transcripts import append, assistant, boundary, summary, text, user, write

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE: Final = "You must never push to the main branch."
SECOND_RULE: Final = "Always run the tests before you commit."
LIMIT_S: Final = 60.0


class Hooks:
    """A session, and the installed commands that are asked about it."""

    def __init__(self, top: Path) -> None:
        self.store = top / "state" / "ctxtop.db"
        self.session = top / "config/projects/-shop/11111111-0000-4000-8000-000000000000.jsonl"
        write(self.session, [user(RULE), assistant("m1", content=[text("Yes.")])])
        self.socket = Path(standby.socket_path(str(self.store)))
        self._top = top
        self.environ = {"HOME": str(top), "CLAUDE_PROJECT_DIR": str(top), "LANG": "C.UTF-8"}

    def told(self, event: str, **fields: object) -> bytes:
        session = {"session_id": self.session.stem, "transcript_path": str(self.session)}
        told = session | {"hook_event_name": event, "cwd": str(self._top)} | fields
        return json.dumps(told).encode()

    def ask(self, event: str, *features: str, **fields: object) -> str:
        words = ["sh", "-c", hook_command(self.store, event, features)]
        ended = subprocess.run(
            words,
            input=self.told(event, **fields),
            capture_output=True,
            check=True,
            env=self.environ,
            cwd=self._top,
            timeout=LIMIT_S,
        )
        assert not ended.stderr
        return ended.stdout.decode()

    def wait(self) -> int:
        """Wait for the process that stands by; what distinguishes it from its successor."""
        until = time.monotonic() + LIMIT_S
        while not self.socket.exists() and time.monotonic() < until:
            time.sleep(0.01)
        return self.socket.stat().st_ino

    def end(self) -> bytes:
        """Take its socket away, and ask by that: it ends."""
        moved = self._top / "s"
        self.socket.rename(moved)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(LIMIT_S)
            try:
                connection.connect(str(moved))
                return connection.recv(1)
            except ConnectionError:
                return b""


@pytest.fixture
def hooks(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hooks]:
    # The path of a socket has room for a hundred bytes.
    hooks = Hooks(tmp_path_factory.mktemp("s"))
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in hooks.environ.items():
        monkeypatch.setenv(name, value)
    yield hooks
    if hooks.socket.is_socket():
        hooks.end()
    # One that is just beginning ends too.
    shutil.rmtree(hooks.store.parent)


def words_of(hooks: Hooks) -> list[str]:
    return [str(hooks.store), "PreCompact", "{}", "steer"]


def asked(hooks: Hooks) -> bytes | None:
    """Ask as a hook does, without a hook."""
    data, until = hooks.told("PreCompact"), time.monotonic() + LIMIT_S
    return standby.ask(str(hooks.store), words_of(hooks), data, until)


def test_the_next_answer_is_the_same_and_of_the_files_as_they_are_then(hooks: Hooks) -> None:
    first = hooks.ask("PreCompact", "steer")
    assert RULE in first
    process = hooks.wait()
    assert hooks.ask("PreCompact", "steer") == first
    append(hooks.session, [user(SECOND_RULE), assistant("m2", content=[text("Yes.")])])
    second = hooks.ask("PreCompact", "steer")
    assert RULE in second
    assert SECOND_RULE in second
    # A hook that answers itself leaves a new one.
    assert hooks.wait() == process


def test_it_works_in_the_environment_of_whoever_asks(hooks: Hooks) -> None:
    first = hooks.ask("PreCompact", "steer")
    process = hooks.wait()
    hooks.environ["CTXTOP_POLICY_STEERING__BUDGET"] = "0"
    assert hooks.ask("PreCompact", "steer") == ""
    del hooks.environ["CTXTOP_POLICY_STEERING__BUDGET"]
    assert hooks.ask("PreCompact", "steer") == first
    assert hooks.wait() == process


def test_what_it_notes_is_found_by_the_next_hook(hooks: Hooks) -> None:
    hooks.ask("PreCompact", "steer")
    process = hooks.wait()
    hooks.ask("PostCompact", "remember", compact_summary="Nothing was kept.")
    notes = hooks.socket.parent / "notes"
    assert stat.S_IMODE(notes.stat().st_mode) == 0o700
    assert [stat.S_IMODE(each.stat().st_mode) for each in notes.iterdir()] == [0o600]
    append(hooks.session, [boundary(), summary("Nothing was kept.")])
    said = hooks.ask("UserPromptSubmit", "remember", "confirm", prompt="Go on.")
    assert RULES_HEADING in said
    assert RULE in said
    assert hooks.wait() == process


def test_what_a_hook_has_replied_is_joined_in_the_order_of_the_features(hooks: Hooks) -> None:
    hooks.ask("PreCompact", "steer")
    hooks.wait()
    words = [str(hooks.store), "PreCompact", '{"confirm":["Done.","",""],"cold":null}']
    data, until = hooks.told("PreCompact"), time.monotonic() + LIMIT_S
    said = standby.ask(str(hooks.store), [*words, "confirm", "steer", "cold"], data, until)
    assert said is not None
    assert said.decode().startswith("Done.\n\n")
    assert said.decode().endswith(hooks.ask("PreCompact", "steer"))


def test_only_its_user_can_reach_it(hooks: Hooks) -> None:
    hooks.ask("PreCompact", "steer")
    hooks.wait()
    assert stat.S_IMODE(hooks.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(hooks.socket.parent.stat().st_mode) == 0o700
    assert asked(hooks)


def test_a_socket_that_another_user_may_have_made_is_not_asked(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.ask("PreCompact", "steer")
    hooks.wait()
    hooks.socket.parent.chmod(0o770)
    assert asked(hooks) is None
    hooks.socket.parent.chmod(0o700)
    moved = hooks.socket.with_name("moved")
    hooks.socket.rename(moved)
    hooks.socket.symlink_to(moved)
    assert asked(hooks) is None
    moved.rename(hooks.socket)
    assert asked(hooks)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert asked(hooks) is None


@pytest.mark.parametrize("other", ["/proc/self/ns/mnt", "/"])
def test_who_sees_other_files_gets_no_answer(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    hooks.ask("PreCompact", "steer")
    hooks.wait()
    stamp = standby._stamp
    monkeypatch.setattr(standby, "_stamp", lambda path: (1, 2) if path == other else stamp(path))
    assert asked(hooks) is None
    monkeypatch.undo()


def test_who_runs_another_ctxtop_gets_no_answer(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.ask("PreCompact", "steer")
    hooks.wait()
    monkeypatch.setattr(standby, "__file__", "/elsewhere/standby.py")
    assert asked(hooks) is None


def test_it_ends_without_an_answer_when_its_socket_is_no_longer_its_own(hooks: Hooks) -> None:
    hooks.ask("PreCompact", "steer")
    hooks.wait()
    assert hooks.end() == b""
    assert asked(hooks) is None
    assert RULE in hooks.ask("PreCompact", "steer")


def test_it_ends_when_a_file_of_its_code_is_another(
    hooks: Hooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks.socket.parent.mkdir(parents=True, mode=0o700)
    code = tmp_path / "code.py"
    code.write_text("", encoding="utf-8")
    module = ModuleType("code_of_a_test")
    module.__file__ = str(code)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    process = standby._Standby(str(hooks.socket), lambda *_: b"")
    assert process._is_current()
    code.write_text("# newer", encoding="utf-8")
    assert not process._is_current()
    process.run()
    assert not hooks.socket.exists()


def test_one_that_stops_in_the_middle_costs_no_answer(hooks: Hooks) -> None:
    hooks.socket.parent.mkdir(parents=True, mode=0o700)
    script = (
        "import socket, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n"
        "c = s.accept()[0]; c.sendall(b'+'); c.recv(10)\n"
    )
    with subprocess.Popen([sys.executable, "-I", "-c", script, str(hooks.socket)]):
        hooks.wait()
        assert RULE in hooks.ask("PreCompact", "steer")


def test_a_hook_that_records_leaves_nothing(hooks: Hooks) -> None:
    hooks.ask("PreCompact")
    hooks.ask("UserPromptSubmit", "confirm", prompt="Go on.")
    time.sleep(0.2)
    assert not hooks.socket.exists()
