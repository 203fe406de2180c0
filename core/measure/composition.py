"""What fills a context: its tokens by category, and its largest items by name."""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from ..transcript.conversation import MessagePart, PartKind, decode_tool_input
from .context_parts import (
    CachedPartCounter,
    CompositionSource,
    ContextContent,
    ContextPart,
    PartCounter,
    find_superseded,
)


class ContextCategory(StrEnum):
    """What fills a context."""

    SYSTEM_PROMPT = "system prompt"
    SYSTEM_TOOLS = "system tools"
    MCP_TOOLS = "MCP tools"
    OVERHEAD = "system prompt and tools"  # both, where a transcript tells no more than their size
    MCP_INSTRUCTIONS = "MCP instructions"
    MEMORY = "memory files"
    SKILLS = "skills"
    AGENT_LISTINGS = "agent listings"
    ATTACHMENTS = "attachments"
    HOOKS = "hook additions"
    SUMMARIES = "summaries"
    USER_TEXT = "user text"
    ASSISTANT_TEXT = "assistant text"
    THINKING = "thinking"
    TOOL_INPUTS = "tool inputs"
    TOOL_RESULTS = "tool results"
    AGENT_RETURNS = "agent returns"
    UNEXPLAINED = "unexplained"


MCP_PREFIX: Final = "mcp__"  # how the tools of MCP servers are named (claude-code-formats 2.4)
_ATTACHMENT_CATEGORIES: Final = {
    "instructions": ContextCategory.MEMORY,
    "nested_memory": ContextCategory.MEMORY,
    "skill_listing": ContextCategory.SKILLS,
    "invoked_skills": ContextCategory.SKILLS,
    "dynamic_skill": ContextCategory.SKILLS,
    "agent_listing_delta": ContextCategory.AGENT_LISTINGS,
    "mcp_instructions_delta": ContextCategory.MCP_INSTRUCTIONS,
}

_PART_CATEGORIES: Final = {
    PartKind.PROMPT: ContextCategory.USER_TEXT,
    PartKind.META: ContextCategory.USER_TEXT,
    PartKind.TEXT: ContextCategory.ASSISTANT_TEXT,
    PartKind.THINKING: ContextCategory.THINKING,
    PartKind.TOOL_INPUT: ContextCategory.TOOL_INPUTS,
    PartKind.TOOL_RESULT: ContextCategory.TOOL_RESULTS,
    PartKind.AGENT_RETURN: ContextCategory.AGENT_RETURNS,
    PartKind.SUMMARY: ContextCategory.SUMMARIES,
}

_SKILL_BODY: Final = re.compile(r"Base directory for this skill: \S*?([\w.:@-]+)\s*$", re.MULTILINE)
"""How the body of a skill begins when it is called (client 2.1.205 and later)."""

_HOOK_FEEDBACK: Final = re.compile(r"\w+ hook feedback:|<user-prompt-submit-hook>")

LISTING: Final = "listing"


def category_path(part: MessagePart) -> tuple[str, ...]:
    """Name the category of a piece, then what it belongs to within it, from large to small."""
    if part.kind is PartKind.ATTACHMENT:
        return _attachment_path(part)
    category = _PART_CATEGORIES[part.kind]
    if part.kind is PartKind.META:
        return _meta_path(part)
    if part.kind is PartKind.TOOL_INPUT:
        return (category, part.name)
    if part.kind is PartKind.TOOL_RESULT:
        return _path_below(category, part.name, part.path)
    return (category,)


def _path_below(category: ContextCategory, name: str, path: str | None) -> tuple[str, ...]:
    return (category, name, path) if path else (category, name)


def tool_category_path(name: str) -> tuple[str, ...]:
    """Name the category of a tool's description; of an MCP server's its server, then itself."""
    if not name.startswith(MCP_PREFIX):
        return (ContextCategory.SYSTEM_TOOLS, name)
    server, _, tool = name.removeprefix(MCP_PREFIX).partition("__")
    return (ContextCategory.MCP_TOOLS, server, tool or server)


def _attachment_path(piece: MessagePart) -> tuple[str, ...]:
    if piece.name.startswith(("hook_", "async_hook_")):
        return (ContextCategory.HOOKS, piece.name)
    category = _ATTACHMENT_CATEGORIES.get(piece.name)
    if category is None:
        return _path_below(ContextCategory.ATTACHMENTS, piece.name or "reminder", piece.path)
    if category is ContextCategory.MEMORY:
        return (category, piece.path or "around them")
    if category is ContextCategory.SKILLS:
        return (category, LISTING if piece.name == "skill_listing" else piece.name)
    return (category,)


def _meta_path(piece: MessagePart) -> tuple[str, ...]:
    skill = _SKILL_BODY.match(piece.text)
    if skill:
        return (ContextCategory.SKILLS, skill[1])
    if _HOOK_FEEDBACK.match(piece.text):
        return (ContextCategory.HOOKS, "feedback")
    return (ContextCategory.USER_TEXT, "said by the client")


