"""`ctxtop policy`, `trust` and `keys`: the settings, whose they are, and the keys."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...collectors.places import Places
from ...collectors.policy_files import PolicyFiles, TrustPreview
from ...core.policy.policy import KeyPermission, PolicyNotice, key_permission
from ...core.policy.value_types import PolicyValue
from ..tables import Cell, Column, TextColumn
from ..text.formats import iso_time
from ..ui_state import policy_keymap
from .command_errors import DONE, USAGE, RefusedError, print_error
from .command_options import common_options, options_of, session_option, store_options, wants_ascii
from .command_store import read_policy
from .output.printing import (
    clean_line,
    draw_table,
    paint,
    print_lines,
    print_result,
)
from .start import resolve_places

if TYPE_CHECKING:
    from ..keymap import KeyRow
    from ..screens.settings.policy_table import EditablePolicyFile


@click.group(invoke_without_command=True)
@store_options
@session_option
@click.pass_context
def policy(context: click.Context, *, session: str | None) -> int:
    """Show every value of the policy and where it comes from.

    Of the folder one stands in, or of a session's.
    """
    from .output import json_records, result_tables

    if context.invoked_subcommand is not None:
        return DONE
    found, notices = read_policy(options_of(context), session)
    keymap = policy_keymap(found)
    notices = (*notices, *(keymap.notices if keymap else ()))
    record = json_records.policy_record(found, notices)
    return print_result(context, record, lambda: result_tables.policy_table(found, notices))


_project_option = click.option(
    "--project", is_flag=True, help="In the .ctxtop.toml of the folder one stands in."
)
_dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show the difference and write nothing."
)


@policy.command("set")
@common_options
@_project_option
@_dry_run_option
@click.argument("key")
@click.argument("value")
@click.pass_context
def set_policy_value(
    context: click.Context, *, key: str, value: str, project: bool, dry_run: bool
) -> int:
    """Let your config.toml say that KEY is VALUE; comments and order stay."""
    from ...core.policy.value_types import InvalidValueError
    from ..screens.settings.policy_table import parse_value

    try:
        checked = parse_value(key, value)
    except KeyError:
        raise RefusedError(f"no key {key!r}; `ctxtop policy` lists them") from None
    except InvalidValueError as error:
        raise RefusedError(f"{key}: {value!r} is not taken: give {error}") from error
    if project and key_permission(key) is KeyPermission.PERSON:
        raise RefusedError(f"{key} counts only in your own file: leave --project out")
    code = _change_policy(
        context, key, checked, _policy_file(context, is_project=project), is_dry=dry_run
    )
    if project and key_permission(key) is KeyPermission.TRUSTED and not _is_trusted(context):
        print_error(f"{key} does not count yet: `ctxtop trust` shows the file, and asks")
    return code


def _is_trusted(context: click.Context) -> bool:
    from ...core.policy.policy import ProjectTrust

    found, _ = read_policy(options_of(context), None)
    return found.trust is ProjectTrust.TRUSTED


@policy.command("unset")
@common_options
@_project_option
@_dry_run_option
@click.argument("key")
@click.pass_context
def unset_policy_value(context: click.Context, *, key: str, project: bool, dry_run: bool) -> int:
    """Take KEY out of your config.toml: the preset's or the built-in value holds again."""
    return _change_policy(
        context, key, None, _policy_file(context, is_project=project), is_dry=dry_run
    )


def _policy_file(context: click.Context, *, is_project: bool) -> EditablePolicyFile:
    from ..screens.settings.policy_table import editable_files

    options = options_of(context)
    places = resolve_places(options.config_dir, options.db)
    files = editable_files(places.policy, str(Path.cwd()) if is_project else None)
    return files[-1]


def _change_policy(
    context: click.Context,
    key: str,
    value: PolicyValue | None,
    file: EditablePolicyFile,
    *,
    is_dry: bool,
) -> int:
    from ...collectors.policy_editing import PolicyChangeHistory, diff_policy_change
    from ..screens.settings.policy_table import (
        PolicyChangeRefused,
        plan_policy_change,
        try_change,
        write_policy_change,
    )

    options = options_of(context)
    changes = PolicyChangeHistory(resolve_places(options.config_dir, options.db).store)
    change = try_change(lambda: plan_policy_change(file, key, value))
    if isinstance(change, PolicyChangeRefused):
        raise RefusedError(change.message)
    is_written = not (is_dry or change.is_empty)
    if is_written:
        sources = resolve_places(options.config_dir, options.db).policy
        refused = try_change(lambda: write_policy_change(sources, change, changes.apply))
        if isinstance(refused, PolicyChangeRefused):
            raise RefusedError(refused.message)
    shown = diff_policy_change(change)
    record = {"file": str(file.path), "key": key, "written": is_written, "difference": shown}
    said = "" if is_written else (": nothing is written" if is_dry else " says so already")
    return print_result(context, record, lambda: [f"{file.path}{said}", *shown])


