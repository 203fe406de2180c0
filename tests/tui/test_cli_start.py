"""`ctxtop` alone: what it imports, and where it opens."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.tui import launch
from ctxtop.tui.cli import main
from ctxtop.tui.cli.command_options import registry
from ctxtop.tui.cli.commands import ALIASES, COMMAND_MODULES, load_command

from ..transcripts import PROJECT, SESSION, append, assistant, user, write

if TYPE_CHECKING:
    from pathlib import Path

# msgspec is not in this list: Claude Code's folder is described with the store's facts.
LATE = ("click", "sqlite_utils", "psutil", "tiktoken", "watchfiles", "ctxtop.tui.cli.commands")

PROBE = f"""
import sys
from ctxtop.tui import launch
def run_dashboard(places, mouse, welcomes):
    print(sorted(name for name in {LATE!r} if name in sys.modules), file=sys.stderr)
    return 7
launch.run_dashboard = run_dashboard
sys.argv = ["ctxtop"]
sys.stdout.isatty = lambda: True
from ctxtop.tui.cli import main
main()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CTXTOP_CONFIG_DIR", "CTXTOP_DB"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What was opened, in place of the dashboard and the demo."""
    calls: list[tuple[str, Any]] = []

    def run_dashboard(places: object, *, mouse: bool, welcomes: bool) -> int:
        assert welcomes
        calls.append(("dashboard" if mouse else "dashboard, no mouse", places))
        return 0

    def run_demo(notice: str | None = None, policy: object = (), *, mouse: bool = True) -> int:
        calls.append(("demo" if mouse else "demo, no mouse", notice))
        return 0

    def make_demo_folder() -> SimpleNamespace:
        return SimpleNamespace(root="/made/here")

    for stub in (run_dashboard, run_demo, make_demo_folder):
        monkeypatch.setattr(launch, stub.__name__, stub)
    return calls


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ctxtop", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def test_nothing_late_is_imported_before_the_dashboard(home: Path) -> None:
    (home / ".claude").mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stderr.strip()) == (7, "[]")


def test_the_dashboard_opens_on_the_default_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch, opened: list[tuple[str, Any]]
) -> None:
    (home / ".claude").mkdir()
    on_a_terminal(monkeypatch)
    assert run(monkeypatch) == 0
    ((what, places),) = opened
    assert (what, places.config_dir) == ("dashboard", home / ".claude")


def test_options_alone_open_the_dashboard(
    home: Path, monkeypatch: pytest.MonkeyPatch, opened: list[tuple[str, Any]]
) -> None:
    on_a_terminal(monkeypatch)
    assert run(monkeypatch, "--config-dir", str(home), "--db", str(home / "s.db")) == 0
    ((what, places),) = opened
    assert (what, places.config_dir, places.store) == ("dashboard", home, home / "s.db")


