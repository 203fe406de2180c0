"""Counts the text of contexts after a scan, where a policy does (`usage.source`) or no API did.

Some gateways report no tokens at all: then the text is all that is known of a context.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ...core.model.counting_rule import UNREPORTED_USAGE, CountingRule
from ...core.model.transcript_records import FileKind
from ...core.store.bulkhead import FAILED, bulkhead
from ...core.store.post_scan_writer import (
    TextCountRow,
    TextFile,
    has_unreported_usage,
    save_counted_text,
    text_counts,
    text_files,
)
from ...core.store.writer import Writer
from ..locations.discover import ClaudeFolder
from ..locations.policy_files import PolicyFiles

if TYPE_CHECKING:
    from ...core.model.conversation import Entry

TEXT_BUDGET_S: Final = 2.0  # of one scan; older sessions are counted after the next one


class ContextTextJob:
    """Counts the files that grew; used by the collector's thread alone."""

    def __init__(self, folder: ClaudeFolder, writer: Writer, files: PolicyFiles) -> None:
        self._folder: Final = folder
        self._writer: Final = writer
        self._files: Final = files
        self._failed: Final[dict[int, int]] = {}  # files, and how far the store had read them

    def run(
        self, session_ids: Collection[str] | None = None, seconds: float = math.inf
    ) -> frozenset[str]:
        """Count the contexts of all or some sessions, newest first, for about `seconds`.

        Returns the sessions with new counts. A file that cannot be read is skipped: the scan
        reports it.
        """
        policies = self._files.policies
        rules = {each.counting.text_rule for each in policies.all if each.counting.counts_text}
        if has_unreported_usage(self._writer):
            rules.add(UNREPORTED_USAGE.text_rule)
        if not rules:
            return frozenset()
        until, changed = time.monotonic() + seconds, set()
        counts = text_counts(self._writer, session_ids, rules)
        for file in text_files(self._writer, session_ids):
            counting = policies.for_project(file.project_root).counting
            # What was once counted so is kept up to date: the next zeros may come.
            was_counted = (file.file_id, UNREPORTED_USAGE.text_rule) in counts
            if (file.is_unreported or was_counted) and not counting.counts_text:
                counting = UNREPORTED_USAGE
            known = counts.get((file.file_id, counting.text_rule))
            if not counting.counts_text or (known and known.counted_to == file.read_to):
                continue
            if self._failed.get(file.file_id) == file.read_to:
                continue
            self._failed[file.file_id] = file.read_to
            with bulkhead(f"text count of {file.path}", FAILED, self._writer.path):
                try:
                    self._count(file, counting, known)
                except OSError:
                    del self._failed[file.file_id]
                    continue
                del self._failed[file.file_id]
                changed.add(file.session_id)
            if time.monotonic() >= until:
                break
        return frozenset(changed)

    def _count(self, file: TextFile, counting: CountingRule, known: TextCountRow | None) -> None:
        # Not before the first paint.
        from ...core.measure.text_context import TextProgress, count_later_text, count_text

        counted = None
        if known is not None:
            progress = TextProgress(known.offset, known.tokens_before)
            later = self._entries(file, known.offset)
            counted = count_later_text(later, counting, progress)
        counted = counted or count_text(self._entries(file, 0), counting)
        save_counted_text(self._writer, file, counting.text_rule, counted)

    def _entries(self, file: TextFile, start: int) -> Iterator[Entry]:
        from ...core.model.conversation import without_sidechains
        from ...core.transcript.entry_decoder import iter_entries

        entries = iter_entries(self._folder.projects / file.path, start)
        known = takewhile(lambda entry: entry.offset < file.read_to, entries)
        return known if file.kind is FileKind.AGENT else without_sidechains(known)
