"""Indexes prompts and answers for the search, a little at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ...core.model.transcript_records import FileKind
from ...core.store import search_index
from ...core.store.bulkhead import FAILED, bulkhead
from ...core.store.queries.search_queries import SearchProgress, search_progress
from ...core.store.search_index import (
    BLOCK_CHARS,
    TurnBlock,
    TurnPlace,
    UnindexedTranscript,
)
from ...core.store.writer import Writer
from ...core.transcript.entry_decoder import decode_entry, iter_lines
from ...core.transcript.turn_search import index_terms, searched_text, turn_role

INDEX_BUDGET_S: Final = 0.1  # of one run; changes of files wait that long
TRANSACTION_S: Final = 0.25  # of a run without a budget; a kill loses no more than that
FILE_LIST_INTERVAL_S: Final = 2.0  # between two queries for files; each lists all files
FILES_AT_ONCE: Final = 20  # listed at once; later ones may be up to date by their turn
CLOCK_LINES: Final = 16  # lines between two readings of the clock


class SearchIndexJob:
    """Indexes the newest transcripts first; used by the collector's thread alone."""

    def __init__(
        self, projects: Path, writer: Writer, report_commit: Callable[[], None] = lambda: None
    ) -> None:
        """`report_commit` is called before each commit, after which no session looks different."""
        self._projects: Final = projects
        self._writer: Final = writer
        self._report_commit: Final = report_commit
        self._waiting: list[UnindexedTranscript] = []
        self._looked_at = -math.inf
        self._changes = -1
        self._unreadable: dict[str, int] = {}  # retried once the store has read more of them
        self._needs_merge = False

    def run(self, seconds: float = INDEX_BUDGET_S) -> bool:
        """Index at least a block, for about `seconds`; False if nothing is left for now."""
        began = time.monotonic()
        if not self._waiting and not self._list_files(began):
            return False
        while self._waiting:
            self._index(self._waiting.pop(0), began + seconds)
            if time.monotonic() >= began + seconds:
                break
        self._report_commit()
        search_index.add_indexing_time(self._writer, time.monotonic() - began)
        return True

    def run_all(self, report: Callable[[SearchProgress], None] = lambda _: None) -> None:
        """Index everything; `report` is called after each transaction."""
        self._looked_at = -math.inf
        while self.run(TRANSACTION_S):
            self._looked_at = -math.inf
            report(search_progress(self._writer.connection))

    def _list_files(self, now: float) -> bool:
        changes = self._writer.connection.total_changes
        if changes == self._changes or now - self._looked_at < FILE_LIST_INTERVAL_S:
            return False
        self._looked_at = now
        search_index.remove_stale_blocks(self._writer)
        if self._writer.connection.total_changes != changes:
            self._report_commit()
        limit = FILES_AT_ONCE + len(self._unreadable)
        listed = search_index.unindexed_transcripts(self._writer, limit)
        self._waiting = [each for each in listed if self._unreadable.get(each.path) != each.read_to]
        if not self._waiting:
            self._merge()
            self._changes = self._writer.connection.total_changes
        return bool(self._waiting)

    def _merge(self) -> None:
        """Merge once a whole folder was indexed; a few new lines are not worth it."""
        if self._needs_merge:
            self._report_commit()
            search_index.merge_index(self._writer)
            self._needs_merge = False

    def _index(self, source: UnindexedTranscript, until: float) -> None:
        self._unreadable[source.path] = source.read_to
        with bulkhead(f"search index of {source.path}", FAILED, self._writer.path):
            reader = _BlockReader(source)
            try:
                reader.read(self._projects / source.path, until)
            except OSError:
                # The scan reports a file that cannot be read.
                return
            self._report_commit()
            is_saved = search_index.save_blocks(self._writer, source, reader.blocks, reader.end)
            self._needs_merge |= is_saved and source.start == 0
            if is_saved and reader.end < source.read_to:
                self._waiting.insert(0, replace(source, start=reader.end))
            del self._unreadable[source.path]


class _BlockReader:
    """Reads the blocks of one transaction."""

    def __init__(self, source: UnindexedTranscript) -> None:
        self._source: Final = source
        self._turns: list[TurnPlace] = []  # of the block that is not full yet
        self._words: dict[str, None] = {}
        self._chars = 0
        self._at = 0
        self.blocks: list[TurnBlock] = []
        self.end = source.start  # where the blocks end

    def read(self, path: Path, until: float) -> None:
        """Read to the end, or past `until` to the end of a block; may raise OSError.

        A block that takes longer, because of what is between its turns, is ended early.
        """
        for offset, number, data in iter_lines(path, self._source.start):
            if offset >= self._source.read_to:
                break
            self._add(offset, data)
            is_late = number % CLOCK_LINES == 0 and time.monotonic() >= until
            if self._chars >= BLOCK_CHARS or (is_late and not self.blocks):
                self._end_block(offset + len(data))
            if is_late:
                return
        # Lines that are too long or unfinished are no turns.
        self._end_block(self._source.read_to)

    def _add(self, offset: int, data: bytes) -> None:
        entry = decode_entry(offset, data, {}) if _may_have_text(data) else None
        if entry is None:
            return
        self._at = max(self._at, entry.at or 0)
        if text := searched_text(entry):
            role = turn_role(entry, is_agent_file=self._source.kind is FileKind.AGENT)
            self._turns.append(TurnPlace(offset, role))
            self._words |= dict.fromkeys(index_terms(text))
            self._chars += len(text)

    def _end_block(self, end: int) -> None:
        if self._turns:
            words = " ".join(self._words)
            self.blocks.append(TurnBlock(tuple(self._turns), self._at, self._chars, words))
            self._turns, self._words, self._chars = [], {}, 0
        self.end = min(end, self._source.read_to)


def _may_have_text(data: bytes) -> bool:
    """Whether a line may be a prompt or an answer; decoding the others takes most of the time."""
    if b'"text"' in data:
        return b'"user"' in data or b'"assistant"' in data
    if b'"queued_command"' in data:
        return True
    return b'"user"' in data and b'"tool_result"' not in data
