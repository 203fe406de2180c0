"""`ctxtop settings`, `trust`, `keys` and `notify`: the settings, and what they decide."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...collectors.locations.places import Places
from ...collectors.locations.policy_files import PolicyFiles, TrustPreview
from ...core.policy.policy import KeyPermission, PolicyNotice, ProjectTrust, key_permission
from ...core.policy.schema import PRESETS, parse_change
from ...core.policy.unknown_keys import unknown_key_fix
from ...core.policy.value_types import InvalidValueError, PolicyValue
from ...core.transcript.sanitize import one_line, reveal_line
from ...core.transcript.stored_paths import find_folder
from ..base.command_errors import DONE, USAGE, RefusedError, print_error
from ..base.ui_state import policy_keymap
from ..text.tables import Cell, Column, TextColumn
from ..text.whole_text import whole_text
from .command_options import (
    add_alias,
    common_command,
    dry_run_option,
    options_of,
    registry,
    session_option,
    store_command,
    store_options,
    yes_option,
)
from .command_store import read_policy
from .json_records import policy_record, record_of, records_of
from .printing import confirm, draw_table, labeled_lines, paint, print_lines, print_result
from .result_tables import policy_table

if TYPE_CHECKING:
    from ...core.actions.preset_steps import PresetStep
    from ..base.keymap import KeyRow


@registry.group(invoke_without_command=True)
@store_options
@session_option
@click.option(
    "--explain",
    metavar="PRESET",
    type=click.Choice(list(PRESETS)),
    help="Show what a preset does at each step, beside the default.",
)
@click.pass_context
def settings(context: click.Context, *, session: str | None, explain: str | None) -> int:
    """Show every setting and where its value comes from.

    Shows what applies in the current folder, or in a session's.
    """
    if context.invoked_subcommand is not None:
        return DONE
    if explain is not None:
        return _explain_preset(context, explain)
    resolved, notices = read_policy(options_of(context), session)
    keymap = policy_keymap(resolved)
    notices = (*notices, *(keymap.notices if keymap else ()))
    record = policy_record(resolved, notices)
    return print_result(context, record, lambda: policy_table(resolved, notices))


add_alias("policy", settings)


def _explain_preset(context: click.Context, preset: str) -> int:
    from ...core.actions.preset_steps import preset_steps

    steps = preset_steps(preset)
    record = {"preset": preset, "steps": records_of(steps, "step text default=default_text")}
    return print_result(context, record, lambda: list(_step_lines(steps)))


def _step_lines(steps: Iterable[PresetStep]) -> Iterator[str]:
    for each in steps:
        yield from labeled_lines(each.step, each.text)
        if each.text != each.default_text:
            yield from labeled_lines("  default", each.default_text)


_project_option = click.option(
    "--project", is_flag=True, help="Change .ctxtop.toml in the current folder instead."
)


@common_command("set", settings)
@_project_option
@dry_run_option
@click.argument("key")
@click.argument("value")
def set_policy_value(
    context: click.Context, *, key: str, value: str, project: bool, dry_run: bool
) -> int:
    """Set KEY to VALUE in your config.toml; comments and order are kept."""
    from ..entities.policy_table import value_in_force

    folder = str(Path.cwd()) if project else None
    try:
        current = value_in_force(options_of(context).places.policy, folder, key)
        parsed = parse_change(key, value.strip(), current)
    except KeyError:
        raise RefusedError(f"unknown key {key!r}: {unknown_key_fix(key)}") from None
    except InvalidValueError as error:
        raise RefusedError(f"{key}: {value!r} is not valid: use {error}") from error
    permission = key_permission(key)
    if project and permission is KeyPermission.PERSON:
        raise RefusedError(f"{key} only works in your own file: omit --project")
    code = _change_policy(context, key, parsed, is_project=project, is_dry=dry_run)
    if project and permission is KeyPermission.TRUSTED:
        resolved, _ = read_policy(options_of(context), None)
        if resolved.trust is not ProjectTrust.TRUSTED:
            print_error(
                f"{key} has no effect until you run `ctxtop trust`, which shows the file and asks"
            )
    return code


@common_command("unset", settings)
@_project_option
@dry_run_option
@click.argument("key")
def unset_policy_value(context: click.Context, *, key: str, project: bool, dry_run: bool) -> int:
    """Remove KEY from your config.toml.

    The preset or the default applies again.
    """
    return _change_policy(context, key, None, is_project=project, is_dry=dry_run)


def _change_policy(
    context: click.Context, key: str, value: PolicyValue | None, *, is_project: bool, is_dry: bool
) -> int:
    """Set a key in the user's or the project's file, or take it out where `value` is None."""
    from ...collectors import policy_editing
    from ..entities import policy_table

    places = options_of(context).places
    *_, file = policy_table.editable_files(places.policy, str(Path.cwd()) if is_project else None)
    change = policy_table.try_change(
        lambda: policy_editing.plan_value_change(file.path, file.roots, key, value)
    )
    if isinstance(change, policy_table.PolicyChangeRefused):
        raise RefusedError(change)
    is_written = not (is_dry or change.is_empty)
    if is_written:
        history = policy_editing.PolicyChangeHistory(places.store)
        refused = policy_table.try_change(
            lambda: policy_table.write_policy_change(places.policy, change, history.apply)
        )
        if isinstance(refused, policy_table.PolicyChangeRefused):
            raise RefusedError(refused)
    diff = policy_editing.diff_policy_change(change)
    record = {"file": str(file.path), "key": key, "written": is_written, "difference": diff}
    suffix = "" if is_written else (": nothing is written" if is_dry else " already has this value")
    return print_result(context, record, lambda: [f"{file.path}{suffix}", *diff])


@common_command()
@click.option("--list", "lists", is_flag=True, help="List the projects that you trust.")
@click.option("--revoke", is_flag=True, help="Stop trusting DIR.")
@yes_option
@click.argument(
    "folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path, file_okay=False)
)
def trust(
    context: click.Context, *, folder: Path | None, lists: bool, revoke: bool, yes: bool
) -> int:
    """Trust a project's .ctxtop.toml.

    A trusted file may change what ctxtop does, not only what it shows.
    Shows the file of DIR (default: the current folder) and what it would change, then asks.
    A file that changes must be trusted again.
    """
    from ...collectors.locations.policy_files import TrustFileError

    if lists and (revoke or folder):
        raise click.UsageError("--list takes no DIR and no --revoke", context)
    places = options_of(context).places
    place = (folder or Path.cwd()).expanduser().absolute()
    place = Path(find_folder(str(place)) or place)  # as ctxtop's own advice names it
    try:
        if lists:
            return _print_trusted(context, places)
        if revoke:
            return _revoke_trust(context, places, place)
        return _trust_folder(context, places, place, is_confirmed=yes)
    except TrustFileError as error:
        raise RefusedError(str(error)) from error


def _trust_folder(
    context: click.Context, places: Places, folder: Path, *, is_confirmed: bool
) -> int:
    from ...collectors.locations.policy_files import TrustFile, preview_trust

    preview, options = preview_trust(places.policy, folder), options_of(context)
    if not options.as_json:
        print_lines(_preview_lines(preview), ascii_only=options.ascii_only)
    is_new = preview.trust is not ProjectTrust.TRUSTED
    if is_new and not is_confirmed:
        refused, hint = f"{preview.path} was not trusted", "not a terminal; pass --yes to confirm"
        if not confirm(context, "Trust this file?", refused=refused, hint=hint):
            return USAGE
    if is_new:
        TrustFile(places.policy.trust_file).trust(preview.folder, preview.sha256)
    record = {
        "folder": preview.folder,
        "file": str(preview.path),
        "sha256": preview.sha256,
        "trust": "trusted",
        "begins": records_of(preview.changes, "key value=value_text effect"),
        "ignored": records_of(preview.still_ignored, "key value=value_text why"),
        "invalid": records_of(preview.notices, "key what fix"),
    }
    result = f"{preview.path} is trusted" + ("" if is_new else " already")
    return print_result(context, record, lambda: [result])


def _preview_lines(preview: TrustPreview) -> list[str]:
    changes = [
        paint(f"  {each.key} = {reveal_line(each.value_text)}", "bad") + f"  {each.effect}"
        for each in preview.changes
    ]
    return [
        reveal_line(str(preview.path)),
        *(f"  | {line}" for line in whole_text(preview.text).removesuffix("\n").split("\n")),
        "",
        "Once you trust it:" if changes else "Trusting it changes nothing.",
        *changes,
        *(
            f"  {each.key} = {reveal_line(each.value_text)}  still ignored: {each.why}"
            for each in preview.still_ignored
        ),
        *(
            paint(f"  {reveal_line(each.key)}: {reveal_line(each.what)}", "warning")
            + f"; {reveal_line(each.fix)}"
            for each in preview.notices
        ),
        "",
    ]


def _print_trusted(context: click.Context, places: Places) -> int:
    from ...collectors.locations.policy_files import list_trusted

    folders = list_trusted(places.policy.trust_file)
    lines = [f"{each.state:<8}  {each.folder}" for each in folders]
    records = records_of(folders, "folder trusted_at=at state")
    return print_result(
        context, records, lambda: lines, "You have not trusted any project's settings file."
    )


def _revoke_trust(context: click.Context, places: Places, folder: Path) -> int:
    from ...collectors.locations.policy_files import TrustFile

    real = folder.resolve()
    if not TrustFile(places.policy.trust_file).revoke(str(real)):
        raise RefusedError(f"{real} is not trusted; `ctxtop trust --list` lists what is")
    record = {"folder": str(real), "trust": "untrusted"}
    return print_result(context, record, lambda: [f"{real} is no longer trusted"])


@store_command()
def keys(context: click.Context) -> int:
    """List the dashboard's keys; set `keys.ID` to change one."""
    from ..base.keymap import all_bindings, key_rows, read_keymap

    bindings = all_bindings()
    # As the dashboard reads it: a project's file cannot change keys.
    policies = PolicyFiles(options_of(context).places.policy).policies
    keymap = read_keymap(policies.common, bindings)
    rows = key_rows(bindings, keymap.keys)
    record = {
        "keys": records_of(rows, "id keys default_keys title what where"),
        "notices": [record_of(each, "key where what remedy=fix") for each in keymap.notices],
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
    return [*lines, *(paint(one_line(str(notice)), "bad") for notice in notices)]


@common_command()
@click.option("--test", is_flag=True, help="Send a test notification.")
def notify(context: click.Context, *, test: bool) -> int:
    """Show how ctxtop notifies you (settings notify.*)."""
    from ..app_state import notifications

    policy, _ = read_policy(options_of(context), None)
    chosen = notifications.notification_settings(policy)
    environ = notifications.terminal_environment()
    channel = notifications.choose_channel(chosen.desktop, environ)
    hint = notifications.channel_hint(channel, environ)
    if test:
        notice = notifications.test_notification(time.time_ns() // 1_000_000)
        desktop = notifications.desktop_notification(notice, channel, environ)
        if isinstance(desktop, tuple):
            if failure := notifications.run_program(desktop):
                raise RefusedError(failure)
        elif sys.stderr.isatty():
            bell = "\a" if chosen.bell else ""
            # Not to stdout, which a program may read.
            print(bell + (desktop or ""), end="", file=sys.stderr, flush=True)
    record = {
        "toast": chosen.toast,
        "bell": chosen.bell,
        "desktop": channel,
        "condition": hint or None,
        "quiet": str(chosen.quiet_hours) if chosen.quiet_hours else None,
        "tested": test,
    }
    return print_result(
        context, record, lambda: [notifications.channels_text(chosen, channel, hint)]
    )
