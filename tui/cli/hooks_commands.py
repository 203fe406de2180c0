"""`ctxtop hooks` installs hooks; `hook` and `statusline` are what Claude Code runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...collectors.locations.places import Places, find_places
from ...collectors.plugin.installed_commands import FEATURE_EVENTS
from ...core.transcript.sanitize import one_line
from ..base.command_errors import (
    DONE,
    FAILED,
    UNSAFE,
    USAGE,
    RefusedError,
    print_error,
    print_errors,
)
from ..text.formats import iso_time
from ..text.settings_text import install_plan_text
from ..text.tables import Column, TextColumn
from .command_options import (
    common_command,
    common_options,
    dry_run_option,
    options_of,
    registry,
    yes_option,
)
from .command_store import update_and_report
from .printing import confirm, draw_table, paint, print_lines, print_result

if TYPE_CHECKING:
    from ...collectors.install.install_plan import InstallPlan
    from ...collectors.install.install_status import CommandStatus, InstallStatus
    from ...collectors.install.settings_file import SettingsLocation


_SCOPES: Final = ("user", "project", "local")

_scope_option: Final = click.option(
    "--scope",
    type=click.Choice(_SCOPES),
    default="user",
    show_default=True,
    help="Which settings: yours, a project's, or your own for a project.",
)
_project_option: Final = click.option(
    "--project",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The project.  [default: the current folder]",
)


@registry.group()
def hooks() -> None:
    """Install, inspect or remove ctxtop's hooks in Claude Code."""


