"""Automation in the collector: nothing without opt-in, nothing twice, everything kept and told."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.places import PolicySources, trust_file_path
from ctxtop.collectors.locations.policy_files import PolicyFiles
from ctxtop.collectors.post_scan_jobs import make_automation
from ctxtop.collectors.session_target import compaction_target
from ctxtop.collectors.store_update import scan_and_watch
from ctxtop.collectors.terminal import client_compaction as ask_module
from ctxtop.core.actions import automatic_actions, session_compaction
from ctxtop.core.actions.automatic_actions import ActionResult, AutomaticAction
from ctxtop.core.actions.automation import (
    CHECK_INTERVAL_MS,
    ActionRunners,
    Automation,
    default_runners,
    is_automatic_notice,
)
from ctxtop.core.actions.preset_steps import preset_steps
from ctxtop.core.actions.session_access import (
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    Via,
)
from ctxtop.core.actions.stored_recoveries import AUTOMATIC_RUN_TIMEOUT_MS
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.automation_rules import RECOMPACT_REASON
from ctxtop.core.compaction.plan import PlanTarget
from ctxtop.core.compaction.receipts import ApplyMode, ReceiptStore
from ctxtop.core.compaction.undo import undo
from ctxtop.core.model.problem import Problem
from ctxtop.core.policy.schema import PRESETS
from ctxtop.core.store.automation_records import AutomaticRunRecord, read_automatic_runs
from ctxtop.core.store.database import state_folder
from ctxtop.core.transcript.raw_lines import timestamp_to_ms

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
    summary,
    text,
    user,
    write,
)
from ..trusted_files import trust, write_trusted

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.collectors.terminal.client_compaction import ClientCompactTarget
    from ctxtop.core.compaction.compaction_target import CompactionTarget
    from ctxtop.core.compaction.plan import CompactionPlan, PlanOptions
    from ctxtop.core.compaction.receipts import CompactionReceipt
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


class Scene:
    """A project that automation is turned on for, its one session, and what automation did."""

    def __init__(
        self, claude: ClaudeFolder, writer: Writer, collector: Collector, project: Path
    ) -> None:
        self.claude = claude
        self.writer = writer
        self.collector = collector
        self.project = project
        self.path = claude.projects / PROJECT / f"{SESSION}.jsonl"
        self.worker = Worker()
        self.told: list[str] = []
        self.now = NOW
        project.mkdir()
        self.choose('mode = "auto"\n')

    def choose(self, policy: str) -> None:
        """Write the project's policy file; `start` trusts it."""
        (self.project / ".ctxtop.toml").write_text(policy)

    def fill(self, tokens: int = 175_000, **fields: Any) -> None:  # noqa: ANN401
        """Write a session of eight messages that is this full and that nobody has open."""
        before = [self.answer(f"m{number}", 1_000, **fields) for number in "abc"]
        last = self.answer("msg_1", tokens, **fields)
        write(self.path, [line for each in (*before, last) for line in (self.asked(), each)])

    def write(self, lines: list[JsonLine]) -> bytes:
        """Write a session that nothing was written to lately."""
        content = write(self.path, lines).read_bytes()
        self.rest()
        return content

    def rest(self) -> None:
        os.utime(self.path, (START_MS / 1000, START_MS / 1000))

    def asked(self, words: str = "fix the parser") -> JsonLine:
        return user(words, cwd=str(self.project))

    def answer(self, name: str, tokens: int, at: int = 1, **fields: Any) -> JsonLine:  # noqa: ANN401
        fields = {"cwd": str(self.project)} | fields
        return assistant(name, context=tokens, at=at, **fields)

    def add(self, *lines: JsonLine) -> None:
        append(self.path, [*lines])
        self.collector.scan()

    def open(self, status: str) -> None:
        """Register this process as having the session open."""
        began = int(psutil.Process().create_time() * 1000)
        entry = {"pid": os.getpid(), "sessionId": SESSION, "startedAt": began, "status": status}
        self.claude.sessions.mkdir(exist_ok=True)
        text = json.dumps(entry | {"updatedAt": began})
        (self.claude.sessions / f"{os.getpid()}.json").write_text(text)

    def start(self) -> Automation:
        """Read what there is, as the collector does, and begin to automate."""
        return self._start(default_runners(self._note))

    def start_counting(self) -> Automation:
        """The same, with the worker in place of what changes a session."""
        return self._start(ActionRunners(self.worker, self.worker, self.worker, self._note))

    def automate(self, files: PolicyFiles) -> Automation:
        """Automate by other policies, with the worker."""
        runners = ActionRunners(self.worker, self.worker, self.worker, self._note)
        return make_automation(self.claude, self.writer, files, runners, lambda: self.now)

    def look(self, automation: Automation, times: int = 1) -> None:
        for _ in range(times):
            automation.tick()
            automation.wait(10)
            self.now += CHECK_INTERVAL_MS

    def runs(self) -> list[AutomaticRunRecord]:
        return read_automatic_runs(self.writer.connection, 0)

    def receipts(self) -> list[CompactionReceipt]:
        return ReceiptStore(state_folder(self.writer.path)).all()

    def target(self) -> CompactionTarget:
        return compaction_target(self.claude, self.writer.path, SESSION, self.path, None)

    def _start(self, runners: ActionRunners) -> Automation:
        self.collector.scan()
        trust(self.project)
        files = trusting_files()
        files.refresh([str(self.project)])
        return make_automation(self.claude, self.writer, files, runners, lambda: self.now)

    def _note(self, notice: Problem) -> None:
        self.told.append(str(notice))


