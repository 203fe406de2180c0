"""Counts the text of a context, for a policy that does not count by the API.

Requirements 001-04 and 002-19 (characters / 4), 003-11 and R003-01 (cl100k_base, and 4 tokens
around each message), R003-02 (calls and results too). The system prompt and the tools do not count:
no transcript holds them as they were sent.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from ..model.conversation import (
    Entry,
    MessagePart,
    Role,
    find_cleared_content,
    group_messages,
    remove_cleared_content,
)
from ..model.counting_rule import CountingRule, estimate_by_characters
from ..transcript.visible_messages import visible_entries
from .tokens import MEDIA_TOKENS, CachedPartCounter, PartCounter, estimate_tokens, model_text


class TextProgress(msgspec.Struct, frozen=True):
    """How far a transcript was counted: to its last answer, which may still grow."""

    offset: int = 0  # of that answer's first line, in bytes
    tokens_before: int = 0  # of what the model sees before it


class CountedText(msgspec.Struct, frozen=True):
    sizes: tuple[tuple[int, int], ...]
    """Offsets and tokens: of an answer with all before it; of the request after a boundary."""

    begins_at: int  # what was counted from this offset on replaces an earlier count
    progress: TextProgress  # where to continue


class TextCounter:
    """Counts message parts as a policy counts the text of a context."""

    def __init__(self, counting: CountingRule) -> None:
        self._counting: Final = counting

    def tokens(self, part: MessagePart) -> int:
        text, _ = model_text(part)
        estimator = self._counting.text_estimator
        counted = estimate_by_characters(text, estimator) if estimator else estimate_tokens(text)
        return counted + part.media * MEDIA_TOKENS


def count_visible_text(entries: Sequence[Entry], counting: CountingRule) -> int:
    """Count all that the model sees of a conversation, in tokens of the policy."""
    return _visible_tokens(entries, TextCounter(counting), counting.message_overhead)


def count_text(entries: Iterable[Entry], counting: CountingRule) -> CountedText:
    """Count the text of a context at each of its answers and compactions, in the file's order.

    `entries` are those of the whole file, without other contexts' (`without_sidechains`).
    """
    steps = _Steps(counting, TextProgress())
    for entry in entries:
        steps.add(entry)
    return steps.finish()


def count_later_text(
    entries: Iterable[Entry], counting: CountingRule, progress: TextProgress
) -> CountedText | None:
    """Continue a count with the entries from `progress.offset` on.

    None if they change what came before, as a compaction, a clearing or a rewind does: then the
    whole file has to be counted.
    """
    steps = _Steps(counting, progress)
    for entry in entries:
        steps.add(entry)
        if steps.is_changed:
            return None
    return steps.finish()


class _Steps:
    """Adds up the text step by step: an answer, and what came until the next one."""

    def __init__(self, counting: CountingRule, progress: TextProgress) -> None:
        self._counter: Final = CachedPartCounter(TextCounter(counting))
        self._overhead: Final = counting.message_overhead
        self._is_whole: Final = progress.offset == 0
        self._entries: list[Entry] = []
        self._step: list[Entry] = []
        self._known: set[str | None] = set()  # lines of earlier steps
        self._own: set[str | None] = {None}  # lines of this step
        self.is_changed = False  # what the model sees of earlier steps
        self._tokens = progress.tokens_before
        self._began_at: Final = progress.offset
        self._progress = progress
        self._sizes: list[tuple[int, int]] = []

    def add(self, entry: Entry) -> None:
        if _begins_answer(entry, self._step):
            self._end_step(entry)
            self._progress = TextProgress(entry.offset, self._tokens)
        self.is_changed = self.is_changed or self._changes_earlier(entry)
        self._entries.append(entry)
        self._step.append(entry)
        self._own.add(entry.uuid)

    def finish(self) -> CountedText:
        if self._entries:
            self._end_step(self._entries[-1])
        return CountedText(tuple(self._sizes), self._began_at, self._progress)

    def _changes_earlier(self, entry: Entry) -> bool:
        if entry.boundary or entry.takes_back:
            return True
        # An answer follows the step before it.
        if not self._step or entry.role is None or entry.parent in self._own:
            return False
        # With an unknown parent, the line follows the one before it in the file.
        return entry.parent in self._known or not self._is_whole

    def _end_step(self, newest: Entry) -> None:
        answer = [entry for entry in self._step if _is_line_of(self._step[0], entry)]
        if answer:
            size = self._tokens + _tokens(answer, self._counter) + self._overhead
            self._sizes.append((answer[0].offset, size))
        if self.is_changed:
            self._tokens = _visible_tokens(self._entries, self._counter, self._overhead, newest)
            boundaries = [entry.offset for entry in self._step if entry.boundary]
            self._sizes += [(offset, self._tokens) for offset in boundaries[-1:]]
        else:
            others = [entry for entry in self._step if entry.role is Role.USER and entry.parts]
            messages = bool(answer) + bool(others)
            self._tokens += _tokens([*answer, *others], self._counter) + messages * self._overhead
        self._known |= self._own - {None}
        self._step, self.is_changed = [], False
        self._own = {None}


def _begins_answer(entry: Entry, step: Sequence[Entry]) -> bool:
    if entry.role is not Role.ASSISTANT or entry.message_id is None or entry.hidden:
        return False
    return not step or not _is_line_of(step[0], entry)


def _is_line_of(first: Entry, entry: Entry) -> bool:
    return first.role is Role.ASSISTANT and first.message_id == entry.message_id


def _visible_tokens(
    entries: Sequence[Entry], counter: PartCounter, overhead: int, newest: Entry | None = None
) -> int:
    """Count what the request of the answer `newest` held, or the next one would hold."""
    sent: Sequence[Entry] = visible_entries(entries)
    if newest := newest or (entries[-1] if entries else None):
        sent = remove_cleared_content(sent, find_cleared_content(newest, entries))
    return _tokens(sent, counter) + overhead * len(group_messages([*sent]))


def _tokens(entries: Iterable[Entry], counter: PartCounter) -> int:
    return sum(
        counter.tokens(part) for entry in entries if not entry.hidden for part in entry.parts
    )
