"""How a requested compaction ends: its result, its failures, its boundary."""

from __future__ import annotations

import os
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ...core.files.safe_open import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Via(StrEnum):
    """The way by which the client is asked."""

    AUTO = "auto"
    PLUGIN = "plugin"
    TMUX = "tmux"
    CLI = "cli"


class CompactFailure(StrEnum):
    """What kept the client from compacting."""

    FAILED = "failed"
    NOTHING = "nothing"
    """There is nothing to compact, or nobody to ask by this way."""
    LIVE = "live"
    """It is busy, or open elsewhere."""
    UNSAFE = "unsafe"
    """It could not be proved that asking does no harm."""
    UNTRUSTED = "untrusted"
    """Nothing may be started in its folder."""


class NotCompactedError(Exception):
    """The client did not compact; the message says why and what to do."""

    def __init__(self, failure: CompactFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class ClientCompactResult(msgspec.Struct, frozen=True):
    """A compaction that was asked for and is in the transcript; times in ms, sizes in tokens."""

    session_id: str
    via: Via
    requested_at: int
    boundary_uuid: str
    pre_tokens: int | None
    post_tokens: int | None
    seconds: float
    """From the request to the boundary."""
    command: tuple[str, ...] = ()
    """What was run for it; empty where a client that was open did it."""
    folder: str | None = None
    """Where that was run."""


Polled = TypeVar("Polled")

POLL_INTERVAL_S: Final = 0.1
"""Between two looks: less than a person notices."""

COMPACT_TIMEOUT_S: Final = 300.0
"""A summary of a full large window takes three minutes; after this the request is an orphan."""


def wait_for(poll: Callable[[], Polled | None], timeout_s: float) -> Polled | None:
    """Look again and again until there is something, or `most_s` seconds have passed."""
    until = time.monotonic() + timeout_s
    while True:
        found = poll()
        if found is not None or time.monotonic() >= until:
            return found
        time.sleep(POLL_INTERVAL_S)


MAX_READ_BYTES: Final = 32 * 1024 * 1024
"""At one look: a compaction writes 150 kB, and a line above this is no boundary."""

_BOUNDARY_MARK: Final = b"compact_boundary"


class _CompactMetadata(msgspec.Struct, rename="camel"):
    pre_tokens: int | None = None
    post_tokens: int | None = None


class _BoundaryLine(msgspec.Struct, rename="camel"):
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    compact_metadata: _CompactMetadata | None = None


class NewBoundary(msgspec.Struct, frozen=True):
    """A compaction that the transcript records; tokens as the client counted them."""

    uuid: str
    pre_tokens: int | None
    post_tokens: int | None


_boundary_decoder: Final = msgspec.json.Decoder(_BoundaryLine)


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
                    CompactFailure.FAILED,
                    f"{self._path} was replaced meanwhile: look at the session",
                )
            file.seek(self._offset)
            block = file.read(MAX_READ_BYTES)
        whole = block[: block.rfind(b"\n") + 1]
        self._offset += len(whole) if whole or len(block) < MAX_READ_BYTES else len(block)
        for line in whole.splitlines():
            found = _parse_boundary(line)
            if found:
                return found
        return None


def _parse_boundary(line: bytes) -> NewBoundary | None:
    if _BOUNDARY_MARK not in line:
        return None
    try:
        said = _boundary_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # A message may quote a boundary's line: only a line of its own type is one.
    if (said.type, said.subtype) != ("system", "compact_boundary") or not said.uuid:
        return None
    sizes = said.compact_metadata or _CompactMetadata()
    return NewBoundary(said.uuid, sizes.pre_tokens, sizes.post_tokens)
