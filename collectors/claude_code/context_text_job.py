"""Counts the text of contexts after a scan, where a policy counts by it (`usage.source`)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ...core.measure.counting_rule import CountingRule
from ...core.store.post_scan_writer import TextFile, save_counted_text, text_files
from ...core.store.transcript_records import FileKind
from ...core.store.writer import Writer
from ...core.transcript.conversation import Entry, without_sidechains
from ..policy_files import PolicyFiles
from .discover import ClaudeFolder

if TYPE_CHECKING:
    from ...core.measure.text_context import CountedText


class ContextTextJob:
    """Counts the files that grew; used by the collector's thread alone."""

    def __init__(self, folder: ClaudeFolder, writer: Writer, files: PolicyFiles) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._files: Final = files

    def run(
        self, session_ids: Iterable[str] | None = None, seconds: float = math.inf
    ) -> frozenset[str]:
        """Count the contexts of all or some sessions, newest first, for about `seconds`.

        Returns the sessions with new counts. A file that cannot be read is skipped: the scan
        reports it.
        """
        policies = self._files.policies
        if not any(policy.counting.counts_text for policy in policies.all):
            return frozenset()
        until, counted = time.monotonic() + seconds, set()
        for file in text_files(self._writer, session_ids):
            counting = policies.for_project(file.project_root).counting
            if not counting.counts_text or _is_counted(file, counting):
                continue
            try:
                self._count(file, counting)
            except OSError:
                continue
            counted.add(file.session_id)
            if time.monotonic() >= until:
                break
        return frozenset(counted)

    def _count(self, file: TextFile, counting: CountingRule) -> None:
        from ...core.measure.text_context import count_text  # not before the first paint

        counted = self._count_on(file, counting) or count_text(self._entries(file, 0), counting)
        save_counted_text(self._writer, file, counting.text_rule, counted)

    def _count_on(self, file: TextFile, counting: CountingRule) -> CountedText | None:
        from ...core.measure.text_context import TextProgress, count_later_text

        if file.rule != counting.text_rule or file.offset is None or file.tokens_before is None:
            return None
        entries = self._entries(file, file.offset)
        return count_later_text(entries, counting, TextProgress(file.offset, file.tokens_before))

    def _entries(self, file: TextFile, start: int) -> Iterator[Entry]:
        from ...core.transcript.entry_decoder import iter_entries

        entries = iter_entries(self._folder.projects / file.path, start)
        known = takewhile(lambda entry: entry.offset < file.read_to, entries)
        return known if file.kind is FileKind.AGENT else without_sidechains(known)


def _is_counted(file: TextFile, counting: CountingRule) -> bool:
    return file.rule == counting.text_rule and file.counted_to == file.read_to
