"""Compares a summary with what it replaced, and two texts with each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import starmap, zip_longest
from typing import Final

import msgspec
from msgspec.structs import replace

from ..measure.composition import describe_input
from ..model.conversation import (
    ConversationMessage,
    Entry,
    PartKind,
    Role,
    drop_repeated_entries,
    group_messages,
)
from ..transcript.filter_language import fold_text
from .artifacts import Artifacts, collect_artifacts, follow_artifacts, split_retained_and_lost

MAX_LINES: Final = 4_000  # of either text: difflib takes a second for them
MAX_WORDS: Final = 400  # of either line; in longer ones the whole line counts as changed
MAX_BLOCK_PAIRS: Final = 1_600
"""Pairs of lines that are compared within one change; in larger ones lines are paired in order."""

MIN_SIMILARITY: Final = 0.5  # of two lines' words, if one is the other, changed (difflib's ratio)
_DIFF_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")
_WORD: Final = re.compile(r"\w+")
_Span = tuple[int, int]  # start and end within a text


class DiffLine(msgspec.Struct, frozen=True):
    number: int  # counted from 1
    text: str
    changed: tuple[_Span, ...] = ()  # what the other text does not have


class DiffPair(msgspec.Struct, frozen=True):
    """Two lines side by side; None if one text has none there."""

    left: DiffLine | None
    right: DiffLine | None
    same: bool = False


class TextDiff(msgspec.Struct, frozen=True):
    pairs: tuple[DiffPair, ...]
    starts: tuple[int, ...]  # indices in `pairs` where lines begin to differ
    left_cut: int = 0  # lines at the end that were not compared
    right_cut: int = 0

    @property
    def same(self) -> int:
        """Count the lines that both have."""
        return sum(pair.same for pair in self.pairs)

    @property
    def only_left(self) -> int:
        """Count the lines that only the left text has, or has otherwise."""
        return sum(pair.left is not None and not pair.same for pair in self.pairs)

    @property
    def only_right(self) -> int:
        """Count the lines that only the right text has, or has otherwise."""
        return sum(pair.right is not None and not pair.same for pair in self.pairs)


def diff_texts(left: str, right: str) -> TextDiff:
    """Compare two texts, of each at most MAX_LINES lines."""
    lefts, rights = (
        [DiffLine(number, line) for number, line in enumerate(text.split("\n"), 1)]
        for text in (left, right)
    )
    pairs = tuple(_diff_pairs(lefts[:MAX_LINES], rights[:MAX_LINES]))
    starts = tuple(
        place
        for place, pair in enumerate(pairs)
        if not pair.same and (place == 0 or pairs[place - 1].same)
    )
    cut = [max(0, len(lines) - MAX_LINES) for lines in (lefts, rights)]
    return TextDiff(pairs, starts, *cut)


def _diff_pairs(lefts: Sequence[DiffLine], rights: Sequence[DiffLine]) -> Iterator[DiffPair]:
    texts = [line.text for line in lefts], [line.text for line in rights]
    matcher = SequenceMatcher(None, *texts, autojunk=False)
    for tag, start, end, begin, stop in matcher.get_opcodes():
        if tag == "equal":
            for left, right in zip(lefts[start:end], rights[begin:stop], strict=True):
                yield DiffPair(left, right, same=True)
        else:
            yield from _pair_changed(lefts[start:end], rights[begin:stop])


def _pair_changed(lefts: Sequence[DiffLine], rights: Sequence[DiffLine]) -> Iterator[DiffPair]:
    """Pair similar lines, and the others in their order."""
    pending = [(lefts, rights)]
    while pending:
        lefts, rights = pending.pop()
        pair = _most_similar(lefts, rights)
        if pair is None:
            changed = (map(_all_changed, lines) for lines in (lefts, rights))
            yield from starmap(DiffPair, zip_longest(*changed))
            continue
        at, to = pair
        if at or to:
            pending += [(lefts[at:], rights[to:]), (lefts[:at], rights[:to])]
            continue
        yield _diff_words(lefts[0], rights[0])
        pending.append((lefts[1:], rights[1:]))


def _all_changed(line: DiffLine) -> DiffLine:
    return replace(line, changed=((0, len(line.text)),) if line.text else ())


def _most_similar(lefts: Sequence[DiffLine], rights: Sequence[DiffLine]) -> tuple[int, int] | None:
    if not lefts or not rights or len(lefts) * len(rights) > MAX_BLOCK_PAIRS:
        return None
    best, pair = MIN_SIMILARITY, None
    matcher: SequenceMatcher[str] = SequenceMatcher(None, autojunk=False)
    for to, right in enumerate(rights):
        right_words = _WORD.findall(right.text)
        matcher.set_seq2(right_words)
        for at, left in enumerate(lefts):
            left_words = _WORD.findall(left.text)
            if len(right_words) > MAX_WORDS or len(left_words) > MAX_WORDS:
                continue
            matcher.set_seq1(left_words)
            if matcher.real_quick_ratio() <= best or matcher.quick_ratio() <= best:
                continue
            ratio = matcher.ratio()
            if ratio > best:
                best, pair = ratio, (at, to)
    return pair


def _diff_words(left: DiffLine, right: DiffLine) -> DiffPair:
    lefts, rights = _DIFF_TOKEN.findall(left.text), _DIFF_TOKEN.findall(right.text)
    matcher = SequenceMatcher(None, lefts, rights, autojunk=False)
    changes = [codes[1:] for codes in matcher.get_opcodes() if codes[0] != "equal"]
    return DiffPair(
        replace(left, changed=_character_spans(lefts, [change[:2] for change in changes])),
        replace(right, changed=_character_spans(rights, [change[2:] for change in changes])),
    )


def _character_spans(words: Sequence[str], changes: Sequence[_Span]) -> tuple[_Span, ...]:
    spans = ((sum(map(len, words[:start])), sum(map(len, words[:end]))) for start, end in changes)
    return tuple((start, end) for start, end in spans if start < end)


MAX_ITEMS_PER_KIND: Final = 300  # the most important; all of them are counted
MAX_MESSAGES: Final = 2_000  # the newest; a longer conversation is read in its transcript
MAX_MESSAGE_CHARS: Final = 1_200  # of a message's text; of a tool's result that is its beginning
QUOTE_WORDS: Final = 5  # in a row that the summary has too: any two such texts share fewer
_WORD_TOKEN: Final = re.compile(r"[^\W_]+")


class ItemFate(StrEnum):
    SUMMARY = "summary"  # the summary names it
    STAYS = "stays"  # only the retained messages have it
    LOST = "lost"


class ReplacedItemKind(StrEnum):
    """What an item is, the plural as a person reads it."""

    FILE = "files"
    NAME = "names"
    DECISION = "decisions"
    TODO = "todos"
    RULE = "rules"


class ReplacedItem(msgspec.Struct, frozen=True):
    sort: ReplacedItemKind
    text: str
    line: int  # of the transcript, where it occurred last
    where: ItemFate


class ReplacedItemTally(msgspec.Struct, frozen=True):
    sort: ReplacedItemKind
    all: int
    summary: int
    stays: int

    @property
    def lost(self) -> int:
        return self.all - self.summary - self.stays


class ReplacedMessage(msgspec.Struct, frozen=True):
    line: int
    who: str  # `you`, `model`, `tools`, `agent`, `summary` or `client`
    text: str  # its beginning
    quoted: tuple[_Span, ...]  # what the summary repeats word for word
    stays: bool  # it was kept as it is


class ReplacedContent(msgspec.Struct, frozen=True):
    things: tuple[ReplacedItem, ...]
    tallies: tuple[ReplacedItemTally, ...]
    turns: tuple[ReplacedMessage, ...]  # the newest MAX_MESSAGES, in their order
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
    last = None
    for compaction in follow_artifacts(entries):
        if compaction.segment.end.offset >= summary_offset:
            break
        last = compaction
    if last is None:
        return None
    return _compare(last.before, last.segment.entries, last.segment.kept, summary)


def compare_plan_summary(
    entries: Sequence[Entry], kept_uuids: Sequence[str], summary: str
) -> ReplacedContent:
    """Compare a plan's summary with what it replaces.

    That is all that the model saw, except for the entries in `kept_uuids`.
    """
    chain = drop_repeated_entries(entries)
    retained, start = Artifacts(), 0
    for compaction in follow_artifacts(chain):
        retained, end = compaction.retained, compaction.segment.end
        start = next(n for n, entry in enumerate(chain) if entry is end) + 1
    seen = chain[start:]
    kept = tuple(entry for entry in chain if entry.uuid in frozenset(kept_uuids))
    return _compare(collect_artifacts(seen, retained), seen, kept, summary)


def compare_agent_result(entries: Sequence[Entry], result: str) -> ReplacedContent:
    seen = [
        entry
        for entry in drop_repeated_entries(entries)
        if entry.role is not Role.ASSISTANT or _spoken_text(entry).strip() != result.strip()
    ]
    return _compare(collect_artifacts(seen), seen, (), result)


def _compare(
    before: Artifacts, entries: Sequence[Entry], kept: Sequence[Entry], summary: str
) -> ReplacedContent:
    named, missing = split_retained_and_lost(before, summary, ())
    stay, lost = split_retained_and_lost(missing, "", kept) if kept else (Artifacts(), missing)
    fates = ((ItemFate.LOST, lost), (ItemFate.STAYS, stay), (ItemFate.SUMMARY, named))
    tallies, items = [], []
    for kind, list_texts in _TEXTS_OF_KIND.items():
        by_fate = {fate: list_texts(found) for fate, found in fates}
        count = sum(map(len, by_fate.values()))
        if count:
            in_summary, staying = len(by_fate[ItemFate.SUMMARY]), len(by_fate[ItemFate.STAYS])
            tallies.append(ReplacedItemTally(kind, count, in_summary, staying))
        items += [
            ReplacedItem(kind, text, line, fate)
            for fate, texts in by_fate.items()
            for text, line in texts[:MAX_ITEMS_PER_KIND]
        ]
    messages = group_messages(list(entries))
    quotes = _QuotedRuns(summary)
    staying_offsets = frozenset(entry.offset for entry in kept)
    answers = [entry for entry in entries if entry.role is Role.ASSISTANT and not entry.hidden]
    return ReplacedContent(
        things=tuple(items),
        tallies=tuple(tallies),
        turns=tuple(
            _replaced_message(message, quotes, staying_offsets)
            for message in messages[-MAX_MESSAGES:]
        ),
        messages=len(messages),
        tool_uses=sum(
            part.kind is PartKind.TOOL_INPUT for entry in entries for part in entry.parts
        ),
        context_tokens=max((answer.context_tokens or 0 for answer in answers), default=0) or None,
        last_words=next(filter(None, map(_spoken_text, reversed(answers))), None),
    )


_TEXTS_OF_KIND: Final[dict[ReplacedItemKind, Callable[[Artifacts], list[tuple[str, int]]]]] = {
    ReplacedItemKind.FILE: lambda found: [(use.path, use.line) for use in found.files],
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
    # What the client adds beside a person's words is in every request.
    parts = [part for part in message.parts if part.kind not in _CLIENT_KINDS] or message.parts
    texts = (
        f"{part.name} {part.path or describe_input(part.text)}".strip()
        if part.kind is PartKind.TOOL_INPUT
        else part.text
        for part in parts
    )
    text = "\n".join(filter(None, texts))[:MAX_MESSAGE_CHARS]
    return ReplacedMessage(
        line=first.line,
        who=_WHO[parts[0].kind],
        text=text,
        quoted=tuple(quotes.find_in(text)),
        stays=first.offset in staying,
    )


def _spoken_text(entry: Entry) -> str:
    return "\n".join(part.text for part in entry.parts if part.kind is PartKind.TEXT)


class _QuotedRuns:
    """The runs of QUOTE_WORDS words that a text has."""

    def __init__(self, text: str) -> None:
        words = _WORD_TOKEN.findall(fold_text(text))
        self._runs: Final = {
            tuple(words[place : place + QUOTE_WORDS])
            for place in range(len(words) - QUOTE_WORDS + 1)
        }

    def find_in(self, text: str) -> Iterator[_Span]:
        words = [(match.group(), *match.span()) for match in _WORD_TOKEN.finditer(fold_text(text))]
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