@click.command()
@common_options
@click.option("--list", "lists", is_flag=True, help="List the projects that you trust.")
@click.option("--revoke", is_flag=True, help="Stop trusting DIR.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument(
    "folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path, file_okay=False)
)
@click.pass_context
def trust(
    context: click.Context, *, folder: Path | None, lists: bool, revoke: bool, yes: bool
) -> int:
    """Trust a project's .ctxtop.toml to change more than what ctxtop shows.

    Shows the file of DIR (default: the current folder) and what it would begin to do, and asks.
    A file that changes must be trusted again.
    """
    from ...collectors.policy_files import TrustFileError

    if lists and (revoke or folder):
        raise click.UsageError("--list takes no DIR and no --revoke", context)
    options = options_of(context)
    places = resolve_places(options.config_dir, options.db, options.policy)
    place = (folder or Path.cwd()).expanduser().absolute()
    try:
        if lists:
            return _print_trusted(context, places)
        return (
            _revoke_trust(context, places, place)
            if revoke
            else _trust_folder(context, places, place, yes)
        )
    except TrustFileError as error:
        raise RefusedError(str(error)) from error


def _trust_folder(context: click.Context, places: Places, folder: Path, yes: bool) -> int:  # noqa: FBT001 -- the option
    from ...collectors.policy_files import TrustFile, preview_trust
    from ...core.policy.policy import ProjectTrust

    found = preview_trust(places.policy, folder)
    is_json = options_of(context).as_json
    if not is_json:
        print_lines(_preview_lines(found), ascii_only=wants_ascii(options_of(context)))
    is_new = found.trust is not ProjectTrust.TRUSTED
    if is_new and not yes and not _confirm_trust(found, is_json=is_json):
        return USAGE
    if is_new:
        TrustFile(places.policy.trust_file).trust(found.folder, found.sha256)
    said = f"{found.path} is trusted" + ("" if is_new else " already")
    return print_result(context, _trust_record(found), lambda: [said])


def is_terminal() -> bool:
    """Whether somebody sees the question and can answer it."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _confirm_trust(found: TrustPreview, *, is_json: bool) -> bool:
    if is_json or not is_terminal():
        print_error(f"{found.path} was not trusted: not a terminal; pass --yes to confirm")
        return False
    if click.confirm("Trust this file?", err=True):
        return True
    print_error(f"{found.path} was not trusted")
    return False


def _preview_lines(found: TrustPreview) -> list[str]:
    from ...core.transcript.sanitize import sanitize_text

    lines = [
        str(found.path),
        *(f"  | {line}" for line in sanitize_text(found.text).splitlines()),
        "",
    ]
    if found.changes:
        lines.append("Once you trust it:")
        lines += [
            paint(f"  {each.key} = {each.value_text}", "bad") + f"  {each.effect}"
            for each in found.changes
        ]
    else:
        lines.append("Trusting it changes nothing.")
    lines += [
        f"  {each.key} = {each.value_text}  still ignored: {each.why}"
        for each in found.still_ignored
    ]
    return [*lines, ""]


def _trust_record(found: TrustPreview) -> dict[str, object]:
    return {
        "folder": found.folder,
        "file": str(found.path),
        "sha256": found.sha256,
        "trust": "trusted",
        "begins": [
            {"key": each.key, "value": each.value_text, "effect": each.effect}
            for each in found.changes
        ],
        "ignored": [
            {"key": each.key, "value": each.value_text, "why": each.why}
            for each in found.still_ignored
        ],
    }


def _print_trusted(context: click.Context, places: Places) -> int:
    from ...collectors.policy_files import list_trusted

    found = list_trusted(places.policy.trust_file)
    record = [
        {"folder": each.folder, "trusted_at": iso_time(each.at), "state": each.state}
        for each in found
    ]
    lines = [f"{each.state:<8}  {each.folder}" for each in found]
    return print_result(context, record, lambda: lines or ["You trust no project's policy file."])


def _revoke_trust(context: click.Context, places: Places, folder: Path) -> int:
    from ...collectors.policy_files import TrustFile

    real = folder.resolve()
    if not TrustFile(places.policy.trust_file).revoke(str(real)):
        raise RefusedError(f"{real} is not trusted; `ctxtop trust --list` lists what is")
    record = {"folder": str(real), "trust": "untrusted"}
    return print_result(context, record, lambda: [f"{real} is not trusted any more"]) or DONE


@click.command()
@store_options
@click.pass_context
def keys(context: click.Context) -> int:
    """List the keys of the dashboard; `keys.ID` of the policy gives a binding others."""
    from ..keymap import all_bindings, key_rows, read_keymap

    bindings = all_bindings()
    options = options_of(context)
    # As the dashboard reads it: a project's own file has no word in it.
    sources = resolve_places(options.config_dir, options.db, options.policy).policy
    keymap = read_keymap(PolicyFiles(sources).policies.common, bindings)
    rows = key_rows(bindings, keymap.keys)
    record = {
        "keys": [
            {
                "id": row.id,
                "keys": list(row.keys),
                "default_keys": list(row.default_keys),
                "title": row.title,
                "what": row.what,
                "where": list(row.where),
            }
            for row in rows
        ],
        "notices": [
            {"key": each.key, "where": each.where, "what": each.what, "remedy": each.fix}
            for each in keymap.notices
        ],
    }
    return print_result(context, record, lambda: _key_lines(rows, keymap.notices))


def _key_lines(rows: Sequence[KeyRow], notices: Sequence[PolicyNotice]) -> list[str]:
    columns: list[TextColumn[KeyRow]] = [
        Column("id", lambda row: Cell(row.id, "" if row.keys == row.default_keys else "ok")),
        Column("keys", lambda row: " ".join(row.keys), flexible=True),
        Column("what", lambda row: row.what, flexible=True),
        Column("where", lambda row: ", ".join(row.where), flexible=True, priority=1),
    ]
    lines = draw_table(columns, rows)
    return [*lines, *(paint(clean_line(str(notice)), "bad") for notice in notices)]