@pytest.fixture
def scene(claude: ClaudeFolder, writer: Writer, collector: Collector, tmp_path: Path) -> Scene:
    return Scene(claude, writer, collector, tmp_path / "proj")


def trusting_files() -> PolicyFiles:
    """The policies of the projects that the person trusts."""
    return PolicyFiles(PolicySources(trust_file=trust_file_path()))


class Client:
    """Stands for the client that is asked to compact."""

    def __init__(self) -> None:
        self.ways: list[Via] = []
        self.unreachable: set[Via] = set()

    def ask(self, subject: ClientCompactTarget, via: Via, _text: str) -> ClientCompactResult:
        self.ways.append(via)
        if via in self.unreachable:
            raise NotCompactedError(CompactFailure.UNSAFE, f"it cannot be asked by {via}")
        return ClientCompactResult(
            subject.session_id, via, NOW, "b-1", 175_000, 4_000, 1.0, estimated_next_tokens=24_000
        )


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    found = Client()
    monkeypatch.setattr(ask_module, "ask_to_compact", found.ask)
    return found


def test_a_full_session_that_has_ended_is_compacted(scene: Scene) -> None:
    scene.fill()
    scene.look(scene.start_counting(), 9)
    (run,) = scene.runs()
    assert scene.worker.asked == [SESSION]
    assert (run.session_id, run.at, run.receipt) == (SESSION, NOW, "r1")
    assert "88% of its window is in use" in run.reason
    assert run.outcome == "compacted"
    assert scene.told == [str(TOLD)]


def test_nothing_without_opt_in(scene: Scene) -> None:
    scene.fill()
    scene.choose('mode = "suggest"\n')
    scene.look(scene.start_counting(), 3)
    assert (scene.worker.asked, scene.runs()) == ([], [])


def test_nothing_by_the_word_of_a_file_that_nobody_trusts(scene: Scene) -> None:
    scene.fill()
    scene.collector.scan()
    said = 'mode = "auto"\nthreshold = ["0.3:high:compact"]\ncompact.by = "client"\n'
    scene.choose(said)
    files = trusting_files()
    files.refresh([str(scene.project)])
    scene.look(scene.automate(files), 3)
    assert (scene.worker.asked, scene.runs()) == ([], [])
    # It neither moves the line at which the person's own word acts.
    own = PolicyFiles(PolicySources((), {"CTXTOP_POLICY_MODE": "auto"}, None, trust_file_path()))
    own.refresh([str(scene.project)])
    scene.fill(100_000)
    scene.collector.scan()
    scene.look(scene.automate(own), 3)
    assert (scene.worker.asked, scene.runs()) == ([], [])


def test_nothing_by_the_word_of_a_folder_that_the_session_walked_into(
    scene: Scene, tmp_path: Path, recorder: Recorder
) -> None:
    root = tmp_path / "home"
    evil = root / "vendor" / "evil"
    evil.mkdir(parents=True)
    write_trusted(evil, 'mode = "auto"\nthreshold = ["0.3:high:compact"]\n')
    before = [assistant(f"m{number}", cwd=str(root)) for number in "abc"]
    last = assistant(context=175_000, cwd=str(evil))
    write(scene.path, [line for each in (*before, last) for line in (user(cwd=str(root)), each)])
    files = trusting_files()
    Collector(scene.claude, scene.writer, recorder, files).scan()
    scene.look(scene.automate(files), 3)
    assert files.policies.projects == {}
    assert (scene.worker.asked, scene.runs()) == ([], [])


