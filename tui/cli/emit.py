"""What a command found: as JSON for programs, as lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .as_json import dumps
from .columns import output_encoding, put
from .options import chosen
from .report import DONE

if TYPE_CHECKING:
    from collections.abc import Callable

    import click


def emit(context: click.Context, record: object, lines: Callable[[], list[str]]) -> int:
    """Print what was asked for in the form that was asked for."""
    if chosen(context).as_json:
        print(dumps(record, output_encoding()))
    else:
        put(lines())
    return DONE
