"""Which requests wrote again what the prompt cache held, and where reading it ended.

A request is sent as tools, system prompt and messages, in this order, and is read from the cache
up to a mark that an earlier request set: the client marks the end of what all its sessions share
(tools, and the common part of the system prompt), the end of the system prompt, and the newest
messages. So the number of tokens that were read tells what was the same, and in which part the
first difference stands. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from ...model.claude_models import FIVE_MINUTES_MS, HOUR_MS

if TYPE_CHECKING:
    from ...model.answer_rows import CacheAnswerRow, FirstReadRow

MIN_MISSED_TOKENS: Final = 2_000
MIN_MISSED_SHARE: Final = 0.05
"""Of what two requests have in common. If less is missed, it is no miss: by the same rule client
2.1.329 counts the misses that it tells its status line."""


class ReadPart(StrEnum):
    """The part of a request at whose end reading ended."""

    NOTHING = "nothing"
    OTHER_START = "other_start"  # other tools, or another common part, than were sent before
    SHARED_START = "shared_start"  # the same tools and common part as before
    SYSTEM = "system_prompt"
    MESSAGES = "messages"
    UNKNOWN = "unknown"


class ReadEnd(msgspec.Struct, frozen=True):
    part: ReadPart
    request: int | None = None  # the one of the conversation that ended there: the first is 1


class Rewrite(msgspec.Struct, frozen=True):
    """A request that wrote what an earlier one had left in the cache, and that one."""

    previous: CacheAnswerRow
    current: CacheAnswerRow
    tokens: int
    lifetime_ms: int  # of what was last written before
    read_end: ReadEnd
    number: int  # of the request in its conversation: the first is 1

    @property
    def idle_ms(self) -> int | None:
        before, now = self.previous.at, self.current.at
        return None if before is None or now is None else max(0, now - before)


MIN_OWN_PROMPT: Final = 2_000
MAX_OWN_PROMPT: Final = 10_000
"""Tokens of the system prompt's part that a session has for itself: folders, platform, memory.
2,695 to 6,381 in the recorded sessions, 3,400 to 6,200 in a public measurement of 674 (2.1.156 to
2.1.272). Starts that differ by less have other tools."""

MAX_SYSTEM_GROWTH: Final = 1.25
"""By which the start of a prompt, that all sessions share, may grow while a session lasts: a later
version of the client or another set of tools has a longer one."""


class SharedStarts:
    """What the first requests of all sessions read: which of it more than one project shares.

    It ends after the common part of the system prompt, unless a session of the same project was
    open just before: then it may end after the whole system prompt.
    """

    def __init__(self, rows: Iterable[FirstReadRow] = ()) -> None:
        self._projects: Final[dict[Hashable, dict[int, set[str]]]] = {}
        for row in rows:
            key = row.model, row.client_version, row.is_agent
            by_read = self._projects.setdefault(key, {})
            by_read.setdefault(row.cache_read_tokens, set()).add(row.path.partition("/")[0])

    def start_of(self, row: CacheAnswerRow) -> int | None:
        """Return where the common part ends, if a conversation's first request tells it."""
        read = row.cache_read_tokens
        others = self._projects.get(
            (row.model, row.client_version, int(row.agent_id is not None)), {}
        )
        if not read:
            return None
        is_shared = len(others.get(read, ())) > 1
        is_doubtful = any(MIN_OWN_PROMPT <= read - each <= MAX_OWN_PROMPT for each in others)
        return read if is_shared or not is_doubtful else None


