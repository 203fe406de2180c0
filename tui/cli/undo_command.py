"""`ctxtop undo` and `ctxtop receipts`: what was carried out, and taking it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..formats import tokens
from ..places import find_places
from .emit import emit
from .options import chosen, common
from .report import FAILED, LIVE, UNSAFE, USAGE, say
from .times import time_of

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
    return exit_code(error.stop)


def state_folder(places: Places) -> Path:
    """Name the folder of copies, receipts and locks: beside the store, outside of the client's."""
    return places.store.with_name(f"{places.store.name}.compaction")


def subject_of(places: Places, session_id: str, transcript: Path, cwd: str | None) -> Subject:
    """Look after a session: its transcript is read, and the client's registry is asked."""
    from ...collectors.registry import read_registry
    from ...collectors.transcripts.conversation import read_conversation
    from ...core.compaction.subject import Subject

    def held_by(asked: str) -> str | None:
        live = (each for each in read_registry(places.folder) if each.session_id == asked.lower())
        return next((f"process {each.pid}" for each in live), None)

    return Subject(
        session_id=session_id,
        transcript=transcript,
        cwd=cwd,
        state=state_folder(places),
        read=read_conversation,
        held_by=held_by,
    )


@click.command()
@common
@click.argument("receipt")
@click.option(
    "--op", type=click.IntRange(min=0), help="This operation alone; `ctxtop receipts` numbers them."
)
@click.pass_context
def undo(context: click.Context, *, receipt: str, op: int | None) -> int:
    """Take back what a plan did. The start of RECEIPT's id is enough.

    What was written since stays.
    """
    from ...core.compaction.receipts import Receipts
    from ...core.compaction.refused import NotAppliedError
    from ...core.compaction.undo import undo as take_back

    options = chosen(context)
    places = find_places(options.config_dir, options.db)
    found = Receipts(state_folder(places)).find(receipt)
    if len(found) != 1:
        some = "no receipt begins" if not found else f"{len(found)} receipts begin"
        say(f"{some} with {receipt!r}: `ctxtop receipts` lists them")
        return USAGE
    written = found[0].new_session_id or found[0].session_id
    subject = subject_of(places, written, Path(found[0].target), None)
    try:
        undone = take_back(found[0].receipt_id, op, subject)
    except NotAppliedError as error:
        return say_refused(error)
    except OSError as error:
        say(f"{error.filename or found[0].target}: {error.strerror}: nothing was changed")
        return FAILED
    record = {
        "receipt_id": undone.receipt_id,
        "undone": list(undone.undone),
        "sha256": undone.sha256,
    }
    count = len(undone.undone)
    line = f"took back {count} of {len(found[0].plan.operations)} operations in {written[:8]}"
    return emit(context, record, lambda: [line])


@click.command()
@common
@click.option("--check", is_flag=True, help="Say of each whether it can be taken back.")
@click.pass_context
def receipts(context: click.Context, *, check: bool) -> int:
    """List what was carried out, newest first, with how a session goes on."""
    from ...core.compaction.receipts import Receipts

    options = chosen(context)
    places = find_places(options.config_dir, options.db)
    kept = Receipts(state_folder(places))
    found = kept.all()
    if check:
        return _check(context, places, found, kept.unreadable())
    return emit(
        context,
        [as_record(each) for each in found],
        lambda: [line for each in found for line in as_lines(each)] or ["no receipts yet"],
    )


def _check(
    context: click.Context, places: Places, found: list[Receipt], unreadable: list[Path]
) -> int:
    """Take every receipt back into nowhere; 1 where one of them could not be."""
    checked: list[dict[str, Any]] = [
        {"receipt_id": path.stem, "state": None, "can_be_undone": False, "check": "unreadable",
         "why": f"{path} or its plan is damaged", "what_to_do": "put it back from a copy"}
        for path in unreadable
    ]  # fmt: skip
    checked += [_checked(each, state_folder(places)) for each in found]
    # Of these nothing is left to take back.
    over = {None, "undone", "gone"}
    bad = [each for each in checked if each["check"] not in over]

    def lines() -> list[str]:
        said = [
            f"{each['receipt_id']}  "
            + (f"{each['check']}: {each['why']}: {each['what_to_do']}" if each["check"] else "ok")
            for each in checked
        ]
        return said or ["no receipts yet"]

    return emit(context, checked, lines) or (FAILED if bad else 0)


def _checked(receipt: Receipt, state: Path) -> dict[str, Any]:
    from ...core.compaction.plan import Refusal
    from ...core.compaction.undo import obstacle

    refusal = None
    try:
        error = obstacle(receipt, state)
        refusal = error.refusals[0] if error else None
    except OSError as error:
        why = f"{error.filename or receipt.target}: {error.strerror}"
        refusal = Refusal("file", why, "make it readable again")
    return {
        "receipt_id": receipt.receipt_id,
        "state": receipt.state.value,
        "can_be_undone": refusal is None,
        "check": refusal and refusal.check,
        "why": refusal and refusal.why,
        "what_to_do": refusal and refusal.what_to_do,
    }


def as_record(receipt: Receipt) -> dict[str, Any]:
    """Say a receipt for programs (commands.md)."""
    from ...core.compaction.receipts import as_record as record_of

    return record_of(receipt) | {"at": time_of(receipt.at)}


def as_lines(receipt: Receipt) -> list[str]:
    """Say a receipt for people."""
    plan = receipt.plan
    sizes = f"{tokens(plan.before_tokens)} → {tokens(plan.after_tokens)}"
    session = receipt.session_id[:8]
    if receipt.new_session_id:
        session = f"{session} → {receipt.new_session_id[:8]}"
    what = f"{len(plan.operations)} operations, {sizes}"
    head = f"{receipt.receipt_id}  {time_of(receipt.at)}  {receipt.mode.value}  {session}"
    return [
        f"{head}  {what}  {receipt.state.value}",
        f"          {receipt.resume_command}",
    ]
