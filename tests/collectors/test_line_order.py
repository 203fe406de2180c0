"""The order of lines is that of the file, whatever their times; a line may replace others."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.model.transcript_records import TurnState
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import session_queries
from ctxtop.core.transcript.entry_decoder import read_entries

from ..transcripts import (
    PROJECT,
    SESSION,
    append,
    assistant,
    boundary,
    chained,
    summary,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def state(collector: Collector, store: Path) -> dict[str, Any]:
    collector.scan()
    with closing(open_reader(store)) as db:
        row = db.execute("SELECT * FROM session").fetchone()
    return {
        name: row[name] for name in ("turn", "cwd", "client_version", "leaf_uuid", "turn_offset")
    }


def test_lines_behind_a_clock_that_was_set_back_change_the_state(
    path: Path, collector: Collector, store: Path
) -> None:
    asked = user("paint the door", at=900)
    write(path, [asked])
    assert state(collector, store)["turn"] == TurnState.ASKED
    answer = assistant("msg_2", at=60, parentUuid=asked["uuid"], cwd="/home/dev/moved")
    append(path, [answer])
    assert state(collector, store)["turn"] == TurnState.ANSWERED
    assert state(collector, store)["cwd"] == "/home/dev/moved"
    more = user("and the gate", at=61, parentUuid=answer["uuid"])
    append(path, [chained("system", 62, subtype="x", parentUuid=answer["uuid"]), more])
    assert state(collector, store)["leaf_uuid"] == more["uuid"]


def test_results_of_parallel_calls_count_in_the_order_of_their_lines(
    path: Path, collector: Collector, store: Path
) -> None:
    later, first = user("one", at=11), user("two", at=10)
    write(path, [later, first])
    assert state(collector, store)["leaf_uuid"] == first["uuid"]


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_the_last_prompt_is_the_newest_by_its_time_in_however_many_pieces_it_was_read(
    path: Path, collector: Collector, store: Path, pieces: int
) -> None:
    newest, older, timeless = user("sort", at=9), user("draw", at=1), user("glue", at=5)
    del timeless["timestamp"]
    noted = {"type": "last-prompt", "lastPrompt": "paint", "sessionId": SESSION}
    write(path, [])

    def last(*lines: dict[str, Any]) -> str | None:
        for piece in range(pieces):
            append(path, list(lines[3 * piece // pieces : 3 * (piece + 1) // pieces]))
            collector.scan()
        with closing(open_reader(store)) as db:
            (row,) = session_queries.sessions(db)
        return row.last_prompt

    assert last(newest, older, timeless) == "sort"
    assert last(older, noted, older) == "paint"  # what the client notes counts where it stands
    assert last(older, user("glaze", at=10), older) == "glaze"


def test_a_text_that_takes_the_place_of_messages_is_no_prompt(
    path: Path, collector: Collector, store: Path
) -> None:
    asked, span = user("sort the bills"), user("We sorted shelves.", at=3, replacesSpan=True)
    write(path, [asked, assistant(at=2), span])
    assert state(collector, store)["turn"] == TurnState.ANSWERED
    with closing(open_reader(store)) as db:
        (row,) = session_queries.sessions(db)
    assert (row.first_prompt, row.last_prompt) == ("sort the bills", "sort the bills")
    kinds = [part.kind for part in read_entries(path)[-1].parts]
    assert kinds == [PartKind.SUMMARY]


def test_old_lines_that_are_written_again_change_no_number(
    path: Path, collector: Collector, store: Path
) -> None:
    """As /branch of a compacted session wrote them: behind the newer ones, without a parent."""
    old = [
        line | {"cwd": "/home/dev/old"}
        for number in range(3)
        for line in (
            user(f"bug {number}", at=2 * number),
            assistant(f"m{number}", 100_000 + number, at=2 * number + 1),
        )
    ]
    new = [
        boundary(at=10, preTokens=100_100, postTokens=900),
        summary("We fixed three.", at=11),
        user("and the next one", at=12),
        assistant("m9", 20_000, at=13),
    ]
    write(path, [*old, *new])
    before = state(collector, store)
    with closing(open_reader(store)) as db:
        (one,) = session_queries.sessions(db)
        counted = [tuple(each) for each in db.execute("SELECT * FROM spending")]
    append(path, [line | {"parentUuid": None} for line in old])
    after = state(collector, store)
    with closing(open_reader(store)) as db:
        (other,) = session_queries.sessions(db)
        assert [tuple(each) for each in db.execute("SELECT * FROM spending")] == counted
    same = ("answer_tokens", "boundaries", "last_prompt", "after_answer_tokens", "passed_tokens")
    assert [getattr(one, name) for name in same] == [getattr(other, name) for name in same]
    # Where the old lines differ from the newest ones, these follow the file until the next line.
    assert {name for name, value in after.items() if value != before[name]} == {
        "cwd",
        "leaf_uuid",
        "turn_offset",
    }
