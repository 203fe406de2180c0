"""Printing what a command found, for people or programs, and the command to type next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import click
from click.core import ParameterSource

from ..command_errors import DONE
from ..command_options import options_of, wants_ascii
from . import json_records
from .json_records import Record
from .text_table import output_encoding, print_lines

_NOT_REPEATED: Final = frozenset(
    {"explain", "is_applied", "in_place", "as_json", "no_scan", "session", "config_dir", "db"}
)
"""Parameters that the next command has otherwise, or that stand before its name too."""


def repeat_command(context: click.Context, *arguments: str) -> str:
    """Write the command with its options as they were given, and other arguments."""
    words = [
        *_place_options(context),
        context.info_name or "",
        *arguments,
        *_given_options(context),
    ]
    return shlex.join(["ctxtop", *words])


def _place_options(context: click.Context) -> Iterator[str]:
    options = options_of(context)
    if options.config_dir is not None:
        yield from ("--config-dir", str(options.config_dir))
    if options.db is not None:
        yield from ("--db", str(options.db))


def _given_options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name in context.params and name not in _NOT_REPEATED:
            value = context.params[name]
            for each in value if isinstance(value, tuple) else (value,):
                yield from (parameter.opts[0], str(each))
    for key, value in options_of(context).policy:
        yield from ("--set", f"{key}={value}")


def print_result(context: click.Context, record: object, lines: Callable[[], list[str]]) -> int:
    """Print a record as JSON where that was asked for, else the lines."""
    if options_of(context).as_json:
        print(json_records.dump_json(record, output_encoding()))
    else:
        print_lines(lines(), ascii_only=wants_ascii(options_of(context)))
    return DONE


def print_result_parts(
    context: click.Context, parts: Iterable[list[Record]], lines: Callable[[], list[str]]
) -> int:
    """Print the records of all parts as one JSON list where that was asked for, else the lines.

    Only one part at a time is held, and what was printed is the same as from `print_result`.
    """
    if not options_of(context).as_json:
        print_lines(lines(), ascii_only=wants_ascii(options_of(context)))
        return DONE
    before = "["
    for part in parts:
        if part:
            inner = (
                json_records.dump_json(part, output_encoding())
                .removeprefix("[")
                .removesuffix("\n]")
            )
            sys.stdout.write(f"{before}{inner}")
            before = ","
    print("[]" if before == "[" else "\n]")
    return DONE
