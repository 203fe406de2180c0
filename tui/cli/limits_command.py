"""`ctxtop limits`: the windows of the plan, how fast they are used, and by whom."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from ..text.formats import iso_time
from ..text.limits_report import NO_LIMITS, limit_facts, reached_first, session_binding
from ..text.limits_text import long_window_name
from .command_options import options_of, store_command
from .command_store import StoreSnapshot, open_snapshot
from .json_records import Record, record_of, records_of
from .printing import paint, print_result, terminal_width

if TYPE_CHECKING:
    from ...core.measure.plan_limits import PlanLimit
    from ...core.model.session import Session
    from ...core.readers.limits_reader import LimitsReport


@store_command()
def limits(context: click.Context) -> int:
    """Show how much of the plan's limits is used.

    Also how fast, when a window will be full, who used it, and what each open session reaches
    first. Only what Claude Code reported is shown: it reports no limits with an API key.
    """
    from ...collectors.claude_code.limits_report_reader import read_limits_with_causes

    with open_snapshot(options_of(context)) as snapshot:
        prices = snapshot.policies.common.strings_by_name("price")
        places = snapshot.places
        report = read_limits_with_causes(
            snapshot.db, places.folder.projects, places.store, prices, snapshot.now_ms
        )
        sessions = snapshot.sessions() if report.limits else []
        return print_result(
            context,
            limits_record(report, sessions, snapshot.now_ms),
            lambda: list(_limits_lines(report, sessions, snapshot)),
            NO_LIMITS,
        )


def limits_record(report: LimitsReport, sessions: list[Session], now_ms: int) -> Record:
    reached = ((each, session_binding(report.limits, each, now_ms)) for each in sessions)
    return {
        "limits": [_limit_record(report, each, now_ms) for each in report.limits],
        "percent_sizes": records_of(
            report.percent_sizes,
            "window model weighted_tokens low_tokens high_tokens dollars steps",
        ),
        "reached_first": [
            {"session_id": session.session_id, **record_of(binding, "what at")}
            for session, binding in reached
            if binding is not None
        ],
    }


def _limit_record(report: LimitsReport, limit: PlanLimit, now_ms: int) -> Record:
    shares, end = report.shares.get(limit.window), limit.exhaustion
    return {
        **record_of(limit, "window used_ratio"),
        "stale": limit.is_stale(now_ms),
        "age_s": limit.age_ms(now_ms) // 1000,
        **record_of(limit, "fresh_at read_at resets_at session_id"),
        "burn_ratio_per_hour": limit.burn.ratio_per_hour if limit.burn else None,
        "exhausted": end and {name: iso_time(getattr(end, name)) for name in ("at", "low", "high")},
        "used_by": shares
        and {
            "sessions": records_of(shares.sessions, "session_id=name share dollars"),
            "agents": [
                record_of(each, "agent_id=name share dollars")
                | {"agent_type": report.agent_types.get(each.name)}
                for each in shares.agents
            ],
            "tokens": records_of(shares.kinds, "kind=name share dollars"),
            "cache_misses": records_of(
                shares.causes, "cause=name cause_source=source share dollars"
            ),
        },
    }


def _limits_lines(
    report: LimitsReport, sessions: list[Session], snapshot: StoreSnapshot
) -> Iterator[str]:
    titles = {each.session_id: each.title for each in sessions}
    for limit in report.limits:
        yield paint(long_window_name(limit.window), "bold")
        for label, text, _ in limit_facts(report, limit, titles, snapshot.now_ms):
            yield from _fact_lines(label, text)
    first = list(reached_first(report.limits, sessions, snapshot.now_ms))
    if first:
        yield paint("reached first", "bold")
        for title, text in first:
            yield f"  {title}: {text}"


LABEL_CELLS: Final = 15  # of the longest label, with the blanks around it
MIN_TEXT_CELLS: Final = 30


def _fact_lines(label: str, text: str) -> Iterator[str]:
    room = max(MIN_TEXT_CELLS, terminal_width() - LABEL_CELLS)
    for place, part in enumerate(textwrap.wrap(text, room, break_on_hyphens=False)):
        shown = "" if place else f"  {label}"
        yield f"{paint(shown, 'quiet')}{' ' * (LABEL_CELLS - len(shown))}{part}"
