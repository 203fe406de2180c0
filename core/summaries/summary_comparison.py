"""Compares a summary with what it replaced, and two texts with each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

import msgspec

from ..measure.composition import describe_input
from ..transcript.conversation import (
    ConversationMessage,
    Entry,
    MessagePart,
    PartKind,
    Role,
    drop_repeated_entries,
    group_messages,
    split_segments,
)
from .artifacts import Artifacts, collect_artifacts
from .lost_artifacts import split_retained_and_lost
from .summary_search import fold_text

MAX_LINES: Final = 4_000
"""Of either text; difflib's time grows with the product, and this takes it a second."""

MAX_WORDS: Final = 400  # of either line; in longer ones the whole line counts as changed
MAX_BLOCK_PAIRS: Final = 1_600
"""Pairs of lines that are tried for likeness within one change; in larger ones lines are paired
in their order."""

MIN_SIMILARITY: Final = 0.5
"""Share of two lines' words from which one is the other, changed (difflib's ratio)."""

_DIFF_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")
_WORD: Final = re.compile(r"\w+")


class DiffLine(msgspec.Struct, frozen=True):
    """A line of one of the texts."""

    number: int  # counted from 1
    text: str
    changed: tuple[tuple[int, int], ...] = ()  # start and end of what the other text does not have


class DiffPair(msgspec.Struct, frozen=True):
    """Two lines that stand beside each other; None where one text has none there."""

    left: DiffLine | None
    right: DiffLine | None
    same: bool = False


class TextDiff(msgspec.Struct, frozen=True):
    """Both texts line by line."""

    pairs: tuple[DiffPair, ...]
    starts: tuple[int, ...]  # places in `pairs` at which lines begin to differ
    left_cut: int = 0  # lines at the end that were not compared
    right_cut: int = 0

    @property
    def same(self) -> int:
        """Count the lines that both have."""
        return sum(pair.same for pair in self.pairs)

    @property
    def only_left(self) -> int:
        """Count the lines that the left text alone has, or has otherwise."""
        return sum(pair.left is not None and not pair.same for pair in self.pairs)

    @property
    def only_right(self) -> int:
        """Count the lines that the right text alone has, or has otherwise."""
        return sum(pair.right is not None and not pair.same for pair in self.pairs)


def diff_texts(left: str, right: str) -> TextDiff:
    """Compare two texts, of each at most LINES lines."""
    one, other = left.split("\n"), right.split("\n")
    pairs = tuple(_diff_pairs(one[:MAX_LINES], other[:MAX_LINES]))
    starts = tuple(
        place
        for place, pair in enumerate(pairs)
        if not pair.same and (place == 0 or pairs[place - 1].same)
    )
    return TextDiff(pairs, starts, max(0, len(one) - MAX_LINES), max(0, len(other) - MAX_LINES))


def _diff_pairs(one: Sequence[str], other: Sequence[str]) -> Iterator[DiffPair]:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for tag, start, end, begin, stop in matcher.get_opcodes():
        lefts = [DiffLine(n + 1, one[n]) for n in range(start, end)]
        rights = [DiffLine(n + 1, other[n]) for n in range(begin, stop)]
        if tag == "equal":
            for a, b in zip(lefts, rights, strict=True):
                yield DiffPair(a, b, same=True)
        else:
            yield from _pair_changed(lefts, rights)


def _pair_changed(lefts: Sequence[DiffLine], rights: Sequence[DiffLine]) -> Iterator[DiffPair]:
    """Put lines that are alike beside each other, and the others in their order."""
    waiting = [(lefts, rights)]
    while waiting:
        some, others = waiting.pop()
        place = _most_alike(some, others)
        if place is None:
            yield from _pair_in_order(some, others)
            continue
        at, to = place
        if at or to:
            waiting += [(some[at:], others[to:]), (some[:at], others[:to])]
            continue
        yield _diff_words(some[0], others[0])
        waiting.append((some[1:], others[1:]))


def _pair_in_order(some: Sequence[DiffLine], others: Sequence[DiffLine]) -> Iterator[DiffPair]:
    for place in range(max(len(some), len(others))):
        yield DiffPair(
            _all_changed(some[place]) if place < len(some) else None,
            _all_changed(others[place]) if place < len(others) else None,
        )


def _all_changed(side: DiffLine) -> DiffLine:
    return DiffLine(side.number, side.text, ((0, len(side.text)),) if side.text else ())


def _most_alike(some: Sequence[DiffLine], others: Sequence[DiffLine]) -> tuple[int, int] | None:
    if not some or not others or len(some) * len(others) > MAX_BLOCK_PAIRS:
        return None
    best, found = MIN_SIMILARITY, None
    matcher: SequenceMatcher[str] = SequenceMatcher(None, autojunk=False)
    for to, other in enumerate(others):
        words = _WORD.findall(other.text)
        matcher.set_seq2(words)
        for at, one in enumerate(some):
            mine = _WORD.findall(one.text)
            if len(words) > MAX_WORDS or len(mine) > MAX_WORDS:
                continue
            matcher.set_seq1(mine)
            if matcher.real_quick_ratio() <= best or matcher.quick_ratio() <= best:
                continue
            ratio = matcher.ratio()
            if ratio > best:
                best, found = ratio, (at, to)
    return found


