"""Level 7: the oldest turns become a digest; the newest stay as they are."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from ...model.conversation import Entry, MessagePart, PartKind, Role, has_prompt, has_summary
from ...summaries.artifacts import part_text
from ...summaries.extract import list_all_entries
from ...summaries.key_messages import DEFAULT_IMPORTANCE, ImportanceSettings
from ...summaries.mentions import decoded_text, find_names, find_names_and_facts, split_words
from ...summaries.newest_steps import step_facts, unanswered_results
from ...summaries.session_rules import (
    Rule,
    carried_rules,
    list_stated_rules,
    rule_facts,
    rule_key,
    session_rules,
)
from ...summaries.summary_building import DEFAULT_KEEP_MESSAGES, choose_steps
from ...summaries.summary_facts import (
    FACT_HEADINGS,
    QUOTE_MARK,
    FactKind,
    SummaryFact,
    render_facts,
)
from ...summaries.tool_outcomes import list_failed_calls
from ...summaries.turn_digest import (
    EARLIER_SUMMARY,
    DigestSection,
    DigestSource,
    describe_state,
    names_of_list,
    parse_digest,
    quote_summary,
    render_digest,
    short_id,
)
from ...transcript.visible_messages import is_call, is_result
from ..protection import remove_all, without_bound_thinking
from ..transcript_view import TranscriptView
from .summary_and_cut import Conversation

MAX_SECTION_TOKENS: Final = 20_000
"""A longer turn is divided: one prompt can be followed by hundreds of answers."""

NEWEST_SECTION_TOKENS: Final = 5_000
"""The same among the newest turns, of which no more than necessary is condensed."""

MAX_DIGEST_SHARE: Final = 0.5  # of what it replaces; a longer digest is none
DIGEST_STEP_TOKENS: Final = 4_000
"""Of an open turn's newest steps, which a digest quotes if that turn is condensed too."""

LOST_WEIGHT: Final = 0.005
"""Share of the names' weight that a digest leaves out: 95 % is to be kept of what the whole
conversation named, and the edits of what stays lose up to 2 %."""

_REFERRING_KINDS: Final = frozenset({PartKind.PROMPT, PartKind.TEXT, PartKind.TOOL_INPUT})
"""Who refers to a thing: that a tool prints its name again does not count."""


class CondensableTurn(msgspec.Struct, frozen=True):
    """A turn, a part of a long one, or what an earlier compaction left."""

    start: int  # place of its first entry among all that are sent
    end: int  # behind its last one
    is_summary: bool = False
    is_continued: bool = False  # it goes on with the turn before it


def split_into_turns(
    sent: Sequence[Entry], limits: Collection[int], tokens_of: Sequence[int]
) -> tuple[CondensableTurn, ...]:
    """Split what is sent before the last of the `limits`; `tokens_of` are each entry's.

    A turn ends as close to each limit as possible, never behind it, between a call and its
    result, or inside an answer.
    """
    starts = _turn_starts(sent)
    places = [place for place in _dividable_places(sent, starts) if place <= max(limits)]
    last_places = {max((each for each in places if each <= limit), default=0) for limit in limits}
    tokens_before = [0, *accumulate(tokens_of)]
    ends = [0]
    for place in places:
        most = MAX_SECTION_TOKENS if place <= min(limits) else NEWEST_SECTION_TOKENS
        is_long = tokens_before[place] - tokens_before[ends[-1]] >= most
        if place > ends[-1] and (place in starts or is_long or place in last_places):
            ends.append(place)
    return tuple(
        CondensableTurn(
            begin,
            end,
            is_summary=any(map(has_summary, sent[begin:end])),
            is_continued=begin > 0 and begin not in starts,
        )
        for begin, end in pairwise(ends)
    )


