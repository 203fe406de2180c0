"""The commands about the whole store, and `ctxtop doctor`."""

import time
from typing import Final

import click

from ...collectors.collector_thread import Collector
from ...collectors.store_update import close_silent_agent
from ...core.model.agent import AgentStatus
from ...core.policy.policy import Policy
from ...core.readers.warning_evaluation import RecomputedWarnings
from ...core.store.bulkhead import take_faults
from ...core.store.queries import session_queries
from ..base.command_errors import DONE, FAILED, LIVE, RefusedError, print_error
from ..text.formats import plural
from . import json_records, result_tables
from .command_options import (
    common_command,
    options_of,
    refuse_options,
    session_option,
    store_command,
)
from .command_store import StoreSnapshot, open_snapshot, show_faults
from .printing import print_result, print_result_parts


@common_command()
@click.option("--bad", is_flag=True, help="List the lines that could not be read.")
def scan(context: click.Context, *, bad: bool) -> int:
    """Update the store and summarize what it contains."""
    refuse_options(context, no_scan="`ctxtop scan` always scans: omit --no-scan")
    began = time.monotonic()
    with open_snapshot(options_of(context)) as snapshot:
        record = json_records.scan_record(snapshot, time.monotonic() - began)
        if bad:
            record |= json_records.unread_records(snapshot)
        return print_result(context, record, lambda: result_tables.scan_lines(record))


@store_command()
def sessions(context: click.Context) -> int:
    """List the sessions and how full each context is. Most recently active first."""
    with open_snapshot(options_of(context)) as snapshot:
        return print_result_parts(
            context,
            (json_records.session_records(snapshot, part) for part in snapshot.stream_sessions()),
            lambda: result_tables.sessions_table(snapshot.listed_sessions(), snapshot.now_ms),
            _nothing_yet(snapshot, "sessions"),
        )


@store_command()
@session_option
def agents(context: click.Context, *, session: str | None) -> int:
    """List the agents and their results. Most recently active first."""
    with open_snapshot(options_of(context), Collector.scan_and_count_tokens) as snapshot:
        session_id = snapshot.optional_session_id(session)
        listed = snapshot.agents(session_id)
        return print_result(
            context,
            json_records.agent_records(snapshot, listed, session_id),
            lambda: result_tables.agents_table(listed, snapshot.short_ids(), snapshot.now_ms),
            _nothing_yet(snapshot, "agents", session),
        )


@store_command("close-agent")
@click.argument("session")
@click.argument("agent")
def close_agent(context: click.Context, *, session: str, agent: str) -> int:
    """Close an agent that fell silent.

    Only a zombie: its session is open, and it has written nothing for 30 minutes. Nothing is sent
    to Claude Code. If it writes again, it is running again. SESSION and AGENT are ids or their
    starts.
    """
    with open_snapshot(options_of(context)) as snapshot:
        session_id = snapshot.session_id(session)
        agent_id = snapshot.agent_id(session_id, agent)
        (found,) = (each for each in snapshot.agents(session_id) if each.agent_id == agent_id)
        places, now_ms = snapshot.places, snapshot.now_ms
    if found.status is AgentStatus.RUNNING:
        print_error(f"{found.agent_id} is running: only an agent silent for 30 minutes is closed")
        return LIVE
    if found.status is not AgentStatus.ZOMBIE:
        raise RefusedError(f"{found.agent_id} is {found.status_label}: there is nothing to close")
    close_silent_agent(places, found, now_ms)
    record = {
        **json_records.record_of(found, "session_id agent_id"),
        "status": AgentStatus.CLOSED.value,
    }
    return print_result(context, record, lambda: [f"closed {found.agent_type} {found.agent_id}"])


@store_command()
@session_option
def compactions(context: click.Context, *, session: str | None) -> int:
    """List the compactions and what each kept and lost. Newest first."""
    with open_snapshot(options_of(context), Collector.scan_and_report_compactions) as snapshot:
        session_id = snapshot.optional_session_id(session)
        rows = session_queries.compactions(snapshot.db, session_id)
        return print_result(
            context,
            json_records.compaction_records(snapshot, rows, session_id),
            lambda: result_tables.compactions_table(
                rows,
                snapshot.short_ids(),
                snapshot.policies.common.target_reduction,
                detailed=bool(session),
            ),
            _nothing_yet(snapshot, "compactions", session),
        )


