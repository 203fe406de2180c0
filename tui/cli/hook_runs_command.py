"""`ctxtop hooks runs`: how long Stop hooks took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from ...core.measure.hook_runs import time_hooks
from ...core.store.queries import config_queries
from ..tables import Cell, Column, TextColumn
from ..text.formats import NOTHING, date_time, seconds
from .command_options import options_of, session_option, store_options
from .command_store import open_snapshot
from .hooks_commands import hooks
from .json_records import Record, record_of
from .printing import draw_table, print_result

if TYPE_CHECKING:
    from ...core.measure.hook_runs import HookTiming


@hooks.command("runs")
@store_options
@session_option
@click.pass_context
def hook_runs(context: click.Context, *, session: str | None) -> int:
    """Show how long Stop hooks took.

    Beside it: their timeouts and the reasons they gave. Newest first.
    """
    with open_snapshot(options_of(context)) as snapshot:
        runs = config_queries.hook_runs(snapshot.db, snapshot.optional_session_id(session))
        timings = time_hooks(runs, config_queries.hook_handlers(snapshot.db))
        return print_result(
            context,
            [hook_timing_record(each) for each in timings],
            lambda: draw_table(_COLUMNS, timings) if timings else [],
            "no run of a Stop hook yet",
        )


def hook_timing_record(timing: HookTiming) -> Record:
    return record_of(
        timing,
        "event command kind timeout_ms default_timeout=has_default_timeout runs median_ms"
        " longest_ms timed_out last_ms=last.duration_ms last_at=last.at reason",
    )


def _timeout_text(timing: HookTiming) -> str:
    return seconds(timing.timeout_ms) + (" (default)" if timing.has_default_timeout else "")


_COLUMNS: Final[Sequence[TextColumn[HookTiming]]] = (
    Column("event", lambda each: each.event),
    Column("hook", lambda each: each.command, flexible=True),
    Column("runs", lambda each: f"{each.runs:,}", right=True, priority=2),
    Column("median", lambda each: seconds(each.median_ms), right=True, priority=1),
    Column(
        "longest",
        lambda each: Cell(seconds(each.longest_ms), "bad" if each.timed_out else ""),
        right=True,
    ),
    Column("timeout", _timeout_text, right=True),
    Column("last", lambda each: date_time(each.last.at), priority=3),
    Column("reason", lambda each: each.reason or NOTHING, flexible=True),
)
