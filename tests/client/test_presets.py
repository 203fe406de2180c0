"""Each preset, run end to end: the client fills a context, and automation does what it says."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.collectors.locations.policy_files import PolicyFiles
from ctxtop.collectors.post_scan_jobs import make_automation
from ctxtop.core.actions.automation import default_runners
from ctxtop.core.actions.preset_steps import preset_steps
from ctxtop.core.compaction.automation_rules import automatic_target
from ctxtop.core.compaction.plan import SUMMARIZE
from ctxtop.core.compaction.receipts import ReceiptStore
from ctxtop.core.model.counting_rule import UsageSource
from ctxtop.core.model.levels import Level
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import state_folder
from ctxtop.core.store.warning_log import read_warnings
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from .lab import Lab
from .talks import path_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.core.compaction.receipts import CompactionReceipt
    from ctxtop.core.model.session import Session

LATER_MS: Final = 2 * 3_600_000
"""The session is idle, and its prompt cache is cold: a change costs nothing."""

OUTPUTS: Final = [f"bash:seq {first}0000 {first}4700" for first in range(1, 10)]
"""Each has 28,205 characters, and a token for two of them."""

BEGIN: Final = "&&&".join([*OUTPUTS, "bash:seq 1000 3400"])
FILLED: Final = f"Work. [[{BEGIN}&&&usage:20000]] [[say:Done.&&&usage:150000]]"
"""66,000 tokens by characters and 137,000 by cl100k_base, in four messages."""

MORE_TEXT: Final = f"More. [[{OUTPUTS[0]}&&&usage:150000]] [[say:Done.&&&usage:160000]]"


MORE_CALLS: Final = f"More. {' '.join(['[[bash:true&&&usage:150000]]'] * 11)}"
"""A plan by levels leaves the ten newest calls alone."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What ctxtop saw and did when it looked once."""

    session: Session
    levels: set[Level]
    """Of the warnings so far."""
    outcomes: list[str]
    """Of the automatic runs so far."""
    notices: list[str]
    receipts: list[CompactionReceipt]
    target: int
    """Of an automatic compaction, in tokens as the policy counts them."""


@pytest.fixture(scope="module")
def filled(new_lab: Callable[[type[Lab]], Lab]) -> tuple[Path, Path]:
    """A session that the client filled once for all tests, and the folder it worked in."""
    shared = new_lab(Lab)
    return path_of(shared, shared.turn(FILLED).session_id), shared.project


@pytest.fixture
def session_id(filled: tuple[Path, Path], lab: Lab) -> str:
    """That session, as if it had been made in this test's lab."""
    path, project = filled
    slug = str(lab.project).replace("/", "-").replace("_", "-")
    copy = lab.config / "projects" / slug / path.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(path.read_bytes().replace(bytes(project), bytes(lab.project)))
    return path.stem


def look(lab: Lab, session_id: str) -> Looked:
    """Scan and automate as the dashboard does, two hours after the client's last line."""
    path, long_ago = path_of(lab, session_id), time.time() - LATER_MS / 1000
    os.utime(path, (long_ago, long_ago))
    files = PolicyFiles(PolicySources(user_file=lab.root / "config.toml"))
    folder, notices = ClaudeFolder(lab.config.resolve()), list[str]()
    with closing(Writer(lab.store)) as writer:
        Collector(folder, writer, Recorder(), files).scan()
        now_ms = time.time_ns() // 1_000_000 + LATER_MS
        (session,) = (
            each
            for each in read_sessions(writer.connection, now_ms, policies=files.policies)
            if each.session_id == session_id
        )
        runners = default_runners(lambda notice: notices.append(str(notice)))
        automation = make_automation(folder, writer, files, runners, lambda: now_ms)
        automation.tick()
        automation.wait(60)
        return Looked(
            session,
            {each.warning.level for each in read_warnings(writer.connection)},
            [row[0] for row in writer.connection.execute("SELECT outcome FROM automatic_run")],
            notices,
            ReceiptStore(state_folder(lab.store)).for_session(session_id),
            automatic_target(files.policies.common, session.context),
        )