def test_the_person_s_own_file_turns_it_on_for_all_projects(scene: Scene, tmp_path: Path) -> None:
    (scene.project / ".ctxtop.toml").unlink()
    own = tmp_path / "config.toml"
    own.write_text('mode = "auto"\n')
    scene.fill()
    scene.collector.scan()
    files = PolicyFiles(PolicySources(user_file=own))
    scene.look(scene.automate(files), 3)
    assert scene.worker.asked == [SESSION]


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
    scene: Scene,
    exchanges: int,
    settings: str,
    *,
    asks_again: bool,
    is_compacted: bool,
) -> None:
    """001-24: at most preserve_recent + 2 messages, which is 6."""
    scene.choose(f'mode = "auto"\n{settings}')
    lines = [scene.asked()]
    for number in range(exchanges):
        lines += [
            scene.answer(f"m{number}", 175_000, 10),
            scene.asked("go on"),
        ]
    write(scene.path, lines if asks_again else lines[:-1])
    scene.look(scene.start_counting(), 3)
    assert scene.worker.asked == ([SESSION] if is_compacted else [])
    if not is_compacted:
        (notice,) = scene.told
        assert f"{2 * exchanges} messages: at most {2 * exchanges} are never compacted" in notice
        assert "compact.min_messages" in notice


def test_a_summary_of_a_short_session_keeps_fewer_messages(scene: Scene) -> None:
    """Seven messages are enough, though ten would be kept of a longer session."""
    scene.choose('mode = "auto"\npreset = "hybrid-buffer"\nusage.source = "api_last"\n')
    lines = []
    for number in range(3):
        words = [text(f"I looked at part {number}. {'It holds. ' * 900}")]
        lines += [scene.asked(), scene.answer(f"m{number}", 175_000, 10, content=words)]
    scene.write(chain(*lines, scene.asked("go on")))
    scene.look(scene.start())
    (receipt,) = scene.receipts()
    assert receipt.plan.operations[0].what.endswith(" tokens, 3 messages kept")


def test_what_a_compaction_left_is_counted(scene: Scene) -> None:
    """Messages before the last boundary are no longer in the context."""
    exchanges = [(scene.asked(), scene.answer(f"m{n}", 175_000, 10)) for n in range(9)]
    lines = [line for pair in exchanges for line in pair]
    lines.insert(12, boundary())
    write(scene.path, lines)
    scene.look(scene.start_counting(), 3)
    assert scene.worker.asked == []


@pytest.mark.parametrize("how", [{"tokens": 120_000}, {"model": "some-model-that-nobody-knows"}])
def test_nothing_where_a_condition_is_missing(scene: Scene, how: dict[str, Any]) -> None:
    scene.fill(**how)
    scene.look(scene.start_counting(), 3)
    assert scene.worker.asked == []


@pytest.mark.parametrize("status", ["busy", "waiting"])
def test_never_where_somebody_is_at_work(scene: Scene, status: str) -> None:
    scene.fill()
    scene.open(status)
    scene.look(scene.start_counting(), 30)
    assert scene.worker.asked == []
    assert scene.told == []


def test_not_at_once_after_the_last_line(scene: Scene) -> None:
    scene.fill(at=60)
    scene.now = START_MS + 60_000 + 119_999
    automation = scene.start_counting()
    scene.look(automation)
    assert scene.worker.asked == []
    scene.look(automation)
    assert scene.worker.asked == [SESSION]


def test_a_clock_that_was_set_back_does_not_stop_it(scene: Scene) -> None:
    scene.fill()
    automation = scene.start_counting()
    automation._checked_at = automation._cleaned_at = scene.now + 3 * 3_600_000
    scene.look(automation)
    assert scene.worker.asked == [SESSION]


def test_no_double_run(scene: Scene) -> None:
    scene.fill()
    scene.worker.may_end.clear()
    automation, other = scene.start_counting(), scene.start_counting()
    for _ in range(30):
        automation.tick()
        other.tick()
        scene.now += CHECK_INTERVAL_MS
    scene.worker.may_end.set()
    automation.wait(10)
    assert len(scene.worker.asked) == 1
    assert len(scene.runs()) == 1


