"""The status line's log: what the client itself says of a window, each snapshot once."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.own_log_records import read_log
from ctxtop.collectors.plugin_files.plugin_log import append_record
from ctxtop.core.model.context_window import ClaimSource
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.readers.limits_reader import read_sessions_near_limits
from ctxtop.core.store import log_writer
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import evidence_queries, limit_queries, log_queries
from ctxtop.tui.text.limits_text import client_facts

from tests.log_rows import log_rows

from ..logs import log_file, part_name
from ..transcripts import MODEL, PROJECT, SESSION, START_MS, assistant, encode, user, write

if TYPE_CHECKING:
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

    from ..recorder import Recorder


def snapshot(
    window: object = 500_000, model: object = MODEL, session: object = SESSION, **more: object
) -> bytes:
    """A line as the client gives it."""
    return encode(
        [
            {
                "session_id": session,
                "model": {"id": model},
                "context_window": {"context_window_size": window, **more},
            }
        ]
    )


def show(store: Path, *given: bytes) -> None:
    """Write what the status line was given, as ctxtop does."""
    for each in given:
        assert append_record(str(log_file(store, LogKind.STATUS_LINE)), "StatusLine", each) is None


def kept(store: Path, session: str = SESSION) -> list[Any]:
    with closing(open_reader(store)) as db:
        return log_rows(db, "status_snapshot", session)


def windows(store: Path) -> dict[tuple[str, str], int]:
    with closing(open_reader(store)) as db:
        rows = evidence_queries.client_windows(db)
    return {(row.session_id, row.model): row.window_tokens for row in rows}


FULL = {
    "session_id": SESSION.upper(),
    "model": {"id": "claude-opus-4-6[1m]", "display_name": "x"},
    "version": "2.1.329",
    "cost": {"total_cost_usd": 0.5},
    "context_window": {
        "context_window_size": 1_000_000,
        "current_usage": {
            "input_tokens": 10,
            "output_tokens": 8,
            "cache_creation_input_tokens": 5190,
            "cache_read_input_tokens": 46_800,
        },
        "used_percentage": 5,
    },
    "prompt_cache": {"warm": True, "expires_at": 1_795_221_375},
}


def test_a_snapshot(collector: Collector, recorder: Recorder, store: Path) -> None:
    show(store, json.dumps(FULL).encode())
    collector.scan()

    (found,) = kept(store)
    assert (found.model, found.window_tokens, found.used_percentage) == (
        "claude-opus-4-6[1m]",
        1_000_000,
        5.0,
    )
    assert (
        found.input_tokens,
        found.cache_creation_tokens,
        found.cache_read_tokens,
        found.output_tokens,
    ) == (10, 5190, 46_800, 8)
    assert found.cost_usd == 0.5
    assert (found.cache_warm, found.cache_expires_at) == (1, 1_795_221_375_000)
    assert found.at > 1_700_000_000_000
    assert windows(store) == {(SESSION, "claude-opus-4-6"): 1_000_000}
    assert recorder.sessions == {SESSION}


@pytest.mark.parametrize("missing", [{}, {"context_window": None}, {"prompt_cache": None}])
def test_what_the_client_did_not_say_is_null(
    collector: Collector, store: Path, missing: dict[str, Any]
) -> None:
    usage = {"context_window": {"context_window_size": 200_000, "current_usage": None}}
    show(
        store,
        json.dumps({"session_id": SESSION, "model": {"id": MODEL}} | usage | missing).encode(),
    )
    collector.scan()

    (found,) = kept(store)
    assert (found.input_tokens, found.output_tokens, found.used_percentage) == (None, None, None)
    assert (found.cache_warm, found.cost_usd) == (None, None)


def test_a_window_that_cannot_hold_its_context_is_unknown(
    collector: Collector, store: Path
) -> None:
    text = json.dumps(FULL).replace('"context_window_size": 1000000', '"context_window_size": 1')
    show(store, text.encode())
    collector.scan()

    (found,) = kept(store)
    assert (found.window_tokens, found.cache_read_tokens) == (None, 46_800)


def test_right_after_a_compaction_the_counts_are_zero_not_unknown(
    collector: Collector, store: Path
) -> None:
    zero = dict.fromkeys(("input_tokens", "output_tokens", "cache_read_input_tokens"), 0)
    show(store, snapshot(current_usage=zero, used_percentage=0))
    collector.scan()

    (found,) = kept(store)
    assert (found.input_tokens, found.cache_read_tokens, found.used_percentage) == (0, 0, 0.0)


def test_the_same_again_is_one_row_with_its_last_moment(collector: Collector, store: Path) -> None:
    path = log_file(store, LogKind.STATUS_LINE)
    one, other = ({"v": 1, "given": json.loads(snapshot(used_percentage=n))} for n in (1, 2))
    moments = [(10, one), (20, one), (30, other), (40, one), (50, one)]
    for at, given in moments:
        with path.open("ab") as file:
            file.write(encode([given | {"at": at}]))
        collector.read_sidecars()

    assert [(row.at, row.last_at, row.used_percentage) for row in kept(store)] == [
        (10, 20, 1.0),
        (30, 30, 2.0),
        (40, 50, 1.0),
    ]


def test_a_long_history_is_cut_but_the_newest_of_a_model_stays(
    collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MAX_SNAPSHOTS", 5)
    show(store, snapshot(7, model="other"), snapshot(8, model="other"))
    show(store, *(snapshot(used_percentage=number) for number in range(20)))
    show(store, snapshot(9, session="another"))
    collector.scan()

    assert [(row.model, row.used_percentage) for row in kept(store)] == [
        ("other", None),
        *((MODEL, float(number)) for number in range(15, 20)),
    ]
    assert kept(store)[0].window_tokens == 8
    assert len(kept(store, "another")) == 1


def test_the_newest_snapshot_of_each_session_and_model_counts(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    write(claude.projects / PROJECT / f"{SESSION}.jsonl", [user(), assistant()])
    path = log_file(store, LogKind.STATUS_LINE)
    path.write_bytes(
        snapshot(100)
        + snapshot(300_000)
        + b"torn\n"
        + snapshot(7, model="other")
        + snapshot("x")
        + snapshot(10**30)
        + snapshot(-5)
        + snapshot(0)
        + snapshot(9, session=None)
        + snapshot(9, model=None)
        + b'{"session_id":"x"}\n'
        + snapshot(9)[:-30]
    )
    collector.scan()

    assert windows(store) == {(SESSION, MODEL): 300_000, (SESSION, "other"): 7}
    with closing(open_reader(store)) as db:
        (session,) = read_sessions(db, START_MS)
        reasons = [reason for *_, reason in log_queries.bad_log_lines(db)]
    assert (session.context.window.tokens, session.context.window.source) == (
        300_000,
        ClaimSource.STATUS_LINE,
    )
    assert len(reasons) == 5
    assert (reasons[0], reasons[-1]) == ("not JSON", "does not name a session")


def test_a_model_with_the_mark_of_its_large_window_is_the_transcripts_model() -> None:
    line = snapshot(1_000_000, model="claude-opus-4-6[1m]", session=SESSION.upper())
    (seen,) = read_log(LogKind.STATUS_LINE, [(0, line)], 5).windows

    assert (seen.session_id, seen.model, seen.at) == (SESSION, "claude-opus-4-6", 5)


def test_a_file_of_snapshots_that_began_anew_is_newer(collector: Collector, store: Path) -> None:
    path = log_file(store, LogKind.STATUS_LINE)
    path.write_bytes(snapshot(1) * 50 + snapshot(200_000))
    os.utime(path, ns=(0, 10**18))
    collector.scan()
    path.write_bytes(snapshot(1_000_000))
    os.utime(path, ns=(0, 10**18 + 10**9))
    collector.scan()

    assert windows(store) == {(SESSION, MODEL): 1_000_000}
    assert [row.window_tokens for row in kept(store)] == [1, 200_000, 1_000_000]


def test_a_renamed_file_is_read_to_its_end(collector: Collector, store: Path) -> None:
    show(store, snapshot(1))
    collector.scan()
    path = log_file(store, LogKind.STATUS_LINE)
    show(store, snapshot(2))
    path.rename(path.with_name(part_name(LogKind.STATUS_LINE, 3)))
    show(store, snapshot(3))
    collector.scan()

    assert [row.window_tokens for row in kept(store)] == [1, 2, 3]
    assert windows(store) == {(SESSION, MODEL): 3}


CORPUS = os.environ.get("CTXTOP_SHARED")


@pytest.mark.skipif(not CORPUS, reason="CTXTOP_SHARED does not name the shared folder")
def test_recorded_snapshots(collector: Collector, store: Path) -> None:
    recorded = (Path(str(CORPUS)) / "corpus/current/statusline.jsonl").read_bytes().splitlines()
    show(store, *recorded)
    collector.scan()

    found = kept(store, json.loads(recorded[0])["session_id"])
    assert [row.used_percentage for row in found] == [None, 5.0, 0.0, 2.0]
    assert {row.window_tokens for row in found} == {1_000_000}


LIMITS = {
    "rate_limits": {
        "five_hour": {"used_percentage": 23.5, "resets_at": 1_738_425_600},
        "seven_day_opus": {"used_percentage": 41, "resets_at": None},
        "of_another_shape": [1, 2],
    }
}


def test_every_window_of_the_plans_limits_is_kept(collector: Collector, store: Path) -> None:
    for _ in range(2):
        show(store, json.dumps(FULL | LIMITS).encode())
    collector.scan()
    with closing(open_reader(store)) as db:
        found = log_rows(db, "limit_reading", SESSION)
    assert [(each.window, each.used_percentage, each.resets_at) for each in found] == [
        ("five_hour", 23.5, 1_738_425_600_000),
        ("seven_day_opus", 41.0, None),
    ]


def test_a_reading_that_changed_is_a_row_of_its_own(collector: Collector, store: Path) -> None:
    for used in (10, 10, 12, 10):
        limits = {"five_hour": {"used_percentage": used, "resets_at": 1_738_425_600}}
        show(store, json.dumps(FULL | {"rate_limits": limits}).encode())
    collector.scan()
    with closing(open_reader(store)) as db:
        rows = limit_queries.limit_rows(db)
    assert [each.used_percentage for each in rows] == [10, 12, 10]
    assert [each.before_at for each in rows] == [None, rows[0].last_at, rows[1].last_at]


def test_a_sessions_newest_reading_says_whether_a_limit_is_near(
    collector: Collector, store: Path
) -> None:
    def near(used: int) -> frozenset[str]:
        resets_at = round(time.time()) + 3 * 3_600
        limits = {"five_hour": {"used_percentage": used, "resets_at": resets_at}}
        show(store, json.dumps(FULL | {"rate_limits": limits}).encode())
        collector.scan()
        with closing(open_reader(store)) as db:
            return read_sessions_near_limits(db)

    assert [near(used) for used in (50, 95, 20)] == [frozenset(), {SESSION}, frozenset()]


def test_only_the_newest_readings_are_kept(
    collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MAX_LIMIT_READINGS", 2)
    for used in (10, 11, 12, 13):
        limits = {"five_hour": {"used_percentage": used}}
        show(store, json.dumps(FULL | {"rate_limits": limits}).encode())
    collector.scan()
    with closing(open_reader(store)) as db:
        assert [each.used_percentage for each in limit_queries.limit_rows(db)] == [12, 13]


CLIENT: dict[str, Any] = {
    "effort": {"level": "high"},
    "thinking": {"enabled": True},
    "fast_mode": False,
    "output_style": {"name": "Explanatory"},
    "cost": {
        "total_cost_usd": 0.5,
        "total_duration_ms": 45_000,
        "total_api_duration_ms": 2300,
        "total_lines_added": 156,
        "total_lines_removed": 23,
    },
    "pr": {"number": 12, "url": "https://example.org/pull/12", "review_state": "pending"},
    "prompt_cache": {
        "warm": True,
        "requests": 9,
        "misses": 2,
        "expected_rebuilds": 1,
        "hit_ratio": 0.87,
        "cache_write_tokens": 10_970,
        "miss_recache_tokens": 4_000,
        "last_miss_at": 1_795_221_375,
        "miss_causes": {"tools_changed": 2},
    },
}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (None, ""),
        (
            {"causes": ["tools_changed", "ttl_expired"], "tools_added": 2},
            "tools changed, ttl expired",
        ),
        ({"causes": []}, ""),
        ({"causes": "tools_changed"}, ""),
        ({"causes": [1]}, ""),
        (["tools_changed"], ""),
    ],
)
def test_why_the_last_miss_happened_is_read_in_the_shape_that_is_known(
    collector: Collector, store: Path, said: object, shown: str
) -> None:
    write(collector.folder.projects / PROJECT / f"{SESSION}.jsonl", [user("Hi")])
    cache = {**CLIENT["prompt_cache"], "last_miss_cause": said}
    show(store, json.dumps(FULL | CLIENT | {"prompt_cache": cache}).encode())
    collector.scan()
    with closing(open_reader(store)) as db:
        (session,) = read_sessions(db, START_MS)
    assert session.client is not None
    text = dict(client_facts(session.client))["cache use"]
    assert text.startswith("87% read, 2 misses in 9 requests, tools changed 2")
    assert (f", the last by {shown}, 4 k" in text) is bool(shown)


def test_what_else_the_client_says_is_kept_and_shown(collector: Collector, store: Path) -> None:
    write(collector.folder.projects / PROJECT / f"{SESSION}.jsonl", [user("Hi")])
    show(store, json.dumps(FULL | CLIENT | {"effort": {"level": "low"}}).encode())
    show(store, json.dumps(FULL | CLIENT).encode())
    collector.scan()
    with closing(open_reader(store)) as db:
        (session,) = read_sessions(db, START_MS)
    assert session.client is not None
    assert dict(client_facts(session.client)) == {
        "model settings": "effort high, thinking, output style Explanatory",
        "client open": "45 s, of it 2 s of API requests",
        "lines changed": "+156 −23",
        "pull request": "#12, pending  https://example.org/pull/12",
        "cache use": "87% read, 2 misses in 9 requests, tools changed 2, 4 k rewritten",
    }


@pytest.mark.parametrize(
    "odd", [{"rate_limits": 7}, {"effort": "high"}, {"pr": {"number": "x"}}, {"thinking": []}]
)
def test_a_field_of_another_shape_does_not_cost_the_context(
    collector: Collector, store: Path, odd: dict[str, Any]
) -> None:
    show(store, json.dumps(FULL | odd).encode())
    collector.scan()
    (found,) = kept(store)
    assert found.input_tokens == 10


EPOCH = 1_795_822_069


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"rate_limits": {"five_hour": {"used_percentage": EPOCH}}}, "five_hour: "),
        ({"rate_limits": {"five_hour": {"used_percentage": 1e308}}}, "five_hour: "),
        ({"rate_limits": {"five_hour": {"used_percentage": -1}}}, "five_hour: used_percentage -1"),
        (
            {"rate_limits": {"five_hour": {"used_percentage": 6, "resets_at": 18_000}}},
            "five_hour: ",
        ),
        (
            {"rate_limits": {"five_hour": {"used_percentage": 6, "resets_at": EPOCH * 1000}}},
            "five_hour: ",
        ),
        ({"context_window": {"context_window_size": EPOCH}}, "context_window: Expected"),
        ({"context_window": {"used_percentage": EPOCH}}, "context_window: Expected"),
        ({"context_window": {"current_usage": {"input_tokens": 10**30}}}, "context_window: "),
        ({"cost": {"total_cost_usd": EPOCH}}, "cost: Expected"),
        ({"prompt_cache": {"recache_tokens_if_cold": EPOCH}}, "prompt_cache: Expected"),
        ({"prompt_cache": {"expires_at": 10**15}}, "prompt_cache: Expected"),
    ],
)
def test_a_number_that_cannot_be_right_is_listed_and_the_rest_of_the_line_is_read(
    collector: Collector, store: Path, odd: dict[str, Any], why: str
) -> None:
    good = {"seven_day": {"used_percentage": 41, "resets_at": EPOCH}}
    (name,) = odd
    line = FULL | odd | {"rate_limits": good | odd.get("rate_limits", {})}
    show(store, json.dumps(line).encode())
    collector.scan()

    (found,) = kept(store)
    assert (found.input_tokens == 10) == (name != "context_window")
    assert (found.cost_usd is None) == (name == "cost")
    with closing(open_reader(store)) as db:
        ((window, used),) = db.execute("SELECT window, used_percentage FROM limit_reading")
        ((reason,),) = db.execute("SELECT reason FROM log_bad_line")
    assert (window, used) == ("seven_day", 41)
    assert reason.startswith(why)


@pytest.mark.parametrize("word", ["1e999", "-1e999", "NaN", "Infinity", "00", "1" * 5_000])
def test_what_is_no_number_costs_at_most_its_own_line(
    collector: Collector, store: Path, word: str
) -> None:
    path = log_file(store, LogKind.STATUS_LINE)
    path.parent.mkdir(parents=True, exist_ok=True)
    limits = {"five_hour": {"used_percentage": 12}, "seven_day": {"used_percentage": 41}}
    lines = [json.dumps({"v": 1, "at": START_MS, "given": FULL | {"rate_limits": limits}})]
    lines += [lines[0].replace(old, word) for old in ("12", "46800", "0.5", "1795221375")]
    path.write_text("\n".join((*lines, lines[0])) + "\n")
    collector.scan()

    assert {row.input_tokens for row in kept(store)} <= {10, None}
    with closing(open_reader(store)) as db:
        used = {used for (used,) in db.execute("SELECT used_percentage FROM limit_reading")}
        (bad,) = db.execute("SELECT COUNT(*) FROM log_bad_line").fetchone()
    assert used == {12, 41}
    assert bad == 4