MAX_ITEMS: Final = 20
"""What a person looks through; they hold most of a context (compaction.md 1.4)."""

MAX_ITEM_NAME_CHARS: Final = 120  # of an item's name: a command may be a whole script
_DESCRIPTIVE_FIELDS: Final = (
    "file_path",
    "notebook_path",
    "path",
    "command",
    "pattern",
    "url",
    "query",
    "description",
    "skill",
    "prompt",
)
"""Fields of a call that say what it is about, the most telling first."""


_NOTIFICATION_SUMMARY: Final = re.compile(r"<summary>\s*(.{1,200}?)\s*</summary>", re.DOTALL)
"""What a notification of an agent's end says it was about (claude-code-live, Agents)."""

_TEXT_KINDS: Final = frozenset(
    {PartKind.PROMPT, PartKind.TEXT, PartKind.SUMMARY, PartKind.META, PartKind.AGENT_RETURN}
)
"""Kinds that are known by how their text begins."""


class ContextItem(msgspec.Struct, frozen=True):
    """One piece of a context."""

    kind: str  # its category
    name: str  # its name: a tool and what it was asked, a file, or how a text begins. Not cleaned.
    tokens: int
    line: int | None  # of the transcript, from 1; None for what no line of the conversation holds
    superseded: str | None  # what overtook it, and at which line


def largest_items(
    placed: Sequence[tuple[ContextPart, tuple[str, ...], int]],
    superseded: Mapping[int, str],
    max_items: int = MAX_ITEMS,
) -> tuple[ContextItem, ...]:
    """Choose the largest; `placed` has each part, its category with what is below, its tokens."""
    asked = {
        part.content.tool_use_id: part.content
        for part, _, _ in placed
        if part.content.kind is PartKind.TOOL_INPUT and part.content.tool_use_id
    }
    chosen = heapq.nlargest(max_items, enumerate(placed), key=lambda each: each[1][2])
    found: list[ContextItem] = []
    for number, (part, place, tokens) in chosen:
        piece = part.content
        call = asked.get(piece.tool_use_id) if piece.tool_use_id else None
        what = tool_call_name(call) if call else _shorten(_item_name(piece, place))
        found.append(
            ContextItem(place[0], what or place[0], tokens, part.line, superseded.get(number))
        )
    return tuple(found)


def tool_call_name(call: MessagePart) -> str:
    """Name a tool's call by what it is about. Not cleaned."""
    return _shorten(f"{call.name} {describe_input(call.text)}")


def _shorten(text: str) -> str:
    return " ".join(text[: MAX_ITEM_NAME_CHARS * 2].split())[:MAX_ITEM_NAME_CHARS]


def _item_name(piece: MessagePart, place: tuple[str, ...]) -> str:
    if piece.kind is PartKind.AGENT_RETURN:
        told = _NOTIFICATION_SUMMARY.search(piece.text)
        if told:
            return told[1]
    if piece.kind in _TEXT_KINDS and piece.text:
        return piece.text
    return " ".join(place[1:]) or piece.text


def describe_input(text: str) -> str:
    """Return the descriptive field of a call's JSON input, else the input as it is."""
    given = decode_tool_input(text)
    if given is None:
        return text
    named = (given[name] for name in _DESCRIPTIVE_FIELDS if isinstance(given.get(name), str))
    return next(named, text)


__all__ = ["MAX_ITEMS", "CategoryShare", "Composition", "ContextItem", "break_down_context"]

SCALE_LIMIT: Final = 2.0
"""No tokenizer is further from our estimate than this; what is, is something else."""


TOOLS_OVERHEAD_TOKENS: Final = 500
"""Tokens that the API adds where there are tools; the client takes as many off (formats 3.2)."""

OVERHEAD_LABEL: Final = "around them"


class CategoryShare(msgspec.Struct, frozen=True):
    """A category, or a part of one."""

    name: str
    tokens: int
    share: float  # of the whole context, 0..1
    estimated: bool
    parts: tuple[CategoryShare, ...] = ()
    """What it consists of, largest first; their tokens add up to its own."""


class Composition(msgspec.Struct, frozen=True):
    """A context taken apart; the categories' tokens add up to the total, to the token."""

    total_tokens: int
    estimated: bool  # nothing was measured since the session began, was compacted or was edited
    source: CompositionSource
    categories: tuple[CategoryShare, ...]  # largest first; what nothing explains comes last
    largest: tuple[ContextItem, ...]
    unexplained_tokens: int  # tokens of the total that belong to nothing that is known
    later_tokens: int
    """Estimated tokens of what came after the measured request: not in the total yet."""
    read_bytes: int | None = None
    """Of a transcript that is too large to be read whole only so much of its end was read: what
    stands before it is in `unexplained`. None where all was read."""


class _Leaf(msgspec.Struct, frozen=True):
    part: ContextPart
    place: tuple[str, ...]
    tokens: int
    estimated: bool