def test_a_failed_run_cools_down_too_and_three_open_the_breaker(scene: Scene) -> None:
    scene.choose('mode = "auto"\ncompact.max_attempts = 9\n')
    scene.fill()
    notice = Problem("session 11111111", "not changed automatically: the disk is full", "make room")
    scene.worker.done = ActionResult("file: the disk is full", notice, check="file")
    scene.look(scene.start_counting(), 60)
    assert [run.at - NOW for run in scene.runs()] == [0, 60_000, 120_000]
    assert {run.outcome for run in scene.runs()} == {"file: the disk is full"}
    # Each reason once, however often it is met.
    assert [line.partition(": ")[2].partition(";")[0] for line in scene.told] == [
        "not changed automatically: the disk is full",
        "not compacted automatically: 3 runs in 5 minutes: paused for 29 more minutes",
    ]


def test_it_gives_up_after_two_attempts_until_the_session_has_grown(scene: Scene) -> None:
    """T-10: compact.max_attempts."""
    scene.fill(tokens=171_000)
    scene.worker.done = ActionResult("file: the disk is full", TOLD, check="file")
    automation = scene.start_counting()
    scene.look(automation, 60)
    assert len(scene.worker.asked) == 2
    assert "2 attempts failed: not tried again until it grew by 5%" in scene.told[-1]
    for number, (tokens, asked) in enumerate(((179_000, 2), (180_000, 4)), 1):
        at = 3600 * number
        scene.add(scene.answer(f"m{number}", tokens, at))
        scene.now = START_MS + at * 1000 + 600_000
        scene.look(automation, 60)
        assert len(scene.worker.asked) == asked


def test_what_is_put_off_is_no_attempt(scene: Scene) -> None:
    """Nor does the price count: the prompt cache goes cold by itself."""
    scene.fill()
    scene.worker.done = ActionResult("price: not yet", TOLD, check="price")
    scene.look(scene.start_counting(), 13)
    assert len(scene.worker.asked) == 3


def test_what_was_refused_waits_until_somebody_goes_on(scene: Scene) -> None:
    scene.fill()
    scene.worker.done = ActionResult(
        "open-call: …", TOLD, check="open-call", retry_at=NOW + 86_400_000
    )
    automation = scene.start_counting()
    scene.look(automation, 60)
    assert len(scene.worker.asked) == 1
    scene.add(scene.answer("m2", 176_000, 1301))
    scene.now = START_MS + 1_301_000 + 120_000
    scene.look(automation)
    assert len(scene.worker.asked) == 2


def test_what_was_compacted_is_left_until_it_has_grown(scene: Scene) -> None:
    scene.fill()
    scene.worker.done = ActionResult("compacted", TOLD, left_tokens=160_000)
    automation = scene.start_counting()
    scene.look(automation, 60)
    for number, (tokens, asked) in enumerate(((171_000, 1), (183_000, 1), (185_000, 2)), 1):
        at = 3600 * number
        scene.add(scene.answer(f"m{number}", tokens, at))
        scene.now = START_MS + at * 1000 + 600_000
        scene.look(automation)
        assert len(scene.worker.asked) == asked


def test_a_run_that_never_ended_holds_nothing_up_for_ever(scene: Scene) -> None:
    """ctxtop was ended meanwhile."""
    scene.fill()
    scene.worker.may_end.clear()
    scene.start_counting().tick()
    scene.worker.may_end.set()
    later = scene.start_counting()
    scene.now += AUTOMATIC_RUN_TIMEOUT_MS
    scene.look(later)
    assert len(scene.runs()) == 2


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


def test_from_a_full_session_to_a_receipt_and_back(scene: Scene) -> None:
    """What ctxtop does by itself is a plan in place: it says so, and can be taken back."""
    before = scene.write(worked(scene.project))
    scene.look(scene.start(), 30)
    (receipt,) = scene.receipts()
    assert scene.path.read_bytes() != before
    assert receipt.mode is ApplyMode.IN_PLACE
    assert receipt.automatic
    assert "88% of its window is in use" in receipt.automatic
    (run,) = scene.runs()
    assert run.receipt == receipt.receipt_id
    assert run.left_tokens
    assert run.left_tokens < 110_000
    (notice,) = scene.told
    assert notice.startswith(f"compacted session {SESSION[:8]} automatically: ≈ ")
    assert notice.endswith(f"k tokens; undo: ctxtop undo {receipt.receipt_id}")
    subject = scene.target()
    taken = undo(receipt.receipt_id, None, subject)
    assert scene.path.read_bytes() == before
    assert taken.sha256 == hashlib.sha256(before).hexdigest()


