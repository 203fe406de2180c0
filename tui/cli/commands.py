"""The commands of `ctxtop`, and those that read the store and print."""

from __future__ import annotations

import socket
import sys
import time
from types import ModuleType
from typing import Any, Final

import click
from ctxtop import __version__

from ...collectors.claude_code.collector_thread import Collector
from ...collectors.places import Places
from ...core.host import python_command
from ...core.store.queries import session_queries
from ...core.store.queries.query_rows import CompactionRow
from .command_errors import DONE, FAILED, INTERRUPTED, USAGE, RefusedError, print_error
from .command_options import (
    CommandOptions,
    common_options,
    dashboard_options,
    options_of,
    refuse_options,
    session_option,
    store_options,
)
from .command_store import StoreSnapshot, open_snapshot
from .compact_commands import compact, receipts, trigger, undo
from .compliance_commands import check, compliance, findings
from .event_commands import log, notify
from .export_command import export
from .hooks_commands import hook, hooks, statusline
from .output import json_records, snapshot_records
from .output.printing import print_result, print_result_parts, shorten_ids
from .output.printing import print_result as _emit
from .policy_commands import keys, policy, trust
from .recover_command import recover_session
from .session_commands import evidence, inject, lens, timeline
from .start import open_dashboard, resolve_places
from .summaries_command import diff, summaries

INSTALL_WEB_HINT: Final = "the browser's part is not installed: pip install 'ctxtop[web]'"


@click.command()
@common_options
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="A port of your choice; else any."
)
@click.pass_context
def serve(context: click.Context, *, port: int) -> int:
    """Show the dashboard in a browser on this machine, to whoever has its address.

    It listens to this machine alone, and the address holds a token that is new each time. Ctrl+C
    ends it.
    """
    try:
        from ...core.host import LOOPBACK
        from ..web.web_server import new_token
        from ..web.web_server import serve_dashboard as run
    except ModuleNotFoundError as error:
        if error.name not in {"aiohttp", "textual_serve"}:
            raise
        print_error(INSTALL_WEB_HINT)
        return FAILED
    options = options_of(context)
    command = dashboard_command(resolve_places(options.config_dir, options.db))
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, port))
            # Before the address is told: what comes early then waits, and is not refused.
            listening.listen()
        except OSError as error:
            print_error(f"port {port} cannot be used ({error.strerror}): give another with --port")
            return FAILED

        def tell(address: str) -> None:
            print_result(context, {"address": address}, lambda: [address])
            sys.stdout.flush()

        run(command, listening, new_token(), tell)
    return DONE


def dashboard_command(places: Places) -> list[str]:
    """Return the command that opens the dashboard, or its demo if there is no client folder.

    Each page of the web server runs it.
    """
    if not places.exists:
        return python_command("ctxtop", "demo")
    where = ("--config-dir", str(places.config_dir), "--db", str(places.store))
    return python_command("ctxtop", *where)


@click.command()
@store_options
@click.pass_context
def saves(context: click.Context) -> int:
    """Say how claude-memory's saves stand, project by project. Newest first.

    It looks into every place that a version of the plugin ever used, and changes nothing.
    """
    from ...core.store.readers.saves_reader import read_saves
    from .output import saves_output

    with open_snapshot(options_of(context), Collector.scan_and_measure_saves) as found:
        report = read_saves(found.db, found.sessions(), found.now_ms, found.policies)
        return print_result(
            context,
            [saves_output.save_record(each, report, found.now_ms) for each in report.projects],
            lambda: (
                saves_output.saves_table(report, found.now_ms)
                or [f"no saves of claude-memory yet in {found.places.config_dir}"]
            ),
        )


_CLICK_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def run(words: list[str]) -> int:
    """Run one command line; a usage error is one line and code 2.

    Where it fails because the store is damaged, the store is made again, and the command run
    once more.
    """
    options = CommandOptions()
    try:
        return _run(words, options)
    except Exception as error:
        from .command_store import rebuild_if_damaged

        healed = rebuild_if_damaged(options, error)
        if healed is None:
            raise
        print_error(healed)
    return _run(words, CommandOptions())


