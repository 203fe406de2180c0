"""What a compaction retained and lost, and which results the client cleared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ....core.measure.compaction_report import (
    ClearedMessage,
    RetainedAndLost,
    find_retained_and_lost,
)
from ....core.store.queries.request_queries import find_transcript
from ....core.transcript.conversation import CLEARED_RESULT_TEXT, PartKind, replaced_result_ids
from ....core.transcript.entry_decoder import MessageContent, decode_parts, iter_entries, iter_lines
from ....core.transcript.raw_lines import LINE_PADDING

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ....core.store.queries.query_rows import CompactionRow


_BLOB_START: Final = b'{"type":"api-request-blob"'
_CLEARED_BYTES: Final = CLEARED_RESULT_TEXT.encode()


class _BlobLine(msgspec.Struct):
    message: MessageContent | None = None


_blob_decoder: Final = msgspec.json.Decoder(_BlobLine)


def read_cleared_messages(path: Path) -> list[ClearedMessage]:
    """Find the messages of requests whose tool results were cleared, in the file's order.

    Client 2.1.329 writes a message that was changed for a request as `api-request-blob`.
    Raises OSError where the file cannot be read.
    """
    found = []
    for offset, _, data in iter_lines(path):
        text = data.strip(LINE_PADDING + b"\n")
        if not text.startswith(_BLOB_START) or _CLEARED_BYTES not in text:
            continue
        try:
            message = _blob_decoder.decode(text).message
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        content = message.content if message else None
        cleared = replaced_result_ids(decode_parts(content, PartKind.META, {}))
        if cleared:
            found.append(ClearedMessage(offset, tuple(sorted(cleared))))
    return found


def read_retained_and_lost(
    db: sqlite3.Connection, projects: Path, row: CompactionRow
) -> RetainedAndLost | None:
    """Divide what stood before a compaction; None where the transcript holds it no more.

    Raises OSError where the transcript cannot be read.
    """
    found = find_transcript(db, row.session_id, row.agent_id)
    if found is None:
        return None
    own = (
        entry
        for entry in iter_entries(projects / found[1])
        if row.agent_id is not None or not entry.sidechain
    )
    return find_retained_and_lost(own, row.uuid)
