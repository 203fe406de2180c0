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
from msgspec.structs import replace

from tests.planned import short

from ..planned import plan_of
from ..sessions_on_disk import rest, subject_of

CORPUS = os.environ.get("CTXTOP_SHARED")

LEVELS = (Severity.FILE_ONLY, Severity.SUPERSEDED, Severity.INPUTS, Severity.PROSE)


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
            assert {each.check for each in plan.refused} <= {"nothing", "shape"}
            continue
        rest(transcript)
        subject = subject_of(transcript, tmp_path)
        receipt = apply_plan(plan, ApplyMode.IN_PLACE, subject)
        assert transcript.stat().st_size == plan.bytes_after
        undo(receipt.receipt_id, None, subject)
        assert transcript.read_bytes() == before
