"""Requests that show a cleared tool result: the transcript itself keeps the original."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ...core.cleared import CLEARED, cleared_pieces
from ...core.conversation import PieceKind
from ...core.last_line import AROUND
from ...core.told import ShownCleared
from .conversation import lines_of
from .pieces import Spoken, pieces_of

if TYPE_CHECKING:
    from pathlib import Path

_BLOB: Final = b'{"type":"api-request-blob"'
_TEXT: Final = CLEARED.encode()


class _Blob(msgspec.Struct):
    message: Spoken | None = None


_blob: Final = msgspec.json.Decoder(_Blob)


def read_shown(path: Path) -> list[ShownCleared]:
    """Find the messages of requests whose tool results were cleared, in the file's order.

    Client 2.1.329 writes a message that was changed for a request as `api-request-blob`.
    Raises OSError where the file cannot be read.
    """
    found = []
    for offset, _, data in lines_of(path):
        text = data.strip(AROUND + b"\n")
        if not text.startswith(_BLOB) or _TEXT not in text:
            continue
        try:
            message = _blob.decode(text).message
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        content = message.content if message else None
        cleared = cleared_pieces(pieces_of(content, PieceKind.META, {}))
        if cleared:
            found.append(ShownCleared(offset, tuple(sorted(cleared))))
    return found
