"""`ctxtop undo`: what was carried out is taken back, whole or one operation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..places import find_places
from .emit import emit
from .file_errors import say_unchanged
from .options import chosen, common
from .report import LIVE, UNSAFE, USAGE, say

if TYPE_CHECKING:
    from ...core.compaction.receipts import Receipt
    from ...core.compaction.refused import NotAppliedError, Stop
    from ...core.compaction.subject import Subject
    from ..places import Places

UNVERIFIED: Final = 5
"""A check of the written file failed; everything is as it was."""


def exit_code(stop: Stop) -> int:
    """Give the code that a kind of refusal ends a command with (commands.md)."""
    codes = {"nothing": USAGE, "live": LIVE, "unsafe": UNSAFE, "unverified": UNVERIFIED}
    return codes[stop.value]


def say_refused(error: NotAppliedError) -> int:
    """Say every check that said no, one line each, and give the exit code."""
    for each in error.refusals:
        say(f"{each.check}: {each.why}: {each.what_to_do}")
    return exit_code(error.kind)


def state_folder(places: Places) -> Path:
    """Name the folder of copies, receipts and locks."""
    from ...collectors import subjects

    return subjects.state_folder(places.store)


def subject_of(places: Places, session_id: str, transcript: Path, cwd: str | None) -> Subject:
    """Look after a session: its transcript is read, and the client's registry is asked."""
    from ...collectors import subjects

    return subjects.subject_of(places.folder, places.store, session_id, transcript, cwd)


@click.command()
@common
@click.argument("receipt")
@click.option(
    "--op",
    "numbers",
    multiple=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="This operation alone; may be given again. `ctxtop receipts RECEIPT` numbers them.",
)
@click.pass_context
def undo(context: click.Context, *, receipt: str, numbers: tuple[int, ...]) -> int:
    """Take back what a plan did. The start of RECEIPT's id is enough.

    What was written since stays, and a fork is never removed: nothing is lost by it.
    """
    from ...core.compaction.refused import NotAppliedError
    from ...core.compaction.undo import undo as take_back

    options = chosen(context)
    places = find_places(options.config_dir, options.db)
    found = find_receipt(places, receipt)
    if found is None:
        return USAGE
    written = found.new_session_id or found.session_id
    subject = subject_of(places, written, Path(found.target), None)
    try:
        chosen_ones = [number - 1 for number in numbers] or None
        undone = take_back(found.receipt_id, chosen_ones, subject)
    except NotAppliedError as error:
        return say_refused(error)
    except OSError as error:
        return say_unchanged(error, Path(found.target))
    record = {
        "receipt_id": undone.receipt_id,
        "undone": [number + 1 for number in undone.undone],
        "sha256": undone.sha256,
    }
    count = len(undone.undone)
    line = f"took back {count} of {len(found.plan.operations)} operations in {written[:8]}"
    return emit(context, record, lambda: [line, f"go on with: {found.resume_command}"])


def find_receipt(places: Places, start: str) -> Receipt | None:
    """Find the receipt whose id begins so; says so where there is none, or more than one."""
    from ...core.compaction.receipts import Receipts

    found = Receipts(state_folder(places)).find_by_prefix(start)
    if len(found) == 1:
        return found[0]
    some = "no receipt begins" if not found else f"{len(found)} receipts begin"
    say(f"{some} with {start!r}: `ctxtop receipts` lists them")
    return None
