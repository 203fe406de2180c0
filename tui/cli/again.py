"""The command that a person typed, to be typed again with something more."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from click.core import ParameterSource

from .options import chosen

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

_ONCE: Final = frozenset(
    {"explain", "is_applied", "in_place", "as_json", "no_scan", "session", "config_dir", "db"}
)
"""Parameters that the next command has otherwise, or that stand before its name too."""


def again(context: click.Context, *arguments: str) -> str:
    """Write the command with its options as they were given, and other arguments."""
    words = [*_where(context), context.info_name or "", *arguments, *_options(context)]
    return shlex.join(["ctxtop", *words])


def _where(context: click.Context) -> Iterator[str]:
    options = chosen(context)
    if options.config_dir is not None:
        yield from ("--config-dir", str(options.config_dir))
    if options.db is not None:
        yield from ("--db", str(options.db))


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name in context.params and name not in _ONCE:
            value = context.params[name]
            for each in value if isinstance(value, tuple) else (value,):
                yield from (parameter.opts[0], str(each))
    for key, value in chosen(context).policy:
        yield from ("--set", f"{key}={value}")
