"""`ctxtop log` and `notify`: what happened, and how a person is notified of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from ..tables import Cell, Column, TextColumn
from ..text.formats import iso_time
from .command_errors import RefusedError
from .command_options import common_options, options_of, store_options
from .command_store import open_snapshot, read_policy
from .output.json_records import Record
from .output.printing import draw_table, print_result

if TYPE_CHECKING:
    from ..screens.log.event_log import LogEvent


LOG_LEVELS: Final = ("note", "warning", "trouble")  # from what matters least to what matters most
_LEVEL_COLOURS: Final = ("", "warning", "bad")


@click.command()
@store_options
@click.option(
    "--level", type=click.Choice(LOG_LEVELS), default=LOG_LEVELS[0], help="This and worse."
)
@click.option("--search", default="", metavar="WORDS", help="Entries with all these words.")
@click.pass_context
def log(context: click.Context, *, level: str, search: str) -> int:
    """List what happened: levels, compactions, refusals, recoveries, changes, bad lines.

    Newest first.
    """
    from ..screens.log.event_log import LogLevel, filter_events, read_event_history

    with open_snapshot(options_of(context)) as found:
        past = read_event_history(found.db, found.places.store)
        least = list(LogLevel)[LOG_LEVELS.index(level)]
        entries = filter_events(past, search, least)[::-1]
        return print_result(
            context,
            [event_record(each) for each in entries],
            lambda: _event_table(entries) if entries else ["nothing like that has happened"],
        )


def event_record(entry: LogEvent) -> Record:
    """One object of `ctxtop log`."""
    return {
        "at": iso_time(entry.at),
        "level": LOG_LEVELS[entry.weight],
        "source": entry.source,
        "where": entry.where,
        "what": entry.text,
        "detail": entry.detail or None,
        "session_id": entry.session_id,
    }


def _event_table(entries: Sequence[LogEvent]) -> list[str]:
    columns: list[TextColumn[LogEvent]] = [
        Column("at", lambda each: Cell(iso_time(each.at) or "", "quiet"), priority=1),
        Column("level", lambda each: Cell(LOG_LEVELS[each.weight], _LEVEL_COLOURS[each.weight])),
        Column("source", lambda each: each.source, priority=2),
        Column("where", lambda each: each.where, flexible=True),
        Column("what", lambda each: each.text, flexible=True),
    ]
    return draw_table(columns, entries)


@click.command()
@common_options
@click.option("--test", is_flag=True, help="Send a notice for trying it.")
@click.pass_context
def notify(context: click.Context, *, test: bool) -> int:
    """Say how ctxtop tells you of things, by the policy's notify.*; --test tries it."""
    from .. import notifications

    policy, _ = read_policy(options_of(context), None)
    wanted = notifications.notification_settings(policy)
    environ = notifications.terminal_environment()
    how = notifications.choose_channel(wanted.desktop, environ)
    said = notifications.channel_hint(how, environ)
    failure = ""
    if test:
        notice = notifications.test_notification(time.time_ns() // 1_000_000)
        desktop = notifications.desktop_notification(notice, how, environ)
        if isinstance(desktop, tuple):
            failure = notifications.run_program(desktop)
        elif sys.stderr.isatty():
            bell = "\a" if wanted.bell else ""
            # Beside the output, which a program may read.
            print(bell + (desktop or ""), end="", file=sys.stderr, flush=True)
    if failure:
        raise RefusedError(failure)
    record = {
        "toast": wanted.toast,
        "bell": wanted.bell,
        "desktop": how,
        "condition": said or None,
        "quiet": str(wanted.quiet_hours) if wanted.quiet_hours else None,
        "tested": test,
    }
    return print_result(context, record, lambda: [notifications.channels_text(wanted, how, said)])