def test_without_a_terminal_one_line_and_code_2(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[tuple[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / ".claude").mkdir()
    assert run(monkeypatch) == 2
    assert capsys.readouterr() == (
        "",
        "ctxtop: the dashboard needs a terminal; `ctxtop sessions` prints the same\n",
    )
    assert run(monkeypatch, "demo") == 2
    assert opened == []


def test_without_a_folder_the_demo_says_so(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[tuple[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    on_a_terminal(monkeypatch)
    assert run(monkeypatch) == 0
    ((what, notice),) = opened
    assert what == "demo"
    assert str(home / ".claude") in notice
    assert capsys.readouterr().err == f"ctxtop: {notice}\n"


def test_a_named_folder_that_is_missing_is_an_error(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[tuple[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    on_a_terminal(monkeypatch)
    monkeypatch.setenv("CTXTOP_CONFIG_DIR", str(home / "nowhere"))
    assert run(monkeypatch) == 1
    assert capsys.readouterr().err.startswith("ctxtop: there is no folder ")
    assert opened == []


def test_the_demo_is_made_or_opened(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[tuple[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, "demo", "--once") == 0
    assert capsys.readouterr().out == "/made/here\n"
    assert run(monkeypatch, "--json", "demo", "--once") == 0
    assert capsys.readouterr().out == '{\n  "config_dir": "/made/here"\n}\n'
    on_a_terminal(monkeypatch)
    assert run(monkeypatch, "demo") == 0
    assert opened == [("demo", None)]


def test_the_mouse_can_be_left_to_the_terminal(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[tuple[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (home / ".claude").mkdir()
    on_a_terminal(monkeypatch)
    for words in (("--no-mouse",), ("demo", "--no-mouse"), ("--no-mouse", "demo")):
        assert run(monkeypatch, *words) == 0
    assert [what for what, _ in opened] == [
        "dashboard, no mouse",
        "demo, no mouse",
        "demo, no mouse",
    ]
    assert run(monkeypatch, "--no-mouse", "sessions") == 2
    assert "--no-mouse only applies to the dashboard" in capsys.readouterr().err


def test_ctrl_c_ends_with_130(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: object, **__: object) -> int:
        raise KeyboardInterrupt

    (home / ".claude").mkdir()
    monkeypatch.setattr(launch, "run_dashboard", interrupt)
    on_a_terminal(monkeypatch)
    assert run(monkeypatch) == 130
    assert run(monkeypatch, "--config-dir", str(home)) == 130
    assert "Traceback" not in capsys.readouterr().err


PLAIN = ("sessions", "agents", "settings", "log", "compactions", "warnings", "totals", "doctor")

RUN_PLAIN = f"""
import sys
from contextlib import suppress
from ctxtop.tui.cli import main
for command in {PLAIN!r}:
    sys.argv = ["ctxtop", command]
    with suppress(SystemExit):
        main()
    print(command, "textual" in sys.modules, file=sys.stderr)
"""


def test_a_command_that_prints_text_does_without_textual(home: Path) -> None:
    """Textual takes a quarter of a second to load."""
    (home / ".claude").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", RUN_PLAIN], capture_output=True, text=True, check=True, timeout=60
    )
    said = [line for line in done.stderr.splitlines() if line.split()[0] in PLAIN]
    assert said == [f"{command} False" for command in PLAIN]


RUN_ONE = """
import sys
from contextlib import suppress
from ctxtop.tui.cli import main
sys.argv = ["ctxtop", *sys.argv[1:]]
with suppress(SystemExit):
    main()
print(*sys.modules, file=sys.stderr)
"""

SHARED_BY_COMMANDS = {
    *("command_options", "command_store", "commands"),
    *("json_records", "printing", "result_tables"),
}


def loaded_by(*words: str) -> set[str]:
    """Return what a command imports, with its folder's own modules by their last name."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_ONE, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout
    return set(done.stderr.splitlines()[-1].split())


def commands_among(modules: set[str]) -> set[str]:
    prefix = "ctxtop.tui.cli."
    return {name.removeprefix(prefix) for name in modules if name.startswith(prefix)}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_needs_no_store_imports_nothing_of_it(home: Path, option: str) -> None:
    loaded = loaded_by(option)
    assert commands_among(loaded) == {"command_options", "commands"}
    assert not loaded & {"msgspec", "sqlite3", "rich", "asyncio", "json"}
    assert not {name for name in loaded if name.startswith(("ctxtop.core", "ctxtop.collectors"))}


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("totals", {"store_commands"}),
        ("sessions", {"store_commands"}),
        ("search", {"search_command"}),
    ],
)
def test_a_command_imports_no_other_commands_modules(
    home: Path, command: str, own: set[str]
) -> None:
    (home / ".claude" / "projects").mkdir(parents=True)
    words = [command, *(["word"] if command == "search" else [])]
    loaded_by(*words)  # makes the store, with what that needs
    loaded = loaded_by(*words)
    assert commands_among(loaded) <= SHARED_BY_COMMANDS | own
    acting = ("ctxtop.core.compaction.", "ctxtop.core.actions.", "ctxtop.core.injection.")
    assert not {name for name in loaded if name.startswith(acting)}
    slow = {"sqlite_utils", "tiktoken", "watchfiles", "difflib", "asyncio", "http.client"}
    assert not loaded & slow


LINE_DECODERS = {"entry_decoder", "line_decoder", "line_types", "reported_usage"}
NOT_WITHOUT_CHANGES = {
    *("agent_metas", "changed_files", "line_indexer", "own_log_records", "reader_pool"),
    "status_line_input",
    *("archive_index", "archive_job", "blob_store", "chunk_store"),
    *("expectations", "findings", "judge", "run_verdict"),
    "_hashlib",  # OpenSSL
}


@pytest.mark.parametrize(
    ("words", "own"),
    [
        (("totals",), set()),
        (("sessions",), set()),
        (("search", "tokenizer"), LINE_DECODERS),  # of the lines that it shows
    ],
)
def test_a_folder_that_did_not_change_is_only_looked_at(
    home: Path, words: tuple[str, ...], own: set[str]
) -> None:
    """Loading what reads files takes longer than all else that these commands do with them."""
    folder = home / ".claude"
    transcript = folder / "projects" / PROJECT / f"{SESSION}.jsonl"
    write(transcript, [user("fix the tokenizer"), assistant()])
    agent = transcript.with_suffix("") / "subagents" / "agent-a1.jsonl"
    write(agent, [user("look", agentId="a1", isSidechain=True)])
    agent.with_suffix(".meta.json").write_text('{"agentType":"scout"}')
    skill = folder / "skills" / "greet" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: greet\ndescription: says hello\n---\n")
    (folder / "settings.json").write_text('{"model":"opus"}')
    assert "changed_files" in last_names(loaded_by(*words))
    needless = (NOT_WITHOUT_CHANGES | LINE_DECODERS) - own
    assert last_names(loaded_by(*words)) & needless == set()
    append(transcript, [user("and now this", 3)])
    assert {"changed_files", "line_indexer"} <= last_names(loaded_by(*words))


def last_names(modules: set[str]) -> set[str]:
    return {name.rpartition(".")[2] for name in modules}


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    for module, helps in COMMAND_MODULES.items():
        for name, text in helps.items():
            command = load_command(name)
            assert command.callback is not None
            if name != "hooks":
                assert inspect.unwrap(command.callback).__module__.endswith(f".{module}")
            assert (command.help or "").replace("\n", " ").startswith(text), name
    listed = {name for helps in COMMAND_MODULES.values() for name in helps}
    assert set(registry.commands) == listed | set(ALIASES)
    assert {name for name, each in registry.commands.items() if each.hidden} == set(ALIASES)


def test_a_group_has_the_subcommands_of_all_its_modules(home: Path) -> None:
    help_text = subprocess.run(
        [sys.executable, "-c", RUN_ONE, "hooks", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    listed = {line.split()[0] for line in help_text.partition("Commands:")[2].splitlines() if line}
    assert listed == {"install", "list", "runs", "status", "uninstall"}
