"""Automation in the collector: nothing without opt-in, nothing twice, everything kept and told."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from ctxtop.collectors.claude_code.collector_thread import Collector
from ctxtop.collectors.claude_code.post_scan_jobs import make_automation
from ctxtop.collectors.client_compact import client_compaction as ask_module
from ctxtop.collectors.places import PolicySources, trust_file_path
from ctxtop.collectors.policy_files import PolicyFiles
from ctxtop.collectors.session_target import compaction_target
from ctxtop.collectors.store_update import scan_and_watch
from ctxtop.core.actions import automatic_actions, session_compaction
from ctxtop.core.actions.automatic_actions import ActionResult, AutomaticAction
from ctxtop.core.actions.automation import (
    CHECK_INTERVAL_MS,
    ActionRunners,
    Automation,
    default_runners,
    is_automatic_notice,
)
from ctxtop.core.actions.session_access import (
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    Via,
)
from ctxtop.core.compaction.receipts import ApplyMode, ReceiptStore
from ctxtop.core.compaction.undo import undo
from ctxtop.core.model.problem import Problem
from ctxtop.core.store.automation_records import (
    AUTOMATIC_RUN_TIMEOUT_MS,
    AutomaticRunRecord,
    read_automatic_runs,
)
from ctxtop.core.store.database import state_folder

from ..recovering import chain, turn
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    append,
    assistant,
    boundary,
    refusal,
    text,
    user,
    write,
)
from ..trusted_files import trust, write_trusted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.collectors.claude_code.discover import ClaudeFolder
    from ctxtop.collectors.client_compact.client_compaction import ClientCompactTarget
    from ctxtop.core.compaction.plan import CompactionPlan, PlanOptions
    from ctxtop.core.store.writer import Writer

    from ..recorder import Recorder

NOW = START_MS + 600_000
TOLD = Problem("compacted session 11111111 automatically", "≈ 50k tokens", "undo: …")


class Worker:
    """Counts how often it was asked; it compacts, unless it is told otherwise."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.done = ActionResult("compacted", TOLD, left_tokens=90_000, receipt="r1")
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self, act: AutomaticAction) -> ActionResult:
        self.asked.append(act.session.session_id)
        assert self.may_end.wait(10)
        return self.done


@pytest.fixture
def worker() -> Worker:
    return Worker()


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
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


@pytest.fixture
def session(path: Path, project: Path) -> Callable[..., None]:
    """Makes a session of eight messages that is this full and that nobody has open."""

    def make(tokens: int = 175_000, **fields: Any) -> None:  # noqa: ANN401
        before = [assistant(f"m{number}", cwd=str(project), **fields) for number in "abc"]
        last = assistant(context=tokens, cwd=str(project), **fields)
        write(path, [line for each in (*before, last) for line in (user(cwd=str(project)), each)])

    return make


def opened(claude: ClaudeFolder, status: str) -> None:
    """Register this process as having the session open."""
    began = int(psutil.Process().create_time() * 1000)
    entry = {"pid": os.getpid(), "sessionId": SESSION, "startedAt": began, "status": status}
    claude.sessions.mkdir(exist_ok=True)
    text = json.dumps(entry | {"updatedAt": began})
    (claude.sessions / f"{os.getpid()}.json").write_text(text)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def started(
    claude: ClaudeFolder,
    writer: Writer,
    collector: Collector,
    project: Path,
    clock: Clock,
    told: list[str],
) -> Callable[..., Automation]:
    """Reads what there is, as the collector does, and begins to automate."""

    def start(worker: Worker | None = None) -> Automation:
        collector.scan()
        trust(project)
        files = PolicyFiles(PolicySources(trust_file=trust_file_path()))
        files.refresh([str(project)])

        def noted(notice: Problem) -> None:
            told.append(str(notice))

        ways = ActionRunners(worker, worker, noted) if worker else default_runners(noted)
        return make_automation(claude, writer, files, ways, clock)

    return start