def break_down_context(
    content: ContextContent, counter: PartCounter, max_items: int = MAX_ITEMS
) -> Composition:
    """Break a context down by category.

    The parts of a real request are scaled so that they add up to what the API measured. Parts
    reconstructed from the transcript are only ever scaled down: what is missing from the total
    is shown as unexplained. If nothing was measured, the total is the content's own estimate,
    else the sum of the parts. At most `max_items` of the largest items are named.
    """
    once = CachedPartCounter(counter)
    leaves = [*_overhead_leaves(content, once), *(_leaf(part, once) for part in content.parts)]
    later = [_leaf(part, once) for part in content.later]
    counted = sum(leaf.tokens for leaf in leaves)
    known = (content.measured_tokens, content.estimated_tokens, counted)
    total = next(each for each in known if each is not None)
    goal = _explained_tokens(counted, total, content.source)
    scaled = scale_to_total([leaf.tokens for leaf in leaves], goal)
    leaves = [
        _Leaf(leaf.part, leaf.place, tokens, leaf.estimated or tokens != leaf.tokens)
        for leaf, tokens in zip(leaves, scaled, strict=True)
    ]
    unexplained = total - goal
    shares = sorted(_shares(leaves, total), key=lambda each: -each.tokens)
    if unexplained:
        shares.append(_make_share(ContextCategory.UNEXPLAINED, unexplained, total, ()))
    everything = [*leaves, *later]
    return Composition(
        total_tokens=total,
        estimated=content.measured_tokens is None,
        source=content.source,
        categories=tuple(shares),
        largest=largest_items(
            [(leaf.part, leaf.place, leaf.tokens) for leaf in everything],
            find_superseded([leaf.part for leaf in everything]),
            max_items,
        ),
        unexplained_tokens=unexplained,
        later_tokens=sum(leaf.tokens for leaf in later),
    )


def scale_to_total(counts: Sequence[int], total: int) -> list[int]:
    """Scale counts to a total, in whole numbers that add up to it (largest remainder)."""
    whole = sum(counts)
    if whole == total or whole == 0:
        return list(counts)
    scaled = [divmod(count * total, whole) for count in counts]
    left = total - sum(quotient for quotient, _ in scaled)
    by_remainder = sorted(range(len(counts)), key=lambda place: -scaled[place][1])
    rounded_up = set(by_remainder[:left])
    return [quotient + (place in rounded_up) for place, (quotient, _) in enumerate(scaled)]


def _explained_tokens(counted: int, total: int, source: CompositionSource) -> int:
    if source is CompositionSource.REQUESTS:
        return min(total, round(counted * SCALE_LIMIT))
    return min(total, counted)


def _overhead_leaves(material: ContextContent, counter: PartCounter) -> list[_Leaf]:
    """Make leaves of what stands before the conversation."""
    if material.overhead_tokens is not None:
        part = ContextPart(MessagePart(PartKind.META), tokens=material.overhead_tokens)
        return [_count_leaf(part, (ContextCategory.OVERHEAD,), counter)]
    parts: list[tuple[ContextPart, tuple[str, ...]]] = [
        (ContextPart(MessagePart(PartKind.META, text)), (ContextCategory.SYSTEM_PROMPT,))
        for text in material.system
    ]
    parts += [
        (ContextPart(MessagePart(PartKind.ATTACHMENT, schema, name)), tool_category_path(name))
        for name, schema in material.tools
    ]
    if material.tools:
        around = ContextPart(MessagePart(PartKind.META), tokens=TOOLS_OVERHEAD_TOKENS)
        parts.append((around, (ContextCategory.SYSTEM_TOOLS, OVERHEAD_LABEL)))
    return [_count_leaf(part, place, counter) for part, place in parts]


def _leaf(part: ContextPart, counter: PartCounter) -> _Leaf:
    return _count_leaf(part, category_path(part.content), counter)


def _count_leaf(part: ContextPart, place: tuple[str, ...], counter: PartCounter) -> _Leaf:
    tokens = counter.tokens(part.content) if part.tokens is None else part.tokens
    return _Leaf(part, place, tokens, not part.measured)


def _shares(leaves: Sequence[_Leaf], total: int, depth: int = 0) -> list[CategoryShare]:
    named: dict[str, list[_Leaf]] = {}
    for leaf in leaves:
        if len(leaf.place) > depth:
            named.setdefault(leaf.place[depth], []).append(leaf)
    found = [
        _make_share(name, sum(leaf.tokens for leaf in own), total, own, depth)
        for name, own in named.items()
    ]
    return [share for share in found if share.tokens or share.parts]


def _make_share(
    name: str, tokens: int, total: int, leaves: Sequence[_Leaf], depth: int = 0
) -> CategoryShare:
    parts = sorted(_shares(leaves, total, depth + 1), key=lambda each: -each.tokens)
    rest = tokens - sum(part.tokens for part in parts)
    if parts and rest:
        parts.append(CategoryShare("other", rest, rest / total if total else 0.0, estimated=True))
    return CategoryShare(
        name=name,
        tokens=tokens,
        share=tokens / total if total else 0.0,
        estimated=not leaves or any(leaf.estimated for leaf in leaves),
        parts=tuple(parts),
    )