def _turn_starts(sent: Sequence[Entry]) -> frozenset[int]:
    """Return where turns begin: at a prompt, with what the client attached before it."""
    starts: set[int] = set()
    first = 0  # of the user's lines that follow one answer, without results and summaries
    was_prompted = False
    for place, entry in enumerate(sent):
        if entry.role is not Role.USER or any(map(is_result, entry.parts)) or has_summary(entry):
            first, was_prompted = place + 1, False
            if has_summary(entry):
                starts.add(first)
        elif has_prompt(entry) and not was_prompted:
            starts.add(first)
            was_prompted = True
    return frozenset(starts)


def _dividable_places(sent: Sequence[Entry], turn_starts: Collection[int]) -> Iterator[int]:
    """Yield where the conversation can be cut: before an answer or a turn, with no call open."""
    answered = {part.tool_use_id for each in sent for part in each.parts if is_result(part)}
    open_calls: set[str | None] = set()
    before: str | None = None
    for place, entry in enumerate(sent):
        is_answer = entry.role is Role.ASSISTANT
        begins_answer = is_answer and (entry.message_id is None or entry.message_id != before)
        if not open_calls and (begins_answer or place in turn_starts):
            yield place
        before = entry.message_id if is_answer else None
        calls = {part.tool_use_id for part in entry.parts if is_call(part)} & answered
        open_calls |= calls
        open_calls -= {part.tool_use_id for part in entry.parts if is_result(part)}
    if not open_calls:
        yield len(sent)


class NamesOfEntries:
    """The names and facts that each entry mentions, and how much each of them weighs.

    A name weighs 1, and 1 more for each later line of the person or the model that refers to it.
    """

    def __init__(self, sent: Sequence[Entry], view: TranscriptView) -> None:
        self.shown: Final[dict[str, str]] = {}  # the word that is counted, and how it is displayed
        self.weights: Final = Counter[str]()
        self._referred: Final = set[str]()  # names that the person or the model wrote itself
        self.of_entries: Final[list[frozenset[str]]] = []
        for entry in sent:
            texts = _whole_texts(entry, view)
            names = _names_in("\n".join(text for _, text in texts))
            referring = (text for part, text in texts if part.kind in _REFERRING_KINDS)
            referred = split_words("\n".join(referring))
            self._referred.update(word for word in names if word in referred and find_names(word))
            for word, name in names.items():
                self.shown.setdefault(word, name)
                if word not in self.weights or word in referred:
                    self.weights[word] += 1
            self.of_entries.append(frozenset(names))

    def words_of(self, places: Iterable[int]) -> set[str]:
        return set[str]().union(*(self.of_entries[place] for place in places))

    def not_in(self, text: str, words: Iterable[str]) -> set[str]:
        """Return the words that a text does not mention.

        A name that the person or the model used has to stand by itself, as they used it: a path
        of Windows, whose last part is a word too, is no mention of `engine.go`.
        """
        return set(words) - (split_words(text) - self._referred) - find_names(text)

    def to_list(self, missing: Iterable[str], lost_weight: float) -> list[str]:
        """Return the words that a digest has to list, the heaviest first.

        Left out is what is long for its weight, up to a share of the weight of all.
        """
        kept = sorted(missing, key=lambda word: (-self.weights[word] / len(self.shown[word]), word))
        allowed = lost_weight * self.weights.total()
        while kept and self.weights[kept[-1]] <= allowed:
            allowed -= self.weights[kept.pop()]
        return sorted(kept, key=lambda word: -self.weights[word])


_SHORTENED_KINDS: Final = frozenset({PartKind.TOOL_RESULT, PartKind.ATTACHMENT, PartKind.META})


def _names_in(text: str) -> dict[str, str]:
    return {word: name for name, word in find_names_and_facts(text, split_words(text)).items()}


def _whole_texts(entry: Entry, view: TranscriptView) -> list[tuple[MessagePart, str]]:
    """Return each part with its whole text: of results a conversation holds only the beginning."""
    texts = []
    for part in entry.parts:
        text = f"{part.path or ''}\n{part_text(part)}"
        # An image's data names nothing.
        if part.kind in _SHORTENED_KINDS and not part.media:
            text += "\n" + decoded_text(view.decoded_line(entry.line), part.tool_use_id)
        texts.append((part, text))
    return texts


