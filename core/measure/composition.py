"""What fills a context: its tokens by category, its largest items, and which are superseded."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.conversation import (
    RESULT_KINDS,
    Entry,
    MessagePart,
    PartKind,
    PromptSnapshot,
    canonical_tool_input,
    decode_tool_input,
)
from ..model.counting_rule import TextEstimator
from ..transcript.line_types import EDIT_TOOLS
from .part_sizes import (
    NO_SNAPSHOT,
    TOOLS_OVERHEAD_TOKENS,
    PartSizes,
    is_complete,
    overhead_parts,
    scale_to_total,
)
from .tokens import CachedPartCounter, PartCounter


class CompositionSource(StrEnum):
    REQUESTS = "requests"  # the client recorded what it sent
    PROJECTION = "projection"  # put together from the transcript, as the client would on a resume


class ContextPart(msgspec.Struct, frozen=True):
    content: MessagePart
    line: int | None = None  # of the transcript, from 1; None if no conversation line holds it
    tokens: int | None = None  # by `size_parts`; None of what no line of the transcript has
    measured: bool = False  # the API reported these tokens


class ContextContent(msgspec.Struct, frozen=True):
    parts: tuple[ContextPart, ...]
    later: tuple[ContextPart, ...] = ()  # added after the measured request
    prompt: PromptSnapshot = NO_SNAPSHOT  # if it is known
    overhead_tokens: int | None = None  # of the system prompt and the tools, by their first request
    measured_tokens: int | None = None  # by the API; None if none was measured since a boundary
    estimated_tokens: int | None = None  # of the whole context, if known apart from its parts
    source: CompositionSource = CompositionSource.PROJECTION


def context_parts(entries: Iterable[Entry], sizes: PartSizes) -> list[ContextPart]:
    """Split a conversation's entries into parts with their sizes."""
    return [
        ContextPart(part, entry.line, sizes.of(entry, part), sizes.is_measured(entry, part))
        for entry in entries
        for part in entry.parts
    ]


MIN_REPEATED_CHARS: Final = 200  # a shorter text that occurs twice is chance (compaction.md 1.4)


class ReadRange(msgspec.Struct):
    """The lines that a Read asks for, from 1; without a limit to the end of the file."""

    offset: float | None = None
    limit: float | None = None

    def covers(self, other: ReadRange) -> bool:
        return self._start <= other._start and self._end >= other._end

    @property
    def _start(self) -> float:
        return self.offset or 1

    @property
    def _end(self) -> float:
        return math.inf if self.limit is None else self._start + self.limit


def parse_read_range(text: str) -> ReadRange:
    """Parse the input of a Read; a malformed one reads the whole file."""
    try:
        return msgspec.json.decode(text, type=ReadRange)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return ReadRange()


class _FileAccess(msgspec.Struct, frozen=True):
    """A successful call that touched a file."""

    call: int  # places of the call and of its result among the parts
    result: int
    tool: str
    line: int | None
    range: ReadRange

    def why_superseded(self, later: _FileAccess) -> str | None:
        if later.tool == "Write":
            return f"overwritten at line {later.line}"
        if self.tool != "Read":
            return None
        if later.tool in EDIT_TOOLS:
            return f"edited at line {later.line}"
        if later.tool == "Read" and later.range.covers(self.range):
            return f"read again at line {later.line}"
        return None


def find_superseded(parts: Sequence[ContextPart]) -> dict[int, str]:
    """Map the index of each superseded part to what superseded it, and at which line.

    A Read is superseded by a Read of the same lines or more, and by any change of its file; a
    Write by the next one; a result by a later result of the same call, or by the same text.
    """
    calls: dict[str | None, int] = {
        part.content.tool_use_id: place
        for place, part in enumerate(parts)
        if part.content.kind is PartKind.TOOL_INPUT and part.content.tool_use_id
    }
    return _repeated_texts(parts) | _repeated_calls(parts, calls) | _superseded_files(parts, calls)


