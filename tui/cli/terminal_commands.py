"""`ctxtop pause` and `resume`: bring sessions to rest before a break, open them again after it."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import click

from ...collectors.terminal.session_resume import (
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
from ...core.transcript.sanitize import sanitize_path
from ..base.command_errors import (
    DONE,
    FAILED,
    LIVE,
    UNSAFE,
    USAGE,
    RefusedError,
    print_error,
    print_errors,
)
from ..text import formats, session_text
from ..text.tables import Column, TextColumn
from . import printing
from .command_options import dry_run_option, options_of, store_command, yes_option
from .command_store import StoreSnapshot, open_snapshot, shorten_ids
from .json_records import Record, cold_fields, costs_record, record_of
from .printing import draw_table, print_result, session_id_cell

if TYPE_CHECKING:
    from ...collectors.pause_targets import PausePreview
    from ...core.actions.pause_rules import PauseItem
    from ...core.actions.session_pause import PauseResult

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
        "folder": sanitize_path(plan.folder),
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


@store_command()
@click.argument("session", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All sessions that are open.")
@dry_run_option
@yes_option
def pause(
    context: click.Context, *, session: tuple[str, ...], is_all: bool, dry_run: bool, yes: bool
) -> int:
    """Pause idle sessions before a break, while that is cheap.

    SESSION is an id or its start. Each session is compacted by Claude Code, gets a hand-off note
    as a new session, or is left as it is, whichever costs least over the next requests. Sessions
    that are busy, wait for you, are small or cold, or that Claude Code compacts itself are left.
    """
    if bool(session) is is_all:
        raise click.UsageError("name sessions, or pass --all for all that are open", context)
    from ...collectors.pause_targets import preview_pauses

    try:
        with open_snapshot(options_of(context)) as snapshot:
            chosen = _chosen_sessions(snapshot, session)
            places, now_ms = snapshot.places, snapshot.now_ms
            preview = preview_pauses(snapshot.db, chosen, places, snapshot.policies, now_ms)
    except RefusedError as error:
        print_error(str(error))
        return USAGE
    if dry_run or not preview.acting:
        return _print_preview(context, preview, now_ms)
    return _pause(context, preview, now_ms, yes=yes)


def _chosen_sessions(snapshot: StoreSnapshot, starts: Sequence[str]) -> list[Session]:
    if not starts:
        return [each for each in snapshot.sessions() if each.live]
    ids = dict.fromkeys(snapshot.session_id(start) for start in starts)
    return [found for each in ids for found in snapshot.sessions(each)]


def _pause(context: click.Context, preview: PausePreview, now_ms: int, *, yes: bool) -> int:
    from ...core.actions.session_pause import pause_all
    from ..text.pause_text import preview_summary, result_line

    if not yes and not options_of(context).as_json:
        print_errors(_preview_lines(preview, now_ms))
    if not yes and not printing.confirm(
        context,
        f"{preview_summary(preview.items)}: continue?",
        refused="nothing was paused",
        hint="not a terminal: pass --yes to confirm, or --dry-run",
    ):
        return USAGE
    results = list(pause_all(preview.targets(), lambda: time.time_ns() // 1_000_000))
    print_result(
        context,
        _pause_record(preview, results, now_ms),
        lambda: [*map(result_line, results), *_left_lines(preview)],
    )
    if any(each.is_failure for each in results):
        return FAILED
    return DONE if any(each.check is None for each in results) else _left_code(results)


def _print_preview(context: click.Context, preview: PausePreview, now_ms: int) -> int:
    record = _pause_record(preview, (), now_ms)
    print_result(context, record, lambda: _preview_lines(preview, now_ms), "no session is open")
    return DONE if preview.acting else _left_code(preview.items)


def _left_code(left: Sequence[PauseItem | PauseResult]) -> int:
    """Return why the one session that was named was left; USAGE for several."""
    from ...core.actions.pause_rules import PauseCheck, PauseItem

    checks = [each.decision.check if isinstance(each, PauseItem) else each.check for each in left]
    codes = {
        PauseCheck.BUSY: LIVE,
        PauseCheck.AGENTS: LIVE,
        PauseCheck.CHANGED: LIVE,
        PauseCheck.WAITING: UNSAFE,
        PauseCheck.UNREACHABLE: UNSAFE,
    }
    return codes.get(checks[0], USAGE) if len(checks) == 1 and checks[0] else USAGE


def _preview_lines(preview: PausePreview, now_ms: int) -> list[str]:
    from ..text.pause_text import pause_columns, preview_summary

    if not preview.items:
        return []
    table = printing.draw_table(pause_columns(now_ms), preview.items)
    return [*table, "", preview_summary(preview.items)]


def _left_lines(preview: PausePreview) -> list[str]:
    return [
        f"left: {each.session.session_id[:8]}: {each.decision.why}"
        for each in preview.items
        if not each.acts
    ]


def _pause_record(preview: PausePreview, results: Sequence[PauseResult], now_ms: int) -> Record:
    by_session = {each.item.session.session_id: each for each in results}
    return {
        "paused": sum(each.check is None for each in results),
        "sessions": [
            _item_record(each, by_session.get(each.session.session_id), now_ms)
            for each in preview.items
        ],
    }


def _item_record(item: PauseItem, result: PauseResult | None, now_ms: int) -> Record:
    from ...core.actions.pause_rules import idle_compaction_at

    decision, candidate = item.decision, item.candidate
    return {
        **record_of(item.session, "session_id title context_tokens=context.tokens"),
        **record_of(
            item.session,
            "cache_expires_at=cache.expires_at cache_expires_estimated=cache.estimated",
        ),
        "way": decision.way.value,
        "check": decision.check,
        "why": decision.why,
        "via": candidate.via,
        "idle_compaction_at": formats.iso_time(idle_compaction_at(candidate, now_ms)),
        "costs": costs_record(item.costs),
        "result": result
        and {
            "paused": result.check is None,
            "check": result.check,
            "outcome": result.outcome,
            "tokens_left": result.tokens_left,
            "receipt_id": result.receipt,
            "resume_command": result.resume_command,
        },
    }
