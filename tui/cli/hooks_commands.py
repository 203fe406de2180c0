"""`ctxtop hooks`: the only commands that write Claude Code's settings, and what is installed."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ...collectors.plugin.features import FEATURES
from .columns import paint, put
from .emit import emit
from .options import chosen, common
from .report import DONE, FAILED, UNSAFE, USAGE, RefusedError, say, say_all
from .start import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...collectors.install.places import Place
    from ...collectors.install.plan import Plan
    from ..places import Places
    from .options import Options

_SCOPES: Final = ("user", "project", "local")

_scope: Final = click.option(
    "--scope",
    type=click.Choice(_SCOPES),
    default="user",
    show_default=True,
    help="Whose settings: yours, a project's, or your own of a project.",
)
_project: Final = click.option(
    "--project",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The project.  [default: the folder one stands in]",
)
_dry_run: Final = click.option(
    "--dry-run", is_flag=True, help="Show the difference and write nothing."
)
_yes: Final = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group()
def hooks() -> None:
    """Let Claude Code tell ctxtop what happens; say what is installed, take it out."""


@hooks.command()
@common
@_scope
@_project
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
    help=f"What hooks are to answer: {', '.join(FEATURES)}.  [default: nothing]",
)
@click.option(
    "--statusline/--no-statusline",
    "status_line",
    default=None,
    help="Also a status line; one that is there is run by ours.  [default: for --scope user]",
)
@_dry_run
@_yes
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
    from ...collectors.install.plan import plan_install
    from ...collectors.install.wanted import Wanted

    is_user = scope == "user"
    options = chosen(context)
    places = _places(options)
    wanted = Wanted(
        store=places.store,
        features=_features(features),
        as_plugin=(form or ("plugin" if is_user else "hooks")) == "plugin",
        status_line=is_user if status_line is None else status_line,
    )

    def make() -> Plan:
        place = _place(scope, places, project)
        _refuse_twice(place, places, project)
        return plan_install(place, places.config_dir, wanted)

    return _carry_out(context, make, places, dry_run=dry_run, yes=yes)


@hooks.command()
@common
@_scope
@_project
@_dry_run
@_yes
@click.pass_context
def uninstall(
    context: click.Context, *, scope: str, project: Path | None, dry_run: bool, yes: bool
) -> int:
    """Take ctxtop out of the settings: as they were, byte for byte, if nothing else changed."""
    from ...collectors.install.plan import plan_uninstall

    places = _places(chosen(context))

    def make() -> Plan:
        place = _place(scope, places, project)
        return plan_uninstall(place, places.config_dir, places.store)

    return _carry_out(context, make, places, dry_run=dry_run, yes=yes)


@hooks.command()
@common
@_project
@click.pass_context
def status(context: click.Context, *, project: Path | None) -> int:
    """Say what is installed and whether it works: `clean` where all is right. Else code 1."""
    from ...collectors.install.status import State, read_status
    from .hooks_lines import status_lines, status_record

    places = _places(chosen(context))
    found = read_status(_places_of(places, project), places.config_dir, places.store, _managed())
    last, faults = _told(places) if found.state is not State.ABSENT else ({}, [])
    record = status_record(found, last, faults)
    emit(context, record, lambda: status_lines(found, record))
    return FAILED if record["state"] == State.FAULTY else DONE


TRIES: Final = 5
"""Plans that are made where others install at the same time; two of them need two."""


def _carry_out(
    context: click.Context,
    make: Callable[[], Plan],
    places: Places,
    *,
    dry_run: bool,
    yes: bool,
    tries: int = TRIES,
) -> int:
    from ...collectors.install.carry_out import carry_out
    from ...collectors.install.difference import difference
    from ...collectors.install.refused import ChangedError, NotSafeError
    from .hooks_lines import plan_record

    try:
        plan = make()
        lines = difference(plan)
        is_json = chosen(context).as_json
        if not is_json:
            put(paint(line, _colour(line)) for line in lines)
        say_all(plan.notes)
        if plan.changes_nothing:
            emit(context, plan_record(plan, lines, None), list)
            say("nothing to do")
            return USAGE
        if dry_run:
            return emit(context, plan_record(plan, lines, None), list)
        if not yes and not _agreed(plan, is_json=is_json):
            return USAGE
        backup = carry_out(plan, places.store)
    except ChangedError as error:
        if yes and tries > 1:
            # Another ctxtop was faster, which nobody has to be asked about again.
            return _carry_out(context, make, places, dry_run=dry_run, yes=yes, tries=tries - 1)
        say(str(error))
        return UNSAFE
    except NotSafeError as error:
        say(str(error))
        return UNSAFE
    done = [f"backup {backup}"] if backup else []
    return emit(context, plan_record(plan, lines, backup), lambda: done)


def _agreed(plan: Plan, *, is_json: bool) -> bool:
    from .hooks_lines import plan_words

    if is_json or not _can_ask():
        say("nothing was written: nobody can be asked here; give --yes, or --dry-run to look")
        return False
    say(plan_words(plan))
    if click.confirm("Write this?", err=True):
        return True
    say("nothing was written")
    return False


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _features(named: str | None) -> tuple[str, ...]:
    """Read --with; the order is ours, so that the same set is the same command."""
    words = [word.strip() for word in (named or "").split(",") if word.strip()]
    unknown = [word for word in words if word not in FEATURES]
    if unknown:
        raise click.UsageError(f"no feature {unknown[0]!r}: --with takes {', '.join(FEATURES)}")
    return tuple(name for name in FEATURES if name in words)


def _places(options: Options) -> Places:
    return resolve(options.config_dir, options.db)


def _place(scope: str, places: Places, project: Path | None) -> Place:
    found = {str(place.scope): place for place in _places_of(places, project)}
    if scope not in found:
        raise RefusedError("the project's settings are your own here: leave --scope out")
    return found[scope]


def _places_of(places: Places, project: Path | None) -> list[Place]:
    """Name the settings of all scopes; in the home folder a project's are the user's own."""
    from ...collectors.install.places import SettingsScope, place_of

    folder = (project or Path.cwd()).absolute()
    found: dict[str, Place] = {}
    for scope in _SCOPES:
        place = place_of(SettingsScope(scope), places.config_dir, folder)
        # Unlike Path.resolve it takes a loop of links, of which the plan says what is wrong.
        found.setdefault(os.path.realpath(place.settings), place)
    return list(found.values())


def _refuse_twice(place: Place, places: Places, project: Path | None) -> None:
    """Refuse where the same session would be told of twice."""
    from ...collectors.install.status import read_status

    others = [one for one in _places_of(places, project) if one.scope != place.scope]
    found = read_status(others, places.config_dir, places.store, _managed())
    is_elsewhere = [hook for hook in found.hooks if hook.scope != place.scope]
    if is_elsewhere:
        raise RefusedError(
            f"ctxtop is already in {is_elsewhere[0].path}: two would note everything twice;"
            f" `ctxtop hooks uninstall --scope {is_elsewhere[0].scope}` first"
        )


def _managed() -> Path:
    from ...collectors.surroundings.machine import this_machine

    return this_machine(os.environ, Path.home()).managed_folder


def _told(places: Places) -> tuple[dict[str, int | None], list[str]]:
    """Say when each event, and the status line, last came, and what went wrong in them."""
    from ...core.store import log_queries
    from ...core.store.database import open_reader
    from .hooks_lines import STATUS_LINE
    from .log_checks import log_checks
    from .reading import scan

    if places.exists:
        scan(places)
    if not places.store.exists():
        return {}, [check.detail for check in log_checks(places.store, []) if not check.ok]
    with closing(open_reader(places.store)) as db:
        checks = log_checks(places.store, log_queries.parts(db))
        last: dict[str, int | None] = {**log_queries.last_events(db)}
        last[STATUS_LINE] = log_queries.last_shown_at(db)
        return last, [each.detail for each in checks if not each.ok]


def _colour(line: str) -> str:
    if line.startswith("+"):
        return "ok"
    return "bad" if line.startswith("-") else ""
