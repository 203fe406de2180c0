"""The plan's limits in the header, on their page, as notifications and as metrics."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.measure.limit_use import CauseShare, UseShare, WindowShares, percent_dollars
from ctxtop.core.measure.plan_limits import (
    FIVE_HOURS,
    HOUR_MS,
    WEEK,
    BurnRate,
    Exhaustion,
    PlanLimit,
)
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.core.policy.resolve import DEFAULT_POLICIES
from ctxtop.core.readers.limits_reader import LimitsMonitor, LimitsReport
from ctxtop.core.store.database import open_reader
from ctxtop.tui.app_state.notifications import find_limit_notifications
from ctxtop.tui.export.metrics import make_metrics, prometheus_text
from ctxtop.tui.screens.limits_screen import LimitsScreen
from ctxtop.tui.screens.session.session_tabs import session_facts
from ctxtop.tui.text.limits_report import NO_LIMITS, limit_facts
from ctxtop.tui.text.limits_text import (
    clock_time,
    exhaustion_text,
    header_limits,
    limit_percent,
    long_window_name,
    reading_text,
)
from ctxtop.tui.widgets.header_footer import FleetStatus, StatusLine, left_text
from msgspec.structs import replace

from ..logs import log_file
from ..transcripts import SESSION
from .support import NOW_MS, opened

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector

    from .support import Stage

RESET = NOW_MS + 2 * HOUR_MS
FIVE = PlanLimit(FIVE_HOURS, SESSION, 0.624, NOW_MS, NOW_MS, RESET)
SEVEN = PlanLimit(WEEK, SESSION, 0.41, NOW_MS, NOW_MS, NOW_MS + 80 * HOUR_MS)


def header(limits: list[PlanLimit], room: int = 80, now_ms: int = NOW_MS) -> str:
    status = FleetStatus("ctxtop", sessions=9, live=3, limits=header_limits(limits, now_ms))
    return left_text(status, room).plain


def test_the_header_shows_what_fits() -> None:
    resets = clock_time(RESET, NOW_MS)
    assert f"9 sessions · 3 live · 5h 62% ▸ {resets} · week 41%" in header([FIVE, SEVEN])
    assert "5h 62% · week 41%" in header([FIVE, SEVEN], 46)
    assert "5h 62%" in header([FIVE, SEVEN], 35)
    assert "5h" not in header([FIVE, SEVEN], 28)


def test_the_header_shows_an_old_reading_with_its_age_and_a_reset_one_as_reset() -> None:
    later = NOW_MS + HOUR_MS
    assert "5h 62%, 1 h ago ▸" in header([FIVE], now_ms=later)
    assert f"5h reset {clock_time(RESET, RESET)} · week 41%" in header([FIVE, SEVEN], now_ms=RESET)
    assert "5h" not in header([FIVE], now_ms=RESET)
    assert "5h" not in header([])


def test_the_header_shows_the_end_that_comes_before_the_reset() -> None:
    end = Exhaustion(NOW_MS + HOUR_MS, NOW_MS + HOUR_MS // 2, None)
    limit = PlanLimit(FIVE_HOURS, SESSION, 0.81, NOW_MS, NOW_MS, RESET, None, end)
    full = clock_time(NOW_MS + HOUR_MS, NOW_MS)
    assert f"5h 81% full ≈{full}" in header([limit])
    low = clock_time(NOW_MS + HOUR_MS // 2, NOW_MS)
    assert exhaustion_text(limit, NOW_MS) == f"≈ full at {full} (80 %: {low} to the reset)"
    assert header_limits([limit], NOW_MS)[0][0][1] == "$level-warning"


@pytest.mark.parametrize(
    ("ratio", "shown"), [(0, "0%"), (0.625, "63%"), (0.996, "99%"), (1, "100%"), (1.25, "125%")]
)
def test_only_what_is_full_is_a_hundred_percent(ratio: float, shown: str) -> None:
    assert limit_percent(ratio) == shown


def test_a_window_that_is_not_known_keeps_its_name() -> None:
    assert long_window_name("seven_day_opus") == "week opus"
    assert long_window_name("spend_limit") == "spend limit"


def test_a_stale_reading_is_called_stale() -> None:
    assert reading_text(FIVE, NOW_MS + 120_000) == "62 %, 2 min ago"
    shown = reading_text(FIVE, RESET)
    assert shown == f"stale, window reset at {clock_time(RESET, RESET)}; last known 62 %"


def test_a_cause_that_is_inferred_is_marked_beside_its_estimated_share() -> None:
    causes = (
        CauseShare("lifetime_passed", 0.12, 3.0, source="inferred"),
        CauseShare("tools_changed", 0.05, 1.0, source="client"),
        CauseShare("unknown", 0.001, 0.1, source="inferred"),
    )
    shares = WindowShares(kinds=(UseShare("output", 0.4, 9.0),), causes=causes)
    facts = {
        label: text
        for label, text, _ in limit_facts(
            LimitsReport((FIVE,), {FIVE_HOURS: shares}), FIVE, {}, NOW_MS
        )
    }
    assert facts["tokens"] == "≈ output 40%"
    assert facts["cache misses"] == "≈ cache expired ≈ 12% · tools changed ≈ 5% · unknown ≈ <1%"


def test_a_window_notifies_once_for_each_ratio() -> None:
    def notices(used: float, resets_at: int = RESET, now_ms: int = NOW_MS) -> list[tuple[str, str]]:
        limit = PlanLimit(FIVE_HOURS, SESSION, used, NOW_MS, NOW_MS, resets_at)
        found = find_limit_notifications([limit], DEFAULT_POLICIES.common, now_ms)
        return [(each.key, each.title) for each in found]

    assert notices(0.79) == []
    ((key, title),) = notices(0.80)
    assert title == "5-hour window: 80 % reached"
    assert notices(0.90) == [(key, title)]
    ((higher, _),) = notices(0.97)
    ((other, _),) = notices(0.80, RESET + 5 * HOUR_MS)
    assert len({key, higher, other}) == 3
    assert notices(0.97, now_ms=RESET) == []


def test_the_metrics_of_a_window() -> None:
    limit = PlanLimit(
        FIVE_HOURS, SESSION, 0.6, NOW_MS - 5000, NOW_MS, RESET, BurnRate(0.1, HOUR_MS), None
    )
    text = prometheus_text(make_metrics([], {}, "1", NOW_MS, limits=[limit]))
    assert 'ctxtop_limit_used_ratio{window="five_hour"} 0.6' in text
    assert 'ctxtop_limit_age_seconds{window="five_hour"} 5' in text
    assert 'ctxtop_limit_stale{window="five_hour"} 0' in text
    assert 'ctxtop_limit_burn_ratio{window="five_hour"} 0.1' in text
    assert f'ctxtop_limit_resets_timestamp_seconds{{window="five_hour"}} {RESET // 1000}' in text
    assert "exhausted" not in text
    assert "ctxtop_limit" not in prometheus_text(make_metrics([], {}, "1", NOW_MS))


def report(store: Path, at: int, used: float, resets_at: int, session: str = SESSION) -> None:
    """Write one record of the status line's log."""
    limits = {"five_hour": {"used_percentage": used, "resets_at": resets_at // 1000}}
    given = {"session_id": session, "model": {"id": "claude-opus-5-5"}, "rate_limits": limits}
    path = log_file(store, LogKind.STATUS_LINE)
    record = {"v": 1, "at": at, "ns": at, "event": "StatusLine", "bytes": 1, "given": given}
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(record)}\n")


def report_work(stage: Stage) -> str:
    """Report what a session of the demo used in the last two hours; returns its id."""
    session_id = stage.sessions[0].session_id
    for minutes in range(120, -1, -4):
        at = NOW_MS - minutes * 60_000
        report(stage.places.store, at, 82 - minutes / 4, RESET, session_id)
    return session_id


async def test_the_header_leads_to_the_page(demo: Stage) -> None:
    report_work(demo)
    async with opened(demo, (80, 24)) as it:
        await it.until(lambda: "5h 82%" in it.lines[0])
        await it.until(lambda: any("5-hour window: 80 % reached" in each for each in it.toasts))
        line = it.app.fleet.query_one(StatusLine)
        await it.pilot.click(line, offset=(it.lines[0].index("5h") + 1, 0))
        await it.until(lambda: isinstance(it.app.screen, LimitsScreen))
        await it.until(lambda: "burn rate" in it.words)
        # The toast may still lie over it.
        await it.until(lambda: "15.0 % an hour over 1 h" in it.words)
        assert "≈ full at" in it.words
        assert "Reached first" in it.words


async def test_a_session_says_what_it_reaches_first(demo: Stage) -> None:
    report_work(demo)
    async with opened(demo) as it:
        await it.until(lambda: "5h 82%" in it.lines[0])
        live = next(each for each in it.app.fleet.shown if each.live)
        limits = it.app.view.limits if it.app.view else ()
        facts = session_facts(live, NOW_MS, limits)
        assert facts["reached first"].startswith(("context, ≈", "5-hour window, ≈"))
        assert "reached first" not in session_facts(live, NOW_MS)
        assert "reached first" not in session_facts(replace(live, live=False), NOW_MS, limits)


async def test_without_limits_there_are_none_in_the_header(demo: Stage) -> None:
    async with opened(demo) as it:
        assert "5h" not in it.lines[0]
        await it.press("U")
        await it.until(lambda: NO_LIMITS[:40] in it.words)


def test_the_monitor_reads_what_is_new(collector: Collector, store: Path) -> None:
    with closing(open_reader(store)) as db:
        monitor = LimitsMonitor(db)
        assert monitor.read(NOW_MS) == ()
        report(store, NOW_MS - 5000, 40, RESET)
        collector.scan()
        (first,) = monitor.read(NOW_MS)
        assert monitor.read(NOW_MS) == (first,)
        report(store, NOW_MS, 41, RESET)
        collector.scan()
        assert [each.used_ratio for each in monitor.read(NOW_MS)] == [0.41]


def test_what_a_percent_is_is_learned_once_in_a_while(collector: Collector, store: Path) -> None:
    with closing(open_reader(store)) as db:
        monitor = LimitsMonitor(db)
        assert not monitor.learn_percent_sizes(NOW_MS, {})
        assert monitor.percent_sizes == ()


async def test_a_subscriber_sees_percent_first_once_their_size_is_learned(demo: Stage) -> None:
    report_work(demo)
    async with opened(demo) as it:
        await it.until(lambda: bool(it.app.view and it.app.view.percent_sizes))
        sizes = it.app.view.percent_sizes if it.app.view else ()
        await it.until(lambda: any(each.percent_dollars for each in it.app.fleet.shown))
        for each in it.app.fleet.shown:
            assert each.percent_dollars == percent_dollars(sizes, each.model)