def answer(project: Path, name: str, tokens: int, at: int) -> JsonLine:
    return assistant(name, context=tokens, at=at, cwd=str(project))


def kept(writer: Writer) -> list[AutomaticRunRecord]:
    return read_automatic_runs(writer.connection, 0)


def looked(automation: Automation, clock: Clock, times: int = 1) -> None:
    for _ in range(times):
        automation.tick()
        automation.wait(10)
        clock.now += CHECK_INTERVAL_MS


def test_a_full_session_that_has_ended_is_compacted(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    writer: Writer,
    told: list[str],
) -> None:
    session()
    looked(started(worker), clock, 9)
    (run,) = kept(writer)
    assert worker.asked == [SESSION]
    assert (run.session_id, run.at, run.receipt) == (SESSION, NOW, "r1")
    assert "88% of its window is in use" in run.reason
    assert run.outcome == "compacted"
    assert told == [str(TOLD)]


def test_nothing_without_opt_in(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    project: Path,
    writer: Writer,
) -> None:
    session()
    (project / ".ctxtop.toml").write_text('mode = "suggest"\n')
    looked(started(worker), clock, 3)
    assert (worker.asked, kept(writer)) == ([], [])


def test_nothing_by_the_word_of_a_file_that_nobody_trusts(
    session: Callable[..., None],
    claude: ClaudeFolder,
    collector: Collector,
    worker: Worker,
    clock: Clock,
    project: Path,
    writer: Writer,
) -> None:
    session()
    collector.scan()
    said = 'mode = "auto"\nthreshold = ["0.3:high:compact"]\ncompact.by = "client"\n'
    (project / ".ctxtop.toml").write_text(said)
    files = PolicyFiles(PolicySources(trust_file=trust_file_path()))
    files.refresh([str(project)])
    looked(
        make_automation(claude, writer, files, ActionRunners(worker, worker, print), clock),
        clock,
        3,
    )
    assert (worker.asked, kept(writer)) == ([], [])
    # It neither moves the line at which the person's own word acts.
    own = PolicyFiles(PolicySources((), {"CTXTOP_POLICY_MODE": "auto"}, None, trust_file_path()))
    own.refresh([str(project)])
    session(100_000)
    collector.scan()
    looked(
        make_automation(claude, writer, own, ActionRunners(worker, worker, print), clock), clock, 3
    )
    assert (worker.asked, kept(writer)) == ([], [])


def test_nothing_by_the_word_of_a_folder_that_the_session_walked_into(
    path: Path,
    claude: ClaudeFolder,
    writer: Writer,
    worker: Worker,
    clock: Clock,
    tmp_path: Path,
    recorder: Recorder,
) -> None:
    root = tmp_path / "home"
    evil = root / "vendor" / "evil"
    evil.mkdir(parents=True)
    write_trusted(evil, 'mode = "auto"\nthreshold = ["0.3:high:compact"]\n')
    before = [assistant(f"m{number}", cwd=str(root)) for number in "abc"]
    last = assistant(context=175_000, cwd=str(evil))
    write(path, [line for each in (*before, last) for line in (user(cwd=str(root)), each)])
    files = PolicyFiles(PolicySources(trust_file=trust_file_path()))
    Collector(claude, writer, recorder, files).scan()
    looked(
        make_automation(claude, writer, files, ActionRunners(worker, worker, print), clock),
        clock,
        3,
    )
    assert files.policies.projects == {}
    assert (worker.asked, kept(writer)) == ([], [])


def test_the_person_s_own_file_turns_it_on_for_all_projects(
    session: Callable[..., None],
    claude: ClaudeFolder,
    collector: Collector,
    worker: Worker,
    clock: Clock,
    project: Path,
    writer: Writer,
    tmp_path: Path,
) -> None:
    (project / ".ctxtop.toml").unlink()
    own = tmp_path / "config.toml"
    own.write_text('mode = "auto"\n')
    session()
    collector.scan()
    files = PolicyFiles(PolicySources(user_file=own))
    looked(
        make_automation(claude, writer, files, ActionRunners(worker, worker, print), clock),
        clock,
        3,
    )
    assert worker.asked == [SESSION]


