"""Printing what a command found, for people or for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import as_json
from .columns import output_encoding, put
from .options import chosen, wants_plain
from .report import DONE

if TYPE_CHECKING:
    from collections.abc import Callable

    import click


def emit(context: click.Context, record: object, lines: Callable[[], list[str]]) -> int:
    """Print a record as JSON where that was asked for, else the lines."""
    if chosen(context).as_json:
        print(as_json.dumps(record, output_encoding()))
    else:
        put(lines(), plainly=wants_plain(chosen(context)))
    return DONE