@store_command()
@session_option
def warnings(context: click.Context, *, session: str | None) -> int:
    """List the warnings. Newest first.

    With --preset or --set, lists those that these settings would have given.
    """
    options = options_of(context)
    with open_snapshot(options) as snapshot:
        session_id = snapshot.optional_session_id(session)
        if options.changes_policy:
            recomputed = snapshot.recompute_warnings(session_id)
            listed = list(recomputed.warnings[::-1])
            print_error(_recomputed_text(recomputed, snapshot.policies.common))
        else:
            listed = snapshot.warnings(session_id)
        return print_result(
            context,
            json_records.warning_records(listed),
            lambda: result_tables.warnings_table(listed, snapshot.short_ids()),
            _nothing_yet(snapshot, "warnings", session),
        )


def _recomputed_text(recomputed: RecomputedWarnings, policy: Policy) -> str:
    """Return what the warnings were computed from, and what could not be recomputed."""
    text = "recomputed from the stored answers and the windows known now; the log is unchanged"
    if policy.counting.counts_text:
        text += "; the API's counts are used for answers whose text was not counted"
    if recomputed.lost_sessions:
        lost = plural(recomputed.lost_sessions, "session")
        text += f"; {lost} with logged warnings cannot be: the store has none of their answers"
    return text


@store_command()
def totals(context: click.Context) -> int:
    """Add up all tokens in the store. Each API response counts once."""
    with open_snapshot(options_of(context)) as snapshot:
        record = json_records.totals_record(snapshot)
        return print_result(context, record, lambda: result_tables.totals_lines(record))


_LOG_LEVELS: Final = ("note", "warning", "trouble")  # rising


@store_command()
@click.option(
    "--level",
    type=click.Choice(_LOG_LEVELS),
    default=_LOG_LEVELS[0],
    help="Only this level and above.",
)
@click.option("--search", default="", metavar="WORDS", help="Only entries with all these words.")
def log(context: click.Context, *, level: str, search: str) -> int:
    """List events: warnings, compactions, changes and more.

    Also lists refused prompts, recoveries, and lines that could not be read. Newest first.
    """
    from ...core.readers.saves_reader import read_saves
    from ..entities.event_log import LogLevel, filter_events, read_event_history

    with open_snapshot(options_of(context)) as snapshot:
        saves = read_saves(snapshot.db, (), snapshot.now_ms, snapshot.policies)
        history = read_event_history(snapshot.db, snapshot.places.store, saves)
        least = list(LogLevel)[_LOG_LEVELS.index(level)]
        records = [
            {
                **json_records.record_of(event, "at"),
                "level": _LOG_LEVELS[event.severity],
                **json_records.record_of(event, "source where what=text"),
                "detail": event.detail or None,
                "session_id": event.session_id,
            }
            for event in filter_events(history, search, least)[::-1]
        ]
        return print_result(
            context,
            records,
            lambda: result_tables.log_table(records),
            "no matching events",
        )


@store_command()
def doctor(context: click.Context) -> int:
    """Check that ctxtop works here. Exits with 1 if a check fails."""
    from ..doctor.all_checks import check_all, rebuild_damaged_store, scan_and_check_all

    options = options_of(context)
    places = options.places
    rebuild_damaged_store(places)
    checks = (check_all if options.no_scan else scan_and_check_all)(places)
    show_faults(places, take_faults())
    print_result(
        context,
        {"checks": json_records.records_of(checks, "name ok detail fix state")},
        lambda: result_tables.checks_list(checks),
    )
    failed = [each.name for each in checks if not each.ok]
    if not failed:
        return DONE
    print_error(f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")
    return FAILED


def _nothing_yet(snapshot: StoreSnapshot, what: str, session: str | None = None) -> str:
    return f"no {what} yet " + (
        f"in session {session}" if session else f"in {snapshot.places.config_dir}"
    )