def _run(words: list[str], options: CommandOptions) -> int:
    try:
        code = group.main(words, prog_name="ctxtop", standalone_mode=False, obj=options)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "ctxtop"
        print_error(f"{error.format_message().rstrip('.')}; see `{path} --help`")
        return USAGE
    except click.Abort:
        return INTERRUPTED
    return int(code or DONE)


@click.group(invoke_without_command=True, context_settings=_CLICK_SETTINGS)
@click.version_option(__version__, prog_name="ctxtop", message="%(prog)s %(version)s")
@store_options
@dashboard_options
@click.pass_context
def group(context: click.Context) -> int:
    """Top for the context windows of Claude Code: how full every session and agent is.

    Without a command it opens the dashboard.
    """
    if context.invoked_subcommand not in {None, "demo"}:
        refuse_options(context, no_mouse="only the dashboard has a mouse: leave --no-mouse out")
    if context.invoked_subcommand is not None:
        return DONE
    refuse_options(
        context,
        as_json="the dashboard prints nothing; `ctxtop sessions --json` does",
        no_scan="the dashboard always looks; `ctxtop sessions --no-scan` does not",
    )
    options = options_of(context)
    mouse = not options.no_mouse
    return open_dashboard(options.config_dir, options.db, options.policy, mouse=mouse)


group.add_command(hook)
group.add_command(hooks)
group.add_command(statusline)
group.add_command(export)


@group.command()
@common_options
@click.option("--bad", is_flag=True, help="List the lines that were set aside.")
@click.pass_context
def scan(context: click.Context, *, bad: bool) -> int:
    """Bring the store up to date and say what it holds."""
    refuse_options(context, no_scan="`ctxtop scan` is the scan: leave --no-scan out")
    began = time.monotonic()
    with open_snapshot(options_of(context)) as found:
        record = snapshot_records.scan_record(found, time.monotonic() - began)
        if bad:
            record |= snapshot_records.unread_records(found)
        return _emit(context, record, lambda: _tables().scan_lines(record))


@group.command()
@store_options
@click.pass_context
def sessions(context: click.Context) -> int:
    """List the sessions and how full each context is. Newest activity first."""
    with open_snapshot(options_of(context)) as found:
        return print_result_parts(
            context,
            (snapshot_records.session_records(found, some) for some in found.stream_sessions()),
            lambda: (
                _tables().sessions_table(found.sessions(), found.now_ms)
                or _nothing_yet(found, "sessions")
            ),
        )


@group.command()
@store_options
@session_option
@click.pass_context
def agents(context: click.Context, *, session: str | None) -> int:
    """List the agents and what they gave back. Newest activity first."""
    with open_snapshot(options_of(context), Collector.scan_and_count_tokens) as found:
        session_id = found.session_id(session)
        listed = found.agents(session_id)
        return _emit(
            context,
            snapshot_records.agent_records(found, listed, session_id),
            lambda: (
                _tables().agents_table(listed, _short_ids(found), found.now_ms)
                or _nothing_yet(found, "agents", session)
            ),
        )


@group.command()
@store_options
@session_option
@click.pass_context
def compactions(context: click.Context, *, session: str | None) -> int:
    """List the compactions, what each kept and what it forgot. Newest first."""
    with open_snapshot(options_of(context), Collector.scan_and_report_compactions) as found:
        session_id = found.session_id(session)
        listed = session_queries.compactions(found.db, session_id)
        return _emit(
            context,
            snapshot_records.compaction_records(found, listed, session_id),
            lambda: (
                _compaction_lines(found, listed, session)
                or _nothing_yet(found, "compactions", session)
            ),
        )


@group.command()
@store_options
@session_option
@click.pass_context
def warnings(context: click.Context, *, session: str | None) -> int:
    """List the levels that contexts reached. Newest first."""
    with open_snapshot(options_of(context)) as found:
        listed = found.warnings(found.session_id(session))
        return _emit(
            context,
            [json_records.warning_record(each) for each in listed],
            lambda: (
                _tables().warnings_table(listed, _short_ids(found))
                or _nothing_yet(found, "warnings", session)
            ),
        )


group.add_command(summaries)
group.add_command(diff)


