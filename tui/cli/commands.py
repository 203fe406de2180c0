"""The commands of `ctxtop`; each reads, then prints for people or for programs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click
from ctxtop import __version__

from ...collectors.collect import Collector
from ...core.store import queries
from . import as_json, records
from .cells import shorten
from .client_commands import hook, statusline
from .compact_command import compact
from .diff_command import diff
from .emit import emit as _emit
from .emit import emit_parts
from .export_command import export
from .findings_command import findings
from .hooks_commands import hooks
from .inject_command import inject
from .keys_command import keys
from .lens_command import lens
from .log_command import log
from .notify_command import notify
from .options import Options, chosen, common, dashboard, reading, refuse, session
from .policy_commands import policy
from .reading import open_reading
from .receipts_command import receipts
from .recover_command import recover_session
from .report import DONE, FAILED, INTERRUPTED, USAGE, RefusedError, say
from .saves_command import saves
from .serve_command import serve
from .start import open_dashboard, resolve
from .summaries_command import summaries
from .timeline_command import evidence, timeline
from .trigger_command import trigger
from .trust_command import trust
from .undo_command import undo

if TYPE_CHECKING:
    from types import ModuleType

    from ...core.store.rows import CompactionRow
    from .reading import Reading

_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def run(words: list[str]) -> int:
    """Run one command line; a usage error is one line and code 2.

    Where it fails because the store is damaged, the store is made again, and the command run
    once more.
    """
    from . import compliance_commands  # noqa: F401 -- they join the group

    options = Options()
    try:
        return _run(words, options)
    except Exception as error:
        from .healing import heal

        healed = heal(options, error)
        if healed is None:
            raise
        say(healed)
    return _run(words, Options())


def _run(words: list[str], options: Options) -> int:
    try:
        code = group.main(words, prog_name="ctxtop", standalone_mode=False, obj=options)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "ctxtop"
        say(f"{error.format_message().rstrip('.')}; see `{path} --help`")
        return USAGE
    except click.Abort:
        return INTERRUPTED
    return int(code or DONE)


@click.group(invoke_without_command=True, context_settings=_SETTINGS)
@click.version_option(__version__, prog_name="ctxtop", message="%(prog)s %(version)s")
@reading
@dashboard
@click.pass_context
def group(context: click.Context) -> int:
    """Top for the context windows of Claude Code: how full every session and agent is.

    Without a command it opens the dashboard.
    """
    if context.invoked_subcommand not in {None, "demo"}:
        refuse(context, no_mouse="only the dashboard has a mouse: leave --no-mouse out")
    if context.invoked_subcommand is not None:
        return DONE
    refuse(
        context,
        as_json="the dashboard prints nothing; `ctxtop sessions --json` does",
        no_scan="the dashboard always looks; `ctxtop sessions --no-scan` does not",
    )
    options = chosen(context)
    mouse = not options.no_mouse
    return open_dashboard(options.config_dir, options.db, options.policy, mouse=mouse)


group.add_command(hook)
group.add_command(hooks)
group.add_command(statusline)
group.add_command(export)


@group.command()
@common
@click.option("--bad", is_flag=True, help="List the lines that were set aside.")
@click.pass_context
def scan(context: click.Context, *, bad: bool) -> int:
    """Bring the store up to date and say what it holds."""
    refuse(context, no_scan="`ctxtop scan` is the scan: leave --no-scan out")
    began = time.monotonic()
    with open_reading(chosen(context)) as found:
        record = as_json.scanned(found, time.monotonic() - began)
        if bad:
            record |= as_json.set_aside(found)
        return _emit(context, record, lambda: _table().scanned(record))


@group.command()
@reading
@click.pass_context
def sessions(context: click.Context) -> int:
    """List the sessions and how full each context is. Newest activity first."""
    with open_reading(chosen(context)) as found:
        return emit_parts(
            context,
            (records.of_sessions(found, some) for some in found.stream_sessions()),
            lambda: (
                _table().sessions(found.sessions(), found.now_ms) or _nothing(found, "sessions")
            ),
        )


@group.command()
@reading
@session
@click.pass_context
def agents(context: click.Context, *, session: str | None) -> int:
    """List the agents and what they gave back. Newest activity first."""
    with open_reading(chosen(context), Collector.scan_and_count_tokens) as found:
        session_id = found.session_id(session)
        listed = found.agents(session_id)
        return _emit(
            context,
            records.of_agents(found, listed, session_id),
            lambda: (
                _table().agents(listed, _short(found), found.now_ms)
                or _nothing(found, "agents", session)
            ),
        )


@group.command()
@reading
@session
@click.pass_context
def compactions(context: click.Context, *, session: str | None) -> int:
    """List the compactions, what each kept and what it forgot. Newest first."""
    with open_reading(chosen(context), Collector.scan_and_report_compactions) as found:
        session_id = found.session_id(session)
        listed = queries.compactions(found.db, session_id)
        return _emit(
            context,
            records.of_compactions(found, listed, session_id),
            lambda: _compactions(found, listed, session) or _nothing(found, "compactions", session),
        )


@group.command()
@reading
@session
@click.pass_context
def warnings(context: click.Context, *, session: str | None) -> int:
    """List the levels that contexts reached. Newest first."""
    with open_reading(chosen(context)) as found:
        listed = found.warnings(found.session_id(session))
        return _emit(
            context,
            [as_json.warning(each) for each in listed],
            lambda: (
                _table().warnings(listed, _short(found)) or _nothing(found, "warnings", session)
            ),
        )


group.add_command(summaries)
group.add_command(diff)


@group.command("context")
@reading
@click.argument("session")
@click.option("--agent", metavar="ID", help="Of this agent; the start of its id is enough.")
@click.pass_context
def composition(context: click.Context, *, session: str, agent: str | None) -> int:
    """Say what fills a session's context, or an agent's, and its largest items.

    The start of SESSION's id is enough.
    """
    from ...collectors.composing import NothingToComposeError, read_composition

    with open_reading(chosen(context)) as found:
        session_id = found.session_id(session) or session
        agent_id = found.agent_id(session_id, agent)
        try:
            composed = read_composition(
                found.db, found.places.folder.projects, session_id, agent_id
            )
        except NothingToComposeError as error:
            raise RefusedError(str(error)) from error
        (of,) = found.sessions(session_id)
        return _emit(
            context,
            as_json.composition(of, agent_id, composed),
            lambda: _table().composition(composed),
        )


group.add_command(timeline)
group.add_command(evidence)
group.add_command(lens)
group.add_command(inject)


@group.command()
@reading
@click.pass_context
def totals(context: click.Context) -> int:
    """Add up the tokens of the whole store. Each answer of the API counts once."""
    with open_reading(chosen(context)) as found:
        record = records.of_totals(found)
        return _emit(context, record, lambda: _table().totals(record))


@group.command()
@reading
@click.pass_context
def doctor(context: click.Context) -> int:
    """Check that ctxtop can do its work here. Code 1 where something is in its way."""
    from .store_checks import check_all, heal_damage, scan_and_check_all

    options = chosen(context)
    look = check_all if options.no_scan else scan_and_check_all
    places = resolve(options.config_dir, options.db, options.policy)
    heal_damage(places)
    checks = look(places)
    code = _emit(
        context,
        {"checks": [as_json.check(each) for each in checks]},
        lambda: _table().checks(checks),
    )
    failed = [each.name for each in checks if not each.ok and each.is_blocking]
    if failed:
        say(f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")
        return FAILED
    return code


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
@common
@dashboard
@click.option("--once", is_flag=True, help="Make the data, print its folder and end.")
@click.pass_context
def demo(context: click.Context, *, once: bool) -> int:
    """Open the dashboard on data that ctxtop makes itself."""
    reason = "the demo makes a folder and a store of its own: leave --config-dir and --db out"
    refuse(context, config_dir=reason, db=reason, no_scan="the demo reads what it makes")
    if once:
        from ..demo import make_once

        folder = make_once()
        return _emit(context, {"config_dir": str(folder)}, lambda: [str(folder)])
    refuse(context, as_json="the dashboard prints nothing; `ctxtop demo --once --json` does")
    if not sys.stdout.isatty():
        say("the dashboard needs a terminal; `ctxtop demo --once` makes the data alone")
        return USAGE
    from ..demo import run_demo

    options = chosen(context)
    return run_demo(policy=options.policy, mouse=not options.no_mouse)


def _compactions(found: Reading, listed: list[CompactionRow], session: str | None) -> list[str]:
    table = _table()
    lay_out = table.compactions_in_detail if session else table.compactions
    lines: list[str] = lay_out(listed, _short(found))
    return lines


def _table() -> ModuleType:
    from . import as_table  # what programs ask for does without

    return as_table


def _short(found: Reading) -> dict[str, str]:
    # As `ctxtop sessions` writes them, so that every short id is one that --session takes.
    return shorten(queries.find_sessions(found.db, ""))


def _nothing(found: Reading, what: str, session: str | None = None) -> list[str]:
    where = f"of session {session}" if session else f"in {found.places.config_dir}"
    return [f"no {what} yet {where}"]
