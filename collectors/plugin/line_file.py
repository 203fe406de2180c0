"""What ctxtop's reader keeps for the status line: one small file a session.

The status line has 60 ms, and the forecast alone needs more for what it imports: the reader
works it out after each update, and the status line only reads.
"""

from __future__ import annotations

import os

from .log import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

FORM: Final = 1
"""Of the file: a status line reads no other's."""

LARGEST: Final = 16 * 1024
"""Bytes; ours have about 400."""

_SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def line_folder(store: str) -> str:
    """Name the folder of a store's files for the status line."""
    return f"{store}.line"


def line_path(store: str, session_id: str) -> str | None:
    """Name a session's file; None where the client's word for it is no file name."""
    plain = session_id.replace("-", "")
    if not (plain.isascii() and plain.isalnum()):
        return None
    return f"{line_folder(store)}/{session_id.lower()}.json"


def read_line(store: str, session_id: str) -> dict[str, Any]:
    """Read what is kept of a session; empty where nothing is, or nothing that can be used."""
    path = line_path(store, session_id)
    if path is None:
        return {}
    try:
        descriptor = os.open(path, os.O_RDONLY | _SAFELY)
    except OSError:
        return {}
    try:
        text = os.read(descriptor, LARGEST)
    except OSError:
        return {}
    finally:
        os.close(descriptor)
    kept = decode(text.decode("utf-8", "replace").strip())
    return kept if kept and kept.get("v") == FORM else {}
