"""Automation in the collector: nothing without opt-in, nothing twice, everything kept."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from ctxtop.collectors import automation as module
from ctxtop.collectors.asking import ask as asking
from ctxtop.collectors.asking.outcome import NotCompactedError, Outcome, Via, Why
from ctxtop.collectors.automation import LOOK_MS, LOST_MS, Automation
from ctxtop.collectors.policy_files import PolicyFiles
from ctxtop.core.store.recovery_rows import AutomaticRun, automatic_runs

from ..transcripts import PROJECT, SESSION, START_MS, assistant, user, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.collectors.asking.ask import Subject
    from ctxtop.collectors.collect import Collector
    from ctxtop.collectors.folder import ClaudeFolder
    from ctxtop.core.store.writer import Writer

NOW = START_MS + 3_600_000
DONE = Outcome(SESSION, Via.PLUGIN, NOW, "b-1", 180_000, 24_000, 1.0)


class Client:
    """Counts how often it was asked; it compacts, unless it is told to fail."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Via]] = []
        self.error: Exception | None = None
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self, subject: Subject, via: Via, text: str) -> Outcome:
        self.asked.append((subject.session_id, via))
        assert self.may_end.wait(10)
        if self.error:
            raise self.error
        return DONE


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    folder.mkdir()
    (folder / ".ctxtop.toml").write_text('mode = "auto"\n')
    return folder


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def session(claude: ClaudeFolder, project: Path) -> Callable[..., None]:
    """Makes an open session that is this full."""

    def make(tokens: int = 180_000, status: str = "idle", **fields: Any) -> None:  # noqa: ANN401
        lines = [user(cwd=str(project)), assistant(context=tokens, cwd=str(project), **fields)]
        write(claude.projects / PROJECT / f"{SESSION}.jsonl", lines)
        began = int(psutil.Process().create_time() * 1000)
        entry = {"pid": os.getpid(), "sessionId": SESSION, "startedAt": began, "status": status}
        claude.sessions.mkdir(exist_ok=True)
        path = claude.sessions / f"{os.getpid()}.json"
        path.write_text(json.dumps(entry | {"updatedAt": began, "cwd": str(project)}))

    return make


@pytest.fixture
def started(
    claude: ClaudeFolder, writer: Writer, collector: Collector, project: Path, clock: Clock
) -> Callable[[Client], Automation]:
    """Reads what there is, as the collector does, and begins to automate."""

    def start(client: Client) -> Automation:
        collector.scan()
        files = PolicyFiles()
        files.look([str(project)])
        return Automation(claude, writer, files, client, clock)

    return start


def kept(writer: Writer) -> list[AutomaticRun]:
    return automatic_runs(writer.connection, 0)


def test_a_full_idle_session_is_asked(
    session: Callable[..., None],
    started: Callable[[Client], Automation],
    client: Client,
    writer: Writer,
) -> None:
    session()
    automation = started(client)
    automation.look()
    automation.wait(10)
    (run,) = kept(writer)
    assert client.asked == [(SESSION, Via.PLUGIN)]
    assert (run.session_id, run.at) == (SESSION, NOW)
    assert "90% of its window is in use" in run.reason
    assert run.outcome == "compacted via plugin: 180000 to 24000 tokens"


def test_nothing_without_opt_in(
    session: Callable[..., None],
    started: Callable[[Client], Automation],
    client: Client,
    project: Path,
    writer: Writer,
) -> None:
    session()
    (project / ".ctxtop.toml").write_text('mode = "suggest"\n')
    automation = started(client)
    automation.look()
    automation.wait(10)
    assert (client.asked, kept(writer)) == ([], [])


@pytest.mark.parametrize(
    "how",
    [
        {"status": "busy"},
        {"status": "waiting"},
        {"tokens": 120_000},
        {"model": "some-model-that-nobody-knows"},
    ],
)
def test_nothing_where_a_condition_is_missing(
    session: Callable[..., None],
    started: Callable[[Client], Automation],
    client: Client,
    how: dict[str, Any],
) -> None:
    session(**how)
    automation = started(client)
    automation.look()
    automation.wait(10)
    assert client.asked == []


def test_no_double_run(
    session: Callable[..., None],
    started: Callable[[Client], Automation],
    client: Client,
    clock: Clock,
    writer: Writer,
) -> None:
    session()
    client.may_end.clear()
    automation, other = started(client), started(client)
    for _ in range(30):
        automation.look()
        other.look()
        clock.now += LOOK_MS
    client.may_end.set()
    automation.wait(10)
    assert len(client.asked) == 1
    assert len(kept(writer)) == 1


def test_a_failed_run_cools_down_too_and_three_open_the_breaker(
    session: Callable[..., None],
    started: Callable[[Client], Automation],
    client: Client,
    clock: Clock,
    writer: Writer,
) -> None:
    session()
    client.error = NotCompactedError(Why.FAILED, "the client did not compact")
    automation = started(client)
    for _ in range(60):
        automation.look()
        automation.wait(10)
        clock.now += LOOK_MS
    assert [run.at - NOW for run in kept(writer)] == [0, 60_000, 120_000]
    assert {run.outcome for run in kept(writer)} == {"failed: the client did not compact"}


def test_a_run_that_never_ended_holds_nothing_up_for_ever(
    session: Callable[..., None],
    started: Callable[[Client], Automation],
    client: Client,
    clock: Clock,
    writer: Writer,
) -> None:
    """ctxtop was ended while the client worked."""
    session()
    client.may_end.clear()
    started(client).look()
    client.may_end.set()
    later = started(client)
    clock.now += LOST_MS
    later.look()
    later.wait(10)
    assert len(kept(writer)) == 2


def test_by_the_plugin_then_by_tmux_never_by_a_run_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways: list[Via] = []

    def ask(_subject: object, via: Via, _text: str) -> Outcome:
        ways.append(via)
        raise NotCompactedError(Why.UNSAFE, "no module, and no pane")

    monkeypatch.setattr(asking, "ask_to_compact", ask)
    with pytest.raises(NotCompactedError):
        module._ask_client(None, Via.PLUGIN, "")  # type: ignore[arg-type]
    assert ways == [Via.PLUGIN, Via.TMUX]
