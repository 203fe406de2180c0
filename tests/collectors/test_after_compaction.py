"""How full a context is right after a compaction, and after an edit in place."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.transcript_details import read_composition
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.compaction.strategies.summary_and_cut import Conversation
from ctxtop.core.measure.timeline import with_current_context
from ctxtop.core.model.context import ContextState
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.readers.timeline_reader import read_timeline
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import log_queries, session_queries
from ctxtop.core.store.queries.evidence_queries import read_evidence_rows
from ctxtop.core.store.writer import Writer
from ctxtop.tui.entities.context_breakdown import number_sources
from ctxtop.tui.text.formats import tokens_after, tokens_before
from msgspec.structs import replace

from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    JsonLine,
    append,
    assistant,
    attachment,
    boundary,
    microcompacted,
    summary,
    text,
    tool,
    usage,
    user,
    write,
)
from .test_composing import Letters, linked

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.session import Session

FIRST = 16_100
"""What the first request held: 12,000 of system prompt and tools, a listing, and the prompt."""

LISTING = 4_000
PROMPT = 100


def listing(at: int = 0) -> JsonLine:
    line = attachment("skill_listing") | {"rendered": [{"content": "l" * 4 * LISTING}]}
    return line | {"timestamp": user(at=at)["timestamp"]}


def opening() -> list[JsonLine]:
    return [
        user("p" * 4 * PROMPT),
        listing(),
        assistant("msg_1", FIRST, content=[text("done")]),
        user("on", at=2),
        assistant("msg_2", 150_000, at=3),
    ]


class Store:
    """A folder with one session, and what ctxtop says of it."""

    def __init__(self, claude: ClaudeFolder, path: Path) -> None:
        self.file = claude.projects / PROJECT / f"{SESSION}.jsonl"
        self._claude, self._path = claude, path

    def write(self, *lines: JsonLine) -> None:
        write(self.file, linked(*lines))

    def scan(self) -> sqlite3.Connection:
        with closing(Writer(self._path)) as writer:
            Collector(self._claude, writer, Recorder()).scan()
        return open_reader(self._path)

    def session(self) -> Session:
        with closing(self.scan()) as db:
            (found,) = read_sessions(db, 0)
            return found

    def composed(self) -> tuple[int, bool]:
        with closing(self.scan()) as db:
            found = read_composition(db, self._claude.projects, SESSION, counter=Letters())
            assert sum(each.tokens for each in found.categories) == found.total_tokens
            return found.total_tokens, found.estimated


@pytest.fixture
def store(claude: ClaudeFolder, tmp_path: Path) -> Store:
    return Store(claude, tmp_path / "own.db")


def test_system_prompt_tools_and_listings_are_part_of_what_a_compaction_left(store: Store) -> None:
    cut = boundary(at=4, postTokens=900)
    store.write(*opening(), cut, summary("s" * 4 * 600, at=5))
    context = store.session().context
    assert context.state is ContextState.ESTIMATED
    # The first request without its prompt, and the 600 of the summary.
    assert context.tokens == FIRST - PROMPT + 600


def test_what_is_announced_again_is_not_counted_twice(store: Store) -> None:
    lines = (*opening(), boundary(at=4, postTokens=700), summary("s" * 4 * 600, at=5))
    store.write(*lines)
    before = store.session().context.tokens
    store.write(*lines, listing(6))
    assert store.session().context.tokens == before


def test_what_the_client_counts_beyond_the_lines_is_believed(store: Store) -> None:
    cut = boundary(at=4, postTokens=30_000, preservedMessages={"uuids": ["a"]})
    store.write(*opening(), cut, summary("s" * 4 * 600, at=5))
    assert store.session().context.tokens == FIRST - PROMPT - LISTING + 30_000


def test_what_a_plan_of_ctxtop_foresaw_is_what_the_list_shows(store: Store) -> None:
    cut = boundary(at=4, postTokens=900, ctxtopNextTokens=20_000)
    store.write(*opening(), cut, summary("s" * 4 * 600, at=5))
    assert store.session().context.tokens == 20_000
    # What is written behind it comes on top of what the plan knew.
    store.write(*opening(), cut, summary("s" * 4 * 600, at=5), user("p" * 4 * 1_000, at=6))
    assert store.session().context.tokens == 21_000


def test_the_next_answer_measures_it(store: Store) -> None:
    lines = (*opening(), boundary(at=4, postTokens=900), summary("s" * 2_400, at=5))
    store.write(*lines)
    store.session()
    append(store.file, [assistant("msg_3", 18_614, at=7)])
    context = store.session().context
    assert (context.tokens, context.state) == (18_614, ContextState.MEASURED)
    with closing(store.scan()) as db:
        assert db.execute("SELECT COUNT(*) FROM compaction_left").fetchone()[0] == 0


def test_a_client_that_says_no_size_is_estimated_too(store: Store) -> None:
    kept = assistant("msg_2", 150_000, at=3, content=[text("k" * 400)])
    told = summary("s" * 4 * 600, at=5)
    cut = boundary(at=4, preservedMessages={"uuids": [kept["uuid"]], "anchorUuid": told["uuid"]})
    store.write(*opening()[:-1], kept, cut, told)
    context = store.session().context
    assert (context.tokens, context.state) == (FIRST - PROMPT + 700, ContextState.ESTIMATED)


def test_a_first_answer_that_saw_more_than_its_file_holds_tells_no_overhead(store: Store) -> None:
    store.write(user("on"), assistant("msg_1", 160_000), boundary(at=4, postTokens=2_500))
    assert store.session().context.tokens == 2_500


def test_a_page_has_one_number(store: Store) -> None:
    store.write(*opening(), boundary(at=4, postTokens=900), summary("s" * 4 * 600, at=5))
    session = store.session()
    assert store.composed() == (session.context.tokens, True)
    with closing(store.scan()) as db:
        timeline = with_current_context(
            read_timeline(db, (SESSION, None), session.context),
            session.context,
            session.last_activity_at,
        )
        (row,) = session_queries.compactions(db, SESSION)
    assert (timeline.turns[-1].tokens, timeline.turns[-1].is_estimate) == (
        session.context.tokens,
        1,
    )
    assert (row.estimated_next_tokens, row.post_tokens) == (session.context.tokens, 900)


def test_a_compaction_shows_the_next_answers_number_as_soon_as_there_is_one(store: Store) -> None:
    cut = boundary(at=4, preTokens=999_000, postTokens=18_000)
    store.write(*opening(), cut, summary("short", at=5), assistant("msg_3", 69_000, at=6))
    with closing(store.scan()) as db:
        (row,) = session_queries.compactions(db, SESSION)
        (found,) = read_timeline(db, (SESSION, None), store.session().context).compactions
    assert (row.post_tokens, row.next_tokens, row.estimated_next_tokens) == (18_000, 69_000, None)
    assert (found.post_tokens, found.next_tokens) == (18_000, 69_000)
    assert tokens_after(row) == tokens_after(found) == "69 k"
    before_answer = replace(row, next_tokens=None)
    assert tokens_after(replace(before_answer, estimated_next_tokens=17_000)) == "≈17 k"
    assert tokens_after(before_answer) == "≈18 k of messages"
    assert tokens_after(replace(before_answer, post_tokens=None)) == "–"


def test_a_second_compaction_without_an_answer_says_that_it_counts_the_messages_alone(
    store: Store,
) -> None:
    first = boundary(at=4, preTokens=196_000, postTokens=3_700)
    second = boundary(at=6, uuid="c2", preTokens=3_800, postTokens=2_900)
    store.write(*opening(), first, summary("short", at=5), second, summary("shorter", at=7))
    with closing(store.scan()) as db:
        newest, oldest = session_queries.compactions(db, SESSION)
        logged = log_queries.newest_boundaries(db, 10)
        cuts = read_timeline(db, (SESSION, None), store.session().context).compactions
    for rows in ((oldest, newest), tuple(reversed(logged)), cuts):
        assert [tokens_before(row) for row in rows] == ["196 k", "3.8 k of messages"]
        assert tokens_after(rows[0]) == "≈3.7 k of messages"
    context = store.session().context
    words = {each.name: each.source for each in number_sources(context, ())}
    assert context.tokens != context.token_counts.counter
    assert words["counter"] == words["hooks notified"]
    assert words["counter"].startswith("the messages alone, without system prompt and tools")


def lowered(to: int, *, steps: int = 1) -> JsonLine:
    """An answer as an edit of ctxtop leaves it: the sums stay, the one step says less."""
    step = usage(to) | {"type": "message"}
    return assistant("msg_9", counts=usage(150_000) | {"iterations": [step] * steps}, at=9)


def test_what_an_edit_lowered_is_estimated_until_the_next_answer(store: Store) -> None:
    store.write(*opening(), lowered(129_410))
    context = store.session().context
    assert (context.tokens, context.state) == (129_410, ContextState.ESTIMATED)
    assert store.composed() == (129_410, True)
    with closing(store.scan()) as db:
        turns = read_timeline(db, (SESSION, None), context).turns
    assert [turn.is_estimate for turn in turns] == [0, 0, 1]
    append(store.file, [assistant("msg_10", 131_000, at=10)])
    context = store.session().context
    assert (context.tokens, context.state) == (131_000, ContextState.MEASURED)


@pytest.mark.parametrize(
    "counts",
    [
        usage(150_000),
        usage(150_000) | {"iterations": [usage(150_000) | {"type": "message"}]},
        usage(150_000) | {"iterations": [usage(70_000), usage(80_000)]},
        usage(150_000) | {"iterations": []},
    ],
)
def test_what_the_client_writes_itself_is_measured(store: Store, counts: JsonLine) -> None:
    store.write(*opening(), assistant("msg_9", counts=json.loads(json.dumps(counts)), at=9))
    assert store.session().context.state is ContextState.MEASURED


def test_a_clearing_and_a_compaction_after_each_other(store: Store) -> None:
    store.write(*opening(), microcompacted([], 5_000), boundary(at=4, postTokens=900))
    assert store.session().context.tokens == FIRST - PROMPT - LISTING + max(LISTING, 900)


_SAYS = [text("done")]
_CALLS = [tool("Bash", "t1", command="ls")]
_THINKS = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]


@pytest.mark.parametrize(
    ("answers", "silent"),
    [
        ([_THINKS, _THINKS], False),
        ([_THINKS, _THINKS, _THINKS], True),
        ([_SAYS, [], _THINKS, _THINKS], True),
        ([_SAYS, _CALLS, _THINKS, _THINKS, _THINKS], True),
        ([_THINKS, _SAYS, _THINKS, _CALLS, _THINKS], False),
        ([_SAYS, _SAYS, _SAYS, _THINKS, _THINKS, _THINKS], False),  # only five are watched
        ([_CALLS, _CALLS, _CALLS], False),  # it works
    ],
)
def test_three_answers_without_text_after_a_compaction(
    store: Store, answers: list[list[JsonLine]], silent: bool
) -> None:
    """R002-09: of the five after it, three in a row."""
    before = [assistant(f"old{n}", content=_THINKS) for n in range(3)]
    after = [assistant(f"new{n}", content=each, at=9 + n) for n, each in enumerate(answers)]
    store.write(*opening(), *before, boundary(at=5), summary(), *after)
    assert store.session().is_silent is silent


def test_an_answer_is_not_silent_if_any_of_its_lines_has_text(store: Store) -> None:
    lines = [
        assistant(f"new{n}", content=each, at=9 + n) for n in range(3) for each in (_THINKS, _SAYS)
    ]
    store.write(*opening(), boundary(at=5), summary(), *lines)
    assert not store.session().is_silent


def test_an_answer_that_is_being_written_is_not_silent(store: Store) -> None:
    thinking = [assistant(f"new{n}", content=_THINKS, at=9 + n) for n in range(3)]
    store.write(*opening(), boundary(at=5), summary(), *thinking)
    with closing(store.scan()) as db:
        (row,) = session_queries.sessions(db)
        (working,) = read_sessions(db, (row.last_at or 0) + 1)
    assert (working.status.value, working.is_silent) == ("active", False)


@pytest.mark.parametrize(
    ("minutes", "learned"), [(0.1, [160_000]), (54, []), (55, []), (90, [160_000])]
)
def test_a_compaction_of_an_idle_session_is_no_evidence_of_the_trigger(
    store: Store, minutes: float, learned: list[int]
) -> None:
    cut = boundary(at=3 + round(60 * minutes), preTokens=160_000)
    store.write(*opening(), cut)
    with closing(store.scan()) as db:
        assert [row.pre_tokens for row in read_evidence_rows(db).auto_compactions] == learned


def test_an_automatic_compaction_of_ctxtop_is_no_evidence_of_the_trigger(store: Store) -> None:
    conversation = Conversation((), {"uuid": "u1"}, lambda _: 0)
    cut = boundary(at=9, preTokens=160_000, uuid=conversation.derive_line_id("boundary", "words"))
    store.write(*opening(), cut, summary())
    with closing(store.scan()) as db:
        assert read_evidence_rows(db).auto_compactions == ()
