"""Which files were made, changed, deleted and read: exactly, from the calls of tools."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..conversation import PieceKind
from .artifacts import EDITED, READ, WRITTEN, input_of
from .fact import as_data, one_line
from .names import path_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..conversation import Entry, Piece

COMMAND_CHARS: Final = 120
"""Of a command that is shown: what it runs and on what."""

SHELLS: Final = frozenset({"Bash", "PowerShell"})

CREATED: Final = "File created successfully"
"""How a Write's result begins where there was no such file (client 1.0 to 2.1.329)."""

_ENDS: Final = re.compile(r"&&|\|\||[;\n|]")
_REMOVERS: Final = frozenset({"rm", "unlink", "del", "Remove-Item"})
_SAID: Final = re.compile(r"(read|edited|written) (\d+)×|(created|deleted)")
_RAN: Final = "; last command: "


class FileState(msgspec.Struct, frozen=True):
    """What was done to one file by calls that did not fail."""

    path: str
    reads: int = 0
    edits: int = 0
    writes: int = 0
    created: bool = False
    deleted: bool = False
    command: str = ""
    """The last one that named it, one line; empty where there was none."""
    line: int = 0
    """Of the last touch, from 1."""

    @property
    def is_changed(self) -> bool:
        """It is not as it was."""
        return bool(self.edits or self.writes or self.created or self.deleted)


def index_files(
    entries: Iterable[Entry], earlier: Iterable[FileState] = ()
) -> tuple[FileState, ...]:
    """List the files that were touched, changed ones first, then the newest.

    A call counts when its result says no failure, or when its result is not there (it was cut
    off). A file is deleted by a shell's `rm` that names it, until it is written again.
    Source: compaction.md 4.2, Q7.
    """
    files = {each.path: each for each in earlier}
    calls: dict[str, tuple[Piece, int]] = {}
    for entry in entries:
        for piece in entry.parts:
            if piece.kind is PieceKind.TOOL_INPUT:
                calls[piece.tool_use_id or f"line {entry.line}"] = piece, entry.line
            elif piece.kind is PieceKind.TOOL_RESULT:
                asked = calls.pop(piece.tool_use_id or "", None)
                if asked and not piece.failed:
                    _take(files, *asked, piece.text)
    for call, line in calls.values():
        _take(files, call, line, "")
    return tuple(sorted(files.values(), key=lambda use: (not use.is_changed, -use.line, use.path)))


def say(state: FileState) -> str:
    """Say what was done to a file, in words that `heard` reads again."""
    flags = (("created", state.created), ("deleted", state.deleted))
    done = [word for word, is_so in flags if is_so]
    counted = (("edited", state.edits), ("written", state.writes), ("read", state.reads))
    done += [f"{word} {count}×" for word, count in counted if count]
    ran = f"{_RAN}{state.command}" if state.command else ""
    return f"{state.path} ({', '.join(done) or 'named'}){ran}"


def heard(text: str, line: int = 0) -> FileState | None:
    """Read what `say` said; None for other words."""
    said, _, command = text.partition(_RAN)
    path, bracket, done = said.rpartition(" (")
    if not bracket or not done.endswith(")"):
        return None
    counts: dict[str, int] = {}
    flags: set[str] = set()
    for word, count, flag in _SAID.findall(done):
        flags |= {flag} if flag else set()
        counts |= {word: int(count)} if word else {}
    return FileState(
        path=path,
        reads=counts.get("read", 0),
        edits=counts.get("edited", 0),
        writes=counts.get("written", 0),
        created="created" in flags,
        deleted="deleted" in flags,
        command=command,
        line=line,
    )


def _take(files: dict[str, FileState], call: Piece, line: int, result: str) -> None:
    if call.name in SHELLS:
        _run(files, str(input_of(call).get("command") or ""), line)
    elif call.path and call.name in READ | EDITED | WRITTEN:
        known = files.get(call.path, FileState(call.path))
        wrote = call.name in WRITTEN
        files[call.path] = replace(
            known,
            reads=known.reads + (call.name in READ),
            edits=known.edits + (call.name in EDITED),
            writes=known.writes + wrote,
            created=known.created or (wrote and result.startswith(CREATED)),
            deleted=known.deleted and call.name in READ,
            line=line,
        )


def _run(files: dict[str, FileState], command: str, line: int) -> None:
    removed = _removed_by(command)
    for path, known in files.items():
        parts = path_parts(path)
        if not parts or parts[-1] not in command:
            continue
        files[path] = replace(
            known,
            command=one_line(as_data(command), COMMAND_CHARS),
            deleted=known.deleted or _names(removed, parts),
            line=line,
        )
    for word in removed:
        if word.startswith("/") and word not in files and "*" not in word:
            shown = one_line(as_data(command), COMMAND_CHARS)
            files[word] = FileState(word, deleted=True, command=shown, line=line)


def _names(words: set[str], parts: list[str]) -> bool:
    """Say whether one of the words is a path's end, part by part."""
    return any((own := path_parts(word)) and parts[-len(own) :] == own for word in words)


def _removed_by(command: str) -> set[str]:
    removed: set[str] = set()
    for one in _ENDS.split(command):
        try:
            words = shlex.split(one)
        except ValueError:
            continue
        words = words[1:] if words[:1] == ["sudo"] else words
        words = words[1:] if words[:2] == ["git", "rm"] else words
        if words and words[0] in _REMOVERS:
            removed |= {word for word in words[1:] if not word.startswith("-")}
    return removed