def _superseded_files(parts: Sequence[ContextPart], calls: dict[str | None, int]) -> dict[int, str]:
    accesses: dict[str, list[_FileAccess]] = {}
    for place, part in enumerate(parts):
        content = part.content
        call = calls.get(content.tool_use_id)
        is_result = content.kind in RESULT_KINDS and not content.failed
        if is_result and content.path is not None and call is not None:
            lines = parse_read_range(parts[call].content.text)
            access = _FileAccess(call, place, content.name, part.line, lines)
            accesses.setdefault(content.path, []).append(access)
    superseded: dict[int, str] = {}
    for of_file in accesses.values():
        for number, access in enumerate(of_file):
            reasons = map(access.why_superseded, of_file[number + 1 :])
            reason = next(filter(None, reasons), None)
            if reason and access.tool in {"Read", "Write"}:
                superseded[access.result if access.tool == "Read" else access.call] = reason
    return superseded


def _repeated_calls(parts: Sequence[ContextPart], calls: dict[str | None, int]) -> dict[int, str]:
    repeated: dict[int, str] = {}
    last: dict[tuple[str, str], ContextPart] = {}
    for place in range(len(parts) - 1, -1, -1):
        part = parts[place]
        call = calls.get(part.content.tool_use_id)
        if part.content.kind not in RESULT_KINDS or call is None:
            continue
        key = (part.content.name, canonical_tool_input(parts[call].content.text))
        if key in last:
            repeated[place] = f"same call again at line {last[key].line}"
        elif not part.content.failed:
            last[key] = part
    return repeated


def _repeated_texts(parts: Sequence[ContextPart]) -> dict[int, str]:
    repeated: dict[int, str] = {}
    last: dict[str, ContextPart] = {}
    for place in range(len(parts) - 1, -1, -1):
        content = parts[place].content
        is_copyable = content.kind in RESULT_KINDS or content.kind is PartKind.ATTACHMENT
        if not is_copyable or len(content.text) < MIN_REPEATED_CHARS:
            continue
        if content.text in last:
            repeated[place] = f"same text again at line {last[content.text].line}"
        else:
            last[content.text] = parts[place]
    return repeated


class ContextCategory(StrEnum):
    SYSTEM_PROMPT = "system prompt"
    SYSTEM_TOOLS = "system tools"
    MCP_TOOLS = "MCP tools"
    OVERHEAD = "system prompt and tools"  # both, if only their size is known
    MCP_INSTRUCTIONS = "MCP instructions"
    MEMORY = "memory files"
    SKILLS = "skills"
    AGENT_LISTINGS = "agent listings"
    ATTACHMENTS = "attachments"
    HOOKS = "hook additions"
    SUMMARIES = "summaries"
    INHERITED = "inherited conversation"  # of the session that an agent was forked from
    USER_TEXT = "user text"
    ASSISTANT_TEXT = "assistant text"
    THINKING = "thinking"
    TOOL_INPUTS = "tool inputs"
    TOOL_RESULTS = "tool results"
    AGENT_RETURNS = "agent returns"
    UNEXPLAINED = "unexplained"


INHERITED: Final = "inherited_conversation"  # the kind of the one part that stands for it

_ATTACHMENT_CATEGORIES: Final = {
    INHERITED: ContextCategory.INHERITED,
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
    PartKind.TEXT: ContextCategory.ASSISTANT_TEXT,
    PartKind.THINKING: ContextCategory.THINKING,
    PartKind.TOOL_INPUT: ContextCategory.TOOL_INPUTS,
    PartKind.TOOL_RESULT: ContextCategory.TOOL_RESULTS,
    PartKind.AGENT_RETURN: ContextCategory.AGENT_RETURNS,
    PartKind.SUMMARY: ContextCategory.SUMMARIES,
}

_SKILL_BODY: Final = re.compile(r"Base directory for this skill: \S*?([\w.:@-]+)\s*$", re.MULTILINE)
"""Start of a skill's body (client 2.1.205 and later)."""

