"""Estimates of what compactions left: only the ends of a transcript are read for one."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ..core.store.facts import FileKind
from ..core.store.left_writer import LeftWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.conversation import Entry
    from ..core.store.left_writer import Unanswered
    from ..core.store.writer import Writer
    from .folder import ClaudeFolder

HEAD_ENTRIES: Final = 500
"""Before a session's first answer stand some ten lines; where there are more it is no session."""


MOST_NAMED: Final = 400
"""Sessions of one question; SQLite takes 999 values at the least."""


class AfterCompaction:
    """Estimates contexts that were just compacted; it belongs to the collector's thread."""

    def __init__(self, folder: ClaudeFolder, writer: Writer) -> None:
        self._folder: Final = folder
        self._writer: Final = LeftWriter(writer)

    def run(self, session_ids: Iterable[str] | None = None) -> frozenset[str]:
        """Estimate every context that is not, or those named; name the sessions with new rows.

        A file that cannot be read is left out: the scan tells of it.
        """
        named = None if session_ids is None else set(session_ids)
        if named and len(named) > MOST_NAMED:
            named = None
        self._writer.delete_answered()
        waiting = self._writer.pending(named)
        found = []
        for each in waiting:
            try:
                found.append((each, self._estimate(each)))
            except OSError:
                continue
        if waiting:
            self._writer.save(found)
        return frozenset(each.session_id for each, _ in found)

    def _estimate(self, each: Unanswered) -> int | None:
        from ..core.after_compaction import (
            measured_overhead,
            next_request_tokens,
            written_overhead,
        )
        from ..core.compaction.project import project
        from ..core.estimate import Estimator

        head = _until_answered(self._entries(each), each.offset)
        overhead, before = measured_overhead(head), head[:-1]
        if overhead is None:
            earlier = takewhile(lambda entry: entry.offset < each.offset, self._entries(each))
            before = [*earlier]
            # The table for it takes long to load; hardly a session needs it.
            overhead = written_overhead(before, Estimator({}).for_model(None))
        if overhead is None:
            return None
        # What a compaction kept stands before it, and the client counts it; old ones did not.
        begin = 0 if each.post_tokens is None else each.offset
        sent = takewhile(lambda entry: entry.offset < each.read_to, self._entries(each, begin))
        return next_request_tokens(overhead, project(before), project([*sent]), each.post_tokens)

    def _entries(self, each: Unanswered, start: int = 0) -> Iterator[Entry]:
        """Read a context's entries; a session's file has sidechains of agents (up to 2.0)."""
        from .transcripts.conversation import entries_from

        read = entries_from(self._folder.projects / each.path, start)
        is_agent = each.kind is FileKind.AGENT
        return (entry for entry in read if is_agent or not entry.sidechain)


def _until_answered(entries: Iterable[Entry], before: int) -> list[Entry]:
    """List the entries up to the first answer that says what it used; none where there is none."""
    head: list[Entry] = []
    for entry in entries:
        if entry.offset >= before or len(head) >= HEAD_ENTRIES:
            return []
        head.append(entry)
        if entry.context_tokens:
            return head
    return []