class _Reading:
    """What the requests of a conversation left in the cache, and what it starts with."""

    def __init__(self, starts: SharedStarts) -> None:
        self._starts: Final = starts
        self._ends: Final[dict[int, int]] = {}  # the newest request that ended there
        self._first: CacheAnswerRow | None = None  # of the same model
        self._start: int | None = None
        self.count = 0

    def end_of(self, row: CacheAnswerRow) -> ReadEnd:
        """Return where a request's reading ended, by the requests before it.

        The API reads to the end of a request that it has cached. What only starts alike ends at
        the system prompt, which is shorter than the first request with its messages.
        """
        read = row.cache_read_tokens
        if not read:
            return ReadEnd(ReadPart.NOTHING)
        if request := self._ends.get(read):
            return ReadEnd(ReadPart.MESSAGES, request)
        if self._ends and read > min(self._ends) * MAX_SYSTEM_GROWTH:
            return ReadEnd(ReadPart.MESSAGES)
        if self._start is None or self._is_other_model(row):
            return ReadEnd(ReadPart.UNKNOWN)
        if read == self._start:
            return ReadEnd(ReadPart.SHARED_START)
        is_longer = read >= self._start + MIN_OWN_PROMPT
        return ReadEnd(ReadPart.SYSTEM if is_longer else ReadPart.OTHER_START)

    def add(self, row: CacheAnswerRow) -> None:
        end = self.end_of(row)
        read = row.cache_read_tokens
        if self._first is None or self._is_other_model(row):
            self._first, self._start = row, self._starts.start_of(row)
        elif end.part is ReadPart.OTHER_START or (
            # No system prompt is left in the cache where less is read than ever before.
            end.part is ReadPart.UNKNOWN and read < self._first.cache_read_tokens
        ):
            self._start = read
        self.count += 1
        self._ends[cached_tokens(row)] = self.count

    def _is_other_model(self, row: CacheAnswerRow) -> bool:
        return self._first is not None and self._first.model != row.model


def chains(rows: Iterable[CacheAnswerRow]) -> list[list[CacheAnswerRow]]:
    """Divide answers by conversation: a session's own, and each of its agents'."""
    found: dict[tuple[int, str | None], list[CacheAnswerRow]] = {}
    for row in rows:
        found.setdefault((row.file_id, row.agent_id), []).append(row)
    return [*found.values()]


def find_rewrites(
    chain: Sequence[CacheAnswerRow], starts: SharedStarts | None = None
) -> Iterator[Rewrite]:
    """Find the requests of one conversation that wrote again what the one before had cached.

    The first request is none. A fork's first one is compared with the history that it copied.
    """
    lifetime = FIVE_MINUTES_MS
    reading = _Reading(starts or SharedStarts())
    previous: CacheAnswerRow | None = None
    for row in chain:
        if not row.cache_creation_tokens + row.cache_read_tokens:
            # Sent without a cache, or of a client that did not say.
            continue
        if previous is not None and row.is_counted and _is_miss(previous, row):
            yield Rewrite(
                previous,
                row,
                _rewritten_tokens(previous, row),
                lifetime,
                reading.end_of(row),
                reading.count + 1,
            )
        if row.cache_creation_tokens:
            lifetime = lifetime_ms(row)
        reading.add(row)
        previous = row


def lifetime_ms(row: CacheAnswerRow) -> int:
    return HOUR_MS if row.cache_1h_tokens else FIVE_MINUTES_MS


def cached_tokens(row: CacheAnswerRow) -> int:
    """Return how many tokens a request left in the cache.

    An answer of several steps reads the same again in each: its last step's context is the most.
    """
    sums = row.cache_read_tokens + row.cache_creation_tokens
    return sums if row.is_lowered else min(sums, row.context_tokens)


def sent_tokens(row: CacheAnswerRow) -> int:
    return cached_tokens(row) + row.input_tokens


def _rewritten_tokens(previous: CacheAnswerRow, row: CacheAnswerRow) -> int:
    # After a rewind or a compaction, no more can be read than is sent.
    readable = min(cached_tokens(previous), cached_tokens(row))
    return max(0, min(readable - row.cache_read_tokens, row.cache_creation_tokens))


def _is_miss(previous: CacheAnswerRow, row: CacheAnswerRow) -> bool:
    repeated = min(sent_tokens(previous), sent_tokens(row))
    missed = repeated - row.cache_read_tokens
    is_miss = missed >= max(MIN_MISSED_TOKENS, repeated * MIN_MISSED_SHARE)
    return is_miss and _rewritten_tokens(previous, row) > 0
