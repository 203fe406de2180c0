"""`ctxtop log`: what the collectors did and what they set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from .columns import Cell, Column, draw, one_line, terminal_width
from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .times import time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..happenings import Happening
    from .as_json import Record

LEVELS: Final = ("note", "warning", "trouble")
"""From what matters least to what matters most."""

_COLOURS: Final = ("", "warning", "bad")


@click.command()
@reading
@click.option("--level", type=click.Choice(LEVELS), default=LEVELS[0], help="This and worse.")
@click.option("--search", default="", metavar="WORDS", help="Entries with all these words.")
@click.pass_context
def log(context: click.Context, *, level: str, search: str) -> int:
    """List what happened: levels, compactions, refusals, recoveries, changes, bad lines.

    Newest first.
    """
    from ..log_rows import Least, select
    from ..past_happenings import read_past

    with open_reading(chosen(context)) as found:
        past = read_past(found.db, found.places.store)
        least = list(Least)[LEVELS.index(level)]
        entries = select(past, search, least)[::-1]
        return emit(
            context,
            [record(each) for each in entries],
            lambda: _table(entries) if entries else ["nothing like that has happened"],
        )


def record(entry: Happening) -> Record:
    """One object of `ctxtop log`."""
    return {
        "at": time_of(entry.at),
        "level": LEVELS[entry.weight],
        "source": entry.source,
        "where": entry.where,
        "what": entry.text,
        "detail": entry.detail or None,
        "session_id": entry.session_id,
    }


def _table(entries: Sequence[Happening]) -> list[str]:
    columns = [
        Column("at", priority=1),
        Column("level"),
        Column("source", priority=2),
        Column("where", flexible=True),
        Column("what", flexible=True),
    ]
    return draw(
        columns,
        (
            [
                Cell(time_of(each.at) or "", "quiet"),
                Cell(LEVELS[each.weight], _COLOURS[each.weight]),
                each.source,
                one_line(each.where),
                one_line(each.text),
            ]
            for each in entries
        ),
        terminal_width(),
    )
