"""`ctxtop receipts`: what was carried out, newest first, or one of them with its operations."""

from __future__ import annotations

import click

from ..places import find_places
from .emit import emit
from .options import chosen, common
from .report import USAGE
from .undo_command import find_receipt, state_folder


@click.command()
@common
@click.argument("receipt", required=False)
@click.option("--check", "is_check", is_flag=True, help="Say of each whether it can be taken back.")
@click.pass_context
def receipts(context: click.Context, *, receipt: str | None, is_check: bool) -> int:
    """List what was carried out, newest first, or show one RECEIPT with its operations.

    The start of its id is enough.
    """
    if receipt is not None and is_check:
        raise click.UsageError("--check is for all: leave the RECEIPT out", context)
    from ...core.compaction.receipts import Receipts
    from . import receipt_lines as lines

    options = chosen(context)
    places = find_places(options.config_dir, options.db)
    state = state_folder(places)
    if is_check:
        from .receipts_check import check

        return check(context, state)
    if receipt is not None:
        one = find_receipt(places, receipt)
        if one is None:
            return USAGE
        record = lines.whole_record_of(one, state)
        return emit(context, record, lambda: lines.whole_lines(one, state))
    found = Receipts(state).all()
    return emit(
        context,
        [lines.record_of(each, state) for each in found],
        lambda: lines.list_lines(found, state) if found else ["no receipts yet"],
    )