def _diff_words(one: DiffLine, other: DiffLine) -> DiffPair:
    mine, theirs = _split_tokens(one.text), _split_tokens(other.text)
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    for tag, start, end, begin, stop in matcher.get_opcodes():
        if tag != "equal":
            left += _character_span(mine, start, end)
            right += _character_span(theirs, begin, stop)
    return DiffPair(
        DiffLine(one.number, one.text, tuple(left)),
        DiffLine(other.number, other.text, tuple(right)),
    )


def _split_tokens(text: str) -> list[str]:
    return _DIFF_TOKEN.findall(text)


def _character_span(words: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
    before = sum(map(len, words[:start]))
    length = sum(map(len, words[start:end]))
    return [(before, before + length)] if length else []


MAX_ITEMS_PER_KIND: Final = 300
"""Of each kind, the most important first: more than a person reads; all of them are counted."""

MAX_MESSAGES: Final = 2_000
"""Messages, the newest: a longer conversation is opened in its transcript."""

MAX_MESSAGE_CHARS: Final = 1_200  # of a message's text; of a tool's result that is its beginning
QUOTE_WORDS: Final = 5
"""Words in a row that the summary has too: fewer stand in any two texts about the same work."""

_WORD_TOKEN: Final = re.compile(r"[^\W_]+")


class ItemFate(StrEnum):
    """What became of a thing."""

    SUMMARY = "summary"  # the summary names it
    STAYS = "stays"  # only the messages that stayed as they are have it
    LOST = "lost"


class ReplacedItemKind(StrEnum):
    """What a thing is, the plural as a person reads it."""

    FILE = "files"
    NAME = "names"
    DECISION = "decisions"
    TODO = "todos"
    RULE = "rules"


class ReplacedItem(msgspec.Struct, frozen=True):
    """Something that may be needed later."""

    sort: ReplacedItemKind
    text: str
    line: int  # of the transcript, where it stood last
    where: ItemFate


class ReplacedItemTally(msgspec.Struct, frozen=True):
    """How many things of one sort there were, and what became of them."""

    sort: ReplacedItemKind
    all: int
    summary: int
    stays: int

    @property
    def lost(self) -> int:
        """Count those that are nowhere any more."""
        return self.all - self.summary - self.stays


class ReplacedMessage(msgspec.Struct, frozen=True):
    """A message that the summary stands for."""

    line: int
    who: str  # `you`, `model`, `tools`, `agent`, `summary` or `client`
    text: str  # its beginning
    quoted: tuple[tuple[int, int], ...]  # start and end of what the summary says word for word
    stays: bool  # it was kept as it is


class ReplacedContent(msgspec.Struct, frozen=True):
    """All of it."""

    things: tuple[ReplacedItem, ...]
    tallies: tuple[ReplacedItemTally, ...]
    turns: tuple[ReplacedMessage, ...]  # in their order; the newest TURNS
    messages: int  # in all
    tool_uses: int
    context_tokens: int | None  # the most that an answer before it had in its context
    last_words: str | None  # the model's last message


def compare_boundary_summary(
    entries: Sequence[Entry], summary_offset: int, summary: str
) -> ReplacedContent | None:
    """Compare a boundary's summary with what it replaced; None if nothing came before it.

    `entries` are a context's complete entries; `summary_offset` is the byte at which the
    summary's line begins.
    """
    standing = Artifacts()
    found = None
    for segment in split_segments(entries):
        if segment.end.offset >= summary_offset:
            break
        before = collect_artifacts(segment.entries, standing)
        found = before, segment
        standing, _ = split_retained_and_lost(
            before, segment.summary, segment.kept, segment.attached
        )
    if found is None:
        return None
    before, segment = found
    return _compare(before, segment.entries, segment.kept, summary)


def compare_plan_summary(
    entries: Sequence[Entry], kept_uuids: Sequence[str], summary: str
) -> ReplacedContent:
    """Compare a plan's summary with what it replaces.

    That is all that the model saw, except for the entries in `kept_uuids`.
    """
    chain = drop_repeated_entries(entries)
    standing = Artifacts()
    start = 0
    for segment in split_segments(chain):
        before = collect_artifacts(segment.entries, standing)
        standing, _ = split_retained_and_lost(
            before, segment.summary, segment.kept, segment.attached
        )
        start = next(n for n, each in enumerate(chain) if each is segment.end) + 1
    seen = chain[start:]
    wanted = frozenset(kept_uuids)
    kept = tuple(entry for entry in chain if entry.uuid in wanted)
    return _compare(collect_artifacts(seen, standing), seen, kept, summary)


def compare_agent_result(entries: Sequence[Entry], result: str) -> ReplacedContent:
    """Compare what an agent did and found with what its result reports."""
    seen = [entry for entry in drop_repeated_entries(entries) if not _ends_with(entry, result)]
    return _compare(collect_artifacts(seen), seen, (), result)


def _ends_with(entry: Entry, result: str) -> bool:
    said = "\n".join(piece.text for piece in entry.parts if piece.kind is PartKind.TEXT)
    return entry.role is Role.ASSISTANT and said.strip() == result.strip()


def _compare(
    before: Artifacts, entries: Sequence[Entry], kept: Sequence[Entry], summary: str
) -> ReplacedContent:
    named, missing = split_retained_and_lost(before, summary, ())
    stay, lost = split_retained_and_lost(missing, "", kept) if kept else (Artifacts(), missing)
    parts = ((ItemFate.LOST, lost), (ItemFate.STAYS, stay), (ItemFate.SUMMARY, named))
    tallies, things = [], []
    for sort, texts in _TEXTS_OF_KIND.items():
        by_where = {where: list(texts(some)) for where, some in parts}
        count = sum(map(len, by_where.values()))
        if count:
            in_summary, staying = len(by_where[ItemFate.SUMMARY]), len(by_where[ItemFate.STAYS])
            tallies.append(ReplacedItemTally(sort, count, in_summary, staying))
        listed = [
            ReplacedItem(sort, text, line, where)
            for where, found in by_where.items()
            for text, line in found[:MAX_ITEMS_PER_KIND]
        ]
        things += listed
    messages = group_messages(list(entries))
    quotes = _QuotedRuns(summary)
    staying_offsets = frozenset(entry.offset for entry in kept)
    answers = [each for each in entries if each.role is Role.ASSISTANT and not each.hidden]
    return ReplacedContent(
        things=tuple(things),
        tallies=tuple(tallies),
        turns=tuple(
            _replaced_message(each, quotes, staying_offsets) for each in messages[-MAX_MESSAGES:]
        ),
        messages=len(messages),
        tool_uses=sum(
            piece.kind is PartKind.TOOL_INPUT for entry in entries for piece in entry.parts
        ),
        context_tokens=max((each.context_tokens or 0 for each in answers), default=0) or None,
        last_words=next(filter(None, (_spoken_text(each) for each in reversed(answers))), None),
    )


_TEXTS_OF_KIND: Final[dict[ReplacedItemKind, Callable[[Artifacts], list[tuple[str, int]]]]] = {
    ReplacedItemKind.FILE: lambda found: [(each.path, each.line) for each in found.files],
    ReplacedItemKind.DECISION: lambda found: [(each.text, each.line) for each in found.decisions],
    ReplacedItemKind.TODO: lambda found: [(each.text, each.line) for each in found.todos],
    ReplacedItemKind.RULE: lambda found: [(each.text, each.line) for each in found.constraints],
    ReplacedItemKind.NAME: lambda found: [(each.text, each.line) for each in found.names],
}

_CLIENT_KINDS: Final = frozenset({PartKind.ATTACHMENT, PartKind.META})

_WHO: Final = {
    PartKind.PROMPT: "you",
    PartKind.TEXT: "model",
    PartKind.THINKING: "model",
    PartKind.TOOL_INPUT: "model",
    PartKind.TOOL_RESULT: "tools",
    PartKind.AGENT_RETURN: "agent",
    PartKind.SUMMARY: "summary",
    PartKind.META: "client",
    PartKind.ATTACHMENT: "client",
}


def _replaced_message(
    message: ConversationMessage, quotes: _QuotedRuns, staying: frozenset[int]
) -> ReplacedMessage:
    first = message.entries[0]
    # What the client put in beside a person's words stands in every request.
    own = [each for each in message.parts if each.kind not in _CLIENT_KINDS] or list(message.parts)
    text = "\n".join(filter(None, map(_part_text, own)))[:MAX_MESSAGE_CHARS]
    return ReplacedMessage(
        line=first.line,
        who=_WHO[own[0].kind],
        text=text,
        quoted=tuple(quotes.found_in(text)),
        stays=first.offset in staying,
    )


def _part_text(piece: MessagePart) -> str:
    if piece.kind is PartKind.TOOL_INPUT:
        return f"{piece.name} {piece.path or describe_input(piece.text)}".strip()
    return piece.text


def _spoken_text(entry: Entry) -> str:
    return "\n".join(piece.text for piece in entry.parts if piece.kind is PartKind.TEXT)


class _QuotedRuns:
    """The runs of QUOTE words that a text has."""

    def __init__(self, text: str) -> None:
        words = _WORD_TOKEN.findall(fold_text(text))
        self._runs: Final = {
            tuple(words[place : place + QUOTE_WORDS])
            for place in range(len(words) - QUOTE_WORDS + 1)
        }

    def found_in(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each passage that consists of quoted runs."""
        words = [(each.group(), *each.span()) for each in _WORD_TOKEN.finditer(fold_text(text))]
        start = end = -1
        for place in range(len(words) - QUOTE_WORDS + 1):
            run = words[place : place + QUOTE_WORDS]
            if tuple(word for word, _, _ in run) not in self._runs:
                continue
            if start >= 0 and run[0][1] > end:
                yield start, end
                start = -1
            start = run[0][1] if start < 0 else start
            end = run[-1][2]
        if start >= 0:
            yield start, end
