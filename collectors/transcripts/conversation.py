"""A transcript's conversation, read whole: for what has to look at its texts."""

from __future__ import annotations

import io
from sys import intern
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from ...core.conversation import Boundary, Clearing, Entry, PieceKind, Role
from ...core.last_line import AROUND, whole_length
from ..clean import clean_title
from ..regular import open_regular
from ..tail import LONGEST_LINE
from ..times import to_ms
from .attached import attached_pieces, snapshot_of
from .lines import MicrocompactMetadata, NotJsonError, Usage, mend
from .pieces import Call, Spoken, command_pieces, pieces_of
from .usage import is_lowered, read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SYNTHETIC: Final = "<synthetic>"
"""The model of an answer that the client made up; no API ever measured it."""

LAST_PROMPT: Final = "last-prompt"
"""The line in which the client remembers which line is its newest."""

SKIPPED: Final = (b'{"type":"api-request', b'{"type":"file-history', b'{"type":"cost-state')
"""How lines begin that are no part of the conversation and often long."""


class _Details(msgspec.Struct):
    thinking_tokens: int | None = None


class _Usage(Usage):
    output_tokens_details: _Details | None = None


class _Said(Spoken):
    """`message` of a user's or assistant's line."""

    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None


class _Kept(msgspec.Struct, rename="camel"):
    anchor_uuid: str | None = None
    uuids: tuple[str, ...] = ()
    head_uuid: str | None = None
    tail_uuid: str | None = None


class _Compaction(msgspec.Struct, rename="camel"):
    trigger: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    preserved_messages: _Kept | None = None
    preserved_segment: _Kept | None = None


class _Replacement(msgspec.Struct, rename="camel"):
    tool_use_id: str | None = None
    replacement: str | None = None


class _Origin(msgspec.Struct):
    kind: str | None = None


class _Line(msgspec.Struct, rename="camel"):
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    request_ref: str | None = None
    leaf_uuid: str | None = None
    origin: _Origin | None = None
    message: Raw | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    attachment: dict[str, Any] | None = None
    rendered: list[Any] | None = None
    compact_metadata: _Compaction | None = None
    microcompact_metadata: MicrocompactMetadata | None = None
    version: str | None = None
    replacements: list[_Replacement] | None = None


_CHAINED: Final = frozenset({"user", "assistant", "system", "attachment", "progress"})
"""Types of lines that have a parent; older clients wrote `progress` between two others."""

_line: Final = msgspec.json.Decoder(_Line)
_said: Final = msgspec.json.Decoder(_Said)


def read_conversation(path: Path, start: int = 0) -> list[Entry]:
    """Read the entries of a transcript in the order of its file; what is no entry is left out.

    For what has to look at all of them at once; `entries_from` gives them one by one.
    Raises OSError where the file cannot be read.
    """
    return list(entries_from(path, start))


def entries_from(path: Path, start: int = 0) -> Iterator[Entry]:
    """Give the entries from a line's byte offset on; that line counts as the first.

    A result whose call stands before it has no name. Raises OSError where the file cannot
    be read.
    """
    calls: dict[str, Call] = {}
    for offset, number, data in lines_of(path, start):
        entry = read_entry(offset, data, calls, number)
        # A line may be long: it is held no longer than it takes to read it.
        del data
        if entry is not None:
            yield entry
        del entry


