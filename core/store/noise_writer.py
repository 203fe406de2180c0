"""How the noise of saves enters the store: again while more lines may come, then once for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .records import records

if TYPE_CHECKING:
    from .writer import Writer


class Unmeasured(msgspec.Struct, frozen=True):
    """A block of a Stop hook of which it is not known yet, or not for good, what it cost."""

    file_id: int
    path: str
    session_id: str
    read_to: int
    """How far the store has read the file, in bytes."""
    offset: int
    model: str | None
    """Of the last answer before it."""
    before_tokens: int | None
    """What that answer saw and wrote, where no compaction lies between."""


class NoiseWriter:
    """The writing side of the table; it belongs to the writer's thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer

    def pending(self, version: int) -> list[Unmeasured]:
        """List the blocks to measure, the newest first: new, open and grown, or by older rules."""
        return records(Unmeasured, self._writer.connection, _UNMEASURED, [version])

    def save(self, block: Unmeasured, version: int, noise: str | None, *, is_final: bool) -> None:
        """Keep what was measured, unless the block went meanwhile."""
        with self._writer.transaction():
            self._writer.connection.execute(
                _SAVE,
                {
                    "file_id": block.file_id,
                    "offset": block.offset,
                    "version": version,
                    "read_to": block.read_to,
                    "closed": is_final,
                    "noise": noise,
                },
            )


_BEFORE: Final = """FROM response r WHERE r.file_id = b.file_id AND r.offset < b.offset
    AND r.sidechain = 0 ORDER BY r.offset DESC LIMIT 1"""

_UNMEASURED: Final = f"""
SELECT f.file_id, f.path, f.session_id, f.offset AS read_to, b.offset,
    (SELECT r.model {_BEFORE}) AS model,
    (SELECT IIF(EXISTS (SELECT 1 FROM boundary c WHERE c.file_id = b.file_id
            AND c.offset BETWEEN r.offset AND b.offset),
        NULL, r.context_tokens + COALESCE(r.last_output_tokens, r.output_tokens))
        {_BEFORE}) AS before_tokens
FROM stop_block b JOIN file f USING (file_id)
LEFT JOIN save_noise n ON n.file_id = b.file_id AND n.offset = b.offset
WHERE f.gone = 0 AND (n.version IS NULL OR n.version < ?
    OR (n.closed = 0 AND n.read_to <> f.offset))
ORDER BY b.at DESC, f.path, b.offset DESC
"""

_SAVE: Final = """
INSERT INTO save_noise (file_id, offset, version, read_to, closed, noise)
SELECT :file_id, :offset, :version, :read_to, :closed, :noise WHERE EXISTS (
    SELECT 1 FROM stop_block WHERE file_id = :file_id AND offset = :offset)
ON CONFLICT DO UPDATE SET version = excluded.version, read_to = excluded.read_to,
    closed = excluded.closed, noise = excluded.noise
    WHERE excluded.version >= save_noise.version
"""
