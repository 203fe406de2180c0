"""Runs a command line; and the commands about the whole store, the demo and the server."""

import socket
import sys
import time
from typing import Any, Final

import click
from ctxtop import __version__

from ...collectors.claude_code.collector_thread import Collector
from ...collectors.places import Places, find_places
from ...collectors.store_update import close_silent_agent
from ...core.host import LOOPBACK, python_command
from ...core.model.agent import AgentStatus
from ...core.model.problem import Problem
from ...core.policy.policy import Policy
from ...core.store.bulkhead import FAILED as FAILED_BY_FAULT
from ...core.store.bulkhead import bulkhead, take_faults
from ...core.store.queries import session_queries
from ...core.store.readers.warning_evaluation import RecomputedWarnings
from ..text.formats import plural
from . import (  # noqa: F401 -- these add their commands to the registry
    archive_command,
    cache_command,
    compact_commands,
    compliance_commands,
    export_command,
    hook_runs_command,
    hooks_commands,
    json_records,
    limits_command,
    policy_commands,
    recover_command,
    result_tables,
    saves_command,
    search_command,
    session_commands,
    summaries_command,
    terminal_commands,
)
from .command_errors import (
    DONE,
    FAILED,
    INTERRUPTED,
    LIVE,
    USAGE,
    RefusedError,
    expected_errors,
    print_error,
)
from .command_options import (
    CommandOptions,
    common_command,
    mouse_option,
    options_of,
    refuse_options,
    registry,
    session_option,
    store_command,
    store_options,
)
from .command_store import StoreSnapshot, open_snapshot, rebuild_if_damaged, show_faults
from .printing import print_result, print_result_parts

_CLICK_SETTINGS: Final[dict[str, Any]] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}


def run(words: list[str]) -> int:
    """Run one command line; a usage error is one line and code 2.

    If it fails because the store is damaged, the store is rebuilt and the command run once more.
    A fault of ours is one line and code 1; the log has its traceback.
    """
    options, faults = CommandOptions(), list[Problem]()
    name = f"ctxtop {words[0]}" if words else "ctxtop"
    with bulkhead(name, FAILED_BY_FAULT, None, faults.append, expected_errors()):
        return _run_or_rebuild(words, options)
    show_faults(options.places, faults)
    return FAILED


def _run_or_rebuild(words: list[str], options: CommandOptions) -> int:
    try:
        return _run(words, options)
    except Exception as error:
        rebuilt = rebuild_if_damaged(options, error)
        if rebuilt is None:
            raise
        print_error(rebuilt)
    return _run(words, CommandOptions())


def _run(words: list[str], options: CommandOptions) -> int:
    try:
        code = ctxtop.main(words, prog_name="ctxtop", standalone_mode=False, obj=options)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "ctxtop"
        print_error(f"{error.format_message().rstrip('.')}; see `{path} --help`")
        return USAGE
    except click.Abort:
        return INTERRUPTED
    return int(code or DONE)


@click.group(
    invoke_without_command=True, context_settings=_CLICK_SETTINGS, commands=registry.commands
)
@click.version_option(__version__, prog_name="ctxtop", message="%(prog)s %(version)s")
@store_options
@mouse_option
@click.pass_context
def ctxtop(context: click.Context) -> int:
    """Like top, for Claude Code's context windows: how full every session and agent is.

    Without a command, opens the dashboard.
    """
    if context.invoked_subcommand not in {None, "demo"}:
        refuse_options(context, no_mouse="--no-mouse only applies to the dashboard: omit it")
    if context.invoked_subcommand is not None:
        return DONE
    refuse_options(
        context,
        as_json="--json needs a command, such as `ctxtop sessions --json`",
        no_scan="the dashboard always scans; use `ctxtop sessions --no-scan`",
    )
    from ..launch import open_dashboard

    options = options_of(context)
    return open_dashboard(
        options.config_dir, options.db, options.policy, mouse=not options.no_mouse
    )


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
            lambda: result_tables.sessions_table(snapshot.sessions(), snapshot.now_ms),
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
    from ...core.store.readers.saves_reader import read_saves
    from ..screens.log.event_log import LogLevel, filter_events, read_event_history

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


@common_command()
@mouse_option
@click.option("--once", is_flag=True, help="Generate the data, print its folder and exit.")
def demo(context: click.Context, *, once: bool) -> int:
    """Open the dashboard on generated data."""
    from ..launch import make_demo_folder, run_demo

    reason = "the demo has its own folder and store: omit --config-dir and --db"
    refuse_options(context, config_dir=reason, db=reason, no_scan="the demo always scans")
    if once:
        folder = str(make_demo_folder().root)
        return print_result(context, {"config_dir": folder}, lambda: [folder])
    refuse_options(context, as_json="--json needs --once: use `ctxtop demo --once --json`")
    if not sys.stdout.isatty():
        print_error("the dashboard needs a terminal; `ctxtop demo --once` only generates the data")
        return USAGE
    options = options_of(context)
    return run_demo(policy=options.policy, mouse=not options.no_mouse)


@common_command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=0,
    help="The port.  [default: any free port]",
)
def serve(context: click.Context, *, port: int) -> int:
    """Show the dashboard in a browser on this machine.

    It listens on this machine only. The address contains a token that is new each time. Ctrl+C
    stops it.
    """
    try:
        from ..web_server import new_token, serve_dashboard
    except ModuleNotFoundError as error:
        if error.name not in {"aiohttp", "textual_serve"}:
            raise
        print_error("the web extra is not installed: pip install 'ctxtop[web]'")
        return FAILED
    options = options_of(context)
    command = _dashboard_command(find_places(options.config_dir, options.db))
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, port))
            # Before the address is printed: an early request then waits instead of being refused.
            listening.listen()
        except OSError as error:
            print_error(
                f"port {port} cannot be used ({error.strerror}): choose another with --port"
            )
            return FAILED

        def print_address(address: str) -> None:
            print_result(context, {"address": address}, lambda: [address])
            sys.stdout.flush()

        serve_dashboard(command, listening, new_token(), print_address)
    return DONE


def _dashboard_command(places: Places) -> list[str]:
    if not places.exists:
        return python_command("ctxtop", "demo")
    where = ("--config-dir", str(places.config_dir), "--db", str(places.store))
    return python_command("ctxtop", *where)


def _nothing_yet(snapshot: StoreSnapshot, what: str, session: str | None = None) -> str:
    return f"no {what} yet " + (
        f"in session {session}" if session else f"in {snapshot.places.config_dir}"
    )
