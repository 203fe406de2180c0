"""Plans that were made in plan mode: each is kept once, as the client wrote it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.transcripts.replaced_content import (
    NotReadableError,
    read_replaced,
)
from ctxtop.core.readers.summary_reader import find_summaries, read_summary_rows
from ctxtop.core.store.database import open_reader
from ctxtop.core.summaries.summary_search import PLAN_KIND, SummaryCriteria

from ..stored import stored_summaries
from ..transcripts import PROJECT, SESSION, assistant, text, tool, tool_result, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.stored_rows import SummaryRow

    from ..transcripts import JsonLine

FORK = "22222222-2222-4222-8222-222222222222"
WORDS = "# Mend the parser\n\n1. Read \x1b[31mtoken.py\n2. Test it"


def planned(asked: dict[str, object], call_id: str = "t1") -> list[JsonLine]:
    """Write the lines of a plan that was shown and approved."""
    call = assistant("m1", content=[text("See."), tool("ExitPlanMode", call_id, **asked)], at=2)
    return [user(), call, tool_result(call_id, "User has approved your plan.", asked, at=9)]


def kept(store: Path) -> list[SummaryRow]:
    with closing(open_reader(store)) as db:
        return stored_summaries(db)


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def test_a_plan_is_kept_as_it_was_shown(collector: Collector, store: Path, path: Path) -> None:
    write(path, planned({"plan": WORDS, "planFilePath": "/x/plans/a.md"}))
    collector.scan()
    (row,) = kept(store)
    assert (row.kind, row.session_id, row.agent_id, row.lines) == (PLAN_KIND, SESSION, None, 4)
    assert row.text.startswith("# Mend the parser\n\n1. Read")
    assert "\x1b" not in row.text


@pytest.mark.parametrize("asked", [{}, {"plan": " \n"}, {"plan": 7}, {"allowedPrompts": []}])
def test_what_says_nothing_is_no_plan(
    collector: Collector, store: Path, path: Path, asked: dict[str, object]
) -> None:
    write(path, planned(asked))
    collector.scan()
    assert kept(store) == []


def test_a_fork_shows_its_parents_plan_once(
    collector: Collector, store: Path, path: Path, claude: ClaudeFolder
) -> None:
    lines = planned({"plan": WORDS})
    write(path, lines)
    copied = [line | {"sessionId": FORK, "forkedFrom": {"sessionId": SESSION}} for line in lines]
    write(claude.projects / PROJECT / f"{FORK}.jsonl", copied)
    collector.scan()
    with closing(open_reader(store)) as db:
        found = find_summaries(db, (), SummaryCriteria(kind=PLAN_KIND), {}, 0)
        (row,) = read_summary_rows(db, (), found.ids)
    assert row.session_id == SESSION


def test_two_plans_of_one_session_are_two(collector: Collector, store: Path, path: Path) -> None:
    write(path, [*planned({"plan": WORDS}), *planned({"plan": "# Another one"}, "t2")])
    collector.scan()
    assert [row.text.split("\n")[0] for row in kept(store)] == [
        "# Another one",
        "# Mend the parser",
    ]


def test_it_replaces_nothing(
    collector: Collector, store: Path, path: Path, claude: ClaudeFolder
) -> None:
    write(path, planned({"plan": WORDS}))
    collector.scan()
    (row,) = kept(store)
    with (
        closing(open_reader(store)) as db,
        pytest.raises(NotReadableError, match="does not replace"),
    ):
        read_replaced(db, claude.projects, row, ())
