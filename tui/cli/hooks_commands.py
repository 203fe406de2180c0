"""`ctxtop hooks` installs hooks; `hook` and `statusline` are what Claude Code runs."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ...collectors.plugin.installed_commands import FEATURE_EVENTS
from .command_errors import DONE, FAILED, UNSAFE, USAGE, RefusedError, print_error, print_errors
from .command_options import CommandOptions, common_options, options_of, wants_ascii
from .output.printing import paint, print_lines, print_result
from .start import resolve_places

if TYPE_CHECKING:
    from ...collectors.install.hook_settings import SettingsLocation
    from ...collectors.install.install_plan import InstallPlan
    from ...collectors.places import Places


_SCOPES: Final = ("user", "project", "local")

_scope_option: Final = click.option(
    "--scope",
    type=click.Choice(_SCOPES),
    default="user",
    show_default=True,
    help="Whose settings: yours, a project's, or your own of a project.",
)
_project_option: Final = click.option(
    "--project",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The project.  [default: the folder one stands in]",
)
_dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Show the difference and write nothing."
)
_yes_option: Final = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group()
def hooks() -> None:
    """Let Claude Code tell ctxtop what happens; say what is installed, take it out."""


@hooks.command()
@common_options
@_scope_option
@_project_option
@click.option(
    "--as",
    "form",
    type=click.Choice(("plugin", "hooks")),
    help="A plugin with its skills, or hooks in the settings.  [default: plugin for --scope user]",
)
@click.option(
    "--with",
    "features",
    metavar="NAME[,NAME]",
    help=f"What hooks are to answer: {', '.join(FEATURE_EVENTS)}.  [default: nothing]",
)
@click.option(
    "--statusline/--no-statusline",
    "status_line",
    default=None,
    help="Also a status line; one that is there is run by ours.  [default: for --scope user]",
)
@_dry_run_option
@_yes_option
@click.pass_context
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
    """Install ctxtop's hooks, or change what is installed. It shows the difference and asks.

    The hooks only note what happens, unless --with names what they are to answer.
    """
    from ...collectors.install.hook_settings import InstallOptions
    from ...collectors.install.install_plan import plan_install

    is_user = scope == "user"
    options = options_of(context)
    places = _resolve_places(options)
    wanted = InstallOptions(
        store=places.store,
        features=_parse_features(features),
        as_plugin=(form or ("plugin" if is_user else "hooks")) == "plugin",
        status_line=is_user if status_line is None else status_line,
    )

    def make() -> InstallPlan:
        place = _scope_settings(scope, places, project)
        _refuse_second_install(place, places, project)
        return plan_install(place, places.config_dir, wanted)

    return _apply_install_plan(context, make, places, dry_run=dry_run, yes=yes)


@hooks.command()
@common_options
@_scope_option
@_project_option
@_dry_run_option
@_yes_option
@click.pass_context
def uninstall(
    context: click.Context, *, scope: str, project: Path | None, dry_run: bool, yes: bool
) -> int:
    """Take ctxtop out of the settings: as they were, byte for byte, if nothing else changed."""
    from ...collectors.install.install_plan import plan_uninstall

    places = _resolve_places(options_of(context))

    def make() -> InstallPlan:
        place = _scope_settings(scope, places, project)
        return plan_uninstall(place, places.config_dir, places.store)

    return _apply_install_plan(context, make, places, dry_run=dry_run, yes=yes)


@hooks.command()
@common_options
@_project_option
@click.pass_context
def status(context: click.Context, *, project: Path | None) -> int:
    """Say what is installed and whether it works: `clean` where all is right. Else code 1."""
    from ...collectors.install.install_status import InstallState, read_install_status
    from .output.hooks_output import install_status_lines, install_status_record

    places = _resolve_places(options_of(context))
    found = read_install_status(
        _all_settings(places, project), places.config_dir, places.store, _managed_settings()
    )
    last, faults = _last_records(places) if found.state is not InstallState.ABSENT else ({}, [])
    record = install_status_record(found, last, faults)
    print_result(context, record, lambda: install_status_lines(found, record))
    return FAILED if record["state"] == InstallState.FAULTY else DONE


MAX_ATTEMPTS: Final = 5
"""Plans that are made where others install at the same time; two of them need two."""


def _apply_install_plan(
    context: click.Context,
    make: Callable[[], InstallPlan],
    places: Places,
    *,
    dry_run: bool,
    yes: bool,
    tries: int = MAX_ATTEMPTS,
) -> int:
    from ...collectors.install.install_plan import apply_install, install_diff
    from ...collectors.install.settings_file import ChangedError, NotSafeError
    from .output.hooks_output import install_plan_record

    try:
        plan = make()
        lines = install_diff(plan)
        is_json = options_of(context).as_json
        if not is_json:
            coloured = (paint(line, _diff_colour(line)) for line in lines)
            print_lines(coloured, ascii_only=wants_ascii(options_of(context)))
        print_errors(plan.notes)
        if plan.changes_nothing:
            print_result(context, install_plan_record(plan, lines, None), list)
            print_error("nothing to do")
            return USAGE
        if dry_run:
            return print_result(context, install_plan_record(plan, lines, None), list)
        if not yes and not _confirm_install(plan, is_json=is_json):
            return USAGE
        backup = apply_install(plan, places.store)
    except ChangedError as error:
        if yes and tries > 1:
            # Another ctxtop was faster, which nobody has to be asked about again.
            return _apply_install_plan(
                context, make, places, dry_run=dry_run, yes=yes, tries=tries - 1
            )
        print_error(str(error))
        return UNSAFE
    except NotSafeError as error:
        print_error(str(error))
        return UNSAFE
    done = [f"backup {backup}"] if backup else []
    return print_result(context, install_plan_record(plan, lines, backup), lambda: done)


def _confirm_install(plan: InstallPlan, *, is_json: bool) -> bool:
    from .output.hooks_output import install_plan_text

    if is_json or not _is_interactive():
        print_error(
            "nothing was written: nobody can be asked here; give --yes, or --dry-run to look"
        )
        return False
    print_error(install_plan_text(plan))
    if click.confirm("Write this?", err=True):
        return True
    print_error("nothing was written")
    return False


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _parse_features(named: str | None) -> tuple[str, ...]:
    """Read --with; the order is ours, so that the same set is the same command."""
    words = [word.strip() for word in (named or "").split(",") if word.strip()]
    unknown = [word for word in words if word not in FEATURE_EVENTS]
    if unknown:
        raise click.UsageError(
            f"no feature {unknown[0]!r}: --with takes {', '.join(FEATURE_EVENTS)}"
        )
    return tuple(name for name in FEATURE_EVENTS if name in words)


def _resolve_places(options: CommandOptions) -> Places:
    return resolve_places(options.config_dir, options.db)


def _scope_settings(scope: str, places: Places, project: Path | None) -> SettingsLocation:
    found = {str(place.scope): place for place in _all_settings(places, project)}
    if scope not in found:
        raise RefusedError("the project's settings are your own here: leave --scope out")
    return found[scope]


def _all_settings(places: Places, project: Path | None) -> list[SettingsLocation]:
    """Name the settings of all scopes; in the home folder a project's are the user's own."""
    from ...collectors.install.hook_settings import SettingsScope, settings_location

    folder = (project or Path.cwd()).absolute()
    found: dict[str, SettingsLocation] = {}
    for scope in _SCOPES:
        place = settings_location(SettingsScope(scope), places.config_dir, folder)
        # Unlike Path.resolve it takes a loop of links, of which the plan says what is wrong.
        found.setdefault(os.path.realpath(place.settings), place)
    return list(found.values())


def _refuse_second_install(place: SettingsLocation, places: Places, project: Path | None) -> None:
    """Refuse where the same session would be told of twice."""
    from ...collectors.install.install_status import read_install_status

    others = [one for one in _all_settings(places, project) if one.scope != place.scope]
    found = read_install_status(others, places.config_dir, places.store, _managed_settings())
    is_elsewhere = [hook for hook in found.hooks if hook.scope != place.scope]
    if is_elsewhere:
        raise RefusedError(
            f"ctxtop is already in {is_elsewhere[0].path}: two would note everything twice;"
            f" `ctxtop hooks uninstall --scope {is_elsewhere[0].scope}` first"
        )


def _managed_settings() -> Path:
    from ...collectors.claude_code.config.save_files import find_system_folders

    return find_system_folders(os.environ, Path.home()).managed_folder


def _last_records(places: Places) -> tuple[dict[str, int | None], list[str]]:
    """Return when each event and the status line last arrived, and what failed in them.

    Times are in milliseconds since 1970; None if one never arrived.
    """
    from ...core.store.database import open_reader
    from ...core.store.queries import log_queries
    from .command_store import update_and_report
    from .doctor.config_checks import log_checks
    from .output.hooks_output import STATUS_LINE_KEY

    if places.exists:
        update_and_report(places)
    if not places.store.exists():
        return {}, [check.detail for check in log_checks(places.store, []) if not check.ok]
    with closing(open_reader(places.store)) as db:
        checks = log_checks(places.store, log_queries.log_parts(db))
        last: dict[str, int | None] = {**log_queries.last_event_times(db)}
        last[STATUS_LINE_KEY] = log_queries.last_shown_at(db)
        return last, [each.detail for each in checks if not each.ok]


def _diff_colour(line: str) -> str:
    if line.startswith("+"):
        return "ok"
    return "bad" if line.startswith("-") else ""


@click.command(context_settings={"ignore_unknown_options": True})
@common_options
@click.argument("words", nargs=-1, metavar="EVENT [FEATURE]...")
@click.pass_context
def hook(context: click.Context, *, words: tuple[str, ...]) -> int:
    """Record the event that Claude Code tells on stdin, and answer it.

    Only the features that are named answer: enforce, inject, steer, remember,
    prompts, confirm.
    """
    from ...collectors.plugin.hook import main

    if not words:
        # Not 2, as for every other command: that would hold up what the client does.
        print_error("name the event, as in `ctxtop hook SubagentStop`")
        return FAILED
    main([_store_path(context), *words])
    return DONE


@click.command()
@common_options
@click.argument("wrapped", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG]...]")
@click.pass_context
def statusline(context: click.Context, *, wrapped: tuple[str, ...]) -> int:
    """Print Claude Code's status line: how full, compacted when, who did not comply.

    COMMAND is one that stood there before: what it prints stands above ours.
    """
    from ...collectors.plugin.statusline import WRAP_SEPARATOR, main

    # One word is a shell's whole command, as Claude Code keeps it.
    command = wrapped[0] if len(wrapped) == 1 else shlex.join(wrapped)
    main([_store_path(context), *([WRAP_SEPARATOR, command] if wrapped else [])])
    return DONE


def _store_path(context: click.Context) -> str:
    options = options_of(context)
    return str(resolve_places(options.config_dir, options.db).store)
