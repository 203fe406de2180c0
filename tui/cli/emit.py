"""What a command prints: its record for programs, or its lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import as_json
from .columns import output_encoding, put
from .options import chosen
from .report import DONE

if TYPE_CHECKING:
    from collections.abc import Callable

    import click


def emit(context: click.Context, record: object, lines: Callable[[], list[str]]) -> int:
    """Print in the form that was chosen."""
    if chosen(context).as_json:
        print(as_json.dumps(record, output_encoding()))
    else:
        put(lines())
    return DONE
