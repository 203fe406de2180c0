"""Which summaries are found, of many, in which order, and how long that takes."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.core.model.stored_rows import SummaryRow
from ctxtop.core.model.transcript_records import (
    FileKind,
    SourceFile,
    SummaryRecord,
    TailState,
    TranscriptRecords,
)
from ctxtop.core.readers.summary_reader import (
    find_summaries,
    find_summary_ids,
    read_summary_rows,
    summary_agent_types,
)
from ctxtop.core.store.database import open_reader
from ctxtop.core.summaries.summary_search import PlanSummary, SummaryCriteria, SummaryQuery

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.store.writer import Writer

NOW: Final = 1_795_176_000_000
MANY: Final = 10_000
BUDGET_S: Final = 0.5
"""Ten times what it takes on a machine with nothing else to do."""


def stored(writer: Writer, session_id: str, texts: list[SummaryRecord]) -> None:
    source = SourceFile(f"p/{session_id}.jsonl", FileKind.SESSION, "p", session_id)
    after = TailState(offset=10 * len(texts), anchor="x", size=10 * len(texts))
    writer.append(
        source, TailState(), after, TranscriptRecords(lines=len(texts), summaries=tuple(texts))
    )


def fact(number: int, at: int | None, text: str, kind: str = "agent") -> SummaryRecord:
    agent = f"a{number}" if kind == "agent" else None
    return SummaryRecord(10 * number, f"u{number}", kind, agent, at, text, 1, len(text))


def plan(number: int, at: int, text: str, uuid: str = "") -> PlanSummary:
    row = SummaryRow(-number, "plan", "s", None, None, "summarize", at, 1, 5, text)
    return PlanSummary(row, uuid, "ab12", 0, "summarize", False, "/t", 9, 9, 5)


@pytest.fixture
def few(writer: Writer, store: Path) -> Path:
    stored(
        writer,
        "s",
        [
            fact(1, 1_000, "the first pool"),
            fact(2, 3_000, "the second pool, of a Café", "boundary"),
            fact(3, None, "nobody knows when"),
            fact(4, 2_000, "cache alone"),
        ],
    )
    return store


def found(store: Path, wanted: SummaryCriteria, *plans: PlanSummary) -> list[str]:
    with closing(open_reader(store)) as db:
        ids = find_summaries(db, plans, wanted, {"s": "shop"}, NOW).ids
        return [row.text for row in read_summary_rows(db, plans, ids)]


def test_the_newest_stand_first_and_plans_among_them(few: Path) -> None:
    texts = found(few, SummaryCriteria(), plan(7, 2_500, "a plan"), plan(8, 4_000, "another"))
    assert texts == [
        "another",
        "the second pool, of a Café",
        "a plan",
        "cache alone",
        "the first pool",
        "nobody knows when",
    ]


def test_what_stands_in_a_receipt_and_in_the_store_is_shown_once(few: Path) -> None:
    texts = found(
        few, SummaryCriteria(query="second"), plan(7, 3_000, "the second pool, of a Café", "u2")
    )
    assert texts == ["the second pool, of a Café"]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (SummaryCriteria(query="pool"), 3),
        (SummaryCriteria(query="cafe"), 1),
        (SummaryCriteria(query="pool -first"), 2),
        (SummaryCriteria(query="-pool"), 2),
        (SummaryCriteria(kind="plan"), 1),
        (SummaryCriteria(kind="plan", query="kind:agent"), 0),
        (SummaryCriteria(kind="agent"), 3),
        (SummaryCriteria(since=2_000), 3),
        (SummaryCriteria(project="shop"), 5),
        (SummaryCriteria(project="other"), 0),
        (SummaryCriteria(session_id="s", query="pool project:SHO"), 3),
        (SummaryCriteria(agent_type="nobody"), 0),
    ],
)
def test_all_that_is_wanted_must_be_met(few: Path, wanted: SummaryCriteria, count: int) -> None:
    assert len(found(few, wanted, plan(7, 5_000, "a pool of plans"))) == count


@pytest.fixture
def many(writer: Writer, store: Path) -> Path:
    words = "the pool of connections and what each of them waits for " * 20
    for session in range(50):
        stored(
            writer,
            f"s{session}",
            [
                fact(1_000 * session + n, NOW - 60_000 * (200 * session + n), f"{n} {words}")
                for n in range(MANY // 50)
            ],
        )
    return store


def test_ten_thousand_are_found_within_a_few_frames_and_read_a_page_at_a_time(many: Path) -> None:
    with closing(open_reader(many)) as db:
        for wanted in (
            SummaryCriteria(),
            SummaryCriteria(query="pool connections"),
            SummaryCriteria(query='17 "of them"'),
        ):
            start = time.process_time()
            listed = find_summaries(db, (), wanted, {}, NOW)
            rows = read_summary_rows(db, (), listed.ids[:64])
            assert time.process_time() - start < BUDGET_S
            assert len(rows) == min(64, len(listed.places))
            assert [row.at for row in rows] == sorted((row.at or 0 for row in rows), reverse=True)
        assert len(find_summaries(db, (), SummaryCriteria(), {}, NOW).places) == MANY
        assert summary_agent_types(db) == []


def test_no_more_places_than_asked_for(many: Path) -> None:
    with closing(open_reader(many)) as db:
        assert len(find_summary_ids(db, SummaryQuery(), None, (), 100)) == 100
        plans = db.execute(
            "EXPLAIN QUERY PLAN SELECT s.summary_id FROM summary s JOIN file f USING (file_id)"
            " ORDER BY s.at DESC, s.summary_id DESC LIMIT 5"
        ).fetchall()
        assert not any("TEMP B-TREE" in str(tuple(row)) for row in plans)
