"""From a transcript to the plan of a summary, a cut or a way back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.transcripts.conversation import read_conversation
from ctxtop.core.compaction.plan import Append, Harm, Operation, Plan, Refusal
from ctxtop.core.compaction.plan_whole import plan_whole
from ctxtop.core.compaction.project import project
from ctxtop.core.compaction.strategies.cut import cut
from ctxtop.core.compaction.strategies.revert import revert
from ctxtop.core.compaction.strategies.summarise import summarise
from ctxtop.core.conversation import PieceKind
from ctxtop.core.summaries.templates import FOUR
from msgspec.structs import replace

from tests.planned import COUNTERS
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.plan_whole import Make
    from ctxtop.core.compaction.view import View
    from ctxtop.core.compaction.whole import Whole


def worked(path: Path) -> Path:
    session = Session()
    session.ask("Mend the decoder. Never push.")
    for number in range(30):
        session.use("Bash", numbered(40, words=WORDS), command=f"make {number}")
    session.ask("And the encoder.")
    session.use("Bash", "ok", command="make")
    session.say("Both are mended.")
    return session.write(path)


def plan_of(path: Path, make: Make, live: str | None = None) -> Plan:
    return plan_whole(path.stem, path, read_conversation, COUNTERS.for_model, make, open_in=live)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return worked(tmp_path / "s.jsonl")


def after(path: Path, plan: Plan) -> list[str]:
    """Carry out what only appends: the kinds of the pieces that are sent then."""
    texts = [
        edit.text for each in plan.operations for edit in each.edits if isinstance(edit, Append)
    ]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{text}\n" for text in texts)
    sent = project(read_conversation(path))
    return [piece.kind.value for entry in sent for piece in entry.parts]


def test_a_summary_that_is_no_smaller_is_refused(path: Path) -> None:
    def no_smaller(whole: Whole, _view: View) -> Operation | Refusal:
        made = summarise(whole, 4, FOUR)
        assert isinstance(made, Operation)
        return replace(made, tokens_saved=0)

    plan = plan_of(path, no_smaller)
    assert plan.operations == ()
    assert [each.check for each in plan.refused] == ["nothing"]


def test_a_summary(path: Path) -> None:
    size = path.stat().st_size
    plan = plan_of(path, lambda whole, _: summarise(whole, 3, FOUR))
    assert plan.refused == ()
    assert plan.only_appends
    assert plan.harm is Harm.SUMMARY
    assert plan.base_bytes == size
    assert plan.after_tokens < plan.before_tokens / 2
    assert plan.break_even_requests is not None
    assert plan == plan_of(path, lambda whole, _: summarise(whole, 3, FOUR)), "made again, the same"
    kinds = after(path, plan)
    assert kinds[0] == "summary"
    assert kinds.count("prompt") == 1
    assert path.stat().st_size == plan.bytes_after
    said = [each for each in read_conversation(path) if each.parts][-1].parts[0]
    assert said.kind is PieceKind.SUMMARY
    assert "Never push." in said.text


def test_a_cut_and_a_way_back(path: Path) -> None:
    prompts = [
        entry.line
        for entry in read_conversation(path)
        if any(piece.kind is PieceKind.PROMPT for piece in entry.parts)
    ]
    back = plan_of(path, lambda _, view: revert(view, prompts[-1]))
    assert back.harm is Harm.CUT
    assert back.operations[0].line == prompts[-1]
    assert back.after_tokens < back.before_tokens
    kinds = after(path, plan_of(path, lambda whole, _: cut(whole, 1)))
    assert kinds.count("prompt") == 2
    assert kinds.count("tool_result") == 1


def test_what_is_refused_changes_nothing(path: Path) -> None:
    live = plan_of(path, lambda whole, _: summarise(whole, 3, FOUR), live="it is open in 4711")
    assert [each.check for each in live.refused] == ["live"]
    assert live.operations == ()
    few = plan_of(path, lambda whole, _: summarise(whole, 500, FOUR))
    assert [each.check for each in few.refused] == ["too_few"]
    assert json.dumps(few.break_even_requests) == "null"