@pytest.mark.parametrize(
    ("exchanges", "asks_again", "settings", "is_compacted"),
    [
        (3, False, "", False),  # six messages
        (3, True, "", True),  # seven: the last prompt has no answer
        (3, False, "compact.min_messages = 5\n", True),
        (4, False, "compact.min_messages = 8\n", False),
    ],
)
def test_a_session_of_few_messages_is_never_compacted(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    told: list[str],
    exchanges: int,
    settings: str,
    *,
    asks_again: bool,
    is_compacted: bool,
) -> None:
    """001-24: at most preserve_recent + 2 messages, which is 6."""
    (project / ".ctxtop.toml").write_text(f'mode = "auto"\n{settings}')
    lines = [user(cwd=str(project))]
    for number in range(exchanges):
        lines += [answer(project, f"m{number}", 175_000, 10), user("go on", cwd=str(project))]
    write(path, lines if asks_again else lines[:-1])
    looked(started(worker), clock, 3)
    assert worker.asked == ([SESSION] if is_compacted else [])
    if not is_compacted:
        (notice,) = told
        assert f"{2 * exchanges} messages: at most {2 * exchanges} are never compacted" in notice
        assert "compact.min_messages" in notice


def test_what_a_compaction_left_is_counted(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
) -> None:
    """Messages before the last boundary are no longer in the context."""
    exchanges = [(user(cwd=str(project)), answer(project, f"m{n}", 175_000, 10)) for n in range(9)]
    lines = [line for pair in exchanges for line in pair]
    lines.insert(12, boundary())
    write(path, lines)
    looked(started(worker), clock, 3)
    assert worker.asked == []


@pytest.mark.parametrize("how", [{"tokens": 120_000}, {"model": "some-model-that-nobody-knows"}])
def test_nothing_where_a_condition_is_missing(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    how: dict[str, Any],
) -> None:
    session(**how)
    looked(started(worker), clock, 3)
    assert worker.asked == []


@pytest.mark.parametrize("status", ["busy", "waiting"])
def test_never_where_somebody_is_at_work(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    claude: ClaudeFolder,
    told: list[str],
    status: str,
) -> None:
    session()
    opened(claude, status)
    looked(started(worker), clock, 30)
    assert worker.asked == []
    assert told == []


def test_not_at_once_after_the_last_line(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
) -> None:
    session(at=60)
    clock.now = START_MS + 60_000 + 119_999
    automation = started(worker)
    looked(automation, clock)
    assert worker.asked == []
    looked(automation, clock)
    assert worker.asked == [SESSION]


def test_no_double_run(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    writer: Writer,
) -> None:
    session()
    worker.may_end.clear()
    automation, other = started(worker), started(worker)
    for _ in range(30):
        automation.tick()
        other.tick()
        clock.now += CHECK_INTERVAL_MS
    worker.may_end.set()
    automation.wait(10)
    assert len(worker.asked) == 1
    assert len(kept(writer)) == 1


def test_a_failed_run_cools_down_too_and_three_open_the_breaker(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    writer: Writer,
    told: list[str],
    project: Path,
) -> None:
    (project / ".ctxtop.toml").write_text('mode = "auto"\ncompact.max_attempts = 9\n')
    session()
    notice = Problem("session 11111111", "not changed automatically: the disk is full", "make room")
    worker.done = ActionResult("file: the disk is full", notice, check="file")
    looked(started(worker), clock, 60)
    assert [run.at - NOW for run in kept(writer)] == [0, 60_000, 120_000]
    assert {run.outcome for run in kept(writer)} == {"file: the disk is full"}
    # Each reason once, however often it is met.
    assert [line.partition(": ")[2].partition(";")[0] for line in told] == [
        "not changed automatically: the disk is full",
        "not compacted automatically: 3 runs in 5 minutes: paused for 29 more minutes",
    ]


