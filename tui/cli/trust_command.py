"""`ctxtop trust`: which projects' policy files may do more than change what ctxtop shows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .columns import paint, put
from .emit import emit
from .options import chosen, common, wants_plain
from .report import DONE, USAGE, RefusedError, say
from .start import resolve
from .times import time_of

if TYPE_CHECKING:
    from ...collectors.trusting import Preview
    from ..places import Places


@click.command()
@common
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
    from ...collectors.trust_file import TrustFileError

    if lists and (revoke or folder):
        raise click.UsageError("--list takes no DIR and no --revoke", context)
    options = chosen(context)
    places = resolve(options.config_dir, options.db, options.policy)
    place = (folder or Path.cwd()).expanduser().absolute()
    try:
        if lists:
            return _list(context, places)
        return _revoke(context, places, place) if revoke else _trust(context, places, place, yes)
    except TrustFileError as error:
        raise RefusedError(str(error)) from error


def _trust(context: click.Context, places: Places, folder: Path, yes: bool) -> int:  # noqa: FBT001 -- the option
    from ...collectors.trust_file import TrustFile
    from ...collectors.trusting import preview
    from ...core.policy.trust import Trust

    found = preview(places.policy, folder)
    is_json = chosen(context).as_json
    if not is_json:
        put(_lines(found), ascii_only=wants_plain(chosen(context)))
    is_new = found.trust is not Trust.TRUSTED
    if is_new and not yes and not _agreed(found, is_json=is_json):
        return USAGE
    if is_new:
        TrustFile(places.policy.trust_file).trust(found.folder, found.sha256)
    said = f"{found.path} is trusted" + ("" if is_new else " already")
    return emit(context, _record(found), lambda: [said])


def is_terminal() -> bool:
    """Whether somebody sees the question and can answer it."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _agreed(found: Preview, *, is_json: bool) -> bool:
    if is_json or not is_terminal():
        say(f"{found.path} was not trusted: not a terminal; pass --yes to confirm")
        return False
    if click.confirm("Trust this file?", err=True):
        return True
    say(f"{found.path} was not trusted")
    return False


def _lines(found: Preview) -> list[str]:
    from ...collectors.clean import clean_text

    lines = [str(found.path), *(f"  | {line}" for line in clean_text(found.text).splitlines()), ""]
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


def _record(found: Preview) -> dict[str, object]:
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


def _list(context: click.Context, places: Places) -> int:
    from ...collectors.trusting import list_trusted

    found = list_trusted(places.policy.trust_file)
    record = [
        {"folder": each.folder, "trusted_at": time_of(each.at), "state": each.state}
        for each in found
    ]
    lines = [f"{each.state:<8}  {each.folder}" for each in found]
    return emit(context, record, lambda: lines or ["You trust no project's policy file."])


def _revoke(context: click.Context, places: Places, folder: Path) -> int:
    from ...collectors.trust_file import TrustFile

    real = folder.resolve()
    if not TrustFile(places.policy.trust_file).revoke(str(real)):
        raise RefusedError(f"{real} is not trusted; `ctxtop trust --list` lists what is")
    record = {"folder": str(real), "trust": "untrusted"}
    return emit(context, record, lambda: [f"{real} is not trusted any more"]) or DONE