_HOOK_FEEDBACK: Final = re.compile(r"\w+ hook feedback:|<user-prompt-submit-hook>")
OVERHEAD_LABEL: Final = "around them"
LISTING: Final = "listing"


def category_path(part: MessagePart) -> tuple[str, ...]:
    """Return the category of a part, then its subdivisions from large to small."""
    if part.kind is PartKind.ATTACHMENT:
        return _attachment_path(part)
    if part.kind is PartKind.META:
        if skill := _SKILL_BODY.match(part.text):
            return (ContextCategory.SKILLS, skill[1])
        if _HOOK_FEEDBACK.match(part.text):
            return (ContextCategory.HOOKS, "feedback")
        return (ContextCategory.USER_TEXT, "reported by Claude Code")
    category = _PART_CATEGORIES[part.kind]
    if part.kind is PartKind.TOOL_INPUT:
        return (category, part.name)
    if part.kind is PartKind.TOOL_RESULT:
        return (category, part.name, part.path) if part.path else (category, part.name)
    return (category,)


def tool_category_path(name: str) -> tuple[str, ...]:
    """Return the category of a tool's description, its MCP server if any, and its name."""
    if not name.startswith("mcp__"):  # claude-code-formats 2.4
        return (ContextCategory.SYSTEM_TOOLS, name)
    server, _, tool = name.removeprefix("mcp__").partition("__")
    return (ContextCategory.MCP_TOOLS, server, tool or server)


def _attachment_path(part: MessagePart) -> tuple[str, ...]:
    if part.name.startswith(("hook_", "async_hook_")):
        return (ContextCategory.HOOKS, part.name)
    category = _ATTACHMENT_CATEGORIES.get(part.name)
    if category is None:
        path = (ContextCategory.ATTACHMENTS, part.name or "reminder")
        return (*path, part.path) if part.path else path
    if category is ContextCategory.MEMORY:
        return (category, part.path or OVERHEAD_LABEL)
    if category is ContextCategory.SKILLS:
        return (category, LISTING if part.name == "skill_listing" else part.name)
    return (category,)


MAX_ITEMS: Final = 20  # what a person looks through; most of a context (compaction.md 1.4)
DEFAULT_WARN_RESULT_CHARS: Final = 10_000  # longer results are reported (001-05)
MAX_ITEM_NAME_CHARS: Final = 240  # a command may be a whole script; a path is seldom so long
_DESCRIPTIVE_FIELDS: Final = (
    "file_path", "notebook_path", "path", "command", "pattern", "url", "query", "description",
    "skill", "prompt",
)  # fmt: skip
"""Fields that describe a call, the most descriptive first."""

_NOTIFICATION_SUMMARY: Final = re.compile(r"<summary>\s*(.{1,200}?)\s*</summary>", re.DOTALL)
"""The subject in a notification of an agent's end (claude-code-live, Agents)."""

_TEXT_KINDS: Final = frozenset(
    {PartKind.PROMPT, PartKind.TEXT, PartKind.SUMMARY, PartKind.META, PartKind.AGENT_RETURN}
)
"""Kinds that the start of their text names best."""


class ContextItem(msgspec.Struct, frozen=True):
    kind: str  # its category
    name: str  # a tool and its input, a file, or the start of a text; not sanitized
    tokens: int
    line: int | None  # of the transcript, from 1; None if no conversation line holds it
    superseded: str | None  # by what, and at which line
    result_chars: int | None = None  # of a tool's result; None for anything else
    oversized: bool = False  # a result longer than `tools.warn_result_chars` (001-05)


def tool_call_name(call: MessagePart) -> str:
    """Name a call by its tool and subject; not sanitized."""
    return _shorten(f"{call.name} {describe_input(call.text)}")


def _shorten(text: str) -> str:
    line = " ".join(text[: MAX_ITEM_NAME_CHARS * 2].split())
    return line if len(line) <= MAX_ITEM_NAME_CHARS else f"{line[: MAX_ITEM_NAME_CHARS - 1]}…"


