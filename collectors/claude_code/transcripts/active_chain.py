"""Which lines continue the conversation, and which are old ones that were written again.

The client writes old messages again behind newer ones (/branch of a compacted session up to about
2.1.112, a second /compact in one process): with their uuids and times, whatever their parents.
"""

from ....core.store.transcript_records import REORDERED_MS
from ....core.transcript.line_types import LineGlance
from ....core.transcript.raw_lines import timestamp_to_ms
from ....core.transcript.sanitize import sanitize_id


class ActiveChain:
    """The newest line of one run of lines, by which the store joins it to the run before."""

    def __init__(self) -> None:
        self.leaf_uuid: str | None = None
        self._stamp: str | None = None  # of the newest line, or of one a moment older
        self._follows: str | None = None

    @property
    def leaf_at(self) -> int | None:
        return timestamp_to_ms(self._stamp)

    @property
    def follows(self) -> str | None:
        """The parent of the first line, in an earlier run if the conversation just goes on."""
        return sanitize_id(self._follows) if self._follows else None

    def add(self, seen: LineGlance) -> bool:
        """Add a line; whether it continues the conversation, as lines without a uuid always do.

        An older line behind a newer one does only where the clock was set back: it follows the
        newest line. So the client finds the newest line, too (2.1.332, its code).
        """
        uuid, stamp, newest = seen.uuid, seen.timestamp, self._stamp
        if not uuid:
            return True
        is_older = stamp is not None and newest is not None and stamp < newest
        if is_older and seen.parent_uuid != self.leaf_uuid and not _is_reordered(stamp, newest):
            return False
        if self.leaf_uuid is None:
            self._follows = seen.parent_uuid
        self.leaf_uuid = uuid
        self._stamp = stamp or newest
        return True


def _is_reordered(stamp: str | None, newest: str | None) -> bool:
    at, newest_at = timestamp_to_ms(stamp), timestamp_to_ms(newest)
    return at is None or newest_at is None or newest_at - at <= REORDERED_MS
