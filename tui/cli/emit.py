"""Printing what a command found, for people or for programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from . import as_json
from .columns import output_encoding, put
from .options import chosen, wants_plain
from .report import DONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import click

    from .as_json import Record


def emit(context: click.Context, record: object, lines: Callable[[], list[str]]) -> int:
    """Print a record as JSON where that was asked for, else the lines."""
    if chosen(context).as_json:
        print(as_json.dumps(record, output_encoding()))
    else:
        put(lines(), ascii_only=wants_plain(chosen(context)))
    return DONE


def emit_parts(
    context: click.Context, parts: Iterable[list[Record]], lines: Callable[[], list[str]]
) -> int:
    """Print the records of all parts as one JSON list where that was asked for, else the lines.

    Only one part at a time is held, and what was printed is the same as from `emit`.
    """
    if not chosen(context).as_json:
        put(lines(), ascii_only=wants_plain(chosen(context)))
        return DONE
    before = "["
    for part in parts:
        if part:
            inner = as_json.dumps(part, output_encoding()).removeprefix("[").removesuffix("\n]")
            sys.stdout.write(f"{before}{inner}")
            before = ","
    print("[]" if before == "[" else "\n]")
    return DONE
