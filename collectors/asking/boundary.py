"""Waiting for a compaction: a new boundary in the transcript, and nothing else, is success."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from ..regular import open_regular
from .outcome import NotCompactedError, Why

if TYPE_CHECKING:
    from pathlib import Path

READ_BYTES: Final = 32 * 1024 * 1024
"""At one look: a compaction writes 150 kB, and a line above this is no boundary."""

_MARK: Final = b"compact_boundary"


class _Sizes(msgspec.Struct, rename="camel"):
    pre_tokens: int | None = None
    post_tokens: int | None = None


class _Line(msgspec.Struct, rename="camel"):
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    compact_metadata: _Sizes | None = None


class NewBoundary(msgspec.Struct, frozen=True):
    """A compaction that the transcript records; tokens as the client counted them."""

    uuid: str
    pre_tokens: int | None
    post_tokens: int | None


_line: Final = msgspec.json.Decoder(_Line)


class BoundaryWatch:
    """Looks at what a transcript gains from now on; raises OSError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
        self._file: Final = (status.st_dev, status.st_ino)
        self._offset = status.st_size

    def poll(self) -> NewBoundary | None:
        """Read what was added; raises NotCompactedError where it is another file by now."""
        with open_regular(self._path) as file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != self._file or status.st_size < self._offset:
                raise NotCompactedError(
                    Why.FAILED, f"{self._path} was replaced meanwhile: look at the session"
                )
            file.seek(self._offset)
            block = file.read(READ_BYTES)
        whole = block[: block.rfind(b"\n") + 1]
        self._offset += len(whole) if whole or len(block) < READ_BYTES else len(block)
        for line in whole.splitlines():
            found = _boundary(line)
            if found:
                return found
        return None


def _boundary(line: bytes) -> NewBoundary | None:
    if _MARK not in line:
        return None
    try:
        said = _line.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # A message may quote a boundary's line: only a line of its own type is one.
    if (said.type, said.subtype) != ("system", "compact_boundary") or not said.uuid:
        return None
    sizes = said.compact_metadata or _Sizes()
    return NewBoundary(said.uuid, sizes.pre_tokens, sizes.post_tokens)
