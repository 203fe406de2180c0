"""What fills a context: its tokens by category, and its largest items by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .composition_items import MAX_ITEMS, ContextItem, largest
from .composition_kinds import Category, place_of, tool_place
from .conversation import Piece, PieceKind
from .material import CountedOnce, Material, Part, Source
from .superseded import superseded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .material import Counter

__all__ = ["MAX_ITEMS", "Composition", "ContextItem", "Share", "compose"]

SCALE_LIMIT: Final = 2.0
"""No tokenizer is further from our estimate than this; what is, is something else."""


AROUND_TOOLS: Final = 500
"""Tokens that the API adds where there are tools; the client takes as many off (formats 3.2)."""

AROUND: Final = "around them"


class Share(msgspec.Struct, frozen=True):
    """A category, or a part of one."""

    name: str
    tokens: int
    share: float
    """Of the whole context, 0..1."""
    estimated: bool
    parts: tuple[Share, ...] = ()
    """What it consists of, largest first; their tokens add up to its own."""


class Composition(msgspec.Struct, frozen=True):
    """A context taken apart; the categories' tokens add up to the total, to the token."""

    total_tokens: int
    estimated: bool
    """Nothing was measured since the session began, was compacted or was edited."""
    source: Source
    categories: tuple[Share, ...]
    """Largest first; what nothing explains comes last."""
    largest: tuple[ContextItem, ...]
    unexplained_tokens: int
    """Tokens of the total that belong to nothing that is known."""
    later_tokens: int
    """Estimated tokens of what came after the measured request: not in the total yet."""
    read_bytes: int | None = None
    """Of a transcript that is too large to be read whole only so much of its end was read: what
    stands before it is in `unexplained`. None where all was read."""


class _Leaf(msgspec.Struct, frozen=True):
    part: Part
    place: tuple[str, ...]
    tokens: int
    estimated: bool


def compose(content: Material, counter: Counter, max_items: int = MAX_ITEMS) -> Composition:
    """Take a context apart.

    What was really sent is scaled so that it adds up to what the API measured. What was put
    together from the transcript is only ever scaled down: what is missing of the total is
    shown as unexplained. Where nothing was measured the total is the estimate: the one that is
    given, else what the parts add up to. At most so many of the largest items are named.
    """
    once = CountedOnce(counter)
    leaves = [*_before(content, once), *(_leaf(part, once) for part in content.parts)]
    later = [_leaf(part, once) for part in content.later]
    counted = sum(leaf.tokens for leaf in leaves)
    known = (content.measured_tokens, content.estimated_tokens, counted)
    total = next(each for each in known if each is not None)
    goal = _goal(counted, total, content.source)
    scaled = scale([leaf.tokens for leaf in leaves], goal)
    leaves = [
        _Leaf(leaf.part, leaf.place, tokens, leaf.estimated or tokens != leaf.tokens)
        for leaf, tokens in zip(leaves, scaled, strict=True)
    ]
    unexplained = total - goal
    shares = sorted(_shares(leaves, total), key=lambda each: -each.tokens)
    if unexplained:
        shares.append(_share(Category.UNEXPLAINED, unexplained, total, ()))
    everything = [*leaves, *later]
    return Composition(
        total_tokens=total,
        estimated=content.measured_tokens is None,
        source=content.source,
        categories=tuple(shares),
        largest=largest(
            [(leaf.part, leaf.place, leaf.tokens) for leaf in everything],
            superseded([leaf.part for leaf in everything]),
            max_items,
        ),
        unexplained_tokens=unexplained,
        later_tokens=sum(leaf.tokens for leaf in later),
    )


def scale(counts: Sequence[int], total: int) -> list[int]:
    """Scale counts to a total, in whole numbers that add up to it (largest remainder)."""
    whole = sum(counts)
    if whole == total or whole == 0:
        return list(counts)
    scaled = [divmod(count * total, whole) for count in counts]
    left = total - sum(quotient for quotient, _ in scaled)
    by_remainder = sorted(range(len(counts)), key=lambda place: -scaled[place][1])
    rounded_up = set(by_remainder[:left])
    return [quotient + (place in rounded_up) for place, (quotient, _) in enumerate(scaled)]


def _goal(counted: int, total: int, source: Source) -> int:
    if source is Source.REQUESTS:
        return min(total, round(counted * SCALE_LIMIT))
    return min(total, counted)


def _before(material: Material, counter: Counter) -> list[_Leaf]:
    """Make leaves of what stands before the conversation."""
    if material.overhead_tokens is not None:
        part = Part(Piece(PieceKind.META), tokens=material.overhead_tokens)
        return [_counted(part, (Category.OVERHEAD,), counter)]
    parts: list[tuple[Part, tuple[str, ...]]] = [
        (Part(Piece(PieceKind.META, text)), (Category.SYSTEM_PROMPT,)) for text in material.system
    ]
    parts += [
        (Part(Piece(PieceKind.ATTACHMENT, schema, name)), tool_place(name))
        for name, schema in material.tools
    ]
    if material.tools:
        around = Part(Piece(PieceKind.META), tokens=AROUND_TOOLS)
        parts.append((around, (Category.SYSTEM_TOOLS, AROUND)))
    return [_counted(part, place, counter) for part, place in parts]


def _leaf(part: Part, counter: Counter) -> _Leaf:
    return _counted(part, place_of(part.content), counter)


def _counted(part: Part, place: tuple[str, ...], counter: Counter) -> _Leaf:
    tokens = counter.tokens(part.content) if part.tokens is None else part.tokens
    return _Leaf(part, place, tokens, not part.measured)


def _shares(leaves: Sequence[_Leaf], total: int, depth: int = 0) -> list[Share]:
    named: dict[str, list[_Leaf]] = {}
    for leaf in leaves:
        if len(leaf.place) > depth:
            named.setdefault(leaf.place[depth], []).append(leaf)
    found = [
        _share(name, sum(leaf.tokens for leaf in own), total, own, depth)
        for name, own in named.items()
    ]
    return [share for share in found if share.tokens or share.parts]


def _share(name: str, tokens: int, total: int, leaves: Sequence[_Leaf], depth: int = 0) -> Share:
    parts = sorted(_shares(leaves, total, depth + 1), key=lambda each: -each.tokens)
    rest = tokens - sum(part.tokens for part in parts)
    if parts and rest:
        parts.append(Share("other", rest, rest / total if total else 0.0, estimated=True))
    return Share(
        name=name,
        tokens=tokens,
        share=tokens / total if total else 0.0,
        estimated=not leaves or any(leaf.estimated for leaf in leaves),
        parts=tuple(parts),
    )
