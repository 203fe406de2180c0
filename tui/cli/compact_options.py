"""The options of `ctxtop compact` that say what is wanted."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from ...core.compaction.registered import STRATEGIES
from ...core.summaries.providers.provider import ProviderName
from ...core.summaries.templates import TEMPLATES as NAMED
from ..planning import LAST, TEMPLATES, WHOLE, Asked

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")

_OPTIONS: Final = (
    click.option(
        "--strategy",
        "strategies",
        multiple=True,
        type=click.Choice([*(each.name for each in STRATEGIES), *WHOLE]),
        metavar="NAME",
        help="Only this one; may be given again. summarise, cut, revert and rollover go alone.",
    ),
    click.option("--level", type=click.IntRange(0, 8), help="The most harm.  [default: 4]"),
    click.option(
        "--target",
        type=click.FloatRange(0, 1),
        help="Stop at this share of the effective window.  [default: 0.5, none with --level]",
    ),
    click.option(
        "--keep",
        type=click.IntRange(0),
        help="Newest turns with tools that stay; of a summary, newest messages.  [default: 10]",
    ),
    click.option(
        "--template",
        type=click.Choice([*TEMPLATES, *NAMED]),
        metavar="4|5|8|11",
        help="Sections of a summary.  [default: summary.template of the policy]",
    ),
    click.option(
        "--budget",
        type=click.IntRange(1),
        metavar="TOKENS",
        help="Of a summary.  [default: 8 % of what leaves, 12,000 at the most]",
    ),
    click.option(
        "--provider",
        type=click.Choice([each.value for each in ProviderName]),
        help="Let a model write the summary; its key stands in the environment.  [default: none]",
    ),
    click.option("--model", metavar="NAME", help="The provider's model.  [default: summary.model]"),
    click.option("--keep-turns", type=click.IntRange(1), metavar="N", help="Of cut: newest turns."),
    click.option(
        "--to", metavar="PROMPT", help=f"Of revert: a prompt's line, its uuid's start, or {LAST}."
    ),
    click.option("--force", is_flag=True, help="Also a transcript of more than 200 MB."),
)


def aims(command: Command) -> Command:
    """Add them to a command."""
    return reduce(lambda sofar, option: option(sofar), reversed(_OPTIONS), command)


def asked_of(context: click.Context) -> Asked:
    """Give what was said in them."""
    names = Asked.__struct_fields__
    return msgspec.convert({name: context.params[name] for name in names}, Asked)