def test_it_gives_up_after_two_attempts_until_the_session_has_grown(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    collector: Collector,
    path: Path,
    project: Path,
    told: list[str],
) -> None:
    """T-10: compact.max_attempts."""
    session(tokens=171_000)
    worker.done = ActionResult("file: the disk is full", TOLD, check="file")
    automation = started(worker)
    looked(automation, clock, 60)
    assert len(worker.asked) == 2
    assert "2 attempts failed: not tried again until it grew by 5%" in told[-1]
    for number, (tokens, asked) in enumerate(((179_000, 2), (180_000, 4)), 1):
        at = 3600 * number
        append(path, [answer(project, f"m{number}", tokens, at)])
        collector.scan()
        clock.now = START_MS + at * 1000 + 600_000
        looked(automation, clock, 60)
        assert len(worker.asked) == asked


def test_what_is_put_off_is_no_attempt(
    session: Callable[..., None], started: Callable[..., Automation], worker: Worker, clock: Clock
) -> None:
    """Nor does the price count: the prompt cache goes cold by itself."""
    session()
    worker.done = ActionResult("price: not yet", TOLD, check="price")
    looked(started(worker), clock, 13)
    assert len(worker.asked) == 3


def test_what_was_refused_waits_until_somebody_goes_on(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    collector: Collector,
    path: Path,
    project: Path,
) -> None:
    session()
    worker.done = ActionResult("open-call: …", TOLD, check="open-call", retry_at=NOW + 86_400_000)
    automation = started(worker)
    looked(automation, clock, 60)
    assert len(worker.asked) == 1
    append(path, [answer(project, "m2", 176_000, 1301)])
    collector.scan()
    clock.now = START_MS + 1_301_000 + 120_000
    looked(automation, clock)
    assert len(worker.asked) == 2


def test_what_was_compacted_is_left_until_it_has_grown(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    collector: Collector,
    path: Path,
    project: Path,
) -> None:
    session()
    worker.done = ActionResult("compacted", TOLD, left_tokens=160_000)
    automation = started(worker)
    looked(automation, clock, 60)
    for number, (tokens, asked) in enumerate(((171_000, 1), (183_000, 1), (185_000, 2)), 1):
        at = 3600 * number
        append(path, [answer(project, f"m{number}", tokens, at)])
        collector.scan()
        clock.now = START_MS + at * 1000 + 600_000
        looked(automation, clock)
        assert len(worker.asked) == asked


def test_a_run_that_never_ended_holds_nothing_up_for_ever(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    writer: Writer,
) -> None:
    """ctxtop was ended meanwhile."""
    session()
    worker.may_end.clear()
    started(worker).tick()
    worker.may_end.set()
    later = started(worker)
    clock.now += AUTOMATIC_RUN_TIMEOUT_MS
    looked(later, clock)
    assert len(kept(writer)) == 2


def worked(project: Path) -> list[JsonLine]:
    """A long session: results that are old enough to be masked."""
    lines = [user("look at all of it", cwd=str(project))]
    words = "".join(f"the value of place {number} is {number * 7}\n" for number in range(250))
    for number in range(60):
        lines += turn(f"t{number}", words)
    lines.append(assistant("end", context=175_000, content=[text("done")], cwd=str(project)))
    return chain(*lines)


def prompted(project: Path) -> list[JsonLine]:
    """The same with a prompt every six turns: there is something to cut."""
    lines = worked(project)
    for number in range(9):
        place = 1 + 13 * number + 12
        lines.insert(place, user(f"now look at part {number}", cwd=str(project)))
    return chain(*lines)


