"""Writing a document to a file that a person named: a new one, for nobody else to read."""

from __future__ import annotations

import os
from pathlib import Path

from ..collectors.folder import Trouble


def write_new(name: str, text: str) -> Path | Trouble:
    """Write a file that is not there yet; says what is in the way where it cannot."""
    path = Path(name).expanduser().absolute()
    try:
        # What is there is never replaced, and no link is followed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return Trouble(str(path), "is there already", "give another name")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return Trouble(str(path), f"cannot be written: {why}", "give another name")
    return path
