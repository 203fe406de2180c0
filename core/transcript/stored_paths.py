"""The folder that a path names as `sanitize_path` stored it, and its name quoted for a shell."""

import re
import shlex
from pathlib import Path
from typing import Final

from .sanitize import reveal_line

_CODE: Final = re.compile(r"<U\+((?:10|[0-9A-F])?[0-9A-F]{4})>")


def path_spellings(path: str) -> tuple[str, ...]:
    """List the paths that `sanitize_path` writes as this one: a name may have real codes in it."""
    if "<U+" not in path:
        return (path,)
    return tuple(dict.fromkeys((path, _CODE.sub(lambda match: chr(int(match[1], 16)), path))))


def find_folder(path: str) -> str | None:
    """Return the folder that a stored path names; None if it may name two.

    A path is stored with codes for some characters. If there is no such folder, the path itself is
    returned.
    """
    spellings = path_spellings(path)
    if len(spellings) == 1:
        return path
    found = [each for each in spellings if Path(each).is_dir()]
    return None if len(found) > 1 else (*found, path)[0]


_UNQUOTED: Final = frozenset(range(0x20, 0x7F)) - frozenset(b"'\\")


def shell_word(text: str) -> str:
    """Quote a word for a shell; what a screen does not show is escaped as in $'a\\012b'."""
    if reveal_line(text) == text:
        return shlex.quote(text)
    data = text.encode("utf-8", "surrogateescape")
    escaped = "".join(chr(byte) if byte in _UNQUOTED else f"\\{byte:03o}" for byte in data)
    return f"$'{escaped}'"
