"""The size of each part of a context, on the scale of what the API measured.

Every page, plan and command takes a part's size from here. What an answer's request had more than
the one before it is what came in between: those parts share it by their estimates, and keep that
size whatever is measured later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from ..model.claude_models import parse_version
from ..model.conversation import (
    Entry,
    MessagePart,
    PartKind,
    PromptSnapshot,
    drops_thinking,
    find_cleared_content,
    has_prompt,
    is_from_other_model,
    measured_answers,
    newest_model,
    without_sidechains,
)
from ..transcript.visible_messages import visible_entries
from .tokens import PartCounter, loaded_tools, measure_thinking

PartKey = tuple[int, MessagePart]  # the byte offset of its line, and the part

MAX_GROWTH_FACTOR: Final = 1.1
"""The most that estimates are scaled up to fill what came in; what is left is unexplained. Half of
the recorded sessions' contexts have less than 1.6 % of that, with 1.05 2.2 %, with 1.25 1 %."""

RECORDED_GROWTH_FACTOR: Final = 1.5
"""The same of a client that records all that it attaches: only the texts came in, and logs or code
take up to so much more than estimated."""
RECORDED_SINCE: Final = (2, 1, 205)

MIN_GROWTH_FACTOR: Final = 0.5
"""The least: no tokenizer differs more. If less came in, something else left the context."""

MAX_LOADED_TOKENS: Final = 5_000  # of one tool that was loaded, beyond its estimate

MIN_BELIEVED_SHARE: Final = 0.3
"""Of the estimate of what a request held. No tokenizer and no clearing that a client leaves
unrecorded explains a smaller usage: a gateway invented it, and it measured none of the texts."""


MAX_TOKENIZER_FACTOR: Final = 2.0
"""The most by which a tokenizer differs from our estimate, where all of a request is recorded."""

TOOLS_OVERHEAD_TOKENS: Final = 500  # added by the API if there are tools (formats 3.2)


NO_SNAPSHOT: Final = PromptSnapshot((), ())


def update_snapshot(known: PromptSnapshot, entry: Entry) -> PromptSnapshot:
    """Return the system prompt and the tools as they are recorded last, each by itself."""
    new = entry.snapshot
    if new is None:
        return known
    return PromptSnapshot(new.system or known.system, new.tools or known.tools)


def is_complete(prompt: PromptSnapshot) -> bool:
    return bool(prompt.system and prompt.tools)


def overhead_parts(prompt: PromptSnapshot) -> list[MessagePart]:
    """Return the texts of the system prompt, then the tools as parts to be counted."""
    parts = [MessagePart(PartKind.META, text) for text in prompt.system]
    return parts + [MessagePart(PartKind.ATTACHMENT, schema, name) for name, schema in prompt.tools]


def lines_to_first_answer(entries: Sequence[Entry]) -> list[Entry]:
    """List what the first measured request held, and the line of its answer; none without one."""
    own = [*without_sidechains(entries)] or entries  # all of an agent's file are sidechains
    answer = next((entry for entry in own if entry.context_tokens), None)
    if answer is None:
        return []
    return [*visible_entries([each for each in own if each.offset < answer.offset]), answer]


def measure_overhead(first: Sequence[Entry], prompt: PromptSnapshot, counter: PartCounter) -> int:
    """Return the tokens of the system prompt and the tools, by the session's first answer.

    `first` are the `lines_to_first_answer`, so few that their estimate is hardly off. What is
    recorded of the `prompt` is on the scale of that answer; if half of it is missing, it is what
    the answer saw beyond its messages.
    """
    if not is_complete(prompt):
        total = first[-1].context_tokens or 0 if first else 0
        return max(0, total - _message_tokens(first, counter))
    factor = _tokenizer_factor(first, prompt, counter)
    return round(_estimate_overhead(prompt, counter) * factor)


def growth_limit(first: Sequence[Entry], prompt: PromptSnapshot, counter: PartCounter) -> float:
    """Return the most that estimates are scaled up.

    Where the first request is recorded whole, that tells how far off they are for its tokenizer.
    """
    if not is_complete(prompt):
        return MAX_GROWTH_FACTOR
    return MAX_GROWTH_FACTOR * max(1.0, _tokenizer_factor(first, prompt, counter))


