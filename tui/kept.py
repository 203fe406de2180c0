"""What a person arranged and finds again at the next start: theme, order, pins."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec

LARGEST: Final = 1 << 20
"""Bytes; a larger file is not ours."""


class Kept(msgspec.Struct, frozen=True):
    """All of it; a field that is not in the file has its default."""

    theme: str = ""
    order: str = ""
    grouped: bool = False
    pins: tuple[str, ...] = ()
    """Sessions that stay on top, the newest last."""
    welcomed: bool = False
    """The first-run screen was seen."""


class KeptFile:
    """A file beside the store; it is read once, and written whole."""

    def __init__(self, store: Path) -> None:
        self._path: Final = store.with_name(f"{store.name}.screen.json")

    def read(self) -> Kept:
        """Read it; what is missing or cannot be understood is as on the first day."""
        try:
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            with os.fdopen(os.open(self._path, flags), "rb") as file:
                return msgspec.json.decode(file.read(LARGEST), type=Kept)
        except (OSError, msgspec.DecodeError):
            return Kept()

    def write(self, kept: Kept) -> None:
        """Write it, for nobody else to read; raises OSError."""
        folder = self._path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".screen-", delete=False) as file:
            file.write(msgspec.json.encode(kept))
        Path(file.name).replace(self._path)