def test_what_is_written_to_in_the_meantime_is_left(scene: Scene) -> None:
    """The store says that it has ended; the file says that somebody is at work in it."""
    before = write(scene.path, worked(scene.project)).read_bytes()
    scene.look(scene.start(), 30)
    assert scene.path.read_bytes() == before
    (notice,) = scene.told
    assert "its transcript was written" in notice


def test_too_little_is_said_once(scene: Scene) -> None:
    scene.fill()
    scene.rest()
    scene.look(scene.start(), 30)
    assert len(scene.told) == 1
    assert "not changed automatically" in scene.told[0]


def too_long(project: Path) -> list[JsonLine]:
    """A session whose last prompt was refused."""
    words = '400 {"type":"error","error":{"type":"invalid_request_error","message":"%s"}}'
    details = words % "prompt is too long: 210000 tokens > 200000 maximum"
    said = {"error": "invalid_request", "errorDetails": details, "cwd": str(project)}
    return chain(*worked(project)[:-1], refusal("Prompt is too long", at=5, **said))


def test_a_refused_session_is_mended_in_a_fork_where_the_project_wants_it(scene: Scene) -> None:
    """002-08 and 002-37: recovery.auto, once for one refusal, and not again in the fork."""
    scene.choose('mode = "auto"\n[recovery]\nauto = true\n')
    before = scene.write(too_long(scene.project))
    automation = scene.start()
    scene.look(automation, 30)
    scene.collector.scan()
    scene.look(automation, 30)
    assert scene.path.read_bytes() == before
    assert len([*scene.path.parent.glob("*.jsonl")]) == 2
    (receipt,) = scene.receipts()
    assert receipt.mode is ApplyMode.FORK
    assert receipt.automatic == "it ended in token_limit_exceeded"
    (notice,) = scene.told
    assert notice.startswith(f"recovered session {SESSION[:8]} automatically: truncate_largest")
    assert receipt.resume_command in notice


def test_a_recovered_session_is_left_alone_although_it_is_full(scene: Scene) -> None:
    """It continues in its fork: nothing is compacted where nobody works any more."""
    scene.choose('mode = "auto"\n[recovery]\nauto = true\n')
    before = scene.write(chain(*worked(scene.project), too_long(scene.project)[-1]))
    scene.look(scene.start(), 30)
    (receipt,) = scene.receipts()
    scene.now += 3_600_000
    for _ in range(2):
        scene.collector.scan()
        scene.look(scene.start(), 30)
    assert scene.path.read_bytes() == before
    assert [each.session_id for each in scene.runs()] == [SESSION]
    assert scene.receipts() == [receipt]


def test_a_refused_session_is_only_told_of_without_that(scene: Scene) -> None:
    scene.write(
        chain(
            *worked(scene.project)[:-1], refusal("Prompt is too long", at=5, cwd=str(scene.project))
        )
    )
    scene.look(scene.start(), 5)
    assert scene.runs() == []


def test_another_refusal_keeps_nothing_from_being_compacted(scene: Scene) -> None:
    scene.fill()
    append(scene.path, [refusal("API Error: 529 overloaded", at=9, cwd=str(scene.project))])
    scene.look(scene.start_counting())
    assert scene.worker.asked == [SESSION]


def test_what_is_opened_after_the_plan_is_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = scene.write(worked(scene.project))
    plan = automatic_actions._plan

    def then_opened(act: AutomaticAction) -> CompactionPlan:
        planned = plan(act)
        scene.open("idle")
        return planned

    monkeypatch.setattr(automatic_actions, "_plan", then_opened)
    scene.look(scene.start())
    assert scene.path.read_bytes() == before
    assert len(scene.told) == 1
    assert "the session is open in process" in scene.told[0]