def describe_input(text: str) -> str:
    """Return the descriptive field of a call's JSON input, else the input as it is."""
    fields = decode_tool_input(text)
    if fields is None:
        return text
    values = (fields[name] for name in _DESCRIPTIVE_FIELDS if isinstance(fields.get(name), str))
    return next(values, text)


class CategoryShare(msgspec.Struct, frozen=True):
    name: str
    tokens: int
    share: float  # of the whole context, 0..1
    estimated: bool
    parts: tuple[CategoryShare, ...] = ()  # largest first; their tokens add up to its own


class Composition(msgspec.Struct, frozen=True):
    """A context by category; the categories' tokens add up to the total exactly."""

    total_tokens: int
    estimated: bool  # nothing was measured since the session's start, a compaction or an edit
    source: CompositionSource
    categories: tuple[CategoryShare, ...]  # largest first, the unexplained tokens last
    largest: tuple[ContextItem, ...]
    unexplained_tokens: int
    later_tokens: int  # estimate of what followed the measured request; not in the total
    read_bytes: int | None = None
    """Only this much of the end of a too large transcript was read: what precedes it is
    unexplained. None if all was read."""
    estimator: TextEstimator = TextEstimator.TIKTOKEN  # of texts that the API did not count
    is_unreported: bool = False  # the last answer came with zeros: only its text is known
    part_sizes: Mapping[tuple[int, int], int] = {}
    """Tokens of each part of a line, by the line's byte offset and its place there."""


class _Leaf(msgspec.Struct, frozen=True):
    part: ContextPart
    path: tuple[str, ...]  # category and subdivisions
    tokens: int
    estimated: bool
    is_sized: bool  # by `size_parts`: it is the same in every request that holds it


def break_down_context(
    content: ContextContent,
    counter: PartCounter,
    max_items: int = MAX_ITEMS,
    warn_result_chars: int = DEFAULT_WARN_RESULT_CHARS,
) -> Composition:
    """Break a context down by category.

    Parts have the sizes that `size_parts` gave them, here as everywhere; what no line has is
    counted, and gets no more than the others leave. The rest of the total is unexplained. If
    nothing was measured, the total is the content's own estimate, else the sum of the parts. At
    most `max_items` of the largest items are named; those that are results of more than
    `warn_result_chars` are marked as oversized.
    """
    cached = CachedPartCounter(counter)

    def make_leaf(part: ContextPart, path: tuple[str, ...]) -> _Leaf:
        tokens = cached.tokens(part.content) if part.tokens is None else part.tokens
        return _Leaf(part, path, tokens, not part.measured, part.tokens is not None)

    leaves = _scaled_overhead([make_leaf(*each) for each in _overhead_parts(content)], content)
    leaves += [make_leaf(part, category_path(part.content)) for part in content.parts]
    later = [make_leaf(part, category_path(part.content)) for part in content.later]
    counted = sum(leaf.tokens for leaf in leaves)
    known = (content.measured_tokens, content.estimated_tokens, counted)
    total = next(tokens for tokens in known if tokens is not None)
    explained = min(total, counted)
    leaves = _fit(leaves, explained)
    shares = sorted(_shares(leaves, total), key=lambda share: -share.tokens)
    if total - explained:
        shares.append(_make_share(ContextCategory.UNEXPLAINED, total - explained, total, ()))
    return Composition(
        total_tokens=total,
        estimated=content.measured_tokens is None,
        source=content.source,
        categories=tuple(shares),
        largest=_largest_items([*leaves, *later], max_items, warn_result_chars),
        unexplained_tokens=total - explained,
        later_tokens=sum(leaf.tokens for leaf in later),
    )


