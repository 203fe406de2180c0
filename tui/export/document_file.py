"""Writing a document into a file that a person names: private, complete or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ...core.files.file_operations import remove_if_present, write_temporary
from ...core.transcript.redaction import redact


class ExportError(Exception):
    """It cannot be written; the message says what, where and what to do."""


class FileThereError(ExportError):
    """Another file has that name."""


def parse_path(typed: str, base: Path) -> Path:
    """Understand what a person typed as a file's name; raises ExportError."""
    if not typed.strip():
        raise ExportError("no name: type the file to write")
    path = Path(typed.strip()).expanduser()
    path = path if path.is_absolute() else base / path
    if "\0" in typed:
        raise ExportError("a file's name has no NUL: type another one")
    return path


def write_export(
    path: Path, parts: Iterable[str], *, replacing: bool = False, redacting: bool = True
) -> int:
    """Write a file for the user alone and give its bytes; raises ExportError.

    Secrets are replaced by what they are, unless `redacting` is False. Another file is
    replaced only where that was asked for, a link never.
    """
    try:
        _check_target(path, replacing=replacing)
        # Whole: a private key has many lines.
        texts = [redact("".join(parts))] if redacting else parts
        return _write_parts(path, texts, replacing=replacing)
    except FileExistsError as error:
        raise FileThereError(f"{path} is there already: name another file") from error
    except OSError as error:
        why = error.strerror or error
        raise ExportError(f"{path} cannot be written: {why}; name another file") from error


def _check_target(path: Path, *, replacing: bool) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise ExportError(f"{path} is not a regular file: name another one")
    if not replacing:
        raise FileExistsError(str(path))


def _write_parts(path: Path, parts: Iterable[str], *, replacing: bool) -> int:
    part = write_temporary(path, (each.encode("utf-8", "replace") for each in parts))
    try:
        written = part.stat().st_size
        if replacing:
            part.replace(path)
        else:
            # Unlike a rename a link never takes the place of a file that came meanwhile.
            os.link(part, path, follow_symlinks=False)
    finally:
        remove_if_present(part)
    return written
