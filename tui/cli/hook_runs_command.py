"""`ctxtop hooks list` and `runs`: all hooks of Claude Code, and how long Stop hooks took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from ...core.measure.hook_runs import time_hooks, timeout_ms
from ...core.store.queries import config_queries
from ..text.formats import NOTHING, date_time, seconds
from ..text.tables import Cell, Column, TextColumn
from .command_options import options_of, session_option, store_options
from .command_store import open_snapshot
from .hooks_commands import hooks
from .json_records import Record, record_of
from .printing import draw_table, print_result

if TYPE_CHECKING:
    from ...core.measure.hook_runs import HookTiming
    from ...core.model.config_records import HookHandler, SettingsFileRecord


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


@hooks.command("list")
@store_options
@click.pass_context
def list_hooks(context: click.Context) -> int:
    """List Claude Code's hooks and their timeouts.

    Those of all settings files and plugins, of every type.
    """
    with open_snapshot(options_of(context)) as snapshot:
        files = config_queries.settings_files(snapshot.db)
        installed = [(file, hook) for file in files for hook in file.hooks]
        return print_result(
            context,
            [
                {
                    **record_of(hook, "event kind command"),
                    "timeout_ms": timeout_ms(hook),
                    "default_timeout": hook.timeout_s is None,
                    **record_of(file, "scope project settings=path"),
                }
                for file, hook in installed
            ],
            lambda: draw_table(_HOOK_COLUMNS, installed) if installed else [],
            "no hooks in Claude Code's settings",
        )


def hook_timing_record(timing: HookTiming) -> Record:
    return record_of(
        timing,
        "event command kind timeout_ms default_timeout=has_default_timeout runs median_ms"
        " longest_ms timed_out last_ms=last.duration_ms last_at=last.at reason",
    )


def _timeout_text(timeout: int, *, is_default: bool) -> str:
    return seconds(timeout) + (" (default)" if is_default else "")


InstalledHook = tuple["SettingsFileRecord", "HookHandler"]

_HOOK_COLUMNS: Final[Sequence[TextColumn[InstalledHook]]] = (
    Column("event", lambda each: each[1].event),
    Column("type", lambda each: each[1].kind),
    Column("hook", lambda each: each[1].command, flexible=True),
    Column(
        "timeout",
        lambda each: _timeout_text(timeout_ms(each[1]), is_default=each[1].timeout_s is None),
        right=True,
    ),
    Column("scope", lambda each: each[0].scope.value, priority=1),
    Column("settings", lambda each: each[0].path, flexible=True, priority=2),
)


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
    Column(
        "timeout",
        lambda each: _timeout_text(each.timeout_ms, is_default=each.has_default_timeout),
        right=True,
    ),
    Column("last", lambda each: date_time(each.last.at), priority=3),
    Column("reason", lambda each: each.reason or NOTHING, flexible=True),
)
