"""What else could be allowed where a plan frees too little: said only where it frees enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from .chain import kept_by
from .plan import Harm
from .protect import protect
from .select import GROW, least_tokens, select
from .target import MOST_HARM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .protect import Protection
    from .select import Aim
    from .view import View

FEW_TURNS: Final = 3
"""Of turns to keep: fewer leave the model no notion of what it is doing."""


def advice(view: View, options: Aim, protection: Protection) -> str:
    """Return what to allow so that a plan frees enough, least harm first.

    Each way is planned for that, so it takes as long as a plan. Raises OSError.
    """
    least = least_tokens(view.tokens, options.window_tokens)
    for said, wider, kept in _ways(options, protection):
        freed = _freed(view, wider, kept)
        if freed >= max(1, least):
            return f"{said}: frees ≈ {freed:,} tokens"
    return GROW


def _ways(options: Aim, protection: Protection) -> Iterator[tuple[str, Aim, Protection]]:
    whole = replace(options, target_tokens=None)
    if options.target_tokens is not None:
        yield "stop later (a smaller --target)", whole, protection
    levels = (
        []
        if options.strategies
        else [each for each in Harm if options.max_level < each < Harm.SUMMARY]
    )
    ways = [
        (
            f"allow level {each.value} (--level {each.value})",
            replace(whole, max_level=each),
            protection,
        )
        for each in levels
        if each is not Harm.FILE_ONLY
    ]
    mild = sum(each <= MOST_HARM for each in levels)
    yield from ways[:mild]
    if protection.min_turns > FEW_TURNS:
        said = f"keep {FEW_TURNS} turns (--keep {FEW_TURNS})"
        yield said, whole, replace(protection, min_turns=FEW_TURNS)
    yield from ways[mild:]


def _freed(view: View, options: Aim, protection: Protection) -> int:
    slots = protect(view.blocks, kept_by(view.entries), protection)
    selection = select(view.with_blocks(slots), options)
    return 0 if selection.refusals else sum(each.tokens_saved for each in selection.operations)
