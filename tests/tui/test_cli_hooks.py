"""`ctxtop hooks`: what people and programs read, when it asks, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from ctxtop.collectors.install.settings_file import RECORDED_EVENTS
from ctxtop.collectors.plugin.installed_commands import FEATURE_EVENTS
from ctxtop.collectors.plugin_files import plugin_log
from ctxtop.tui.cli import printing

from ..installs import SETTINGS, older, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ended import Ended

KEYS = ["settings", "added", "removed", "kept", "backup", "difference"]
HOOK_KEYS = [
    "event",
    "scope",
    "settings",
    "command",
    "features",
    "wrapped",
    "problem",
    "last_record_at",
]


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / ".claude" / "settings.json"
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    path.write_text(text(), encoding="utf-8")
    return path


@pytest.fixture
def run(
    tmp_path: Path,
    settings: Path,
    monkeypatch: pytest.MonkeyPatch,
    call_ctxtop: Callable[..., Ended],
) -> Callable[..., Ended]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert settings.exists()
    return call_ctxtop


def test_off_a_terminal_nothing_is_written_without_yes(
    run: Callable[..., Ended], settings: Path
) -> None:
    for words in ((), ("--json",)):
        ended = run("hooks", "install", *words)
        assert ended.code == 2
        assert ended.err == (
            "ctxtop: nothing was written: this is not a terminal; pass --yes to confirm, or"
            " --dry-run to preview\n"
        )
        assert settings.read_text() == text()
    assert not (settings.parent / "skills").exists()


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 2)])
def test_on_a_terminal_it_asks_after_the_difference(
    run: Callable[..., Ended],
    settings: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: bool,
    code: int,
) -> None:
    asked: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr(printing, "is_interactive", lambda: True)
    ended = run("hooks", "install", "--as", "hooks")
    assert ended.code == code
    assert len(asked) == 1
    assert f"+++ {settings}" in ended.out
    in_short = (
        f"{settings}: adds {len(RECORDED_EVENTS)} hooks, 1 status line; removes 1 status line;"
        " keeps"
    )
    assert in_short in ended.err
    assert (settings.read_text() == text()) is not answer


def test_dry_run_shows_the_difference_and_writes_nothing(
    run: Callable[..., Ended], settings: Path
) -> None:
    ended = run("hooks", "install", "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    assert f"--- {settings}" in ended.out
    assert "new file" in ended.out
    assert settings.read_text() == text()
    record = run("hooks", "install", "--dry-run", "--json").json
    assert list(record) == KEYS
    assert record["backup"] is None
    assert record["kept"] == ["hook Stop: notify-send done", "hook PreToolUse: guard"]
    assert any(line.startswith("+++ ") for line in record["difference"])


def test_the_difference_is_ascii_where_that_is_asked_for(
    run: Callable[..., Ended], settings: Path
) -> None:
    settings.write_text(text().replace("my-line --wide", "my-line ✓"), encoding="utf-8")
    assert "✓" in run("hooks", "install", "--as", "hooks", "--dry-run").out
    ended = run("hooks", "install", "--as", "hooks", "--dry-run", "--ascii")
    assert "my-line" in ended.out
    assert ended.out.isascii()


def test_install_status_uninstall_as_programs_see_them(
    run: Callable[..., Ended], settings: Path
) -> None:
    done = run("hooks", "install", "--yes", "--json", "--with", "steer, inject")
    assert (done.code, done.err) == (0, "")
    assert list(done.json) == KEYS
    assert Path(done.json["backup"]).read_text() == text()

    status = run("hooks", "status", "--json")
    assert status.code == 0
    record = status.json
    assert list(record) == [
        "state",
        "plugin",
        "plugin_version",
        "hooks",
        "status_line",
        "problems",
    ]
    assert (record["state"], record["problems"]) == ("clean", [])
    assert [hook["event"] for hook in record["hooks"]] == list(RECORDED_EVENTS)
    assert all(list(hook) == HOOK_KEYS for hook in [*record["hooks"], record["status_line"]])
    assert record["status_line"]["wrapped"] == "my-line --wide"
    named = {hook["event"]: hook["features"] for hook in record["hooks"] if hook["features"]}
    assert named == {"SubagentStart": ["inject"], "PreCompact": ["steer"]}

    again = run("hooks", "install", "--yes", "--json", "--with", "inject,steer")
    assert (again.code, again.err) == (2, "ctxtop: nothing to do\n")
    assert (again.json["added"], again.json["removed"]) == ([], [])

    assert run("hooks", "uninstall", "--yes").code == 0
    assert settings.read_text() == text()
    assert run("hooks", "uninstall", "--yes").code == 2
    assert run("hooks", "status", "--json").json["state"] == "absent"


def test_status_for_people_begins_with_one_word(run: Callable[..., Ended]) -> None:
    ended = run("hooks", "status")
    assert ended.code == 0
    assert ended.out.splitlines()[0] == "absent"
    run("hooks", "install", "--yes")
    lines = run("hooks", "status").out.splitlines()
    assert lines[0] == "clean"
    assert lines[1].split() == ["EVENT", "DOES", "LAST", "RECORD"]
    assert "status line, runs my-line --wide" in lines


def test_status_says_when_a_hook_last_told_something(
    run: Callable[..., Ended], tmp_path: Path
) -> None:
    store = str(tmp_path / "state" / "x.db")
    run("hooks", "install", "--yes", "--db", store)
    given = b'{"session_id":"0a000000-0000-4000-8000-000000000001"}'
    assert (
        plugin_log.append_record(plugin_log.log_path(store, plugin_log.HOOKS_LOG), "Stop", given)
        is None
    )
    hooks = run("hooks", "status", "--json", "--db", store).json["hooks"]
    told = {hook["event"] for hook in hooks if hook["last_record_at"]}
    assert told == {"Stop"}


def test_status_tells_of_what_went_wrong_in_a_hook(
    run: Callable[..., Ended], tmp_path: Path
) -> None:
    store = str(tmp_path / "state" / "x.db")
    run("hooks", "install", "--yes", "--db", store)
    path = plugin_log.log_path(store, plugin_log.HOOKS_LOG)
    Path(path).parent.mkdir(parents=True)
    Path(plugin_log.fault_path(path)).write_text("1700000000000 OSError: no room\n")
    ended = run("hooks", "status", "--json", "--db", store)
    assert (ended.code, ended.json["state"]) == (1, "faulty")
    assert "OSError: no room" in ended.json["problems"][0]


def test_doctor_knows_the_plugin(run: Callable[..., Ended], settings: Path) -> None:
    agent = settings.parent / "agents" / "w.md"
    agent.parent.mkdir()
    agent.write_text("---\nname: w\ndescription: d\nskills: compress-output\n---\nYou are w.\n")
    checks = {one["name"]: one for one in run("doctor", "--json").json["checks"]}
    assert "no SKILL.md defines it" in checks["definitions"]["detail"]
    run("hooks", "install", "--yes")
    checks = {one["name"]: one for one in run("doctor", "--json").json["checks"]}
    assert checks["definitions"]["ok"], checks["definitions"]
    assert checks["hooks"]["ok"]
    assert checks["hooks"]["detail"] == f"in the plugin {settings.parent / 'skills' / 'ctxtop'}"


def test_a_status_that_is_not_clean_ends_with_1(run: Callable[..., Ended], settings: Path) -> None:
    settings.write_text(text({"hooks": {"Stop": [{"hooks": [older("Stop")]}]}}))
    ended = run("hooks", "status")
    assert ended.code == 1
    assert ended.out.splitlines()[0] == "faulty"
    assert "/old/bin/python no longer exists" in ended.out


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            "{\n1",
            "settings.json is not valid JSON (line 2, column 1: a name in double quotes was",
        ),
        ('{"hooks": 1}', "settings.json has hooks that are not a JSON object: correct them"),
    ],
)
def test_what_is_not_safe_ends_with_4_and_one_line(
    run: Callable[..., Ended], settings: Path, broken: str, words: str
) -> None:
    settings.write_text(broken)
    ended = run("hooks", "install", "--yes", "--as", "hooks")
    assert ended.code == 4
    assert words in ended.err
    assert ended.err.count("\n") == 1
    assert settings.read_text() == broken


def test_an_unknown_feature_is_a_usage_error(run: Callable[..., Ended], settings: Path) -> None:
    ended = run("hooks", "install", "--with", "inject,magic", "--yes")
    assert ended.code == 2
    assert f"unknown feature 'magic': --with takes {', '.join(FEATURE_EVENTS)}" in ended.err
    assert settings.read_text() == text()


def test_two_scopes_at_once_are_refused(run: Callable[..., Ended], settings: Path) -> None:
    run("hooks", "install", "--yes")
    ended = run("hooks", "install", "--scope", "project", "--yes")
    assert ended.code == 1
    assert "ctxtop is already in " in ended.err
    assert "`ctxtop hooks uninstall --scope user` first" in ended.err
    run("hooks", "uninstall", "--yes")
    assert run("hooks", "install", "--scope", "project", "--yes").code == 0
    assert settings.read_text() == text()
    assert (Path.cwd() / ".claude" / "settings.json").exists()
    assert run("hooks", "status", "--json").json["hooks"][0]["scope"] == "project"
    assert run("hooks", "install", "--yes").code == 1


def test_another_projects_settings_are_named(run: Callable[..., Ended], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    words = ["--scope", "local", "--project", str(other), "--yes", "--json"]
    found = run("hooks", "install", *words).json
    assert found["settings"] == str(other / ".claude" / "settings.local.json")
    assert run("hooks", "status", "--json").json["state"] == "absent"
    assert run("hooks", "status", "--json", "--project", str(other)).json["state"] == "clean"
    assert run("hooks", "uninstall", *words).code == 0
    assert not (other / ".claude").exists()


def test_in_the_home_folder_the_settings_of_a_project_are_ones_own(
    run: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("hooks", "install", "--yes", "--as", "hooks")
    assert run("hooks", "status", "--json").json["state"] == "clean"
    ended = run("hooks", "install", "--scope", "project", "--yes")
    assert ended.code == 1
    assert "in this folder the project's settings are your own: omit --scope" in ended.err


def test_status_says_when_the_status_line_was_last_shown(
    run: Callable[..., Ended], tmp_path: Path
) -> None:
    store = str(tmp_path / "state" / "x.db")
    run("hooks", "install", "--yes", "--db", store)
    shown = run("hooks", "status", "--json", "--db", store).json["status_line"]
    assert shown["last_record_at"] is None
    given = b'{"session_id":"0a000000-0000-4000-8000-000000000001","model":{"id":"m"}}'
    assert (
        plugin_log.append_record(
            plugin_log.log_path(store, plugin_log.STATUS_LINE_LOG), "StatusLine", given
        )
        is None
    )
    shown = run("hooks", "status", "--json", "--db", store).json["status_line"]
    assert shown["last_record_at"] is not None


def test_no_status_line_where_none_is_wanted(run: Callable[..., Ended], settings: Path) -> None:
    run("hooks", "install", "--yes", "--as", "hooks", "--no-statusline")
    assert json.loads(settings.read_text())["statusLine"] == SETTINGS["statusLine"]
    run("hooks", "install", "--yes", "--as", "hooks")
    assert "my-line --wide" in json.loads(settings.read_text())["statusLine"]["command"]
    run("hooks", "install", "--yes", "--as", "hooks", "--no-statusline")
    assert json.loads(settings.read_text())["statusLine"] == SETTINGS["statusLine"]


# --- nothing is installed by anything else ----------------------------------------------------

ROOT = Path(__file__).parents[2]
INSTALLERS = {
    ROOT / "tui" / name
    for name in (
        "cli/hooks_commands.py",
        "page_kit/hook_installation.py",
        "text/settings_text.py",
        "entities/receipt_history.py",
    )
}
"""The commands, what pages ask, the text of a plan, and the list of what was installed."""

WRITERS = {
    ROOT / "collectors" / "policy_editing.py",
    ROOT / "tui" / "entities" / "policy_table.py",
}
"""They write ctxtop's own policy with the installer's care."""


def test_no_other_module_knows_the_installer() -> None:
    own = set((ROOT / "collectors" / "install").rglob("*.py"))
    sources = [
        path for part in ("core", "collectors", "tui") for path in (ROOT / part).rglob("*.py")
    ]
    named = re.compile(r"(from|import) [.\w]*\.install\b|import install\b")
    knowing = {path for path in sources if named.search(path.read_text())}
    assert knowing - own == INSTALLERS | WRITERS


OTHERS = [
    ["scan"],
    ["sessions"],
    ["agents"],
    ["compactions"],
    ["warnings"],
    ["summaries"],
    ["totals"],
    ["settings"],
    ["doctor"],
    ["hooks", "status"],
    ["hooks", "install"],
    ["hooks", "install", "--dry-run"],
    ["hooks", "uninstall", "--dry-run"],
]


def test_no_other_command_touches_claude_codes_folder(
    run: Callable[..., Ended], settings: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in settings.parent.rglob("*")}
    for words in OTHERS:
        run(*words)
    assert {path: path.stat().st_mtime_ns for path in settings.parent.rglob("*")} == before
    assert list(Path.cwd().iterdir()) == []


def test_other_commands_do_not_even_load_the_installer(
    settings: Path, child_env: dict[str, str]
) -> None:
    script = (
        "import sys\n"
        "sys.argv[1:] = ['sessions', '--config-dir', sys.argv[1], '--db', sys.argv[2]]\n"
        "from ctxtop.tui.cli import main\n"
        "try:\n main()\nexcept SystemExit: pass\n"
        "print(*[name for name in sys.modules if 'collectors.install' in name])"
    )
    store = settings.parent.parent / "x.db"
    done = subprocess.run(
        [sys.executable, "-c", script, str(settings.parent), str(store)],
        env=child_env | {"HOME": str(settings.parent.parent)},
        capture_output=True,
        text=True,
        check=True,
        cwd=os.sep,
    )
    assert done.stdout.splitlines()[-1] == ""


def test_the_runs_of_stop_hooks(run: Callable[..., Ended], settings: Path) -> None:
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "check", "timeout": 5}]}]}
    settings.write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    assert run("hooks", "runs", "--json").json == []
    (hook,) = run("hooks", "list", "--json").json
    assert (hook["event"], hook["kind"], hook["command"]) == ("Stop", "command", "check")
    assert (hook["timeout_ms"], hook["default_timeout"]) == (5_000, False)
    assert (hook["scope"], hook["settings"]) == ("user", str(settings))
    assert "check" in run("hooks", "list").out
    line = {
        "type": "system",
        "subtype": "stop_hook_summary",
        "uuid": "u1",
        "timestamp": "2026-01-02T03:04:05.000Z",
        "hookInfos": [{"command": "check", "durationMs": 1_250}],
        "hookErrors": ["no tests"],
    }
    session = settings.parent / "projects" / "-x" / "0a000000-0000-4000-8000-000000000001.jsonl"
    session.parent.mkdir(parents=True)
    session.write_text(json.dumps(line) + "\n", encoding="utf-8")
    (record,) = run("hooks", "runs", "--json").json
    assert record == {
        "event": "Stop",
        "command": "check",
        "kind": "command",
        "timeout_ms": 5_000,
        "default_timeout": False,
        "runs": 1,
        "median_ms": 1_250,
        "longest_ms": 1_250,
        "timed_out": False,
        "last_ms": 1_250,
        "last_at": "2026-01-02T03:04:05.000Z",
        "reason": "no tests",
    }
    shown = run("hooks", "runs").out
    assert all(words in shown for words in ("check", "1.2 s", "5 s", "no tests"))
