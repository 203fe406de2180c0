"""A rollover in the client: it goes on from the hand-off alone; the old session is as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.strategies.summary_and_cut import plan_rollover
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.compaction.undo import undo
from ctxtop.core.summaries.summary_building import SummarySettings
from ctxtop.core.summaries.summary_facts import FOUR_SECTIONS

from ..sessions_on_disk import rest, subject_of
from .compacting import ApiCounter, resume
from .test_appended_summary import ROOM, SESSIONS, bare, sent_on_resume, texts, worked
from .wire import received

if TYPE_CHECKING:
    from .lab import Lab


@pytest.mark.parametrize("name", SESSIONS)
def test_the_client_goes_on_from_the_hand_off(lab: Lab, name: str, tmp_path: Path) -> None:
    path = worked(lab, SESSIONS[name])
    rest(path)
    original = path.read_bytes()
    plain = received(sent_on_resume(lab, path.stem))
    subject = subject_of(path, tmp_path)
    plan = plan_conversation(
        PlanSource(path.stem, path, lambda _: ApiCounter()),
        lambda whole, view: plan_rollover(whole, view, SummarySettings(FOUR_SECTIONS, ROOM)),
    )
    assert plan.refused == ()
    receipt = apply_plan(plan, ApplyMode.FORK, subject)
    fork = Path(receipt.target)
    rolled = fork.read_bytes()
    (handed,) = (json.loads(line) for line in rolled.split(b"\n") if b"[Hand-off from" in line)

    resume(lab, fork.stem, "the hand-off")
    fork.write_bytes(rolled)
    sent = sent_on_resume(lab, fork.stem)
    assert bare(handed["message"]["content"]) in texts(sent)
    assert received(sent) != plain

    assert path.read_bytes() == original
    rest(fork)
    undo(receipt.receipt_id, None, subject_of(fork, tmp_path))
    assert received(sent_on_resume(lab, fork.stem)) == plain
