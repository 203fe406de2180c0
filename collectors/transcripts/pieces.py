"""The blocks of a message as pieces: what each is, its text, and the tool and file it names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ...core.conversation import Piece, PieceKind
from ..clean import clean_path, clean_title
from .agent_returns import AGENT_TASKS, brings_result
from .line_types import MACHINE_TEXT, TOOLS_THAT_ASK_AGENTS, TOOLS_THAT_START_AGENTS
from .lines import NotJsonError, decode_word

if TYPE_CHECKING:
    from collections.abc import Iterator


class Block(msgspec.Struct):
    """One block of a message's content, or of a tool's result."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw | UnsetType = UNSET
    tool_use_id: str | None = None
    content: list[Block] | str | None = None
    is_error: bool | None = None


class Spoken(msgspec.Struct):
    """What every message has."""

    content: list[Block] | str | None = None


class Call(msgspec.Struct, frozen=True):
    """A tool call, as far as its result is named by it."""

    name: str
    path: str | None


class _Input(msgspec.Struct):
    """The fields by which tools name the file that they touch."""

    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None


MEDIA: Final = frozenset({"image", "document"})

_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})

_AGENT_TASK: Final = re.compile(
    rf"<task_type>(?:{'|'.join(sorted(AGENT_TASKS))})</task_type>|<agent_id>"
)
"""How the result of asking for a background task's output names an agent's."""

_input: Final = msgspec.json.Decoder(_Input)


def pieces_of(
    content: list[Block] | str | None, kind: PieceKind, calls: dict[str, Call]
) -> tuple[Piece, ...]:
    """Take a message's content apart; its texts are of `kind`, unless the client wrote them.

    `calls` learns the tool calls that it meets, by id, and names the results of earlier ones.
    """
    if isinstance(content, str):
        content = [Block(type="text", text=content)]
    return tuple(_pieces(content or [], kind, calls))


def command_pieces(content: Raw | UnsetType) -> tuple[Piece, ...]:
    """Take in what a local command printed, which the client sends as the person's words."""
    try:
        text = decode_word(content)
    except NotJsonError:
        return ()
    return (Piece(PieceKind.META, text, "local_command"),) if text else ()


def _pieces(blocks: list[Block], kind: PieceKind, calls: dict[str, Call]) -> Iterator[Piece]:
    for block in blocks:
        if block.type == "text" and block.text:
            yield Piece(_text_kind(block.text, kind), block.text)
        elif block.type in _THOUGHTS:
            yield Piece(PieceKind.THINKING, block.thinking or "")
        elif block.type in _CALLS:
            yield _call(block, calls)
        elif block.type in MEDIA:
            yield Piece(kind, media=1)
        elif block.tool_use_id is not None:
            yield _result(block, calls)


def _text_kind(text: str, kind: PieceKind) -> PieceKind:
    if kind not in {PieceKind.PROMPT, PieceKind.META}:
        return kind
    if brings_result(text):
        return PieceKind.AGENT_RETURN
    return PieceKind.META if MACHINE_TEXT.match(text) else kind


def _call(block: Block, calls: dict[str, Call]) -> Piece:
    text = "" if block.input is UNSET else str(memoryview(block.input), "utf-8", "replace")
    call = Call(clean_title(block.name or ""), _path_in(block.input))
    if block.id:
        calls[block.id] = call
    return Piece(PieceKind.TOOL_INPUT, text, call.name, block.id, call.path)


def _path_in(raw: Raw | UnsetType) -> str | None:
    if raw is UNSET:
        return None
    try:
        named = _input.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # An input of another tool, whose `path` is something else.
        return None
    path = named.file_path or named.notebook_path or named.path
    return clean_path(path) if path else None


def _result(block: Block, calls: dict[str, Call]) -> Piece:
    call = calls.get(block.tool_use_id or "", Call("", None))
    content = block.content
    blocks = [] if content is None or isinstance(content, str) else content
    text = content if isinstance(content, str) else "\n".join(each.text or "" for each in blocks)
    kind = PieceKind.TOOL_RESULT
    asked_of_agent = call.name in TOOLS_THAT_ASK_AGENTS and _AGENT_TASK.search(text)
    if call.name in TOOLS_THAT_START_AGENTS or asked_of_agent:
        kind = PieceKind.AGENT_RETURN
    return Piece(
        kind,
        text,
        call.name,
        block.tool_use_id,
        call.path,
        media=sum(each.type in MEDIA for each in blocks),
        failed=bool(block.is_error),
    )
