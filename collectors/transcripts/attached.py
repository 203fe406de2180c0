"""What the client put into the context by itself, as the model reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ...core.conversation import Piece, PieceKind, Snapshot
from ..clean import clean_path, clean_title
from .agent_returns import brings_result

if TYPE_CHECKING:
    from collections.abc import Iterable

UNSENT: Final = frozenset(
    {
        "command_permissions",
        "hook_cancelled",
        "hook_non_blocking_error",
        "hook_permission_decision",
        "hook_system_message",
        "prompt_snapshot",
        "session_context",
        "thinking_drop",
        "thinking_stripped",
    }
)
"""Kinds that the model never reads (client 2.1.329; older ones wrote no `rendered`)."""

_SAID_IN: Final = (
    "content",
    "text",
    "prompt",
    "snippet",
    "addedLines",
    "addedBlocks",
    "skills",
    "blockingError",
    "message",
    "items",
    "planContent",
    "memories",
    "diff",
    "messages",
)
"""Fields that hold what the model reads, where the client did not write it down as sent."""

_FILE_HEAD: Final = "Contents of "
"""How each memory file begins in the text that shows them all (client 2.1.329)."""

_REFERENCE: Final = "compact_file_reference"

_REFERENCE_SAYS: Final = (
    "Note: {} was read before the last conversation was summarized, but the contents are too"
    " large to include. Use Read tool if you need to access it."
)
"""What the model is told of a file after a compaction, where the client wrote its name alone."""

_NAMED_IN: Final = ("filename", "displayPath", "path", "planFilePath")

_REMINDER_CHARS: Final = 458
"""Of a reminder of the task tools, which clients before 2.1.2xx rendered from a text of
their own: characters of it in client 2.1.329, which writes it down."""


def attached_pieces(
    kind: str, attachment: dict[str, Any], rendered: list[Any] | None
) -> tuple[Piece, ...]:
    """Make the pieces that an attachment is; none where the model reads nothing of it."""
    if kind in UNSENT:
        return ()
    sent = None if rendered is None else [_sent(each) for each in rendered]
    if kind == "queued_command" and brings_result(_prompt(attachment)):
        text = _prompt(attachment) if sent is None else "\n".join(sent)
        return (Piece(PieceKind.AGENT_RETURN, text),)
    if rendered is None and kind == "queued_command":
        return _queued(attachment)
    if sent is not None:
        # Each is a text of its own in the request.
        texts = sent
    else:
        texts = ["\n".join(strings_in([attachment.get(name) for name in _SAID_IN]))]
        if kind in {"task_reminder", "todo_reminder"}:
            texts[0] += " " * _REMINDER_CHARS
    path = _path(attachment)
    if kind == _REFERENCE and path and not texts[0]:
        texts = [_REFERENCE_SAYS.format(path)]
    return tuple(
        Piece(PieceKind.ATTACHMENT, part, kind, path=named or path)
        for text in texts
        for named, part in _by_file(text, attachment)
    )


def _by_file(text: str, attachment: dict[str, Any]) -> Iterable[tuple[str | None, str]]:
    """Cut the text that shows memory files where each begins; what is before has no path."""
    files = attachment.get("files")
    paths = [
        file["path"]
        for file in (files if isinstance(files, list) else [])
        if isinstance(file, dict) and isinstance(file.get("path"), str)
    ]
    found = sorted((text.find(f"{_FILE_HEAD}{path}"), path) for path in paths)
    starts = [(0, None), *((start, clean_path(path)) for start, path in found if start > 0)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    for (start, path), end in zip(starts, ends, strict=True):
        if text[start:end]:
            yield path, text[start:end]


def snapshot_of(attachment: dict[str, Any]) -> Snapshot:
    """Read the system prompt and the tools that a client wrote down."""
    tools = attachment.get("tools")
    return Snapshot(
        system=tuple(strings_in(attachment.get("systemPrompt"))),
        tools=tuple(
            (
                clean_title(str(tool.get("name") or "")),
                json.dumps(_as_sent(tool), ensure_ascii=False),
            )
            for tool in (tools if isinstance(tools, list) else [])
            if isinstance(tool, dict)
        ),
    )


def _as_sent(tool: dict[str, Any]) -> dict[str, Any]:
    # A snapshot holds the description twice: beside what is sent, and in it (client 2.1.329).
    whole = tool.get("schema")
    return whole if isinstance(whole, dict) and "description" in whole else tool


def strings_in(value: Any) -> Iterable[str]:  # noqa: ANN401 -- any JSON
    """Give the texts of a value in their order, without the names of its fields."""
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, list):
        for each in value:
            yield from strings_in(each)
    elif isinstance(value, dict):
        named = value.get("content", value.get("text", value.get("file")))
        yield from strings_in(named)


def _content(block: Any) -> Any:  # noqa: ANN401 -- any JSON
    return block.get("content") if isinstance(block, dict) else block


def _sent(rendered: Any) -> str:  # noqa: ANN401 -- any JSON
    return "\n".join(strings_in(_content(rendered)))


def _prompt(attachment: dict[str, Any]) -> str:
    return "\n".join(strings_in(attachment.get("prompt")))


def _queued(attachment: dict[str, Any]) -> tuple[Piece, ...]:
    text = _prompt(attachment)
    if not text:
        return ()
    typed = attachment.get("commandMode") in {None, "prompt"}
    return (Piece(PieceKind.PROMPT if typed else PieceKind.META, text, "queued_command"),)


def _path(attachment: dict[str, Any]) -> str | None:
    for name in _NAMED_IN:
        value = attachment.get(name)
        if isinstance(value, str) and value:
            return clean_path(value)
    return None
