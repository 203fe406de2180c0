"""A rollover: a session of one message, and the old one as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import (
    AppendLine,
    CompactionPlan,
    CompactionRefusedError,
    Severity,
    edits_of,
)
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.strategies.summary_and_cut import plan_rollover
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.compaction.undo import undo
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.summary_building import SummaryBudget, SummarySettings
from ctxtop.core.summaries.summary_facts import FOUR_SECTIONS
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from tests.planned import COUNTERS
from tests.sessions_on_disk import at_rest, encoded, said, subject_of, turns
from tests.transcripts import SESSION

DATA = encoded(turns(6, result_chars=4_000))


def plan_of(path: Path, budget: SummaryBudget | None = None) -> CompactionPlan:
    return plan_conversation(
        PlanSource(SESSION, path, COUNTERS.for_model),
        lambda whole, view: plan_rollover(whole, view, SummarySettings(FOUR_SECTIONS, budget)),
    )


def test_the_new_session_begins_with_the_hand_off(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    plan = plan_of(subject.transcript, SummaryBudget(2_000))
    assert plan.refused == ()
    assert plan.harm is Severity.CUT
    assert plan == plan_of(subject.transcript, SummaryBudget(2_000)), "made again, the same"
    receipt = apply_plan(plan, ApplyMode.FORK, subject)
    assert subject.transcript.read_bytes() == DATA
    fork = Path(receipt.target)
    *lines, title, name = fork.read_bytes().splitlines(keepends=True)
    assert sum(map(len, lines)) == plan.bytes_after
    assert json.loads(title)["customTitle"] == json.loads(name)["agentName"]
    (sent,) = visible_entries(read_entries(fork))
    (piece,) = sent.parts
    assert piece.kind is PartKind.PROMPT
    assert piece.text.startswith(f"[Hand-off from session {SESSION}]")
    assert "Please do 0" in piece.text
    last = json.loads(lines[-1])
    assert last["sessionId"] == fork.stem
    assert last["forkedFrom"]["sessionId"] == SESSION
    assert last["parentUuid"] is None


def test_a_new_sessions_file_has_no_secret(tmp_path: Path) -> None:
    """It has none of the old session's lines: what was a secret there stays there."""
    lines = turns(6, result_chars=4_000)
    lines[1]["message"]["content"] = "Use password: hunter2x for the upload."
    plan = plan_of(at_rest(tmp_path, encoded(lines)).transcript, SummaryBudget(2_000))
    (added,) = (each for each in edits_of(plan.operations) if isinstance(each, AppendLine))
    assert "Use password: [redacted: password] for the upload." in added.text
    assert "hunter2x" not in added.text


def test_it_is_taken_back(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    receipt = apply_plan(plan_of(subject.transcript, SummaryBudget(2_000)), ApplyMode.FORK, subject)
    fork = Path(receipt.target)
    undo(receipt.receipt_id, None, subject_of(fork, tmp_path))
    assert said(fork) == said(subject.transcript)


def test_it_is_for_a_session_of_its_own(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    with pytest.raises(CompactionRefusedError):
        apply_plan(plan_of(subject.transcript, SummaryBudget(2_000)), ApplyMode.APPEND, subject)
    assert subject.transcript.read_bytes() == DATA


def test_what_cannot_be_handed_off_is_refused(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    assert [each.check for each in plan_of(subject.transcript, SummaryBudget(1)).refused] == [
        "summary_empty"
    ]
    few = at_rest(tmp_path, encoded(turns(1)[:2]))
    assert [each.check for each in plan_of(few.transcript).refused] == ["too_few"]
