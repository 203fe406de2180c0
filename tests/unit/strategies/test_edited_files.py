"""Files that the model edits: their newest Read is the last to go, and its stub says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction.plan import ReplaceValue
from ctxtop.core.compaction.strategies.stubs import OFTEN_EDITED, reads_of_edited_files
from ctxtop.core.compaction.transcript_planning import choose_operations
from ctxtop.core.summaries.tool_outcomes import READ_AGAIN
from msgspec.structs import replace

from tests.planned import SHORT, found_by, view_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

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
