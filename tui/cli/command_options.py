"""The commands' registry, and their shared options, accepted before and after a command's name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from ...collectors.locations.places import Places

CommandFunction = Callable[..., Any]
Command = TypeVar("Command", bound=CommandFunction)

registry: Final = click.Group()  # each command adds itself; `ctxtop` has all of them


ASCII_KEY: Final = "ui.ascii"  # that --ascii sets


class CommandOptions:
    """The shared options of one run; click hands one object down from the group.

    Not a dataclass: it would be the only one that most commands load.
    """

    config_dir: Path | None = None
    db: Path | None = None
    as_json: bool = False
    no_scan: bool = False
    no_mouse: bool = False

    def __init__(self) -> None:
        self.policy: Final[list[tuple[str, str]]] = []  # keys and values of the policy

    @property
    def places(self) -> Places:
        from ...collectors.locations.places import (
            find_places,  # not needed for --version and --help
        )

        return find_places(self.config_dir, self.db, self.policy)

    @property
    def changes_policy(self) -> bool:
        """Whether --preset or --set was given."""
        return any(key != ASCII_KEY for key, _ in self.policy)

    @property
    def ascii_only(self) -> bool:
        """Whether output for people should use ASCII characters only."""
        from ...collectors.locations.places import PolicySources
        from ..base.ui_state import asks_for_ascii

        return asks_for_ascii(PolicySources(tuple(self.policy), os.environ))


def options_of(context: click.Context) -> CommandOptions:
    options: CommandOptions = context.ensure_object(CommandOptions)
    return options


def common_options(command: Command) -> Command:
    """Add --config-dir, --db, --json and --ascii to a command."""
    return _config_dir(_db(_json(_ascii(command))))


def store_options(command: Command) -> Command:
    """Add the common options, --no-scan and the policy's to a command that reads the store."""
    return common_options(_no_scan(_preset(_set(command))))


def store_command(name: str | None = None) -> Callable[[CommandFunction], click.Command]:
    """Add a command that reads the store; its function gets the context first."""
    return lambda function: registry.command(name)(store_options(click.pass_context(function)))


def common_command(
    name: str | None = None, group: click.Group | None = None
) -> Callable[[CommandFunction], click.Command]:
    """Add a command with the common options; its function gets the context first."""
    make = (group or registry).command(name)
    return lambda function: make(common_options(click.pass_context(function)))


def add_alias(name: str, command: click.Command) -> None:
    """Register an earlier name of a command, which no help lists."""
    alias = copy(command)
    alias.name, alias.hidden = name, True
    registry.add_command(alias)


def refuse_options(context: click.Context, **reasons: str) -> None:
    """Raise a usage error where an option was given that this command has no use for."""
    options = options_of(context)
    for name, reason in reasons.items():
        if getattr(options, name):
            raise click.UsageError(reason, context)


def _store_value(context: click.Context, parameter: click.Parameter, value: object) -> None:
    # An option that was not given must not undo the one before the command's name.
    if value:
        setattr(options_of(context), parameter.name or "", value)


def _store_only_path(
    context: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]
) -> None:
    """Store the one path of an option; raise a usage error if two were given, wherever."""
    options, name = options_of(context), parameter.name or ""
    given = dict.fromkeys(filter(None, (getattr(options, name), *paths)))
    if len(given) > 1:
        raise click.UsageError(
            f"{parameter.opts[0]} is given {len(given)} times ({', '.join(map(str, given))}), and"
            " ctxtop reads one at a time: run it once for each",
            context,
        )
    for path in given:
        setattr(options, name, path)


def _store_preset(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value:
        options_of(context).policy.append(("preset", value))


def _store_ascii(context: click.Context, _parameter: click.Parameter, value: object) -> None:
    if value:
        options_of(context).policy.append((ASCII_KEY, "true"))


def _store_policy_values(
    context: click.Context, _parameter: click.Parameter, assignments: tuple[str, ...]
) -> None:
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not (equals and key.strip()):
            raise click.BadParameter(
                f"{assignment!r} is not KEY=VALUE; `ctxtop settings` lists the keys"
            )
        options_of(context).policy.append((key.strip(), value.strip()))


class _PathParameter(click.ParamType[Path]):
    """A path; an empty one is an unset variable, not the current folder."""

    name = "path"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        if not str(value):
            self.fail("it is empty", param, ctx)
        return Path(str(value))


_TARGET: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(%|[km]?)", re.IGNORECASE)
_TOKEN_UNITS: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_MIN_TARGET_TOKENS: Final = 1_000  # a smaller number without a unit is more likely a mistake


class TargetParameter(click.ParamType[float]):
    """A size of the context: up to 1 it is a share of the window, above that it is tokens.

    `0.5`, `50%` and `50` are the same share; `80k` and `80000` are tokens.
    """

    name = "target"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = _TARGET.fullmatch(str(value).strip().replace(",", "").replace("_", ""))
        if match is None:
            self._fail(value, param, ctx)
        number, unit = float(match[1]), match[2].lower()
        if unit == "%" or (not unit and 1 < number <= 100):
            number, unit = number / 100, ""
            if number > 1:
                self._fail(value, param, ctx)
        if number <= 1 and not unit:
            return number
        size = round(number * _TOKEN_UNITS[unit])
        if size < _MIN_TARGET_TOKENS:
            self._fail(value, param, ctx)
        return size

    def _fail(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> NoReturn:
        wanted = "a share of the window, e.g. 50% or 0.5, nor a size in tokens, e.g. 80k"
        self.fail(f"{value!r} is neither {wanted}", param, ctx)


def _shared_option(
    *names: str,
    callback: Callable[[click.Context, click.Parameter, Any], None] = _store_value,
    **settings: Any,  # noqa: ANN401 -- click's
) -> Callable[[Command], Command]:
    return click.option(*names, expose_value=False, callback=callback, **settings)


_config_dir: Final = _shared_option(
    "--config-dir",
    type=_PathParameter(),
    metavar="DIR",
    multiple=True,
    callback=_store_only_path,
    help="Claude Code's folder.  [default: CTXTOP_CONFIG_DIR, CLAUDE_CONFIG_DIR or ~/.claude]",
)
_db: Final = _shared_option(
    "--db",
    type=_PathParameter(),
    metavar="FILE",
    multiple=True,
    callback=_store_only_path,
    help="ctxtop's store (its database).  [default: CTXTOP_DB or the user's state folder]",
)
_json: Final = _shared_option("--json", "as_json", is_flag=True, help="Print JSON.")
_ascii: Final = _shared_option(
    "--ascii",
    is_flag=True,
    help="Use ASCII characters only.  [default: CTXTOP_ASCII]",
    callback=_store_ascii,
)
mouse_option: Final = _shared_option(
    "--no-mouse", is_flag=True, help="Leave the mouse to the terminal, so that you can select text."
)
_no_scan: Final = _shared_option("--no-scan", is_flag=True, help="Don't rescan the folder first.")
_preset: Final = _shared_option(
    "--preset",
    metavar="NAME",
    help="The preset to start from; see `ctxtop settings`.",
    callback=_store_preset,
)
_set: Final = _shared_option(
    "--set",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override a setting; repeatable.",
    callback=_store_policy_values,
)
dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Show the changes and write nothing."
)
yes_option: Final = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
session_option: Final = click.option(
    "--session", metavar="ID", help="Only this session (an id or its start)."
)