def test_the_client_does_it_where_the_policy_says_so(scene: Scene, client: Client) -> None:
    """By a run of its own, which is for a session nobody has open; never in a live one."""
    scene.choose('mode = "auto"\ncompact.by = "client"\n')
    before = scene.write(worked(scene.project))
    scene.look(scene.start(), 30)
    assert client.ways == [Via.CLI]
    assert scene.path.read_bytes() == before
    (run,) = scene.runs()
    assert run.left_tokens == 24_000
    assert "by Claude Code: 175,000 to ≈ 24,000 tokens" in scene.told[0]


@pytest.mark.parametrize(
    ("settings", "strategy", "words"),
    [
        # Four, and the call of a result among them (R001-01).
        ('preset = "not-agent"', "summarize", " tokens, 5 messages kept"),
        # 109 % of its limit is aggressive: two instead of ten (T-02).
        ('preset = "hybrid-buffer"', "summarize", " tokens, 3 messages kept"),
        ('compact.strategy = "summary_buffer"', "summarize", "messages kept"),
        ('compact.strategy = "window"', "cut", "the last 5 turns are kept"),
        ('compact.strategy = "head_tail"', "cut", "the last 5 turns are kept"),
        ('compact.strategy = "window"\ncompact.preserve_recent = 3', "cut", "the last 2 turns"),
        ('compact.strategy = "ladder"', "duplicate-results", ""),
        ('compact.strategy = "condense"', "duplicate-results", ""),
        ('compact.strategy = "condense"\ncompact.target_reduction = [0.9, 0.95]', "condense", ""),
        ('compact.strategy = "native"\ncompact.by = "plan"', "duplicate-results", ""),
    ],
)
def test_a_policy_s_strategy_is_what_is_applied(
    scene: Scene, settings: str, strategy: str, words: str
) -> None:
    """001-10, 001-18, 003-08; whatever it is, it has a receipt and can be undone."""
    scene.choose(f'mode = "auto"\n{settings}\n')
    before = scene.write(prompted(scene.project))
    scene.look(scene.start(), 30)
    (receipt,) = scene.receipts()
    assert strategy in {each.strategy for each in receipt.plan.operations}
    assert words in receipt.plan.operations[0].what
    assert ("older " in scene.told[0]) == (strategy in {"condense", "summarize", "cut"})
    target = scene.target()
    undo(receipt.receipt_id, None, target)
    assert scene.path.read_bytes() == before


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_compacts_as_its_table_says(scene: Scene, preset: str) -> None:
    (row,) = (each.text for each in preset_steps(preset) if each.step == "compacts")
    scene.choose(f'mode = "auto"\npreset = "{preset}"\n')
    scene.write(prompted(scene.project))
    scene.look(scene.start(), 30)
    strategies = {
        operation.strategy for each in scene.receipts() for operation in each.plan.operations
    }
    if row.startswith("never by itself"):
        assert (strategies, scene.runs()) == (set(), [])
    elif "replaced by a summary" in row:
        assert strategies == {"summarize"}
    else:
        assert row.startswith("a plan by levels")
        assert strategies
        assert not strategies & {"summarize", "cut", "condense"}


@pytest.mark.parametrize("automatic", [True, False])
def test_a_summary_says_who_asked_for_it_and_when(scene: Scene, *, automatic: bool) -> None:
    """It is dated when it was applied, not at the session's last line."""
    scene.choose('mode = "auto"\ncompact.strategy = "summary"\n')
    before = scene.write(prompted(scene.project))
    began = time.time_ns() // 1_000_000
    scene.look(scene.start(), 30)
    (receipt,) = scene.receipts()
    if not automatic:
        undo(receipt.receipt_id, None, scene.target())
        receipt = apply_plan(receipt.plan, ApplyMode.APPEND, scene.target())
    added = [json.loads(line) for line in scene.path.read_bytes()[len(before) :].splitlines()]
    assert [line["type"] for line in added] == ["system", "user"]
    assert added[0]["compactMetadata"]["trigger"] == ("auto" if automatic else "manual")
    for line in added:
        assert began <= (timestamp_to_ms(line["timestamp"]) or 0) <= time.time_ns() // 1_000_000
    assert receipt.plan.bytes_after == scene.path.stat().st_size
    undo(receipt.receipt_id, None, scene.target())
    assert scene.path.read_bytes() == before


