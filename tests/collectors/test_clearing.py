"""What a client cleared by itself: gone from the composition, and a mark on the timeline."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.compaction.plan import PlanOptions
from ctxtop.core.measure.timeline import TimelineEventKind
from ctxtop.core.model.context import ContextState
from ctxtop.core.model.conversation import CLEARED_RESULT_TEXT
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.readers.timeline_reader import read_timeline
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..planned import plan_of, view_of
from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    JsonLine,
    assistant,
    attachment,
    microcompacted,
    text,
    tool,
    tool_result,
    user,
    write,
)
from ..worked import OLDER, Session
from .test_composing import composed, linked, tokens

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.measure.timeline import Timeline
    from ctxtop.core.model.session import Session as Seen

OLD = "2.1.45"
RESULT = "r" * 40_000


def story(*after: JsonLine, clearing: JsonLine | None = None) -> list[JsonLine]:
    """A result of 10,000 tokens that the client cleared before it asked again."""
    read = tool("Read", "toolu_1", file_path="/p/shop.py")
    lines = [
        user("x" * 400),
        assistant("msg_1", 9_100, content=[read]),
        tool_result("toolu_1", RESULT, {}),
        clearing or microcompacted(["toolu_1"], 9_990),
        *after,
    ]
    return linked(*({**line, "version": OLD} for line in lines))


ANSWER = assistant("msg_2", 9_200, content=[text("Done.")], at=9)


def told(claude: ClaudeFolder, tmp_path: Path, *lines: JsonLine) -> tuple[Seen, Timeline]:
    write(claude.projects / PROJECT / f"{SESSION}.jsonl", lines)
    store = tmp_path / "told.db"
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()
    with closing(open_reader(store)) as db:
        (found,) = read_sessions(db, 0)
        return found, read_timeline(db, (SESSION, None), found.context)


def test_a_result_that_was_cleared_is_gone_from_the_composition(
    claude: ClaudeFolder, tmp_path: Path
) -> None:
    found = composed(claude, tmp_path, *story(ANSWER))
    assert found.total_tokens == 9_200
    assert tokens(found)["tool results"] == (len("Read") + len(CLEARED_RESULT_TEXT)) // 4
    assert tokens(found)["system prompt and tools"] == 9_000
    assert found.unexplained_tokens < 100


def test_attachments_that_were_cleared_are_gone_too(claude: ClaudeFolder, tmp_path: Path) -> None:
    note = attachment("file") | {"rendered": [{"content": "n" * 8_000}]}
    clearing = microcompacted([], clearedAttachmentUUIDs=[note["uuid"]])
    lines = [user("x" * 400), assistant("msg_1", 9_100), note, clearing, ANSWER]
    found = composed(claude, tmp_path, *linked(*lines))
    assert "attachments" not in tokens(found)


def test_a_client_that_reads_the_transcript_again_sends_it_whole(
    claude: ClaudeFolder, tmp_path: Path
) -> None:
    *old, answer = story(assistant("msg_2", 19_300, at=9))
    found = composed(claude, tmp_path, *old, answer | {"version": "2.1.329"})
    # As the next request measured it, for all that it grew by.
    assert tokens(found)["tool results"] == pytest.approx(len(RESULT) // 4, rel=0.02)
    assert found.unexplained_tokens == 0


def test_the_timeline_marks_what_was_cleared(claude: ClaudeFolder, tmp_path: Path) -> None:
    _, timeline = told(claude, tmp_path, *story(ANSWER))
    (mark,) = [each for each in timeline.events if each.kind is TimelineEventKind.CLEARED]
    assert (mark.turn, mark.saved_tokens) == (0, 9_990)
    assert mark.what == "1 tool result (≈9,990 tokens)"


@pytest.mark.parametrize("said", [{}, {"microcompactMetadata": None}, {"microcompactMetadata": {}}])
def test_a_clearing_that_names_nothing_is_marked_all_the_same(
    claude: ClaudeFolder, tmp_path: Path, said: JsonLine
) -> None:
    line = microcompacted([])
    del line["microcompactMetadata"]
    _, timeline = told(claude, tmp_path, *story(ANSWER, clearing=line | said))
    (mark,) = [each for each in timeline.events if each.kind is TimelineEventKind.CLEARED]
    assert (mark.what, mark.saved_tokens) == ("old text", None)


def test_until_the_next_answer_the_number_is_an_estimate(
    claude: ClaudeFolder, tmp_path: Path
) -> None:
    lines = story(clearing=microcompacted(["toolu_1"], 3_000))
    before, _ = told(claude, tmp_path, *lines)
    assert (before.context.tokens, before.context.state) == (6_100, ContextState.ESTIMATED)
    after, _ = told(claude, tmp_path / "after", *lines, ANSWER)
    assert (after.context.tokens, after.context.state) == (9_200, ContextState.MEASURED)


def test_a_plan_keeps_the_system_prompt_where_results_were_cleared(tmp_path: Path) -> None:
    session = Session()
    session.ask("mend the decoder")
    for number in range(8):
        session.read(f"/{number}.py", 120)
    session.add(microcompacted([f"toolu_{number:04}" for number in range(1, 9)]))
    # The prompt and the eight calls take 460 beside the system prompt and the tools.
    session.add(assistant("msg_last", 12_460, content=[text("Done.")], model=OLDER))
    path = session.write(tmp_path / "s.jsonl")
    with view_of(path) as view:
        conversation = view.tokens - view.overhead_tokens
        assert view.overhead_tokens == pytest.approx(12_000, abs=50)
        assert conversation > 30_000, "a resume sends what was cleared"
    assert plan_of(path).before_tokens == view.tokens


def test_a_plan_is_on_the_scale_of_an_answer_that_had_less_than_is_written(
    tmp_path: Path,
) -> None:
    session = Session()
    session.ask("mend the decoder")
    for number in range(8):
        session.read(f"/{number}.py", 120)
    session.add(assistant("msg_last", 30_000, content=[text("Done.")], model=OLDER))
    path = session.write(tmp_path / "s.jsonl")
    plan = plan_of(path, PlanOptions(level=3, keep=1, min_tail_tokens=0, max_task_tokens=0))
    assert plan.before_tokens == pytest.approx(30_000, abs=20)
    assert plan.operations[-1].what.startswith("the newest answer's usage: 30,000 → ")
    with view_of(path) as view:
        assert view.overhead_tokens < 12_000
        assert {round(block.factor, 2) for block in view.blocks} == {1.0}