def _message_tokens(first: Sequence[Entry], counter: PartCounter) -> int:
    return sum(counter.tokens(part) for entry in first[:-1] for part in entry.parts)


def _estimate_overhead(prompt: PromptSnapshot, counter: PartCounter) -> int:
    return sum(map(counter.tokens, overhead_parts(prompt))) + TOOLS_OVERHEAD_TOKENS


def _tokenizer_factor(
    first: Sequence[Entry], prompt: PromptSnapshot, counter: PartCounter
) -> float:
    """Return what one estimated token of the first request takes; all of it is recorded."""
    total = first[-1].context_tokens or 0 if first else 0
    estimate = _estimate_overhead(prompt, counter) + _message_tokens(first, counter)
    factor = total / estimate if total else 1.0
    return min(max(factor, MIN_GROWTH_FACTOR), MAX_TOKENIZER_FACTOR)


class PartSizes(msgspec.Struct, frozen=True):
    """Tokens; of what the newest measured answer saw they add up to what the API counted."""

    tokens: Mapping[PartKey, int]
    measured: frozenset[PartKey]  # thinking that the API counted by itself
    factors: Mapping[int, float]  # what one estimated token takes, by the offset of its line
    overhead: int  # of the system prompt and the tools
    unexplained: int  # measured, but of nothing that the transcript has
    factor: float  # what one estimated token takes of what no answer has measured yet

    def of(self, entry: Entry, part: MessagePart) -> int | None:
        """Return a part's size; None if another text is sent in its place."""
        return self.tokens.get((entry.offset, part))

    def is_measured(self, entry: Entry, part: MessagePart) -> bool:
        return (entry.offset, part) in self.measured

    def without_line(self, sent: Sequence[Entry]) -> int:
        """Return the size of what the client put back unrecorded: no edit changes it."""
        own = (each for each in sent if each.uuid is None)
        return sum(self.of(entry, part) or 0 for entry in own for part in entry.parts)

    def factor_of(self, entry: Entry) -> float:
        """Return what one estimated token takes of a text in this line's place."""
        return self.factors.get(entry.offset, self.factor)


def size_parts(
    entries: Sequence[Entry],
    sent: Sequence[Entry],
    overhead: int,
    counter: PartCounter,
    limit: float = MAX_GROWTH_FACTOR,
    unmeasured_total: int | None = None,
) -> PartSizes:
    """Size the parts of what is `sent`, of all `entries` of a file; `limit` is a `growth_limit`.

    It is measured by the answers since the last compaction and the last change of the model. What
    came after the newest of them is as far off its estimate as what was measured. While there are
    none, all together take `unmeasured_total`, if that is known.
    """
    walk = _SizeWalk(entries, sent, overhead, counter, limit)
    for answer in _measured_answers(entries, sent):
        walk.measure(answer)
    if unmeasured_total is not None:
        walk.fit_unmeasured(unmeasured_total)
    return walk.finish()


