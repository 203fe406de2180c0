"""After what was read: which levels were reached, into the log, once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ..core.store.surroundings_queries import project_roots
from ..core.store.warning_writer import mark_judged, save_judged
from ..core.unjudged import batches
from .folder import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.store.writer import Writer
    from .policy_files import PolicyFiles
    from .surroundings.tell import Tell

MOST_NAMED: Final = 400
"""Sessions of one question, which names them twice; SQLite takes 999 values at the least."""


class Judging:
    """Keeps the log of warnings up to date; it belongs to the collector's thread."""

    def __init__(self, writer: Writer, files: PolicyFiles, tell: Tell) -> None:
        self._writer: Final = writer
        self._files: Final = files
        self._problems: Final = tell
        self._reported: set[str] = set()

    def refresh_policies(self) -> bool:
        """Look at the policies' files; say whether another policy holds somewhere."""
        is_new = self._files.refresh(project_roots(self._writer.connection))
        troubles = {
            notice.location: Trouble(notice.location, notice.what, notice.fix)
            for notice in self._files.notices
        }
        for place in self._reported - troubles.keys():
            self._problems.resolve(place)
        for trouble in troubles.values():
            self._problems.report(trouble)
        self._reported = set(troubles)
        return is_new

    def evaluate(self, session_ids: Iterable[str] | None = None) -> frozenset[str]:
        """Judge what is new in all sessions, or in those named; name those with new rows.

        What is judged is read in the transaction that keeps it: two ctxtops at once say
        nothing twice.
        """
        policies = self._files.policies
        named = None if session_ids is None else set(session_ids)
        if named and len(named) > MOST_NAMED:
            named = None
        db = self._writer.connection
        changed: set[str] = set()
        for batch in batches(db, policies, named):
            from ..core.warn import judge  # with all that it needs, only where there is work

            now_ms = time.time_ns() // 1_000_000
            with self._writer.transaction():
                judged = judge(db, policies, batch, now_ms)
                save_judged(self._writer, judged, now_ms)
                mark_judged(self._writer, batch.files)
            changed |= {each.session_id for each in judged if each.new_warnings or each.cleared}
        return frozenset(changed)
