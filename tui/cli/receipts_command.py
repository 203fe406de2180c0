"""`ctxtop receipts`: what was carried out, newest first, or one of them with its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..places import find_places
from .emit import emit
from .options import chosen, common
from .report import FAILED, USAGE, say
from .undo_command import find_receipt, state_folder

if TYPE_CHECKING:
    from ..places import Places


@click.command()
@common
@click.argument("receipt", required=False)
@click.option("--check", "is_check", is_flag=True, help="Say of each whether it can be taken back.")
@click.option("--all", "is_all", is_flag=True, help="Also what was asked, by itself, or installed.")
@click.pass_context
def receipts(context: click.Context, *, receipt: str | None, is_check: bool, is_all: bool) -> int:
    """List what was carried out, newest first, or show one RECEIPT with its operations.

    The start of its id is enough.
    """
    if receipt is not None and (is_check or is_all):
        option = "--check" if is_check else "--all"
        raise click.UsageError(f"{option} is for all: leave the RECEIPT out", context)
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
    if is_all:
        return _list_all(context, places)
    found = Receipts(state).all()
    return emit(
        context,
        [lines.record_of(each, state) for each in found],
        lambda: lines.list_lines(found, state) if found else ["no receipts yet"],
    )


def _list_all(context: click.Context, places: Places) -> int:
    """List what the dashboard's page of receipts does."""
    from contextlib import closing

    from ...core.store.database import StoreError, open_reader
    from ..actions import read_actions
    from . import actions_lines

    try:
        with closing(open_reader(places.store)) as db:
            found = read_actions(db, places.store)
    except StoreError as error:
        say(str(error))
        return FAILED
    return emit(
        context,
        [actions_lines.record_of(each) for each in found],
        lambda: actions_lines.table(found),
    )