def follow(lab: Lab, preset: str, *more: str) -> None:
    """Choose a preset, and let it act, as a person does."""
    lines = [f'preset = "{preset}"', 'mode = "auto"', *more]
    (lab.root / "config.toml").write_text("\n".join(lines), encoding="utf-8")


def says(preset: str, step: str) -> str:
    """What the table of presets says of a step."""
    (text,) = (each.text for each in preset_steps(preset) if each.step == step)
    return text.replace("\N{NO-BREAK SPACE}", " ")


def go_on(lab: Lab, session_id: str) -> int:
    """Resume the session; return how many messages the client sent."""
    (asked,) = lab.turn("Next. [[say:ok&&&usage:30000]]", resume=session_id).exchanges
    return len(asked["body"]["messages"])


def lose_last_answer(path: Path) -> None:
    """Leave the last prompt without an answer, as a client that is killed meanwhile does."""
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(n for n, line in enumerate(lines) if json.loads(line)["type"] == "assistant")
    path.write_bytes(b"".join(lines[:last]))


@dataclass(frozen=True, slots=True)
class Case:
    """A preset at work by the API's counts."""

    usage: str
    """Of the answer with which the context reaches the preset's threshold."""
    tokens: int
    levels: set[Level]
    compacts: bool = False
    says: dict[str, str] = field(default_factory=dict)


CASES: Final = {
    "default": Case(
        "170000/10",
        170_000,
        {Level.NOTICE, Level.WARNING, Level.HIGH},
        compacts=True,
        says={
            "counts": "the API's count of the last answer: the whole input; texts by tiktoken",
            "compacts": "a plan by levels, the least harmful changes first;"
            " only sessions of more than 6 messages, from 50,000 tokens on",
        },
    ),
    "omo-2.6": Case(
        "180000/8001",  # a tenth of the input was written to the cache
        170_002,
        {Level.NOTICE, Level.HIGH},
        compacts=True,
        says={"warns": "at 70 %: reassures the model; at 85 %: compacts"},
    ),
    "omo-latest": Case(
        "173400/9000", 156_061, {Level.HIGH}, compacts=True, says={"warns": "at 78 %: compacts"}
    ),
    "clnode": Case(
        "199000/10",
        199_000,
        set(),
        says={
            "warns": "never",
            "compacts": "never by itself; when you ask,"
            " a plan by levels, the least harmful changes first",
        },
    ),
    "claude-memory": Case(
        "167000/10",
        167_000,
        {Level.HIGH},
        says={
            "warns": "at the auto-compact limit (without one it tells you 33,000 tokens below the"
            " window): Claude Code compacts"
        },
    ),
}


@pytest.mark.parametrize("preset", CASES)
def test_a_preset_that_counts_by_the_api(lab: Lab, session_id: str, preset: str) -> None:
    case = CASES[preset]
    assert {step: says(preset, step) for step in case.says} == case.says
    follow(lab, preset)
    before = look(lab, session_id)
    assert before.outcomes == []
    lab.turn(f"{MORE_CALLS} [[say:Done.&&&usage:{case.usage}]]", resume=session_id)
    after = look(lab, session_id)

    assert after.session.context.tokens == case.tokens
    assert after.levels == case.levels
    if not case.compacts:
        assert (after.outcomes, after.receipts) == ([], [])
        return
    (receipt,) = after.receipts
    assert SUMMARIZE not in {each.strategy for each in receipt.plan.operations}
    assert after.outcomes[0].startswith("compacted: ")
    counted_share = case.tokens / receipt.plan.before_tokens
    assert receipt.plan.after_tokens * counted_share <= after.target
    assert go_on(lab, session_id) == 4 + 2 + 22 + 1, "no message is gone"