@pytest.mark.parametrize(
    ("turns", "places", "tokens", "strategy"),
    # The starts of 50 results that are not much longer are too much for its limit of 75,000 tokens.
    [(16, 1_000, 139_000, "long-results"), (50, 300, 175_000, "summarize")],
)
def test_not_agent_first_cuts_long_results(
    scene: Scene, turns: int, places: int, tokens: int, strategy: str
) -> None:
    """001-05: 10,000 characters of each result, and a summary only if that is not enough."""
    scene.choose('mode = "auto"\npreset = "not-agent"\n')
    words = "".join(f"the value of place {number} is {number * 7}\n" for number in range(places))
    calls = [line for number in range(turns) for line in turn(f"t{number}", words)]
    scene.write(chain(scene.asked(), *calls, scene.answer("end", tokens)))
    scene.look(scene.start(), 30)
    (receipt,) = scene.receipts()
    assert strategy in {each.strategy for each in receipt.plan.operations}


@pytest.mark.parametrize(
    "settings",
    [
        'compact.strategy = "native"',
        'compact.by = "client"',
        'compact.by = "client"\ncompact.strategy = "summary"',
    ],
)
def test_the_client_compacts_where_a_person_says_native_or_client(
    scene: Scene, client: Client, settings: str
) -> None:
    scene.choose(f'mode = "auto"\n{settings}\n')
    before = scene.write(worked(scene.project))
    scene.look(scene.start(), 30)
    assert client.ways == [Via.CLI]
    assert scene.path.read_bytes() == before


@pytest.mark.parametrize(
    ("settings", "times"),
    [
        ('preset = "omo-latest"', 3),
        ("", 0),
        ('preset = "omo-latest"\ndisabled_modules = ["auto-recovery"]', 0),
    ],
)
def test_a_session_that_went_silent_is_compacted_again_by_its_client(
    scene: Scene, client: Client, settings: str, times: int
) -> None:
    """R002-09: three answers without text; with 30,000 tokens nothing else is due."""
    scene.choose(f'mode = "auto"\n{settings}\n')
    silent = [
        line
        for number in range(3)
        for line in (scene.asked("go on"), scene.answer(f"s{number}", 30_000, content=[]))
    ]
    scene.write(chain(scene.asked(), boundary(), summary(), *silent))
    scene.look(scene.start(), 30)
    assert client.ways == [Via.CLI] * times
    assert [run.reason for run in scene.runs()] == [RECOMPACT_REASON] * times