def _overhead_parts(content: ContextContent) -> list[tuple[ContextPart, tuple[str, ...]]]:
    """Return what precedes the conversation, each with its category path."""
    if not is_complete(content.prompt):
        part = ContextPart(MessagePart(PartKind.META), tokens=content.overhead_tokens)
        return [(part, (ContextCategory.OVERHEAD,))] if content.overhead_tokens else []
    parts = [
        (
            ContextPart(part),
            tool_category_path(part.name) if part.name else (ContextCategory.SYSTEM_PROMPT,),
        )
        for part in overhead_parts(content.prompt)
    ]
    around = ContextPart(MessagePart(PartKind.META), tokens=TOOLS_OVERHEAD_TOKENS)
    return [*parts, (around, (ContextCategory.SYSTEM_TOOLS, OVERHEAD_LABEL))]


def _scaled_overhead(leaves: list[_Leaf], content: ContextContent) -> list[_Leaf]:
    if content.overhead_tokens is None:
        return leaves
    scaled = _scaled(leaves, content.overhead_tokens)
    return [replace(leaf, is_sized=True) for leaf in scaled]


def _scaled(leaves: list[_Leaf], total: int) -> list[_Leaf]:
    sizes = scale_to_total([leaf.tokens for leaf in leaves], total)
    return [
        replace(leaf, tokens=tokens, estimated=leaf.estimated or tokens != leaf.tokens)
        for leaf, tokens in zip(leaves, sizes, strict=True)
    ]


def _fit(leaves: list[_Leaf], total: int) -> list[_Leaf]:
    """Take what is too much from what was only counted, else from all alike."""
    sized = sum(leaf.tokens for leaf in leaves if leaf.is_sized)
    if sized > total:
        return _scaled(leaves, total)
    counted = iter(_scaled([leaf for leaf in leaves if not leaf.is_sized], total - sized))
    return [leaf if leaf.is_sized else next(counted) for leaf in leaves]


def _shares(leaves: Sequence[_Leaf], total: int, depth: int = 0) -> list[CategoryShare]:
    by_name: dict[str, list[_Leaf]] = {}
    for leaf in leaves:
        if len(leaf.path) > depth:
            by_name.setdefault(leaf.path[depth], []).append(leaf)
    shares = [
        _make_share(name, sum(leaf.tokens for leaf in own), total, own, depth)
        for name, own in by_name.items()
    ]
    return [share for share in shares if share.tokens or share.parts]


def _make_share(
    name: str, tokens: int, total: int, leaves: Sequence[_Leaf], depth: int = 0
) -> CategoryShare:
    parts = sorted(_shares(leaves, total, depth + 1), key=lambda share: -share.tokens)
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


def _largest_items(
    leaves: Sequence[_Leaf], max_items: int, warn_result_chars: int
) -> tuple[ContextItem, ...]:
    parts = [leaf.part for leaf in leaves]
    superseded = find_superseded(parts)
    calls: dict[str | None, MessagePart] = {
        part.content.tool_use_id: part.content
        for part in parts
        if part.content.kind is PartKind.TOOL_INPUT and part.content.tool_use_id
    }
    largest = heapq.nlargest(max_items, enumerate(leaves), key=lambda item: item[1].tokens)
    return tuple(
        ContextItem(
            kind=leaf.path[0],
            name=_item_name(leaf, calls.get(leaf.part.content.tool_use_id)) or leaf.path[0],
            tokens=leaf.tokens,
            line=leaf.part.line,
            superseded=superseded.get(number),
            result_chars=_result_chars(leaf.part.content),
            oversized=(_result_chars(leaf.part.content) or 0) > warn_result_chars,
        )
        for number, leaf in largest
    )


def _result_chars(part: MessagePart) -> int | None:
    return len(part.text) if part.kind in RESULT_KINDS else None


def _item_name(leaf: _Leaf, call: MessagePart | None) -> str:
    if call:
        return tool_call_name(call)
    part = leaf.part.content
    if part.kind is PartKind.AGENT_RETURN:
        summary = _NOTIFICATION_SUMMARY.search(part.text)
        if summary:
            return _shorten(summary[1])
    if part.kind in _TEXT_KINDS and part.text:
        return _shorten(part.text)
    return _shorten(" ".join(leaf.path[1:]) or part.text)
