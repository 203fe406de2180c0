"""`ctxtop resume`: open a session again in its folder, and say what that writes to the cache."""

import sys
from collections.abc import Sequence
from itertools import chain, islice
from typing import Final

import click

from ...collectors.client_terminal.session_resume import (
    NotResumedError,
    ResumeFailure,
    ResumePlace,
    ResumePlan,
    find_resumable,
    plan_resume,
    resume_here,
    resume_in_tmux,
)
from ...core.model.session import Session
from ..tables import Column, TextColumn
from ..text import formats, session_text
from .command_errors import FAILED, LIVE, USAGE, RefusedError, print_error
from .command_options import options_of, store_command
from .command_store import open_snapshot, shorten_ids
from .json_records import Record, cold_fields, record_of
from .printing import draw_table, print_result, session_id_cell

_FAILURE_CODES: Final = {
    ResumeFailure.LIVE: LIVE,
    ResumeFailure.NOTHING: USAGE,
    ResumeFailure.FAILED: FAILED,
}


DEFAULT_LIMIT: Final = 20  # sessions: who looks for an older one searches for it


@store_command()
@click.argument("session", required=False)
@click.option(
    "--print", "is_printed", is_flag=True, help="Print the command instead of running it."
)
@click.option(
    "--tmux",
    "place",
    type=click.Choice([place.value for place in ResumePlace]),
    help="Open it in a new tmux window, or in a pane beside this one.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=DEFAULT_LIMIT,
    show_default=True,
    help="List at most this many sessions.",
)
def resume(
    context: click.Context,
    *,
    session: str | None,
    is_printed: bool,
    place: str | None,
    limit: int,
) -> int:
    """Resume a session that is not open, in its folder.

    SESSION is an id or its start. Without an option, Claude Code takes over this terminal.

    Without SESSION, list the newest sessions that can be resumed. Each says whether its prompt
    cache is cold, and what its next prompt then rewrites.
    """
    if session is None:
        if is_printed or place:
            raise click.UsageError("name the session to resume", context)
        return _list_resumable(context, limit)
    if is_printed and place:
        raise click.UsageError("--print and --tmux cannot be combined: omit one", context)
    if not (is_printed or place) and (options_of(context).as_json or not sys.stdout.isatty()):
        raise click.UsageError("not a terminal: pass --print or --tmux", context)
    try:
        with open_snapshot(options_of(context)) as snapshot:
            (found,) = snapshot.sessions(snapshot.session_id(session))
            plan = plan_resume(snapshot.places.folder, found)
            now_ms = snapshot.now_ms
        if (text := session_text.resume_cost_text(found, now_ms)) and not options_of(
            context
        ).as_json:
            # Not on stdout: a script runs what --print prints.
            print_error(text)
        if not (is_printed or place):
            resume_here(plan)
        pane = resume_in_tmux(plan, ResumePlace(place)) if place else None
    except RefusedError as error:
        print_error(str(error))
        return USAGE
    except NotResumedError as error:
        print_error(f"{session} was not resumed: {error}")
        return _FAILURE_CODES[error.failure]
    record = _record(found, plan, now_ms) | {"tmux": pane}
    return print_result(context, record, lambda: [pane or plan.command])


def _record(session: Session, plan: ResumePlan, now_ms: int) -> Record:
    return {
        "session_id": plan.session_id,
        "folder": plan.folder,
        "command": plan.command,
        **cold_fields(session, now_ms),
    }


def _list_resumable(context: click.Context, limit: int) -> int:
    with open_snapshot(options_of(context)) as snapshot:
        sessions = chain.from_iterable(snapshot.stream_sessions())
        found = [*islice(find_resumable(snapshot.places.folder, sessions), limit)]
        now_ms = snapshot.now_ms
    records = [
        _record(each, plan, now_ms) | record_of(each, "title last_activity_at")
        for each, plan in found
    ]
    return print_result(context, records, lambda: _table([each for each, _ in found], now_ms))


def _table(sessions: Sequence[Session], now_ms: int) -> list[str]:
    short_ids = shorten_ids([each.session_id for each in sessions])
    columns: list[TextColumn[Session]] = [
        Column("id", lambda each: session_id_cell(each.session_id, short_ids)),
        Column("title", lambda each: each.title, flexible=True),
        Column("project", lambda each: each.project, flexible=True, priority=2),
        Column(
            "tokens", lambda each: formats.tokens_of_window(each.context), right=True, priority=3
        ),
        Column("cache", lambda each: session_text.short_cache_text(each, now_ms), priority=1),
        Column("age", lambda each: formats.age(each.last_activity_at, now_ms), right=True),
    ]
    return draw_table(columns, sessions) if sessions else ["no session can be resumed"]