@pytest.mark.parametrize("strategy", ["ladder", "condense"])
@pytest.mark.parametrize("tokens", [75_000, 80_000, 83_500])
def test_the_target_is_of_the_window_that_the_threshold_is_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tokens: int, strategy: str
) -> None:
    """With not-agent's limit of 100,000 tokens no session is over the one and below the other."""
    targets: list[PlanTarget | None] = []

    def plan(_: object, options: PlanOptions) -> CompactionPlan:
        targets.append(options.target_in(200_000))
        raise OSError(28, "No space left on device", "/a/copy")

    monkeypatch.setattr(automatic_actions, "plan_compaction", plan)
    said = f'mode = "auto"\npreset = "not-agent"\ncompact.strategy = "{strategy}"\n'
    scene.choose(f'{said}tools.first_chars = "off"\n')
    scene.fill(tokens=tokens)
    scene.look(scene.start())
    assert targets == [PlanTarget(tokens // 2, 200_000)]


@pytest.mark.parametrize(
    "modules",
    [
        ["auto-recovery"],
        ["context-window-monitor", "anthropic-auto-compact"],  # the seed's own names (002-104)
        ["context-window-monitor", "something-else"],
    ],
    ids=str,
)
def test_a_disabled_module_makes_no_fork(scene: Scene, modules: list[str]) -> None:
    text = f'mode = "auto"\nrecovery.auto = true\ndisabled_modules = {json.dumps(modules)}\n'
    scene.choose(text)
    scene.write(too_long(scene.project))
    scene.look(scene.start_counting(), 3)
    assert scene.worker.asked == []
    scene.choose('mode = "auto"\nrecovery.auto = true\n')
    scene.look(scene.start_counting(), 3)
    assert scene.worker.asked == [SESSION]


@pytest.mark.parametrize("more", ["", 'compact.by = "client"', 'preset = "omo-2.6"'])
def test_a_project_without_recovery_never_gets_a_fork(scene: Scene, more: str) -> None:
    """Also not by another way of automation: nothing at all is done to a session in a refusal."""
    text = f'mode = "auto"\nrecovery.auto = true\ndisabled_modules = ["auto-recovery"]\n{more}\n'
    scene.choose(text)
    before = scene.write(too_long(scene.project))
    scene.look(scene.start(), 5)
    assert [*scene.path.parent.glob("*.jsonl")] == [scene.path]
    assert scene.path.read_bytes() == before
    assert scene.receipts() == []
    assert (scene.runs(), scene.told) == ([], [])


@pytest.mark.parametrize("mode", ["observe", "suggest"])
def test_only_the_mode_auto_acts(scene: Scene, mode: str) -> None:
    scene.choose(f'mode = "{mode}"\nrecovery.auto = true\n')
    scene.write(worked(scene.project))
    scene.look(scene.start(), 5)
    assert (scene.runs(), scene.told) == ([], [])


@pytest.mark.parametrize("has_plugin", [True, False])
def test_where_it_stands_open_and_idle_its_client_is_asked(
    scene: Scene,
    client: Client,
    *,
    has_plugin: bool,
) -> None:
    """By the plugin, else by tmux; whatever the policy says, nobody else may change it."""
    client.unreachable = set() if has_plugin else {Via.PLUGIN}
    before = scene.write(worked(scene.project))
    scene.open("idle")
    scene.look(scene.start(), 30)
    assert client.ways == ([Via.PLUGIN] if has_plugin else [Via.PLUGIN, Via.TMUX])
    assert scene.path.read_bytes() == before
    (run,) = scene.runs()
    assert run.left_tokens == 24_000


def test_an_open_session_that_cannot_be_asked_is_told_of_once(scene: Scene, client: Client) -> None:
    client.unreachable = {Via.PLUGIN, Via.TMUX}
    scene.write(worked(scene.project))
    scene.open("idle")
    scene.look(scene.start(), 30)
    assert len(scene.told) == 1
    assert "it cannot be asked by tmux" in scene.told[0]


def test_the_collector_s_own(scene: Scene, recorder: Recorder) -> None:
    """From the files to the notice, with nothing put in its place."""
    trust(scene.project)
    files = trusting_files()
    collector = Collector(scene.claude, scene.writer, recorder, files)
    ago = datetime.now(UTC) - timedelta(minutes=10)
    lines = [line | {"timestamp": ago.isoformat()} for line in worked(scene.project)]
    before = scene.write(lines)
    collector.scan()
    assert scene.runs() == []
    collector.post_scan_jobs.automate()
    collector.post_scan_jobs.automation.wait(30)
    assert scene.path.read_bytes() != before
    (notice,) = recorder.notices
    assert str(notice).startswith(f"compacted session {SESSION[:8]} automatically")
    assert is_automatic_notice(notice)


def test_a_subfolder_s_file_changes_nothing_of_the_project_s_session(
    scene: Scene, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the dashboard does it, from its start on: the session has walked into a clone."""
    (scene.project / ".ctxtop.toml").unlink()
    evil = scene.project / "vendor" / "evil"
    evil.mkdir(parents=True)
    said = 'mode = "auto"\n[compact]\nmin_tokens = 0\n[[threshold]]\n'
    said += 'at = 0.01\nlevel = "high"\naction = "compact"\n'
    (evil / ".ctxtop.toml").write_text(said)
    ago = datetime.now(UTC) - timedelta(minutes=10)
    lines = [*worked(scene.project), user("cd vendor/evil", cwd=str(evil))]
    lines.append(assistant("in", context=176_000, content=[text("there")], cwd=str(evil)))
    lines = [line | {"timestamp": ago.isoformat()} for line in chain(*lines)]
    before = scene.write(lines)
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
    scan_and_watch(scene.claude, scene.writer, recorder, stop, PolicyFiles(), may_act)
    assert len(looks) == 1
    assert scene.path.read_bytes() == before
    assert [*scene.path.parent.glob("*.jsonl")] == [scene.path]
    assert (scene.runs(), recorder.notices) == ([], [])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device", "/a/copy"), "/a/copy: No space left on device"),
        (sqlite3.OperationalError("database is locked"), "database is locked"),
    ],
)
def test_what_fails_is_one_line_and_no_traceback(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(session_compaction, "apply_plan", fail)
    scene.write(worked(scene.project))
    scene.look(scene.start())
    assert said in scene.told[0]
    assert said in (scene.runs()[0].outcome or "")
