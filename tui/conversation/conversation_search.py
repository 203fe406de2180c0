"""A search through a whole transcript, block by block, from the cursor towards the start."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...collectors.claude_code.transcripts.transcript_search import (
    SearchBlock,
    TextMatch,
    Words,
    search_earlier,
)
from ...core.model.problem import Problem, reading_problem

if TYPE_CHECKING:
    import re

    from ...collectors.claude_code.transcripts.transcript_pages import ConversationFile
    from ..base.background_queries import WorkerThread


MAX_HITS: Final = 10_000  # of a search: more than anybody goes through


class ConversationSearch:
    """Searches back from `origin`, and then from the end back to it; hits arrive as found."""

    def __init__(
        self,
        words: str,
        source: ConversationFile,
        origin: int | None,
        worker: WorkerThread,
        on_hits: Callable[[ConversationSearch, TextMatch | None], None],
    ) -> None:
        """`on_hits` receives the hit to go to, with the first ones only."""
        self.words: Final = words
        self.hits: Final[list[TextMatch]] = []  # in the order of the file
        self.current: tuple[int, int] | None = None  # the hit that was gone to
        self._matcher: Final = Words(words)
        self._source: Final = source
        self._origin: Final = origin
        self._worker: Final = worker
        self._on_hits: Final = on_hits
        self._problem = ""
        self._is_over = False

    @property
    def pattern(self) -> re.Pattern[str]:
        return self._matcher.pattern

    @property
    def is_over(self) -> bool:
        return self._is_over

    def start(self) -> None:
        self._search(self._origin, 0)

    def stop(self) -> None:
        self._is_over = True

    def _search(self, end: int | None, stop: int) -> None:
        source, matcher = self._source, self._matcher

        def work() -> SearchBlock | Problem:
            try:
                return search_earlier(source, matcher, end, stop)
            except OSError as error:
                return reading_problem(str(source.path), error, "search again")

        self._worker.submit(work, lambda found: self._take(found, stop))

    def _take(self, found: SearchBlock | Problem, stop: int) -> None:
        if self._is_over:
            return
        if isinstance(found, Problem):
            self._problem, self._is_over = str(found), True
            self._on_hits(self, None)
            return
        is_first = bool(found.hits) and not self.hits
        for hit in found.hits:
            insort(self.hits, hit)
        if len(self.hits) >= MAX_HITS or (found.start <= stop and not self._has_rest(stop)):
            self._is_over = True
        elif found.start <= stop:
            self._search(None, self._origin or 0)
        else:
            self._search(found.start, stop)
        self._on_hits(self, found.hits[0] if is_first else None)

    def _has_rest(self, stop: int) -> bool:
        """Whether the part after the origin is still to be searched."""
        return self._origin is not None and stop == 0

    def next_hit(self, here: tuple[int, int] | None, by: int) -> TextMatch | None:
        """Return the hit after or before a step; after the last one comes the first."""
        if not self.hits:
            return None
        place = TextMatch(*(here or (0, 0)))
        found = bisect_left(self.hits, place)
        is_hit = found < len(self.hits) and self.hits[found] == place
        if by > 0:
            found += is_hit
        else:
            found -= 1
        return self.hits[found % len(self.hits)]

    def status_text(self, here: tuple[int, int] | None) -> str:
        if self._problem:
            return self._problem
        progress = "" if self._is_over else ", searching …"
        if not self.hits:
            return "no match: Esc ends the search" if self._is_over else "searching …"
        count = f"{len(self.hits):,}{'+' if len(self.hits) >= MAX_HITS else ''}"
        if here is not None and (hit := TextMatch(*here)) in self.hits:
            return f"match {bisect_left(self.hits, hit) + 1:,} of {count}{progress}"
        return f"{count} matches{progress}"
