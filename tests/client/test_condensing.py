"""A digest and what stays are what the client sends; a turn comes back; all of it is undone."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.condensing import plan_condensed
from ctxtop.core.compaction.plan import CONDENSE, CompactionPlan, PlanOptions
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.compaction.turn_restoring import plan_restore
from ctxtop.core.compaction.undo import undo
from ctxtop.core.model.claude_models import SMALL_WINDOW
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.turn_digest import parse_digest
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries
from msgspec.structs import replace

from ..planned import plan_transcript
from .compacting import ApiCounter, Edited, prove, resume, subject_of
from .lab import LARGE, SMALL, Lab
from .script import counted
from .talks import copy_of, path_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.core.compaction.receipts import CompactionReceipt
    from ctxtop.core.summaries.turn_digest import DigestSection

TURNS = 9
MORE = 3_000
"""Tokens beyond what levels 2 to 4 free: they protect results that failed."""
NEWEST = PlanOptions(keep=2, min_tail_tokens=0, max_task_tokens=0)


@pytest.fixture(scope="module")
def worked(new_lab: Callable[[type[Lab]], Lab]) -> Callable[[str], tuple[Lab, Path]]:
    """A copy of a session of many turns, and the lab that it was made in."""

    @cache
    def made(model: str) -> tuple[Lab, Path]:
        lab = new_lab(Lab)
        session_id = ""
        for number in range(1, TURNS + 1):
            script = counted(
                f"Question {number}."
                f" [[think:plan&&&bash:seq 1 900; exit {number}&&&bash:seq {number} 800]]"
                f" [[think:T.&&&say:I decided to use part_{number}_x. Answer {number}.]]"
            )
            session_id = lab.turn(script, resume=session_id or None, model=model).session_id
        return lab, path_of(lab, session_id)

    def copied(model: str) -> tuple[Lab, Path]:
        lab, path = made(model)
        return lab, copy_of(path)

    return copied


def condense(lab: Lab, path: Path) -> CompactionReceipt:
    """Free a little more than levels 2 to 4 can."""
    by_level = plan_transcript(source(path), replace(NEWEST, level=4))
    share = (by_level.after_tokens - MORE) / SMALL_WINDOW
    options = replace(NEWEST, strategies=(CONDENSE,), target=share)
    plan = plan_conversation(
        source(path), lambda whole, view: plan_condensed(whole, view, options), options
    )
    assert plan.refused == ()
    assert plan.operations[-1].strategy == CONDENSE
    mode = ApplyMode.APPEND if plan.only_appends else ApplyMode.IN_PLACE
    return apply_plan(plan, mode, subject_of(lab, path))


def restored(path: Path, turn: int) -> CompactionPlan:
    return plan_conversation(source(path), lambda whole, _: plan_restore(whole, turn))


def source(path: Path) -> PlanSource:
    return PlanSource(path.stem, path, lambda _: ApiCounter(), SMALL_WINDOW)


def sections(path: Path) -> list[DigestSection]:
    texts = (
        part.text
        for each in visible_entries(read_entries(path))
        for part in each.parts
        if part.kind is PartKind.SUMMARY
    )
    return [section for text in texts for section in parse_digest(text)]


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_the_client_goes_on_from_a_digest_and_back(
    worked: Callable[[str], tuple[Lab, Path]], model: str
) -> None:
    lab, path = worked(model)
    before = path.read_bytes()

    def edit(path: Path) -> Edited:
        receipt = condense(lab, path)
        undo(receipt.receipt_id, None, subject_of(lab, path))
        assert path.read_bytes() == before
        receipt = condense(lab, path)
        assert sections(path)

        def take_back() -> None:
            undo(receipt.receipt_id, None, subject_of(lab, path))
            assert path.read_bytes().startswith(before)
            # What the client announced again behind our boundary stays its own.
            path.write_bytes(before)

        return Edited(path.stem, receipt.plan.tokens_saved, take_back)

    prove(lab, path.stem, edit, "condensed")


def test_a_second_digest_carries_the_first_and_a_turn_comes_back(
    worked: Callable[[str], tuple[Lab, Path]],
) -> None:
    lab, path = worked(SMALL)
    before = path.read_bytes()
    receipts = [condense(lab, path)]
    first = sections(path)
    for number in range(TURNS + 1, TURNS + 5):
        script = counted(f"Question {number}. [[bash:seq 1 900; exit 3]] [[say:Yes.]]")
        lab.turn(script, resume=path.stem)
    receipts.append(condense(lab, path))
    second = sections(path)
    assert [each.text for each in second[: len(first)]] == [each.text for each in first]
    assert len(second) > len(first)
    resume(lab, path.stem, "condensed twice")

    # A turn of the first digest stands before two boundaries.
    for number in (second[-1].number, 1):
        plan = restored(path, number)
        assert plan.refused == ()
        receipts.append(apply_plan(plan, ApplyMode.APPEND, subject_of(lab, path)))
        asked = json.dumps(resume(lab, path.stem, f"turn {number} is back")["body"]["messages"])
        assert number not in {each.number for each in sections(path)}
        assert f"Question {number}. [[think" in asked or number != 1
    assert "899" in asked

    for receipt in reversed(receipts):
        undo(receipt.receipt_id, None, subject_of(lab, path))
    assert path.read_bytes().startswith(before)
    resume(lab, path.stem, "all taken back")
