"""Summaries that a model wrote, kept by what they were made of: the same is asked for once."""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE_FILE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700

LARGEST: Final = 4 * 1024 * 1024
"""Bytes of a kept answer: `post.LARGEST_ANSWER`."""

_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class Key(msgspec.Struct, frozen=True):
    """What an answer depends on (T-15); the conversation stands in the request's text."""

    session_id: str
    provider: str
    model: str
    template: str
    max_tokens: int
    text: str

    @property
    def digest(self) -> str:
        """The name of its file: a sha256 in hex."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


class Cache(msgspec.Struct, frozen=True):
    """A folder of answers."""

    folder: Path

    def get(self, key: Key) -> str | None:
        """Give a kept answer; None where there is none that can be read."""
        try:
            with os.fdopen(os.open(self.folder / key.digest, _READ), "rb") as file:
                data = file.read(LARGEST + 1)
        except OSError:
            return None
        return data.decode("utf-8", "replace") if 0 < len(data) <= LARGEST else None

    def put(self, key: Key, text: str) -> None:
        """Keep an answer; raises OSError. Who reads meanwhile finds all of it or nothing."""
        self.folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        part = self.folder / f"{key.digest}.{secrets.token_hex(8)}.part"
        descriptor = os.open(part, _WRITE, PRIVATE_FILE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode("utf-8", "replace"))
            part.replace(self.folder / key.digest)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