class DigestState(msgspec.Struct, frozen=True):
    """What a digest says beside its sections: rules that it does not quote, todos and jobs."""

    rules: tuple[Rule, ...]  # that a compaction has to carry
    todos_and_jobs: tuple[str, ...]  # lines of a digest
    transcript_path: str
    steps: tuple[SummaryFact, ...] = ()  # of the turn that is open, if it is condensed too

    def describe(self, sections: Iterable[DigestSection], retained: Iterable[Entry]) -> list[str]:
        """Write the lines behind the sections; rules that `retained` states are left out."""
        quoted = rule_key("".join(each.text for each in sections).replace(f"\n{QUOTE_MARK}", " "))
        stated = {rule.key for rule in list_stated_rules(retained, self.transcript_path)}
        facts = rule_facts(
            rule for rule in self.rules if rule.key not in stated and rule.key not in quoted
        )
        rules = [FACT_HEADINGS[FactKind.CONSTRAINT], *render_facts(facts)] if facts else []
        steps = [FACT_HEADINGS[FactKind.STEP], *render_facts(self.steps)] if self.steps else []
        return [*self.todos_and_jobs, *rules, *steps]


def read_digest_state(conversation: Conversation) -> DigestState:
    entries = list_all_entries(conversation.entries)
    path = conversation.transcript_path
    rules = carried_rules(session_rules(entries, path, conversation.rule_choices))
    return DigestState(rules, tuple(describe_state(entries)), path)


class CondensedTurns(msgspec.Struct, frozen=True):
    """What the oldest turns become; tokens are estimated."""

    text: str  # the digest
    tokens: int  # of the whole digest
    new_sections: int
    new_tokens: int  # of the new sections
    removed_tokens: int  # of what the new sections replace
    words_tokens: int  # of the person's words among that

    @property
    def is_too_long(self) -> bool:
        return self.new_tokens > MAX_DIGEST_SHARE * self.removed_tokens


class _TurnDraft(msgspec.Struct, frozen=True):
    """A turn and its sections, still without the names that only it mentions."""

    turn: CondensableTurn
    sections: tuple[DigestSection, ...]  # one, or all that an earlier digest held

    @property
    def places(self) -> range:
        return range(self.turn.start, self.turn.end)


def _texts_of(drafts: Iterable[_TurnDraft]) -> str:
    return "".join(section.text for draft in drafts for section in draft.sections)


