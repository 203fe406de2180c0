"""What a compaction left in a context that no answer has measured yet, by its transcript.

The list, the timeline and whoever asked for the compaction show this one estimate.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec

from ....core.model.conversation import Entry, without_sidechains

MAX_HEAD_ENTRIES: Final = 500  # a session has some ten lines before its first answer


class CompactedFile(msgspec.Struct, frozen=True):
    """A transcript whose last compaction has no answer yet; places in bytes."""

    path: Path
    boundary: int
    end: int  # what is behind it is not read
    post_tokens: int | None  # the client's count of the messages
    is_agent: bool = False


def estimate_left(file: CompactedFile) -> int | None:
    """Estimate the next request in tokens, with the system prompt and the tools.

    None if their size is unknown. Raises OSError.
    """
    from ....core.measure.token_estimate import Estimator
    from ....core.measure.tokens import client_token_estimate
    from ....core.summaries.compaction_report import (
        estimate_next_request,
        estimate_planned_request,
        measured_overhead,
        recorded_overhead,
    )
    from ....core.transcript.restored_content import with_restored
    from ....core.transcript.visible_messages import visible_entries

    if (planned := estimate_planned_request(_entries(file, file.boundary))) is not None:
        return planned
    head = _entries_until_answer(_entries(file), file.boundary)
    overhead, before = measured_overhead(head), head[:-1]
    if overhead is None:
        before = [*takewhile(lambda entry: entry.offset < file.boundary, _entries(file))]
        # Its table takes long to load; hardly any session needs it.
        overhead = recorded_overhead(before, Estimator({}).for_model(None))
    if overhead is None:
        return None
    if file.post_tokens is None:
        # Old clients counted neither what they kept, which comes before it, nor what they put back.
        entries = [*_entries(file)]
        sent = with_restored(entries, visible_entries(entries), client_token_estimate)
        return estimate_next_request(overhead, (), sent, None)
    sent = visible_entries([*_entries(file, file.boundary)])
    return estimate_next_request(overhead, visible_entries(before), sent, file.post_tokens)


def _entries(file: CompactedFile, start: int = 0) -> Iterator[Entry]:
    """Read a context's entries; a session's file has sidechains of agents (up to 2.0)."""
    from ....core.transcript.entry_decoder import iter_entries

    entries = iter_entries(file.path, start)
    own = entries if file.is_agent else without_sidechains(entries)
    return takewhile(lambda entry: entry.offset < file.end, own)


def _entries_until_answer(entries: Iterable[Entry], before: int) -> list[Entry]:
    head: list[Entry] = []
    for entry in entries:
        if entry.offset >= before or len(head) >= MAX_HEAD_ENTRIES:
            return []
        head.append(entry)
        if entry.context_tokens:
            return head
    return []
