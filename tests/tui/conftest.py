"""Async tests without a plugin, a home of their own, a clock that stands, and the demo."""

from __future__ import annotations

import asyncio
import inspect
import io
import sys
import time
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors import store_update
from ctxtop.collectors.claude_code import registry
from ctxtop.collectors.demo import make_demo
from ctxtop.collectors.locations.places import Places
from ctxtop.tui.app import CtxtopApp
from ctxtop.tui.cli import main

from .ended import Ended
from .quick_textual import hurry_textual
from .support import NOW, Clock, Stage
from .told import Told, copy_demo, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctxtop.collectors.demo import DemoFolder

PID = 4242


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reads the machine's own folders, colors or timezone."""
    # CTXTOP_SHARED stays: it names recorded transcripts for the tests that read them.
    folders = ("CLAUDE_CONFIG_DIR", "CTXTOP_CONFIG_DIR", "CTXTOP_DB")
    # Where tests run side by side the size of a terminal is set, which none of them has.
    for name in (*folders, "NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip what costs a test time and shows it nothing."""
    hurry_textual(monkeypatch)
    monkeypatch.setattr("ctxtop.tui.app_state.notifier.GROUPING_S", 0.05)
    # A tenth of what opening the dashboard costs, and of use only to one that stays open.
    monkeypatch.setattr("ctxtop.tui.app.freeze_long_lived_objects", lambda: None)


@pytest.fixture(autouse=True)
def unhurried_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing begin, or end early, because a machine is slow."""
    # What a dashboard learns changes sizes, and its index is there before a test has made one.
    # What a command has no time to archive is archived by the next one.
    for name in ("INDEX_AFTER_S", "CALIBRATE_AFTER_S", "COMMAND_ARCHIVE_S"):
        monkeypatch.setattr(store_update, name, float("inf"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The dashboard's clock, which stands until a test moves it."""
    stands = Clock()
    monkeypatch.setattr(CtxtopApp, "now_ms", lambda _: stands.ms)
    return stands


@pytest.fixture
def stage(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """An empty folder of the client's, and the store that belongs to it."""
    monkeypatch.setattr(registry, "_is_alive", lambda _: True)
    root = tmp_path / "claude"
    (root / "projects").mkdir(parents=True)
    return Stage(Places(root, tmp_path / "state" / "store.db"), clock)


@pytest.fixture(scope="session")
def demo_files(tmp_path_factory: pytest.TempPathFactory) -> DemoFolder:
    """The demo's folder, written once and copied for each test: to write it takes a second."""
    return make_demo(tmp_path_factory.mktemp("files") / "claude", NOW, pid=PID, proc_start="1")


@pytest.fixture
def untold(stage: Stage, demo_files: DemoFolder) -> Stage:
    """The demo's sessions, of which no store knows anything yet."""
    stage.sessions = copy_demo(demo_files, stage.root).sessions
    return stage


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory, demo_files: DemoFolder) -> Told:
    """The demo's folder and the store of one scan of it, made once for all tests."""
    top = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_is_alive", lambda _: True)
        patch.setenv("HOME", str(top))
        patch.delenv("CLAUDE_CONFIG_DIR", raising=False)
        return tell(top, demo_files)


@pytest.fixture
def demo(stage: Stage, told: Told) -> Stage:
    """The demo's sessions, as they were told; the open ones count as open."""
    told.restore()
    return Stage(told.places, stage.clock, told.sessions)


@pytest.fixture
def call_ctxtop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Run `ctxtop` with some words, and with what stands on stdin."""

    def run(*words: str, given: str = "") -> Ended:
        monkeypatch.setattr(sys, "argv", ["ctxtop", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Ended(ended.value.code, out, err)

    return run
