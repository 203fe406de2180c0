"""Files that the model edits: their newest Read is the last to go, and its stub says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.condensing import plan_condensed
from ctxtop.core.compaction.plan import CONDENSE, PlanOptions, ReplaceValue
from ctxtop.core.compaction.rewritten_lines import lines_after, rewrite_lines
from ctxtop.core.compaction.strategies.stubs import OFTEN_EDITED, reads_of_edited_files
from ctxtop.core.compaction.strategies.summary_and_cut import plan_cut, summarize_by_rules
from ctxtop.core.compaction.transcript_planning import choose_operations
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.summary_building import SummarySettings
from ctxtop.core.summaries.tool_outcomes import READ_AGAIN
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries
from msgspec.structs import replace

from tests.bench.evaluation.edited_texts import edited_texts
from tests.planned import COUNTERS, SHORT, found_by, plan_transcript, view_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from ctxtop.core.compaction.plan import CompactionPlan
    from ctxtop.core.model.conversation import Entry

    from tests.worked import Session

EDITED, READ = "/src/edited.py", "/src/read.py"
FAR = 1_000_000  # a line behind all others: no edit is recent


def edit(session: Session, path: str, times: int) -> None:
    for n in range(times):
        session.use("Edit", file_path=path, old_string=f"a{n}", new_string=f"b{n}")


def needed(session: Session, folder: Path, recent_line: int) -> frozenset[int]:
    with view_of(session.write(folder / "session.jsonl")) as view:
        return reads_of_edited_files(view, recent_line)


@pytest.mark.parametrize("times", [1, OFTEN_EDITED - 1, OFTEN_EDITED])
def test_a_file_that_is_edited_often_is_needed(
    session: Session, tmp_path: Path, times: int
) -> None:
    session.read(EDITED)
    _, newest = session.read(EDITED, 90)
    session.read(READ)
    edit(session, EDITED, times)
    assert needed(session, tmp_path, FAR) == ({newest} if times == OFTEN_EDITED else set())


def test_a_file_that_was_edited_recently_is_needed(session: Session, tmp_path: Path) -> None:
    _, line = session.read(EDITED)
    edit(session, EDITED, 1)
    session.read(READ)
    assert needed(session, tmp_path, line) == {line}
    assert needed(session, tmp_path, FAR) == set()


@pytest.mark.parametrize(
    ("times", "goes"), [(OFTEN_EDITED, READ), (OFTEN_EDITED - 1, EDITED)], ids=["often", "seldom"]
)
def test_its_newest_read_stays_where_the_target_allows_it(
    session: Session, tmp_path: Path, times: int, goes: str
) -> None:
    """The edited file's Read is later and larger: without its Edits it is the first to go."""
    lines = {session.read(READ, 500)[1]: READ, session.read(EDITED, 700)[1]: EDITED}
    edit(session, EDITED, times)
    session.rest()
    path = session.write(tmp_path / "session.jsonl")

    def gone(share: float) -> set[str]:
        with view_of(path) as view:
            options = replace(SHORT, level=4, target=share)
            return {
                lines[each.line] for each in choose_operations(view, options) if each.line in lines
            }

    with view_of(path) as view:
        nearly_all = (view.tokens - 1_000) / view.window_tokens
    assert gone(nearly_all) == {goes}
    assert gone(0.001) == {READ, EDITED}


@pytest.mark.parametrize("strategy", ["edited-reads", "old-results"])
def test_the_stub_of_a_read_says_to_read_it_again(
    session: Session, tmp_path: Path, strategy: str
) -> None:
    _, line = session.read(EDITED)
    edit(session, EDITED, 1)
    session.rest()
    texts = [
        edit_.value
        for each in found_by(strategy, session, tmp_path)
        if each.line == line
        for edit_ in each.edits
        if isinstance(edit_, ReplaceValue)
    ]
    assert any(READ_AGAIN in text for text in texts)


@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        ("Edit", {"old_string": "old " * 200, "new_string": "new " * 200}),
        ("Write", {"content": "line of the file\n" * 100}),
    ],
)
def test_the_stub_of_what_was_written_says_it_too(
    session: Session, tmp_path: Path, tool: str, asked: dict[str, Any]
) -> None:
    session.use(tool, file_path=EDITED, **asked)
    session.rest()
    strategy = "edit-inputs" if tool == "Edit" else "write-contents"
    (found,) = found_by(strategy, session, tmp_path)
    assert all(
        READ_AGAIN in edit_.value for edit_ in found.edits if isinstance(edit_, ReplaceValue)
    )


def by_levels(path: Path) -> CompactionPlan:
    return plan_transcript(source_of(path), PlanOptions(level=4, keep=1, min_tail_tokens=0))


def by_condensing(path: Path) -> CompactionPlan:
    options = PlanOptions(strategies=(CONDENSE,), target=0.1, keep=1)
    return plan_conversation(
        source_of(path), lambda whole, view: plan_condensed(whole, view, options), options
    )


def by_summary(path: Path) -> CompactionPlan:
    settings = SummarySettings(keep_messages=2)
    return plan_conversation(source_of(path), lambda whole, _: summarize_by_rules(whole, settings))


def by_cut(path: Path) -> CompactionPlan:
    return plan_conversation(source_of(path), lambda whole, _: plan_cut(whole, 1))


def source_of(path: Path) -> PlanSource:
    return PlanSource(path.stem, path, COUNTERS.for_model)


@pytest.mark.parametrize("plan", [by_levels, by_condensing, by_summary, by_cut])
def test_each_way_to_compact_names_the_files_to_read_again(
    session: Session, tmp_path: Path, plan: Callable[[Path], CompactionPlan]
) -> None:
    session.read(EDITED, 400)
    session.use("Edit", file_path=EDITED, old_string="a" * 900, new_string="b" * 900)
    session.say("It calls the decoder. " * 900)
    session.rest()
    path = session.write(tmp_path / "session.jsonl")
    planned = plan(path)
    assert not planned.refused
    after = tmp_path / "after.jsonl"
    with path.open("rb") as lines:
        after.write_bytes(b"".join(lines_after(rewrite_lines(lines, planned.operations))))
    (read,) = [
        part.text
        for entry in sent(path)
        for part in entry.parts
        if part.path == EDITED and part.kind is PartKind.TOOL_RESULT and part.name == "Read"
    ]
    old = read.split("\n")[200].partition("\t")[2]
    session.use("Edit", file_path=EDITED, old_string=old, new_string="new")
    later = sent(session.write(tmp_path / "later.jsonl"))[-2:]
    edited = edited_texts(sent(path), sent(after), later)
    assert edited.gone == (EDITED,)
    assert edited.unnamed == ()


def sent(path: Path) -> list[Entry]:
    return visible_entries(read_entries(path))