def lines_of(path: Path, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """Give the whole lines of a file from a byte offset on, each with its offset and number.

    The first one counts as line 1. The last one may have no line end. Raises OSError where the
    file cannot be read.
    """
    with open_regular(path) as raw:
        file, offset, number = io.BufferedReader(raw, 1 << 20), start, 0  # type: ignore[type-var]
        file.seek(start)
        while data := file.readline(LONGEST_LINE):
            number += 1
            begin, offset = offset, offset + len(data)
            if data.endswith(b"\n") or whole_length(data):
                yield begin, number, data
            del data


def read_entry(offset: int, data: bytes, calls: dict[str, Call], number: int = 0) -> Entry | None:
    """Read one line; None for what is no entry. `calls` is kept from line to line."""
    # To strip it is to copy it, and hardly a line needs it.
    whole = data.startswith(b"{") and data.endswith((b"}", b"}\n"))
    text = data if whole else data.strip(AROUND + b"\n")
    if not text or text.startswith(SKIPPED):
        return None
    line = _decode(text)
    if line is None or not (line.type in _CHAINED or line.replacements or line.leaf_uuid):
        return None
    entry = Entry(
        offset=offset,
        length=len(data.removesuffix(b"\n")),
        line=number,
        type=line.type or "",
        uuid=line.uuid,
        parent=line.parent_uuid,
        subtype=line.subtype,
        at=to_ms(line.timestamp),
        sidechain=bool(line.is_sidechain),
        request_id=line.request_ref,
        leaf_uuid=line.leaf_uuid if line.type == LAST_PROMPT else None,
        # Every line says it: it is held once.
        version=intern(line.version) if line.version else None,
    )
    if line.type == "assistant":
        return _answer(entry, line, calls)
    if line.type == "user":
        return _user(entry, line, calls)
    if line.type == "attachment":
        return _attachment(entry, line)
    if line.type == "system":
        return _system(entry, line)
    named = [(each.tool_use_id, each.replacement) for each in line.replacements or ()]
    return replace(entry, replaced_results=tuple((who, what or "") for who, what in named if who))


def _decode(text: bytes) -> _Line | None:
    try:
        return _line.decode(text)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return _line.decode(mend(text))
        except (NotJsonError, msgspec.DecodeError, RecursionError):
            return None


def _message(raw: Raw | UnsetType) -> _Said:
    if raw is UNSET:
        return _Said()
    try:
        return _said.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Of another kind than any version wrote: the line is there and says nothing.
        return _Said()


def _answer(entry: Entry, line: _Line, calls: dict[str, Call]) -> Entry:
    said = _message(line.message)
    failed = bool(line.is_api_error_message)
    answer = replace(
        entry,
        role=Role.ASSISTANT,
        parts=pieces_of(said.content, PieceKind.TEXT, calls),
        message_id=said.id,
        model=clean_title(said.model or "") or None,
        hidden=failed,
    )
    if said.usage is None or said.model == SYNTHETIC or failed:
        return answer
    spent, context = read_usage(said.usage)
    details = said.usage.output_tokens_details
    return replace(
        answer,
        context_tokens=context,
        output_tokens=spent.output_tokens,
        thinking_tokens=details.thinking_tokens if details else None,
        is_estimate=is_lowered(said.usage),
    )


def _user(entry: Entry, line: _Line, calls: dict[str, Call]) -> Entry:
    kind = PieceKind.META if line.is_meta else PieceKind.PROMPT
    if line.is_compact_summary:
        kind = PieceKind.SUMMARY
    elif line.origin and line.origin.kind == "task-notification":
        kind = PieceKind.META
    return replace(
        entry,
        role=Role.USER,
        parts=pieces_of(_message(line.message).content, kind, calls),
    )


def _attachment(entry: Entry, line: _Line) -> Entry:
    attachment = line.attachment or {}
    kind = clean_title(str(attachment.get("type") or ""))
    return replace(
        entry,
        role=Role.USER,
        subtype=kind,
        parts=attached_pieces(kind, attachment, line.rendered),
        snapshot=snapshot_of(attachment) if kind == "prompt_snapshot" else None,
    )


def _system(entry: Entry, line: _Line) -> Entry:
    if line.subtype == "compact_boundary":
        return replace(entry, boundary=_boundary(line.compact_metadata or _Compaction()))
    if line.subtype == "microcompact_boundary":
        return replace(entry, microcompaction=_clearing(line.microcompact_metadata))
    if line.subtype == "local_command":
        return replace(entry, role=Role.USER, parts=command_pieces(line.content))
    return entry


def _boundary(said: _Compaction) -> Boundary:
    messages, segment = said.preserved_messages, said.preserved_segment
    ends = (segment.head_uuid, segment.tail_uuid) if segment else (None, None)
    anchored = messages or segment
    return Boundary(
        trigger=clean_title(said.trigger) if said.trigger else None,
        pre_tokens=said.pre_tokens,
        post_tokens=said.post_tokens,
        kept_uuids=messages.uuids if messages else (),
        kept_range=(ends[0], ends[1]) if ends[0] and ends[1] else None,
        anchor_uuid=anchored.anchor_uuid if anchored else None,
    )


def _clearing(said: MicrocompactMetadata | None) -> Clearing | None:
    if said is None:
        return None
    return Clearing(
        results=tuple(said.compacted_tool_ids),
        attachments=tuple(said.cleared_attachments),
        saved_tokens=said.tokens_saved,
    )
