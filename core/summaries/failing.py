"""Files that something failed with last: a test that names them, an edit that was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..conversation import PieceKind
from .mentions import Mentions
from .names import path_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..conversation import Entry, Piece

LOOKED_AT: Final = 20_000
"""Characters of a result's end: what failed is summed up there."""

RESULTS: Final = 40
"""The newest results of a conversation: what failed before them was worked on since."""


def failing_files(entries: Iterable[Entry], paths: Iterable[str]) -> frozenset[str]:
    """Name those files whose newest result among the last RESULTS is a failure.

    A result is a file's where its tool was called with the file, or where it names it. A call
    that failed and then went well with the same input, as a test does, fails no more.
    """
    asked: dict[str | None, tuple[str, str]] = {}
    results: list[tuple[Piece, tuple[str, str]]] = []
    for piece in (piece for entry in entries for piece in entry.parts):
        if piece.kind is PieceKind.TOOL_INPUT:
            asked[piece.tool_use_id] = (piece.name, piece.text)
        elif piece.kind is PieceKind.TOOL_RESULT:
            results.append((piece, asked.get(piece.tool_use_id, (piece.name, ""))))
    newest = results[-RESULTS:]
    last = {call: piece.failed for piece, call in newest}
    state: dict[str, bool] = {}
    listed = [path for path in paths if path_parts(path)]
    for piece, call in newest:
        failed = piece.failed and last[call]
        said = Mentions([piece.text[-LOOKED_AT:]]) if not piece.path else None
        for path in listed:
            if piece.path == path or (said and said.has_path(path)):
                state[path] = failed
    return frozenset(path for path, failed in state.items() if failed)