class TurnCondenser:
    """Condenses a conversation's oldest turns, as many as are asked for."""

    def __init__(
        self,
        conversation: Conversation,
        view: TranscriptView,
        limits: Collection[int],
        importance: ImportanceSettings = DEFAULT_IMPORTANCE,
    ) -> None:
        """Prepare to condense what is sent before one of the `limits`, places among it."""
        self._conversation: Final = conversation
        self._view: Final = view
        self._importance: Final = importance
        self.sent: Final = conversation.visible_entries
        self._tokens: Final = [conversation.tokens([entry]) for entry in self.sent]
        self.turns: Final = split_into_turns(self.sent, limits, self._tokens)

    @cached_property
    def names(self) -> NamesOfEntries:
        return NamesOfEntries(self.sent, self._view)

    def retained_behind(self, count: int) -> tuple[Entry, ...]:
        """Return the entries that stay if the first `count` turns are condensed."""
        return without_bound_thinking(self.sent[self.turns[count - 1].end :])

    def condense(
        self, count: int, retained_words: Collection[str], lost_weight: float = LOST_WEIGHT
    ) -> CondensedTurns:
        """Condense the first `count` turns; `retained_words` stay in the context anyway.

        `lost_weight` is the share of the names' weight that may be left out, 0..1.
        """
        drafts = self._drafts[:count]
        new = [draft for draft in drafts if not draft.turn.is_summary]
        places = [place for draft in new for place in draft.places]
        removed = sum(self._tokens[place] for place in places)
        missing = self.names.words_of(places).difference(retained_words)
        missing = self.names.not_in(_texts_of(drafts), missing)
        room = int(MAX_DIGEST_SHARE * removed) - self._count(_texts_of(new))
        names = self._fitting(self.names.to_list(missing, lost_weight), room)
        named = self._with_names(drafts, names)
        session_id = str(self._conversation.last_line.get("sessionId") or "")
        sections = [section for draft in named for section in draft.sections]
        retained = self.retained_behind(count)
        state = replace(self._state, steps=() if unanswered_results(retained) else self._steps)
        lines = state.describe(sections, retained)
        text = render_digest(sections, session_id, lines)
        return CondensedTurns(
            text=text,
            tokens=self._count(text),
            new_sections=len(new),
            new_tokens=self._count(_texts_of(each for each in named if not each.turn.is_summary)),
            removed_tokens=removed,
            words_tokens=sum(map(self._words_tokens, (self.sent[place] for place in places))),
        )

    @cached_property
    def _steps(self) -> tuple[SummaryFact, ...]:
        steps = remove_all(self.sent, DEFAULT_KEEP_MESSAGES).quoted
        return tuple(choose_steps(step_facts(steps), DIGEST_STEP_TOKENS))

    @cached_property
    def _drafts(self) -> list[_TurnDraft]:
        source = DigestSource(list_failed_calls(self.sent), self._importance)
        drafts: list[_TurnDraft] = []
        number = 0
        for turn in self.turns:
            entries = self.sent[turn.start : turn.end]
            sections = _carried_sections(entries)
            if not sections:
                quoted = "".join(map(quote_summary, entries)) if turn.is_summary else None
                body = source.digest_turn(entries) if quoted is None else quoted
                sections = (self._section(turn, number + 1, body),)
            number = max(number, *(section.number for section in sections))
            drafts.append(_TurnDraft(turn, sections))
        return drafts

    def _section(self, turn: CondensableTurn, number: int, body: str) -> DigestSection:
        entries = self.sent[turn.start : turn.end]
        continued = f"continues turn {number - 1}" if turn.is_continued else ""
        return DigestSection(
            number=number,
            first_line=min(entry.line for entry in entries),
            last_line=max(entry.line for entry in entries),
            tokens=sum(self._tokens[turn.start : turn.end]),
            first_id=short_id(min(entries, key=lambda entry: entry.line)),
            body=body,
            label=EARLIER_SUMMARY if turn.is_summary else continued,
        )

    def _with_names(self, drafts: Sequence[_TurnDraft], words: Sequence[str]) -> list[_TurnDraft]:
        """Add each name to the last of the turns that mention it."""
        left = dict.fromkeys(words)
        named: list[_TurnDraft] = []
        for draft in reversed(drafts):
            own = self.names.words_of(draft.places) & left.keys()
            if own and not draft.turn.is_summary:
                shown = names_of_list(self.names.shown[word] for word in left if word in own)
                draft = replace(  # noqa: PLW2901
                    draft, sections=tuple(replace(each, names=shown) for each in draft.sections)
                )
                left = {word: None for word in left if word not in own}
            named.append(draft)
        return named[::-1]

    def _fitting(self, words: Sequence[str], room: int) -> Sequence[str]:
        """Return the first words, as many as `room` tokens hold."""
        tokens = self._count(", ".join(self.names.shown[word] for word in words))
        return words if tokens <= room else words[: len(words) * max(0, room) // tokens]

    def _count(self, text: str) -> int:
        return self._view.count_tokens(MessagePart(PartKind.SUMMARY, text))

    def _words_tokens(self, entry: Entry) -> int:
        return sum(
            self._conversation.count_tokens(part)
            for part in entry.parts
            if part.kind is PartKind.PROMPT
        )

    @cached_property
    def _state(self) -> DigestState:
        return read_digest_state(self._conversation)


def _carried_sections(entries: Iterable[Entry]) -> tuple[DigestSection, ...]:
    return tuple(
        section
        for entry in entries
        for part in entry.parts
        if part.kind is PartKind.SUMMARY
        for section in parse_digest(part.text)
    )
