"""What is planned for sessions that people really had can be carried out, and taken back whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import Severity
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.undo import undo
from ctxtop.core.model.conversation import newest_model
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import last_bound_thinking, visible_entries
from msgspec.structs import replace

from tests.planned import short

from ..planned import plan_of
from ..sessions_on_disk import rest, subject_of

CORPUS = os.environ.get("CTXTOP_SHARED")

LEVELS = (Severity.FILE_ONLY, Severity.SUPERSEDED, Severity.INPUTS, Severity.PROSE)


def binds_open_turn(path: Path) -> bool:
    """Whether it ends in the middle of a turn, before whose thinking nothing may change."""
    sent = visible_entries(read_entries(path))
    return last_bound_thinking(sent, newest_model(sent)) is not None


def recorded() -> list[Path]:
    return sorted(Path(CORPUS or "/nowhere").glob("corpus/*/*.jsonl"))


@pytest.mark.skipif(not CORPUS, reason="CTXTOP_SHARED does not name the shared folder")
@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.stem[:8])
def test_it_is_carried_out_and_taken_back(tmp_path: Path, path: Path) -> None:
    transcript = tmp_path / "-p" / path.name
    transcript.parent.mkdir()
    shutil.copyfile(path, transcript)
    before = transcript.read_bytes()
    for level in LEVELS:
        plan = plan_of(transcript, short(level))
        plan = replace(
            plan,
            session_id=path.stem,
            # What is too little to pay off is carried out all the same.
            refused=tuple(each for each in plan.refused if each.check != "futile"),
        )
        if plan.refused:
            may_refuse = {"nothing", "shape"} | ({"thinking"} if binds_open_turn(path) else set())
            assert {each.check for each in plan.refused} <= may_refuse
            continue
        rest(transcript)
        subject = subject_of(transcript, tmp_path)
        receipt = apply_plan(plan, ApplyMode.IN_PLACE, subject)
        assert transcript.stat().st_size == plan.bytes_after
        undo(receipt.receipt_id, None, subject)
        assert transcript.read_bytes() == before
