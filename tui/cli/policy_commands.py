"""`ctxtop policy`: what holds and where it was said; `set` and `unset` change a file of ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.policy.trust import Standing, standing_of
from ..settings import keymap_of
from .emit import emit
from .options import chosen, common, reading, session
from .reading import policy_of
from .report import DONE, RefusedError, say
from .start import resolve

if TYPE_CHECKING:
    from ...core.policy.kinds import Value
    from ..policy_files import PolicyFile


@click.group(invoke_without_command=True)
@reading
@session
@click.pass_context
def policy(context: click.Context, *, session: str | None) -> int:
    """Show every value of the policy and where it comes from.

    Of the folder one stands in, or of a session's.
    """
    from . import as_json, as_table

    if context.invoked_subcommand is not None:
        return DONE
    found, notices = policy_of(chosen(context), session)
    keymap = keymap_of(found)
    notices = (*notices, *(keymap.notices if keymap else ()))
    record = as_json.policy(found, notices)
    return emit(context, record, lambda: as_table.policy(found, notices))


_here = click.option(
    "--project", is_flag=True, help="In the .ctxtop.toml of the folder one stands in."
)
_dry = click.option("--dry-run", is_flag=True, help="Show the difference and write nothing.")


@policy.command("set")
@common
@_here
@_dry
@click.argument("key")
@click.argument("value")
@click.pass_context
def set_value(context: click.Context, *, key: str, value: str, project: bool, dry_run: bool) -> int:
    """Let your config.toml say that KEY is VALUE; comments and order stay."""
    from ...core.policy.kinds import BadValueError
    from ..policy_files import check_value

    try:
        checked = check_value(key, value)
    except KeyError:
        raise RefusedError(f"no key {key!r}; `ctxtop policy` lists them") from None
    except BadValueError as error:
        raise RefusedError(f"{key}: {value!r} is not taken: give {error}") from error
    if project and standing_of(key) is Standing.PERSON:
        raise RefusedError(f"{key} counts only in your own file: leave --project out")
    code = _change(context, key, checked, _file(context, is_project=project), is_dry=dry_run)
    if project and standing_of(key) is Standing.TRUSTED and not _is_trusted(context):
        say(f"{key} does not count yet: `ctxtop trust` shows the file, and asks")
    return code


def _is_trusted(context: click.Context) -> bool:
    from ...core.policy.trust import Trust

    found, _ = policy_of(chosen(context), None)
    return found.trust is Trust.TRUSTED


@policy.command()
@common
@_here
@_dry
@click.argument("key")
@click.pass_context
def unset(context: click.Context, *, key: str, project: bool, dry_run: bool) -> int:
    """Take KEY out of your config.toml: the preset's or the built-in value holds again."""
    return _change(context, key, None, _file(context, is_project=project), is_dry=dry_run)


def _file(context: click.Context, *, is_project: bool) -> PolicyFile:
    from ..policy_files import files_of

    options = chosen(context)
    places = resolve(options.config_dir, options.db)
    files = files_of(places.policy, str(Path.cwd()) if is_project else None)
    return files[-1]


def _change(
    context: click.Context, key: str, value: Value | None, file: PolicyFile, *, is_dry: bool
) -> int:
    from ...collectors.policy_writing import Changes, difference
    from ..policy_files import Refused, attempted, make_change, plan

    options = chosen(context)
    changes = Changes(resolve(options.config_dir, options.db).store)
    change = attempted(lambda: plan(file, key, value))
    if isinstance(change, Refused):
        raise RefusedError(change.message)
    is_written = not (is_dry or change.is_empty)
    if is_written:
        sources = resolve(options.config_dir, options.db).policy
        refused = attempted(lambda: make_change(sources, change, changes.apply))
        if isinstance(refused, Refused):
            raise RefusedError(refused.message)
    shown = difference(change)
    record = {"file": str(file.path), "key": key, "written": is_written, "difference": shown}
    said = "" if is_written else (": nothing is written" if is_dry else " says so already")
    return emit(context, record, lambda: [f"{file.path}{said}", *shown])
