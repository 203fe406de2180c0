"""Transcripts whose last line has no line end, whole or torn: changed in every way, and back."""

from __future__ import annotations

import json
import os
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import Operation, Severity
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.strategies.summary_and_cut import newest_entry, plan_cut, plan_revert
from ctxtop.core.compaction.undo import undo
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.raw_lines import complete_line_length

from tests.planned import short, source_of

from ..planned import plan_of
from ..sessions_on_disk import encoded, rest, said, subject_of, turns
from ..transcripts import SESSION
from ..worked import Session, numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctxtop.core.compaction.plan import CompactionPlan, Refusal
    from ctxtop.core.compaction.strategies.summary_and_cut import Conversation
    from ctxtop.core.compaction.transcript_view import TranscriptView

CORPUS = os.environ.get("CTXTOP_SHARED")

LEVELS = tuple(level for level in Severity if level <= Severity.PROSE)

TORN_BYTES = 40
"""Cut off the last line, with its line end."""


def unended(data: bytes) -> bytes:
    """Without the last line end."""
    return data.rstrip(b"\n")


def torn(data: bytes) -> bytes:
    """With half a last line."""
    return unended(data)[:-TORN_BYTES]


ENDS = {"no line end": unended, "half a line": torn}


def session_lines() -> bytes:
    session = Session()
    session.ask("mend the decoder")
    for number in range(8):
        session.use("Read", numbered(60), file_path=f"/{number}.py")
        session.use("Read", numbered(60), file_path=f"/{number}.py")
    session.ask("And the encoder?")
    session.say("Done.")
    return encoded(session.lines)


@pytest.fixture(params=ENDS)
def transcript(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return written(tmp_path, ENDS[request.param](session_lines()))


def written(folder: Path, data: bytes, name: str = f"{SESSION}.jsonl") -> Path:
    path = folder / "-p" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    rest(path)
    return path


def planned(path: Path, level: Severity) -> CompactionPlan:
    plan = plan_of(path, short(level))
    return msgspec.structs.replace(
        plan,
        session_id=path.stem,
        refused=tuple(each for each in plan.refused if each.check != "futile"),
    )


def planned_whole(
    path: Path, make: Callable[[Conversation, TranscriptView], Operation | Refusal]
) -> CompactionPlan:
    plan = plan_conversation(source_of(path), make)
    return msgspec.structs.replace(plan, session_id=path.stem)


def go_back(_: Conversation, view: TranscriptView) -> Operation | Refusal:
    prompts = [each.line for each in view.blocks if each.part.kind is PartKind.PROMPT]
    return plan_revert(view, prompts[-1])


def applied(path: Path, plan: CompactionPlan, mode: ApplyMode) -> Path:
    """Carry a plan out, see that nothing else changed, and take it back."""
    before, listed = path.read_bytes(), said(path)
    subject = subject_of(path, path.parents[1])
    receipt = apply_plan(plan, mode, subject)
    fork = Path(receipt.target)
    if mode is ApplyMode.FORK:
        assert path.read_bytes() == before
        assert fork.read_bytes().endswith(b"\n")
        subject = changed(subject, session_id=fork.stem, transcript=fork)
        rest(fork)
    elif not any(each.level >= Severity.CUT for each in plan.operations):
        assert [uuid for uuid, _ in said(path)][-1] == listed[-1][0]
    after = fork.read_bytes()
    undo(receipt.receipt_id, None, subject)
    if mode is ApplyMode.FORK:
        assert said(fork) == listed
    else:
        assert path.read_bytes() == before
    written(fork.parents[1], after, "after.jsonl")
    return fork.parents[1] / "-p" / "after.jsonl"


@pytest.mark.parametrize("mode", [ApplyMode.FORK, ApplyMode.IN_PLACE])
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_passes_all_checks_and_comes_back(
    transcript: Path, level: Severity, mode: ApplyMode
) -> None:
    plan = planned(transcript, level)
    if plan.refused:
        assert {each.check for each in plan.refused} == {"nothing"}
        return
    applied(transcript, plan, mode)


@pytest.mark.parametrize("mode", [ApplyMode.FORK, ApplyMode.IN_PLACE])
def test_going_back_leaves_nothing_that_hangs_on_what_left(
    transcript: Path, mode: ApplyMode
) -> None:
    plan = planned_whole(transcript, go_back)
    assert not plan.refused
    after = applied(transcript, plan, mode)
    lines = after.read_bytes().splitlines()
    values = [json.loads(line) for line in lines]
    uuids = {value.get("uuid") for value in values}
    assert {value["parentUuid"] for value in values if value.get("parentUuid")} <= uuids
    assert len(after.read_bytes()) == plan.bytes_after or mode is ApplyMode.FORK


@pytest.mark.parametrize("mode", [ApplyMode.FORK, ApplyMode.APPEND])
def test_what_is_appended_begins_on_a_line_of_its_own(transcript: Path, mode: ApplyMode) -> None:
    plan = planned_whole(transcript, lambda whole, _: plan_cut(whole, 1))
    assert not plan.refused
    after = applied(transcript, plan, mode)
    kinds = [each.boundary for each in read_entries(after) if each.boundary]
    assert len(kinds) == 1


def test_a_last_line_without_a_line_end_is_read_and_can_be_changed(tmp_path: Path) -> None:
    lines = turns(3)[:-1]
    whole = written(tmp_path, encoded(lines))
    listed = said(whole)
    path = written(tmp_path, unended(encoded(lines)))
    assert said(path) == listed
    last = newest_entry(read_entries(path))
    assert last is not None
    assert last.uuid == lines[-1]["uuid"]


@pytest.mark.parametrize("end", [b"", b" ", b"\r", b"\0\0"])
def test_an_object_is_whole_and_half_of_one_is_not(end: bytes) -> None:
    line = b'{"a":[1,"x \\ud83d",{"b":"\xff"}]}'
    assert complete_line_length(line + end) == len(line)
    for cut_at in range(len(line)):
        assert complete_line_length(line[:cut_at] + end) == 0
    assert complete_line_length(line + line + end) == 0
    assert complete_line_length(b"12" + end) == complete_line_length(b"[1]" + end) == 0


def recorded() -> list[Path]:
    return sorted(Path(CORPUS or "/nowhere").glob("corpus/*/*.jsonl"))


@pytest.mark.skipif(not CORPUS, reason="CTXTOP_SHARED does not name the shared folder")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("path", recorded(), ids=lambda path: path.stem[:8])
def test_recorded_sessions_with_such_ends_pass_all_checks(
    tmp_path: Path, path: Path, end: str
) -> None:
    transcript = written(tmp_path, ENDS[end](path.read_bytes()), path.name)
    for level in LEVELS:
        plan = planned(transcript, level)
        if plan.refused:
            assert {each.check for each in plan.refused} <= {"nothing", "shape", "thinking"}
            continue
        applied(transcript, plan, ApplyMode.FORK)