def old(path: Path) -> None:
    os.utime(path, (START_MS / 1000, START_MS / 1000))


def test_from_a_full_session_to_a_receipt_and_back(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    claude: ClaudeFolder,
    writer: Writer,
    told: list[str],
) -> None:
    """What ctxtop does by itself is a plan in place: it says so, and can be taken back."""
    before = write(path, worked(project)).read_bytes()
    old(path)
    looked(started(), clock, 30)
    (receipt,) = ReceiptStore(state_folder(writer.path)).all()
    assert path.read_bytes() != before
    assert receipt.mode is ApplyMode.IN_PLACE
    assert receipt.automatic
    assert "88% of its window is in use" in receipt.automatic
    (run,) = kept(writer)
    assert run.receipt == receipt.receipt_id
    assert run.left_tokens
    assert run.left_tokens < 110_000
    (notice,) = told
    assert notice.startswith(f"compacted session {SESSION[:8]} automatically: ≈ ")
    assert notice.endswith(f"k tokens; undo: ctxtop undo {receipt.receipt_id}")
    subject = compaction_target(claude, writer.path, SESSION, path, None)
    taken = undo(receipt.receipt_id, None, subject)
    assert path.read_bytes() == before
    assert taken.sha256 == hashlib.sha256(before).hexdigest()


def test_what_is_written_to_in_the_meantime_is_left(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    told: list[str],
) -> None:
    """The store says that it has ended; the file says that somebody is at work in it."""
    before = write(path, worked(project)).read_bytes()
    looked(started(), clock, 30)
    assert path.read_bytes() == before
    (notice,) = told
    assert "its transcript was written" in notice


def test_too_little_is_said_once(
    session: Callable[..., None],
    started: Callable[..., Automation],
    clock: Clock,
    path: Path,
    told: list[str],
) -> None:
    session()
    old(path)
    looked(started(), clock, 30)
    assert len(told) == 1
    assert "not changed automatically" in told[0]


def too_long(project: Path) -> list[JsonLine]:
    """A session whose last prompt was refused."""
    words = '400 {"type":"error","error":{"type":"invalid_request_error","message":"%s"}}'
    details = words % "prompt is too long: 210000 tokens > 200000 maximum"
    said = {"error": "invalid_request", "errorDetails": details, "cwd": str(project)}
    return chain(*worked(project)[:-1], refusal("Prompt is too long", at=5, **said))


def test_a_refused_session_is_mended_in_a_fork_where_the_project_wants_it(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    writer: Writer,
    collector: Collector,
    told: list[str],
) -> None:
    """002-08 and 002-37: recovery.auto, once for one refusal, and not again in the fork."""
    (project / ".ctxtop.toml").write_text('mode = "auto"\n[recovery]\nauto = true\n')
    before = write(path, too_long(project)).read_bytes()
    old(path)
    automation = started()
    looked(automation, clock, 30)
    collector.scan()
    looked(automation, clock, 30)
    assert path.read_bytes() == before
    assert len([*path.parent.glob("*.jsonl")]) == 2
    (receipt,) = ReceiptStore(state_folder(writer.path)).all()
    assert receipt.mode is ApplyMode.FORK
    assert receipt.automatic == "it ended in token_limit_exceeded"
    (notice,) = told
    assert notice.startswith(f"recovered session {SESSION[:8]} automatically: truncate_largest")
    assert receipt.resume_command in notice


def test_a_refused_session_is_only_told_of_without_that(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    writer: Writer,
) -> None:
    write(path, chain(*worked(project)[:-1], refusal("Prompt is too long", at=5, cwd=str(project))))
    old(path)
    looked(started(), clock, 5)
    assert kept(writer) == []


def test_another_refusal_keeps_nothing_from_being_compacted(
    session: Callable[..., None],
    started: Callable[..., Automation],
    worker: Worker,
    clock: Clock,
    path: Path,
    project: Path,
) -> None:
    session()
    append(path, [refusal("API Error: 529 overloaded", at=9, cwd=str(project))])
    looked(started(worker), clock)
    assert worker.asked == [SESSION]


