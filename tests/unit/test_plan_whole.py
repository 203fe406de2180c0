"""From a transcript to the plan of a summary, a cut or a way back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.plan import AppendLine, CompactionPlan, Operation, Refusal, Severity
from ctxtop.core.compaction.strategies.summary_and_cut import (
    plan_cut,
    plan_revert,
    summarize_by_rules,
)
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.summary_building import SummarySettings
from ctxtop.core.summaries.summary_facts import FOUR_SECTIONS
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries
from msgspec.structs import replace

from tests.planned import source_of
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.actions.conversation_planning import MakeOperation
    from ctxtop.core.compaction.strategies.summary_and_cut import Conversation
    from ctxtop.core.compaction.transcript_view import TranscriptView


def worked(path: Path) -> Path:
    session = Session()
    session.ask("Mend the decoder. Never push.")
    for number in range(30):
        session.use("Bash", numbered(40, words=WORDS), command=f"make {number}")
    session.ask("And the encoder.")
    session.use("Bash", "ok", command="make")
    session.say("Both are mended.")
    return session.write(path)


def plan_of(path: Path, make: MakeOperation, live: str | None = None) -> CompactionPlan:
    return plan_conversation(source_of(path, live), make)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return worked(tmp_path / "s.jsonl")


def after(path: Path, plan: CompactionPlan) -> list[str]:
    """Carry out what only appends: the kinds of the pieces that are sent then."""
    texts = [
        edit.text for each in plan.operations for edit in each.edits if isinstance(edit, AppendLine)
    ]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{text}\n" for text in texts)
    sent = visible_entries(read_entries(path))
    return [piece.kind.value for entry in sent for piece in entry.parts]


def test_a_summary_that_is_no_smaller_is_refused(path: Path) -> None:
    def no_smaller(whole: Conversation, _view: TranscriptView) -> Operation | Refusal:
        made = summarize_by_rules(whole, SummarySettings(FOUR_SECTIONS, keep_messages=4))
        assert isinstance(made, Operation)
        return replace(made, tokens_saved=0)

    plan = plan_of(path, no_smaller)
    assert plan.operations == ()
    assert [each.check for each in plan.refused] == ["nothing"]


def test_a_summary(path: Path) -> None:
    size = path.stat().st_size
    plan = plan_of(
        path,
        lambda whole, _: summarize_by_rules(whole, SummarySettings(FOUR_SECTIONS, keep_messages=3)),
    )
    assert plan.refused == ()
    assert plan.only_appends
    assert plan.harm is Severity.SUMMARY
    assert plan.base_bytes == size
    assert plan.after_tokens < plan.before_tokens / 2
    assert plan.break_even_requests is not None
    assert plan == plan_of(
        path,
        lambda whole, _: summarize_by_rules(whole, SummarySettings(FOUR_SECTIONS, keep_messages=3)),
    ), "made again, the same"
    kinds = after(path, plan)
    assert kinds[0] == "summary"
    assert kinds.count("prompt") == 1
    assert path.stat().st_size == plan.bytes_after
    said = [each for each in read_entries(path) if each.parts][-1].parts[0]
    assert said.kind is PartKind.SUMMARY
    assert "Never push." in said.text


def test_a_cut_and_a_way_back(path: Path) -> None:
    prompts = [
        entry.line
        for entry in read_entries(path)
        if any(piece.kind is PartKind.PROMPT for piece in entry.parts)
    ]
    back = plan_of(path, lambda _, view: plan_revert(view, prompts[-1]))
    assert back.harm is Severity.CUT
    assert back.operations[0].line == prompts[-1]
    assert back.after_tokens < back.before_tokens
    kinds = after(path, plan_of(path, lambda whole, _: plan_cut(whole, 1)))
    assert kinds.count("prompt") == 2
    assert kinds.count("tool_result") == 1


def test_what_is_refused_changes_nothing(path: Path) -> None:
    live = plan_of(
        path,
        lambda whole, _: summarize_by_rules(whole, SummarySettings(FOUR_SECTIONS, keep_messages=3)),
        live="it is open in 4711",
    )
    assert [each.check for each in live.refused] == ["live"]
    assert live.operations == ()
    few = plan_of(
        path,
        lambda whole, _: summarize_by_rules(
            whole, SummarySettings(FOUR_SECTIONS, keep_messages=500)
        ),
    )
    assert [each.check for each in few.refused] == ["too_few"]
    assert json.dumps(few.break_even_requests) == "null"