@group.command("context")
@store_options
@click.argument("session")
@click.option("--agent", metavar="ID", help="Of this agent; the start of its id is enough.")
@click.pass_context
def composition(context: click.Context, *, session: str, agent: str | None) -> int:
    """Say what fills a session's context, or an agent's, and its largest items.

    The start of SESSION's id is enough.
    """
    from ...collectors.claude_code.transcript_details import (
        TranscriptUnavailableError,
        read_composition,
    )

    with open_snapshot(options_of(context)) as found:
        session_id = found.session_id(session) or session
        agent_id = found.agent_id(session_id, agent)
        try:
            composed = read_composition(
                found.db, found.places.folder.projects, session_id, agent_id
            )
        except TranscriptUnavailableError as error:
            raise RefusedError(str(error)) from error
        (of,) = found.sessions(session_id)
        return _emit(
            context,
            json_records.composition_record(of, agent_id, composed),
            lambda: _tables().composition_tables(composed),
        )


group.add_command(timeline)
group.add_command(evidence)
group.add_command(lens)
group.add_command(inject)


@group.command()
@store_options
@click.pass_context
def totals(context: click.Context) -> int:
    """Add up the tokens of the whole store. Each answer of the API counts once."""
    with open_snapshot(options_of(context)) as found:
        record = snapshot_records.totals_of_snapshot(found)
        return _emit(context, record, lambda: _tables().totals_lines(record))


@group.command()
@store_options
@click.pass_context
def doctor(context: click.Context) -> int:
    """Check that ctxtop can do its work here. Code 1 where something is in its way."""
    from .doctor.store_checks import check_all, rebuild_damaged_store, scan_and_check_all

    options = options_of(context)
    look = check_all if options.no_scan else scan_and_check_all
    places = resolve_places(options.config_dir, options.db, options.policy)
    rebuild_damaged_store(places)
    checks = look(places)
    code = _emit(
        context,
        {"checks": [each.record() for each in checks]},
        lambda: _tables().checks_list(checks),
    )
    failed = [each.name for each in checks if not each.ok and each.is_blocking]
    if failed:
        print_error(f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")
        return FAILED
    return code


group.add_command(check)
group.add_command(compliance)
group.add_command(findings)
group.add_command(policy)
group.add_command(trust)
group.add_command(log)
group.add_command(notify)
group.add_command(compact)
group.add_command(trigger)
group.add_command(recover_session)
group.add_command(saves)
group.add_command(undo)
group.add_command(receipts)
group.add_command(serve)
group.add_command(keys)


@group.command()
@common_options
@dashboard_options
@click.option("--once", is_flag=True, help="Make the data, print its folder and end.")
@click.pass_context
def demo(context: click.Context, *, once: bool) -> int:
    """Open the dashboard on data that ctxtop makes itself."""
    reason = "the demo makes a folder and a store of its own: leave --config-dir and --db out"
    refuse_options(context, config_dir=reason, db=reason, no_scan="the demo reads what it makes")
    if once:
        from ..launch import make_demo_once

        folder = make_demo_once()
        return _emit(context, {"config_dir": str(folder)}, lambda: [str(folder)])
    refuse_options(
        context, as_json="the dashboard prints nothing; `ctxtop demo --once --json` does"
    )
    if not sys.stdout.isatty():
        print_error("the dashboard needs a terminal; `ctxtop demo --once` makes the data alone")
        return USAGE
    from ..launch import run_demo

    options = options_of(context)
    return run_demo(policy=options.policy, mouse=not options.no_mouse)


def _compaction_lines(
    found: StoreSnapshot, listed: list[CompactionRow], session: str | None
) -> list[str]:
    table = _tables()
    lay_out = table.detailed_compactions_table if session else table.compactions_table
    lines: list[str] = lay_out(listed, _short_ids(found))
    return lines


def _tables() -> ModuleType:
    from .output import result_tables  # what programs ask for does without

    return result_tables


def _short_ids(found: StoreSnapshot) -> dict[str, str]:
    # As `ctxtop sessions` writes them, so that every short id is one that --session takes.
    return shorten_ids(session_queries.find_sessions(found.db, ""))


def _nothing_yet(found: StoreSnapshot, what: str, session: str | None = None) -> list[str]:
    where = f"of session {session}" if session else f"in {found.places.config_dir}"
    return [f"no {what} yet {where}"]