def _measured_answers(entries: Sequence[Entry], sent: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the last line of each measured answer since the model changed, oldest first."""
    model = newest_model(sent)
    answers: dict[str | None, Entry] = {}
    for each in measured_answers(entries, sent):
        if is_from_other_model(each, model):
            break
        answers.setdefault(each.message_id, each)
    return reversed(answers.values())


def size_conversation(
    entries: Sequence[Entry],
    sent: Sequence[Entry],
    first: Sequence[Entry],
    prompt: PromptSnapshot,
    counter: PartCounter,
    unmeasured_total: int | None = None,
) -> PartSizes:
    """Size the parts of what is `sent`, `with_restored` content, of all `entries` of a file.

    `first` are its `lines_to_first_answer`; without them nothing tells the size of an unrecorded
    `prompt`.
    """
    overhead = measure_overhead(first, prompt, counter)
    limit = growth_limit(first, prompt, counter)
    return size_parts(entries, sent, overhead, counter, limit, unmeasured_total)


class _Part(msgspec.Struct):
    entry: Entry
    part: MessagePart
    estimate: int
    tokens: int
    is_measured: bool = False

    @property
    def key(self) -> PartKey:
        return self.entry.offset, self.part

    @property
    def is_thinking(self) -> bool:
        return self.part.kind is PartKind.THINKING


def _estimate_parts(sent: Sequence[Entry], counter: PartCounter) -> Iterator[_Part]:
    """Estimate each part; the size of thinking is known, and is never scaled with texts."""
    model, thinking = newest_model(sent), measure_thinking(sent, counter)
    for entry in sent:
        own = thinking.get(entry.message_id)
        is_foreign = is_from_other_model(entry, model)
        for part in entry.parts:
            is_thinking = part.kind is PartKind.THINKING
            tokens = own.tokens if own and is_thinking else counter.tokens(part)
            is_measured = own is not None and own.measured and is_thinking
            # No model gets another one's thinking.
            size = 0 if is_thinking and is_foreign else tokens
            yield _Part(entry, part, tokens, size, is_measured)


class _SizeWalk:
    """Goes through a conversation from one measured answer to the next."""

    def __init__(
        self,
        entries: Sequence[Entry],
        sent: Sequence[Entry],
        overhead: int,
        counter: PartCounter,
        limit: float,
    ) -> None:
        self._least_limit: Final = limit
        self._limit = limit
        self._entries: Final = entries
        self._has_clearings: Final = any(entry.microcompaction for entry in entries)
        self._drops_thinking: Final = drops_thinking(newest_model(sent))
        self._parts: Final = [*_estimate_parts(sent, counter)]
        texts = (0 if each.is_thinking else each.estimate for each in self._parts)
        self._text_estimates: Final = [*accumulate(texts, initial=0)]  # of so many first parts
        starts = [*accumulate((len(entry.parts) for entry in sent), initial=0)]
        places = list(zip(sent, starts, strict=False))
        self._answer_starts: Final = {entry.message_id: at for entry, at in reversed(places)}
        self._turn_starts: Final = [at for entry, at in places if has_prompt(entry)]
        self._factors: Final[dict[int, float]] = {}
        self._measured = 0  # so many parts have their size
        self._texts = self._thoughts = 0  # their tokens
        self._overhead = overhead
        self._unexplained = 0

    def measure(self, answer: Entry) -> None:
        """Size what came in before an answer by what its request grew by."""
        end = self._answer_starts[answer.message_id]
        if end < self._measured:
            return
        total, cleared = answer.context_tokens or 0, self._find_cleared(answer, end)
        estimate = self._overhead + self._text_estimates[end]
        estimate -= sum(each.estimate for each in self._parts[:end] if id(each) in cleared)
        if total >= MIN_BELIEVED_SHARE * estimate:
            version = parse_version(answer.version)
            is_recorded = version is not None and version >= RECORDED_SINCE
            self._limit = max(self._least_limit, RECORDED_GROWTH_FACTOR if is_recorded else 0.0)
            self._size_until(end, total, cleared)

    def fit_unmeasured(self, total: int) -> None:
        """Size all that is sent by its total, if no answer measured any of it."""
        if not self._measured:
            self._size_until(len(self._parts), total, set())

    def _size_until(self, end: int, total: int, cleared: set[int]) -> None:
        new = self._parts[self._measured : end]
        self._thoughts += sum(each.tokens for each in new if each.is_thinking)
        texts = [each for each in new if not each.is_thinking and id(each) not in cleared]
        known = self._overhead + self._texts + self._thinking_before(end)
        known -= sum(each.tokens for each in self._parts[: self._measured] if id(each) in cleared)
        self._measured = end
        room = total - known - self._unexplained
        excess = self._fill(texts, room)
        self._texts += sum(each.tokens for each in new if not each.is_thinking)
        if excess:
            self._shrink(end, cleared, excess)

    def finish(self) -> PartSizes:
        """Size what no answer has measured, and return all sizes."""
        measured = [each for each in self._parts[: self._measured] if not each.is_thinking]
        estimate = sum(each.estimate for each in measured)
        factor = sum(each.tokens for each in measured) / estimate if estimate else 1.0
        factor = min(max(factor, MIN_GROWTH_FACTOR), self._least_limit)
        for each in self._parts[self._measured :]:
            if not each.is_thinking:
                each.tokens = round(each.estimate * factor)
        return PartSizes(
            {each.key: each.tokens for each in self._parts},
            frozenset(each.key for each in self._parts if each.is_measured),
            self._factors,
            self._overhead,
            self._unexplained,
            factor,
        )

    def _find_cleared(self, answer: Entry, end: int) -> set[int]:
        """Return the ids of the parts that were cleared before an answer's request."""
        if not self._has_clearings:
            return set()
        cleared = find_cleared_content(answer, self._entries)
        return {id(each) for each in self._parts[:end] if cleared.includes(each.entry, each.part)}

    def _thinking_before(self, end: int) -> int:
        """Add up the thinking in a request; some models see that of the open turn alone."""
        if not self._drops_thinking:
            return self._thoughts
        turn = bisect_right(self._turn_starts, max(0, end - 1))
        start = self._turn_starts[turn - 1] if turn else 0
        return sum(each.tokens for each in self._parts[start:end] if each.is_thinking)

    def _fill(self, texts: Sequence[_Part], room: int) -> int:
        """Size texts so that they take some room; return by how much all is too large then.

        What does not fit into it takes its room from what was unexplained so far.
        """
        estimate = sum(each.estimate for each in texts)
        released = max(0, min(self._unexplained, estimate - room))
        self._unexplained -= released
        room += released
        factor = room / estimate if estimate else 0.0
        if not MIN_GROWTH_FACTOR <= factor <= self._limit:
            factor = 1.0
            self._unexplained += max(0, room - estimate - _grow_loaded(texts, room - estimate))
        else:
            sizes = scale_to_total([each.estimate for each in texts], room)
            for each, tokens in zip(texts, sizes, strict=True):
                each.tokens = tokens
        self._factors.update((each.entry.offset, factor) for each in texts)
        return max(0, sum(each.tokens for each in texts) - room)

    def _shrink(self, end: int, cleared: set[int], excess: int) -> None:
        """Scale down all that a request held: something left it that nothing names."""
        held = [each for each in self._parts[:end] if id(each) not in cleared]
        sizes = [self._overhead, *(each.tokens for each in held)]
        total = sum(sizes)
        left = max(0, total - excess)
        self._overhead, *scaled = scale_to_total(sizes, left)
        for each, tokens in zip(held, scaled, strict=True):
            each.tokens = tokens
        for offset in {each.entry.offset for each in held}:
            self._factors[offset] = self._factors.get(offset, 1.0) * left / total
        sized = self._parts[:end]
        self._texts = sum(each.tokens for each in sized if not each.is_thinking)
        self._thoughts = sum(each.tokens for each in sized if each.is_thinking)


def _grow_loaded(texts: Sequence[_Part], excess: int) -> int:
    """Share the excess among results that loaded tools, whose schemas are recorded nowhere.

    Returns the tokens that they took.
    """
    loading = [each for each in texts if loaded_tools(each.part)]
    taken = 0
    for place, each in enumerate(loading):
        most = MAX_LOADED_TOKENS * loaded_tools(each.part)
        share = max(0, min(most, (excess - taken) // (len(loading) - place)))
        each.tokens += share
        taken += share
    return taken


def scale_to_total(counts: Sequence[int], total: int) -> list[int]:
    """Scale counts to whole numbers that add up to a total (largest remainder)."""
    whole = sum(counts)
    if whole == total or whole == 0:
        return list(counts)
    scaled = [divmod(count * total, whole) for count in counts]
    left = total - sum(quotient for quotient, _ in scaled)
    by_remainder = sorted(range(len(counts)), key=lambda place: -scaled[place][1])
    rounded_up = set(by_remainder[:left])
    return [quotient + (place in rounded_up) for place, (quotient, _) in enumerate(scaled)]
