"""The old texts of later Edits: names survive in stubs, the text that an Edit replaces does not."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop.core.compaction.strategies.stubs import edit_texts
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.artifacts import parse_tool_input
from ctxtop.core.summaries.summary_facts import FILES_TITLE
from ctxtop.core.summaries.tool_outcomes import READ_AGAIN
from ctxtop.core.transcript.line_types import EDIT_TOOLS
from ctxtop.core.transcript.visible_messages import is_call

from .texts import pieces_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctxtop.core.model.conversation import Entry, MessagePart

REMOVABLE: Final = frozenset({PartKind.TOOL_RESULT, PartKind.TOOL_INPUT})
"""What levels 2 to 4 remove; a name that anything else holds is never lost."""

_LINE_NUMBER: Final = re.compile(r"^ *\d+(?:\t|→)", re.MULTILINE)


class EditedTexts(msgspec.Struct, frozen=True):
    """Old texts of the next Edits that the context held, and what became of them."""

    needed: tuple[str, ...] = ()
    """The path of the file of each."""
    gone: tuple[str, ...] = ()
    """Of those that the context does not hold any more."""
    unnamed: tuple[str, ...] = ()
    """Of those of a file that nothing says to read again before editing."""


def edited_texts(
    original: Sequence[Entry], compacted: Sequence[Entry], after: Sequence[Entry]
) -> EditedTexts:
    """Look up what the next Edits replace; what is read again before an Edit is not needed."""
    held, left = _texts_by_path(original), _texts_by_path(compacted)
    needed: list[str] = []
    gone: list[str] = []
    since: dict[str, list[str]] = defaultdict(list)
    for piece in pieces_of(after):
        path = piece.path or ""
        for old in old_texts(piece):
            if _holds(held[path], old) and not _holds(since[path], old):
                needed.append(path)
                gone += [] if _holds(left[path], old) else [path]
        if (text := file_text(piece)) is not None:
            since[path].append(text)
    pieces = [*pieces_of(compacted)]
    named = {piece.path for piece in pieces if READ_AGAIN in text_of(piece)}
    listed = "\n".join(
        line for piece in pieces if piece.kind is PartKind.SUMMARY for line in _listed(piece.text)
    )
    unnamed = [path for path in gone if path not in named and path not in listed]
    return EditedTexts(tuple(needed), tuple(gone), tuple(unnamed))


def old_texts(piece: MessagePart) -> Iterator[str]:
    """Yield what an Edit replaces."""
    if is_call(piece) and piece.name in EDIT_TOOLS and piece.path:
        for field, text in edit_texts(parse_tool_input(piece)):
            if field.endswith("old_string") and text:
                yield text


def file_text(piece: MessagePart) -> str | None:
    """Return what a part holds of a file's text, without line numbers; None if it has no file."""
    if piece.kind not in REMOVABLE or not piece.path:
        return None
    return text_of(piece) if is_call(piece) else _LINE_NUMBER.sub("", piece.text)


def _texts_by_path(entries: Sequence[Entry]) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = defaultdict(list)
    for piece in pieces_of(entries):
        if (text := file_text(piece)) is not None:
            texts[piece.path or ""].append(text)
    return texts


def _holds(texts: Sequence[str], old: str) -> bool:
    return any(old in text for text in texts)


def _listed(summary: str) -> Iterator[str]:
    """Yield the lines that a summary lists under its title of files to read again."""
    is_list = False
    for line in summary.split("\n"):
        if is_list and line.startswith("- "):
            yield line
        else:
            is_list = line.startswith(FILES_TITLE)
