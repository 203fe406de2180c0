"""Every process that ctxtop starts, and that none runs code of the current folder."""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import ctxtop.core.host as child_process
import pytest
from ctxtop.collectors.claude_code import reader_pool as readers_module
from ctxtop.collectors.claude_code.reader_pool import MIN_POOL_BYTES, open_reader_pool
from ctxtop.collectors.install.install_status import MODULE_SETTINGS_FILE, plugin_files
from ctxtop.collectors.plugin.installed_commands import hook_command, statusline_command
from ctxtop.collectors.terminal import client_run, tmux_panes
from ctxtop.collectors.terminal.client_run import ClientRunError, prepare_run
from ctxtop.core.host import client_environment, find_program, python_command
from ctxtop.core.summaries.model_providers import ClaudeCli
from ctxtop.core.summaries.model_summary import ProviderError, SummaryRequest
from ctxtop.tui.app_state import notifications

from ..transcripts import SESSION

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(child_process.__file__).resolve().parents[1]

STARTS: Final = {
    # The client, in a session's own folder and only where it trusts that.
    ("collectors/terminal/client_run.py", "subprocess.run"),
    # The client with neither tools nor settings, in an empty folder of our own.
    ("core/summaries/model_providers.py", "subprocess.run"),
    # tmux, of the person's own server, by its absolute path.
    ("collectors/terminal/tmux_panes.py", "subprocess.run"),
    # The client, in place of `ctxtop resume`, in a session's own folder.
    ("collectors/terminal/session_resume.py", "os.execve"),
    # The person's own status line of before, as the client would run it.
    ("collectors/plugin/wrapped_status_line.py", "os.posix_spawn"),
    # The hook's own process, once more, to give the next answers.
    ("collectors/plugin/standby.py", "os.fork"),
    # Our own reader, by python_command.
    ("collectors/claude_code/reader_pool.py", "subprocess.Popen"),
    # notify-send or osascript, by its absolute path.
    ("tui/app_state/notifications.py", "subprocess.run"),
    # Our own dashboard for a page, by python_command.
    ("tui/web_server.py", "asyncio.create_subprocess_exec"),
}

INTERPRETERS: Final = {
    "core/host.py",
    "collectors/install/install_status.py",
    "collectors/plugin/installed_commands.py",
}
"""Modules that name Python's own program; what they make of it is tested below."""

_MODULES: Final = frozenset({"subprocess", "multiprocessing", "pty", "webbrowser"})
_OF_OS: Final = ("system", "popen", "spawn", "posix_spawn", "exec", "fork")

HOSTILE: Final = (
    *("ctxtop", "json", "msgspec", "sqlite3", "struct", "gc", "re", "select", "shlex", "time"),
    *("sitecustomize", "usercustomize", "textual", "typing", "pathlib", "psutil"),
)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cloned repository whose modules and programs leave a mark; this process is in it."""
    folder = tmp_path / "clone"
    folder.mkdir()
    for name in HOSTILE:
        text = f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    for name in ("claude", "tmux", "notify-send", "git"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho {name} >> {tmp_path / 'ran'}\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    return tmp_path / "ran"


def _sources() -> Iterator[tuple[str, ast.Module]]:
    for top in ("core", "collectors", "tui"):
        for path in sorted((ROOT / top).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            yield str(path.relative_to(ROOT)), tree


def test_every_process_that_is_started_is_known() -> None:
    found = {
        (where, call)
        for where, tree in _sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (call := ast.unparse(node.func)) and _starts(call)
    }
    assert found == STARTS


def test_no_name_hides_a_start() -> None:
    """A module is imported as a whole, so that each call names it."""
    for where, tree in _sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = {each.name for each in node.names}
                assert node.module not in _MODULES, where
                assert not (node.module == "os" and any(map(_is_start_of_os, names))), where
                assert "ProcessPoolExecutor" not in names, where
            if isinstance(node, ast.Import):
                assert all(each.asname is None for each in node.names if each.name in _MODULES)
                assert not {"multiprocessing", "webbrowser"} & {each.name for each in node.names}


def _starts(call: str) -> bool:
    module, _, name = call.rpartition(".")
    if module == "os":
        return _is_start_of_os(name)
    is_result = name in {"CompletedProcess", "TimeoutExpired"}
    return (module in _MODULES and not is_result) or "create_subprocess" in name


def _is_start_of_os(name: str) -> bool:
    return name.startswith(_OF_OS)


def test_python_is_named_only_where_it_is_kept_from_the_current_folder() -> None:
    named = {
        where
        for where, tree in _sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"
    }
    assert named == INTERPRETERS
    assert python_command("a.b", "c") == [sys.executable, "-P", "-m", "a.b", "c"]
    module = json.loads(plugin_files(Path("/s.db"), {})[MODULE_SETTINGS_FILE])["command"]
    assert module[:2] == [sys.executable, "-I"]
    commands = [hook_command(Path("/s.db"), "Stop"), statusline_command(Path("/s.db"))]
    for command in [*commands, hook_command(Path("/s.db"), "Stop", ["enforce"])]:
        words = shlex.split(command)
        flags = [after for word, after in pairwise(words) if word == sys.executable]
        assert "-I" in flags, command


@pytest.mark.usefixtures("hostile")
def test_what_the_client_runs_of_ours_imports_nothing_of_its_folder(
    ran: Path, tmp_path: Path
) -> None:
    store = tmp_path / "state" / "s.db"
    features = ["enforce", "inject", "steer", "remember", "prompts", "confirm", "cold"]
    given = {"session_id": SESSION, "hook_event_name": "UserPromptSubmit", "prompt": "x"}
    for command in (
        hook_command(store, "UserPromptSubmit"),
        hook_command(store, "UserPromptSubmit", features),
        statusline_command(store, "cat"),
        shlex.join(json.loads(plugin_files(store, {})[MODULE_SETTINGS_FILE])["command"]) + " hello",
    ):
        subprocess.run(
            ["/bin/sh", "-c", command], input=json.dumps(given).encode(), check=False, timeout=60
        )
    assert not ran.exists()
    # The trap works.
    subprocess.run([sys.executable, "-c", "import json"], check=False, timeout=60)
    assert "json" in ran.read_text(encoding="utf-8")


@pytest.mark.usefixtures("hostile")
def test_a_reader_imports_nothing_of_the_current_folder(
    ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers_module, "_usable_cores", lambda: 2)
    with open_reader_pool(MIN_POOL_BYTES) as readers:
        (reader,) = readers._readers
        assert reader.process.stdin is not None
        reader.process.stdin.close()
        # It has imported everything before it finds that there is nothing to do.
        assert reader.process.wait(30) == 0
    assert not ran.exists()


@pytest.mark.parametrize("path", [".", "", ":", "clone", "./:.."])
def test_a_program_of_the_current_folder_is_not_run(
    hostile: Path, ran: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("PATH", path)
    assert find_program("claude") is None
    with pytest.raises(ClientRunError, match="`claude` is not on the PATH"):
        prepare_run(str(hostile), None)
    with pytest.raises(ProviderError, match="`claude` is not on the PATH"):
        ClaudeCli({"PATH": path}).generate(SummaryRequest("x"), 5)
    assert "not installed" in notifications.run_program(("notify-send", "x"))
    assert tmux_panes.find_pane(1) is None
    assert not ran.exists()


def test_a_run_of_the_client_belongs_to_no_session() -> None:
    given = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "x", "PATH": "/bin", "HOME": "/h"}
    assert client_environment(given) == {"PATH": "/bin", "HOME": "/h"}
    assert client_run.USER_SETTINGS_ONLY == ("--setting-sources", "user")