def test_what_is_opened_after_the_plan_is_left(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    claude: ClaudeFolder,
    told: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = write(path, worked(project)).read_bytes()
    old(path)
    plan = automatic_actions._plan

    def then_opened(act: AutomaticAction) -> CompactionPlan:
        planned = plan(act)
        opened(claude, "idle")
        return planned

    monkeypatch.setattr(automatic_actions, "_plan", then_opened)
    looked(started(), clock)
    assert path.read_bytes() == before
    assert len(told) == 1
    assert "the session is open in process" in told[0]


def test_the_client_does_it_where_the_policy_says_so(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    writer: Writer,
    told: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a run of its own, which is for a session nobody has open; never in a live one."""
    ways: list[Via] = []

    def ask(subject: ClientCompactTarget, via: Via, _text: str) -> ClientCompactResult:
        ways.append(via)
        return ClientCompactResult(subject.session_id, via, NOW, "b-1", 175_000, 24_000, 1.0)

    monkeypatch.setattr(ask_module, "ask_to_compact", ask)
    (project / ".ctxtop.toml").write_text('mode = "auto"\ncompact.by = "client"\n')
    before = write(path, worked(project)).read_bytes()
    old(path)
    looked(started(), clock, 30)
    assert ways == [Via.CLI]
    assert path.read_bytes() == before
    (run,) = kept(writer)
    assert run.left_tokens == 24_000
    assert "by Claude Code: 175000 to 24000 tokens" in told[0]


@pytest.mark.parametrize(
    ("settings", "strategy", "words"),
    [
        # Four, and the call of a result among them (R001-01).
        ('preset = "not-agent"', "summarise", " tokens, 5 messages kept"),
        ('compact.strategy = "summary_buffer"', "summarise", "messages kept"),
        ('compact.strategy = "window"', "cut", "the last 5 turns are kept"),
        ('compact.strategy = "head_tail"', "cut", "the last 5 turns are kept"),
        ('compact.strategy = "window"\ncompact.preserve_recent = 3', "cut", "the last 2 turns"),
        ('compact.strategy = "ladder"', "duplicate-results", ""),
        ('compact.strategy = "native"\ncompact.by = "plan"', "duplicate-results", ""),
    ],
)
def test_a_policy_s_strategy_is_what_is_applied(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    claude: ClaudeFolder,
    writer: Writer,
    told: list[str],
    settings: str,
    strategy: str,
    words: str,
) -> None:
    """001-10, 001-18, 003-08; whatever it is, it has a receipt and can be undone."""
    (project / ".ctxtop.toml").write_text(f'mode = "auto"\n{settings}\n')
    before = write(path, prompted(project)).read_bytes()
    old(path)
    looked(started(), clock, 30)
    (receipt,) = ReceiptStore(state_folder(writer.path)).all()
    assert strategy in {each.strategy for each in receipt.plan.operations}
    assert words in receipt.plan.operations[0].what
    assert ("older " in told[0]) == (strategy in {"summarise", "cut"})
    target = compaction_target(claude, writer.path, SESSION, path, None)
    undo(receipt.receipt_id, None, target)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "settings",
    [
        'compact.strategy = "native"',
        'compact.by = "client"',
        'compact.by = "client"\ncompact.strategy = "summary"',
    ],
)
def test_the_client_compacts_where_a_person_says_native_or_client(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
) -> None:
    ways: list[Via] = []

    def ask(subject: ClientCompactTarget, via: Via, _text: str) -> ClientCompactResult:
        ways.append(via)
        return ClientCompactResult(subject.session_id, via, NOW, "b-1", 175_000, 24_000, 1.0)

    monkeypatch.setattr(ask_module, "ask_to_compact", ask)
    (project / ".ctxtop.toml").write_text(f'mode = "auto"\n{settings}\n')
    before = write(path, worked(project)).read_bytes()
    old(path)
    looked(started(), clock, 30)
    assert ways == [Via.CLI]
    assert path.read_bytes() == before


@pytest.mark.parametrize("tokens", [75_000, 80_000, 83_500])
def test_the_target_is_of_the_window_that_the_threshold_is_for(
    session: Callable[..., None],
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    tokens: int,
) -> None:
    """With not-agent's limit of 100,000 tokens no session is over the one and below the other."""
    targets: list[int | None] = []

    def plan(_: object, options: PlanOptions) -> CompactionPlan:
        targets.append(options.target_tokens(200_000))
        raise OSError(28, "No space left on device", "/a/copy")

    monkeypatch.setattr(automatic_actions, "plan_compaction", plan)
    said = 'mode = "auto"\npreset = "not-agent"\ncompact.strategy = "ladder"\n'
    (project / ".ctxtop.toml").write_text(said)
    session(tokens=tokens)
    looked(started(), clock)
    assert targets == [33_500]


def test_a_disabled_module_makes_no_fork(
    path: Path, project: Path, started: Callable[..., Automation], worker: Worker, clock: Clock
) -> None:
    text = 'mode = "auto"\nrecovery.auto = true\ndisabled_modules = ["auto-recovery"]\n'
    (project / ".ctxtop.toml").write_text(text)
    write(path, too_long(project))
    old(path)
    looked(started(worker), clock, 3)
    assert worker.asked == []
    (project / ".ctxtop.toml").write_text('mode = "auto"\nrecovery.auto = true\n')
    looked(started(worker), clock, 3)
    assert worker.asked == [SESSION]


@pytest.mark.parametrize("more", ["", 'compact.by = "client"', 'preset = "omo-2.6"'])
def test_a_project_without_recovery_never_gets_a_fork(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    writer: Writer,
    told: list[str],
    more: str,
) -> None:
    """Also not by another way of automation: nothing at all is done to a session in a refusal."""
    text = f'mode = "auto"\nrecovery.auto = true\ndisabled_modules = ["auto-recovery"]\n{more}\n'
    (project / ".ctxtop.toml").write_text(text)
    before = write(path, too_long(project)).read_bytes()
    old(path)
    looked(started(), clock, 5)
    assert [*path.parent.glob("*.jsonl")] == [path]
    assert path.read_bytes() == before
    assert ReceiptStore(state_folder(writer.path)).all() == []
    assert (kept(writer), told) == ([], [])


@pytest.mark.parametrize("mode", ["observe", "suggest"])
def test_only_the_mode_auto_acts(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    writer: Writer,
    told: list[str],
    mode: str,
) -> None:
    (project / ".ctxtop.toml").write_text(f'mode = "{mode}"\nrecovery.auto = true\n')
    write(path, worked(project))
    old(path)
    looked(started(), clock, 5)
    assert (kept(writer), told) == ([], [])


@pytest.mark.parametrize("has_plugin", [True, False])
def test_where_it_stands_open_and_idle_its_client_is_asked(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    claude: ClaudeFolder,
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_plugin: bool,
) -> None:
    """By the plugin, else by tmux; whatever the policy says, nobody else may change it."""
    ways: list[Via] = []

    def ask(subject: ClientCompactTarget, via: Via, _text: str) -> ClientCompactResult:
        ways.append(via)
        if via is Via.PLUGIN and not has_plugin:
            raise NotCompactedError(CompactFailure.UNSAFE, "no module of ctxtop's answers in it")
        return ClientCompactResult(subject.session_id, via, NOW, "b-1", 175_000, 24_000, 1.0)

    monkeypatch.setattr(ask_module, "ask_to_compact", ask)
    before = write(path, worked(project)).read_bytes()
    old(path)
    opened(claude, "idle")
    looked(started(), clock, 30)
    assert ways == ([Via.PLUGIN] if has_plugin else [Via.PLUGIN, Via.TMUX])
    assert path.read_bytes() == before
    (run,) = kept(writer)
    assert run.left_tokens == 24_000


def test_an_open_session_that_cannot_be_asked_is_told_of_once(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    claude: ClaudeFolder,
    told: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask(_subject: ClientCompactTarget, via: Via, _text: str) -> ClientCompactResult:
        raise NotCompactedError(CompactFailure.UNSAFE, f"it cannot be asked by {via}")

    monkeypatch.setattr(ask_module, "ask_to_compact", ask)
    write(path, worked(project))
    old(path)
    opened(claude, "idle")
    looked(started(), clock, 30)
    assert len(told) == 1
    assert "it cannot be asked by tmux" in told[0]


def test_the_collector_s_own(
    path: Path, project: Path, claude: ClaudeFolder, recorder: Recorder, writer: Writer
) -> None:
    """From the files to the notice, with nothing put in its place."""
    trust(project)
    files = PolicyFiles(PolicySources(trust_file=trust_file_path()))
    collector = Collector(claude, writer, recorder, files)
    ago = datetime.now(UTC) - timedelta(minutes=10)
    lines = [line | {"timestamp": ago.isoformat()} for line in worked(project)]
    before = write(path, lines).read_bytes()
    old(path)
    collector.scan()
    assert kept(writer) == []
    collector.post_scan_jobs.automation.tick()
    collector.post_scan_jobs.automation.wait(30)
    assert path.read_bytes() != before
    (notice,) = recorder.notices
    assert str(notice).startswith(f"compacted session {SESSION[:8]} automatically")
    assert is_automatic_notice(notice)


def test_a_subfolder_s_file_changes_nothing_of_the_project_s_session(
    path: Path,
    project: Path,
    claude: ClaudeFolder,
    writer: Writer,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the dashboard does it, from its start on: the session has walked into a clone."""
    (project / ".ctxtop.toml").unlink()
    evil = project / "vendor" / "evil"
    evil.mkdir(parents=True)
    said = 'mode = "auto"\n[compact]\nmin_tokens = 0\n[[threshold]]\n'
    said += 'at = 0.01\nlevel = "high"\naction = "compact"\n'
    (evil / ".ctxtop.toml").write_text(said)
    ago = datetime.now(UTC) - timedelta(minutes=10)
    lines = [*worked(project), user("cd vendor/evil", cwd=str(evil))]
    lines.append(assistant("in", context=176_000, content=[text("there")], cwd=str(evil)))
    lines = [line | {"timestamp": ago.isoformat()} for line in chain(*lines)]
    before = write(path, lines).read_bytes()
    old(path)
    looks: list[bool] = []
    stop, may_act = threading.Event(), threading.Event()
    look = Automation.tick

    def looked_once(automation: Automation) -> None:
        look(automation)
        automation.wait(30)
        looks.append(True)
        stop.set()

    monkeypatch.setattr(Automation, "tick", looked_once)
    may_act.set()
    scan_and_watch(claude, writer, recorder, stop, PolicyFiles(), may_act)
    assert len(looks) == 1
    assert path.read_bytes() == before
    assert [*path.parent.glob("*.jsonl")] == [path]
    assert (kept(writer), recorder.notices) == ([], [])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device", "/a/copy"), "/a/copy: No space left on device"),
        (sqlite3.OperationalError("database is locked"), "database is locked"),
    ],
)
def test_what_fails_is_one_line_and_no_traceback(
    path: Path,
    project: Path,
    started: Callable[..., Automation],
    clock: Clock,
    writer: Writer,
    told: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    said: str,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(session_compaction, "apply_plan", fail)
    write(path, worked(project))
    old(path)
    looked(started(), clock)
    assert said in told[0]
    assert said in (kept(writer)[0].outcome or "")