def test_clnode_shows_what_was_spent_in_all(lab: Lab, session_id: str) -> None:
    follow(lab, "clnode")
    session = look(lab, session_id).session
    assert session.context.counting.source is UsageSource.WITH_CUMULATIVE
    assert session.spent_tokens == 20_000 + 150_000 + 16


def test_not_agent_summarizes_at_75_percent_of_100_000_tokens(lab: Lab, session_id: str) -> None:
    """001-04, 001-08, 001-16: by characters, whatever the API counts; the newest 4 stay."""
    follow(lab, "not-agent")
    before = look(lab, session_id)
    assert 69_000 < (before.session.context.tokens or 0) < 75_000
    assert (before.levels, before.outcomes) == (set(), [])
    lab.turn(MORE_TEXT, resume=session_id)
    after = look(lab, session_id)

    assert 75_000 <= (after.session.context.tokens or 0) < 80_000
    assert after.session.context.counting.source is UsageSource.CHARS4
    assert after.levels == {Level.HIGH}
    assert after.outcomes[0].endswith("older messages replaced by a summary")
    assert says("not-agent", "keeps").startswith("the newest 4 messages")
    assert go_on(lab, session_id) == 4 + 1, "the summary goes with the first of them"
    left = look(lab, session_id)
    assert (left.session.context.tokens or 0) < 15_000
    assert left.outcomes == after.outcomes


def test_hybrid_buffer_summarizes_more_than_six_messages(lab: Lab, session_id: str) -> None:
    """003-11, R003-01: by cl100k_base; R003-03: of 80 % of the window; R003-04: more than 6."""
    follow(lab, "hybrid-buffer")
    lab.turn("Well? [[say:Fine.&&&usage:160000]]", resume=session_id)
    six = look(lab, session_id)
    assert six.session.context.counting.source is UsageSource.TIKTOKEN
    assert 0.85 * 160_000 <= (six.session.context.tokens or 0) < 0.90 * 160_000
    assert (six.levels, six.outcomes) == ({Level.LIGHT}, [])
    assert "6 messages: at most 6 are never compacted" in six.notices[0]
    lab.turn("And now? [[say:Done.]]", resume=session_id)
    lose_last_answer(path_of(lab, session_id))
    seven = look(lab, session_id)

    assert seven.outcomes[0].endswith("older messages replaced by a summary")
    (operation,) = seven.receipts[0].plan.operations
    assert says("hybrid-buffer", "keeps") == (
        "the newest 10 messages (50 % of them at medium, 25 % of them at aggressive),"
        " fewer of a session that has hardly more"
    )
    assert operation.what.startswith("4 messages → a summary")
    go_on(lab, session_id)
    assert (look(lab, session_id).session.context.tokens or 0) < 20_000


def test_omo_doc_only_suggests_and_recovers_by_itself(lab: Lab, session_id: str) -> None:
    """002-20 to 002-22: notices at 70 % and 80 %, and a recovery where the API refuses."""
    follow(lab, "omo-doc", 'limit.override = {"claude-haiku-4-5" = 90000}')
    before = look(lab, session_id)
    assert before.levels == {Level.NOTICE}
    lab.turn(MORE_TEXT, resume=session_id)
    fuller = look(lab, session_id)
    assert fuller.session.context.counting.source is UsageSource.CHARS4
    assert fuller.levels == {Level.NOTICE, Level.WARNING}
    assert fuller.outcomes == []
    lab.variables = {"DISABLE_COMPACT": "1"}
    lab.turn(
        "More. [[error:400 prompt is too long: 205000 tokens > 200000 maximum]]", resume=session_id
    )
    refused = look(lab, session_id)

    assert says("omo-doc", "recovers").startswith("by itself")
    (outcome,) = refused.outcomes
    assert outcome.startswith("recovered with truncate_largest in "), outcome