@common_command(group=hooks)
@_scope_option
@_project_option
@click.option(
    "--as",
    "form",
    type=click.Choice(("plugin", "hooks")),
    help="A plugin with skills, or plain hooks in the settings.  "
    "[default: plugin for --scope user]",
)
@click.option(
    "--with",
    "features",
    metavar="NAME[,NAME]",
    help=f"What hooks may answer: {', '.join(FEATURE_EVENTS)}.  [default: nothing]",
)
@click.option(
    "--statusline/--no-statusline",
    "status_line",
    default=None,
    help="Also install a status line; an existing one still runs.  [default: for --scope user]",
)
@dry_run_option
@yes_option
def install(
    context: click.Context,
    *,
    scope: str,
    project: Path | None,
    form: str | None,
    features: str | None,
    status_line: bool | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Install ctxtop's hooks, or change them. Shows the changes and asks first.

    Hooks only record events, unless --with turns on features that answer.
    """
    from ...collectors.install.install_plan import plan_install
    from ...collectors.install.settings_file import InstallOptions

    is_user = scope == "user"
    places = _resolve_places(context)
    options = InstallOptions(
        store=places.store,
        features=_parse_features(features),
        as_plugin=(form or ("plugin" if is_user else "hooks")) == "plugin",
        status_line=is_user if status_line is None else status_line,
    )

    def make_plan() -> InstallPlan:
        settings = _scope_settings(scope, places, project)
        _refuse_second_install(settings, places, project)
        return plan_install(settings, places.config_dir, options)

    return _apply_install_plan(context, make_plan, places, dry_run=dry_run, yes=yes)


@common_command(group=hooks)
@_scope_option
@_project_option
@dry_run_option
@yes_option
def uninstall(
    context: click.Context, *, scope: str, project: Path | None, dry_run: bool, yes: bool
) -> int:
    """Remove ctxtop from the settings.

    If nothing else has changed, every byte is restored.
    """
    from ...collectors.install.install_plan import plan_uninstall

    places = _resolve_places(context)

    def make_plan() -> InstallPlan:
        settings = _scope_settings(scope, places, project)
        return plan_uninstall(settings, places.config_dir, places.store)

    return _apply_install_plan(context, make_plan, places, dry_run=dry_run, yes=yes)


@common_command(group=hooks)
@_project_option
def status(context: click.Context, *, project: Path | None) -> int:
    """Show what is installed and whether it works. Exits with 1 if it does not."""
    from ...collectors.install.install_status import InstallState, read_status

    places = _resolve_places(context)
    installed = read_status(_locations(places, project), places)
    is_absent = installed.state is InstallState.ABSENT
    last, faults = ({}, []) if is_absent else _last_records(places)
    record = _status_record(installed, last, faults)
    print_result(context, record, lambda: _status_lines(installed, record))
    return FAILED if record["state"] == InstallState.FAULTY else DONE


MAX_ATTEMPTS: Final = 5
"""Plans that are made where others install at the same time; two of them need two."""


def _apply_install_plan(
    context: click.Context,
    make_plan: Callable[[], InstallPlan],
    places: Places,
    *,
    dry_run: bool,
    yes: bool,
    attempts: int = MAX_ATTEMPTS,
) -> int:
    from ...collectors.install.install_plan import apply_install, install_diff
    from ...collectors.install.settings_file import ChangedError, NotSafeError

    options = options_of(context)
    try:
        plan = make_plan()
        diff = install_diff(plan)
        if not options.as_json:
            colored = (paint(line, {"+": "ok", "-": "bad"}.get(line[:1], "")) for line in diff)
            print_lines(colored, ascii_only=options.ascii_only)
        print_errors(plan.notes)
        if plan.changes_nothing or dry_run:
            print_result(context, _plan_record(plan, diff, None), list)
            if plan.changes_nothing:
                print_error("nothing to do")
            return USAGE if plan.changes_nothing else DONE
        if not yes and not confirm(
            context,
            "Write this?",
            refused="nothing was written",
            hint="this is not a terminal; pass --yes to confirm, or --dry-run to preview",
            preface=install_plan_text(plan),
        ):
            return USAGE
        backup = apply_install(plan, places.store)
    except (ChangedError, NotSafeError) as error:
        if isinstance(error, ChangedError) and yes and attempts > 1:
            # Another ctxtop was faster; nobody has to be asked again about that.
            return _apply_install_plan(
                context, make_plan, places, dry_run=dry_run, yes=yes, attempts=attempts - 1
            )
        print_error(str(error))
        return UNSAFE
    lines = [f"backup {backup}"] if backup else []
    return print_result(context, _plan_record(plan, diff, backup), lambda: lines)


def _plan_record(plan: InstallPlan, diff: Sequence[str], backup: Path | None) -> dict[str, Any]:
    return {
        "settings": str(plan.file.path),
        "added": list(plan.added),
        "removed": list(plan.removed),
        "kept": list(plan.unchanged),
        "backup": str(backup) if backup else None,
        "difference": list(diff),
    }


def _parse_features(names: str | None) -> tuple[str, ...]:
    """Read --with; the order is ours, so that the same set gives the same command."""
    words = [word.strip() for word in (names or "").split(",") if word.strip()]
    unknown = [word for word in words if word not in FEATURE_EVENTS]
    if unknown:
        raise click.UsageError(
            f"unknown feature {unknown[0]!r}: --with takes {', '.join(FEATURE_EVENTS)}"
        )
    return tuple(name for name in FEATURE_EVENTS if name in words)


def _resolve_places(context: click.Context) -> Places:
    options = options_of(context)
    return find_places(options.config_dir, options.db)


def _scope_settings(scope: str, places: Places, project: Path | None) -> SettingsLocation:
    by_scope = {str(each.scope): each for each in _locations(places, project)}
    if scope not in by_scope:
        raise RefusedError("in this folder the project's settings are your own: omit --scope")
    return by_scope[scope]


def _locations(places: Places, project: Path | None) -> list[SettingsLocation]:
    from ...collectors.install.settings_file import settings_locations

    return settings_locations(places.config_dir, project or Path.cwd())


def _refuse_second_install(
    settings: SettingsLocation, places: Places, project: Path | None
) -> None:
    """Raise RefusedError where each session would be recorded twice."""
    from ...collectors.install.install_status import read_status

    others = [each for each in _locations(places, project) if each.scope != settings.scope]
    installed = read_status(others, places)
    elsewhere = [hook for hook in installed.hooks if hook.scope != settings.scope]
    if elsewhere:
        raise RefusedError(
            f"ctxtop is already in {elsewhere[0].path}, and two would record everything twice: run"
            f" `ctxtop hooks uninstall --scope {elsewhere[0].scope}` first"
        )


_STATUS_LINE: Final = ""  # the key of the status line among the events


def _last_records(places: Places) -> tuple[dict[str, int | None], list[str]]:
    """Return when each event and the status line last arrived, and what failed in them.

    Times are in milliseconds since 1970; None if one never arrived.
    """
    from ...core.store.database import open_reader
    from ...core.store.queries import log_queries
    from ..doctor.machine_checks import log_checks

    if places.exists:
        update_and_report(places)
    if not places.store.exists():
        return {}, [check.detail for check in log_checks(places.store, []) if not check.ok]
    with closing(open_reader(places.store)) as db:
        checks = log_checks(places.store, log_queries.log_parts(db))
        last = {**log_queries.last_event_times(db), _STATUS_LINE: log_queries.last_shown_at(db)}
        return last, [each.detail for each in checks if not each.ok]


def _status_record(
    installed: InstallStatus, last: Mapping[str, int | None], faults: Sequence[str]
) -> dict[str, Any]:
    """Return what is installed, when it was last active, and its problems.

    `last` has times in milliseconds since 1970; `faults` turn a clean state into a faulty one.
    """
    from ...collectors.install.install_status import InstallState

    line, state = installed.status_line, installed.state
    is_faulty = faults and state is InstallState.CLEAN
    return {
        "state": str(InstallState.FAULTY if is_faulty else state),
        "plugin": str(installed.plugin) if installed.plugin else None,
        "plugin_version": installed.version,
        "hooks": [_command_record(hook, last.get(hook.event)) for hook in installed.hooks],
        "status_line": _command_record(line, last.get(_STATUS_LINE)) if line else None,
        "problems": [*installed.problems, *faults],
    }


def _command_record(command: CommandStatus, last_at: int | None) -> dict[str, Any]:
    from ...collectors.claude_code.config.hook_settings import mask_secrets

    wrapped = command.own_command.wrapped
    return {
        "event": command.event or None,
        "scope": str(command.scope),
        "settings": str(command.path),
        "command": mask_secrets(command.command),
        "features": list(command.own_command.features),
        "wrapped": mask_secrets(wrapped) if wrapped else None,
        "problem": command.problem,
        "last_record_at": iso_time(last_at),
    }


_HOOK_COLUMNS: Final[Sequence[TextColumn[Mapping[str, Any]]]] = (
    Column("event", lambda hook: hook["event"]),
    Column("does", lambda hook: ",".join(hook["features"]) or "record"),
    Column("last record", lambda hook: hook["last_record_at"] or "never"),
)


def _status_lines(installed: InstallStatus, record: Mapping[str, Any]) -> list[str]:
    state, line = record["state"], record["status_line"]
    lines = [paint(state, {"clean": "ok", "faulty": "bad"}.get(state, ""))]
    if state == "absent":
        return [*lines, "nothing is installed in Claude Code: run `ctxtop hooks install`"]
    if record["hooks"]:
        lines += draw_table(_HOOK_COLUMNS, record["hooks"])
    if line:
        wrapped = f", runs {line['wrapped']}" if line["wrapped"] else ""
        lines.append(one_line(f"status line{wrapped}"))
    paths = dict.fromkeys(hook.path for hook in installed.hooks)
    lines += [one_line(f"in {path}") for path in paths]
    return [*lines, *(paint(one_line(each), "bad") for each in record["problems"])]


@registry.command(context_settings={"ignore_unknown_options": True})
@common_options
@click.argument("words", nargs=-1, metavar="EVENT [FEATURE]...")
@click.pass_context
def hook(context: click.Context, *, words: tuple[str, ...]) -> int:
    """Record and answer the event that Claude Code sends on stdin.

    Only named features answer: enforce, inject, steer, remember,
    prompts, confirm, cold.
    """
    from ...collectors.plugin.hook import main

    if not words:
        # Not 2, as for every other command: that would block what the client does.
        print_error("name the event, as in `ctxtop hook SubagentStop`")
        return FAILED
    main([str(_resolve_places(context).store), *words])
    return DONE


@common_command()
@click.argument("wrapped", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG]...]")
def statusline(context: click.Context, *, wrapped: tuple[str, ...]) -> int:
    """Print Claude Code's status line.

    Shows context, auto-compaction, noncompliant agents and the prompt cache.

    COMMAND is your own status line; its output is printed above.
    """
    from ...collectors.plugin.statusline import WRAP_SEPARATOR, main

    # One word is a shell's whole command, as Claude Code keeps it.
    command = wrapped[0] if len(wrapped) == 1 else shlex.join(wrapped)
    store = str(_resolve_places(context).store)
    main([store, *([WRAP_SEPARATOR, command] if wrapped else [])])
    return DONE
