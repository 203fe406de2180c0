"""What Claude Code adds to a conversation: notifications, teammates' messages, attachments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from .conversation import MessagePart, PartKind, PromptSnapshot
from .line_decoder import decode_list
from .sanitize import sanitize_path, sanitize_title

TASK_NOTIFICATION: Final = "<task-notification>"


AGENT_TASK_TYPES: Final = frozenset({"local_agent", "remote_agent", "in_process_teammate"})
"""Types of background tasks that are agents; others are shells, workflows and monitors."""


_OTHER_TASK_SUMMARIES: Final = ("Background command ", "Monitor ", "Workflow ", "Dynamic workflow ")
"""How the summary begins of a notification that no agent sent (clients 2.1.205 to 2.1.329)."""


_RESUMED_SUFFIX: Final = " was resumed by the user"
"""How the summary ends of a notification that an agent is at work again."""


def is_agent_message(text: str) -> bool:
    """Whether a text of the user's role is an agent's or a teammate's, to be read by its parent."""
    if text.startswith(TASK_NOTIFICATION):
        return is_agent_notification(text)
    return text.startswith(PEER_MESSAGE_INTROS) and TEAMMATE_TAG in text


def is_agent_notification(text: str) -> bool:
    """Whether a notification says how an agent ended: shells and monitors send them too."""
    _, around = split_result(text)
    kind, summary = find_tag(around, "task-type"), find_tag(around, "summary") or ""
    if kind and kind not in AGENT_TASK_TYPES:
        return False
    resumed = find_tag(around, "status") is None and summary.endswith(_RESUMED_SUFFIX)
    return not (resumed or summary.startswith(_OTHER_TASK_SUMMARIES))


def find_tag(text: str, name: str) -> str | None:
    found = re.search(rf"<{name}>\s*(.*?)\s*</{name}>", text, re.DOTALL)
    return found[1] if found else None


def split_result(text: str) -> tuple[str | None, str]:
    """Split off the text between the first <result> and the last </result>.

    A result may itself contain any tag. Returns the result, None if there is none, and the
    rest of the text.
    """
    start, end = text.find("<result>"), text.rfind("</result>")
    if not 0 <= start < end:
        return None, text
    return text[start + len("<result>") : end], text[:start] + text[end:]


MESSAGE_STATUS: Final = "message"
"""Status of a return by which a teammate says something and works on."""

SHUT_DOWN_STATUS: Final = "shut_down"
"""Status of a return by which a teammate agrees to end; its result came before."""

PEER_MESSAGE_INTROS: Final = (
    "Another Claude session sent a message",
    "A peer session sent a message",
)
"""How client 2.1.329 introduces a message that another session or a teammate sent."""

TEAMMATE_TAG: Final = "<teammate-message"  # how each message begins
_TEAMMATE_BLOCK: Final = re.compile(
    r"<teammate-message\b[^>]*?\bteammate_id=\"([^\"]{1,200})\"[^>]*>(.*?)</teammate-message>",
    re.DOTALL,
)

_IDLE_STATUS: Final = {"interrupted": "stopped", "failed": "failed"}
"""By `idleReason`; "available", or none, says that the teammate finished what it was asked."""


class TeammateMessage(msgspec.Struct, frozen=True):
    """One message of a teammate, by its name."""

    name: str
    status: str  # as a return's: completed, failed or stopped, MESSAGE or SHUT_DOWN
    text: str  # empty where it only says how it ended


class _TeammateFrame(msgspec.Struct, rename="camel"):
    """A message that the client wrote for the teammate (schema of client 2.1.329)."""

    type: str
    sender: str | None = msgspec.field(name="from", default=None)
    idle_reason: str | None = None
    completed_status: str | None = None
    failure_reason: str | None = None
    result: str | None = None


class _MailboxMessage(msgspec.Struct):
    """A message in the attachment by which several arrive in the middle of a turn."""

    sender: str | None = msgspec.field(name="from", default=None)
    text: str | None = None


def is_teammate_text(text: str) -> bool:
    """Whether a user's text is a message of another session or a teammate, not a person's."""
    return text.startswith((TEAMMATE_TAG, *PEER_MESSAGE_INTROS))


def parse_teammate_messages(text: str) -> Iterator[TeammateMessage]:
    """Read the messages of a user's text; none where it is no teammate's.

    A frame that is neither a result nor an end (a permission request, a task) is passed over.
    """
    if is_teammate_text(text):
        for name, body in _TEAMMATE_BLOCK.findall(text):
            yield from _to_teammate_messages(name, body.strip("\n"))


def parse_mailbox(messages: Raw | UnsetType) -> Iterator[TeammateMessage]:
    """Read the messages of a `teammate_mailbox` attachment."""
    for mail in decode_list(messages, _MailboxMessage):
        if mail.sender and mail.text:
            yield from _to_teammate_messages(mail.sender, mail.text)


def _to_teammate_messages(name: str, body: str) -> Iterator[TeammateMessage]:
    frame = _parse_frame(body)
    if frame is None:
        yield TeammateMessage(sanitize_title(name), MESSAGE_STATUS, body)
        return
    name = sanitize_title(frame.sender or name)
    if frame.type == "shutdown_approved":
        yield TeammateMessage(name, SHUT_DOWN_STATUS, "")
    elif frame.type == "idle_notification":
        failed = frame.completed_status == "failed"
        status = "failed" if failed else _IDLE_STATUS.get(frame.idle_reason or "", "completed")
        yield TeammateMessage(name, status, frame.result or frame.failure_reason or "")


def _parse_frame(body: str) -> _TeammateFrame | None:
    if not body.lstrip().startswith("{"):
        return None
    try:
        return msgspec.json.decode(body, type=_TeammateFrame)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


UNSENT_ATTACHMENTS: Final = frozenset(
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

_TEXT_FIELDS: Final = (
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

_MEMORY_FILE_HEADING: Final = "Contents of "
"""How each memory file begins in the text that shows them all (client 2.1.329)."""

_FILE_REFERENCE: Final = "compact_file_reference"

_FILE_REFERENCE_TEXT: Final = (
    "Note: {} was read before the last conversation was summarized, but the contents are too"
    " large to include. Use Read tool if you need to access it."
)
"""What the model is told of a file after a compaction, where the client wrote its name alone."""

_PATH_FIELDS: Final = ("filename", "displayPath", "path", "planFilePath")

_REMINDER_CHARS: Final = 458
"""Of a reminder of the task tools, which clients before 2.1.2xx rendered from a text of
their own: characters of it in client 2.1.329, which writes it down."""


def attachment_parts(
    kind: str, attachment: dict[str, Any], rendered: list[Any] | None
) -> tuple[MessagePart, ...]:
    """Make the pieces that an attachment is; none where the model reads nothing of it."""
    if kind in UNSENT_ATTACHMENTS:
        return ()
    sent = None if rendered is None else [_rendered_text(each) for each in rendered]
    if kind == "queued_command" and is_agent_message(_queued_prompt(attachment)):
        text = _queued_prompt(attachment) if sent is None else "\n".join(sent)
        return (MessagePart(PartKind.AGENT_RETURN, text),)
    if rendered is None and kind == "queued_command":
        return _queued_parts(attachment)
    if sent is not None:
        # Each is a text of its own in the request.
        texts = sent
    else:
        texts = ["\n".join(iter_json_strings([attachment.get(name) for name in _TEXT_FIELDS]))]
        if kind in {"task_reminder", "todo_reminder"}:
            texts[0] += " " * _REMINDER_CHARS
    path = _attachment_path(attachment)
    if kind == _FILE_REFERENCE and path and not texts[0]:
        texts = [_FILE_REFERENCE_TEXT.format(path)]
    return tuple(
        MessagePart(PartKind.ATTACHMENT, part, kind, path=named or path)
        for text in texts
        for named, part in _split_by_file(text, attachment)
    )


def _split_by_file(text: str, attachment: dict[str, Any]) -> Iterable[tuple[str | None, str]]:
    """Cut the text that shows memory files where each begins; what is before has no path."""
    files = attachment.get("files")
    paths = [
        file["path"]
        for file in (files if isinstance(files, list) else [])
        if isinstance(file, dict) and isinstance(file.get("path"), str)
    ]
    found = sorted((text.find(f"{_MEMORY_FILE_HEADING}{path}"), path) for path in paths)
    starts = [(0, None), *((start, sanitize_path(path)) for start, path in found if start > 0)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    for (start, path), end in zip(starts, ends, strict=True):
        if text[start:end]:
            yield path, text[start:end]


def parse_prompt_snapshot(attachment: dict[str, Any]) -> PromptSnapshot:
    """Read the system prompt and the tools that a client wrote down."""
    tools = attachment.get("tools")
    return PromptSnapshot(
        system=tuple(iter_json_strings(attachment.get("systemPrompt"))),
        tools=tuple(
            (
                sanitize_title(str(tool.get("name") or "")),
                json.dumps(_tool_as_sent(tool), ensure_ascii=False),
            )
            for tool in (tools if isinstance(tools, list) else [])
            if isinstance(tool, dict)
        ),
    )


def _tool_as_sent(tool: dict[str, Any]) -> dict[str, Any]:
    # A snapshot holds the description twice: beside what is sent, and in it (client 2.1.329).
    whole = tool.get("schema")
    return whole if isinstance(whole, dict) and "description" in whole else tool


def iter_json_strings(value: Any) -> Iterable[str]:  # noqa: ANN401 -- any JSON
    """Yield the strings of a value in order.

    Of an object only `content` is searched, else `text`, else `file`.
    """
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, list):
        for each in value:
            yield from iter_json_strings(each)
    elif isinstance(value, dict):
        named = value.get("content", value.get("text", value.get("file")))
        yield from iter_json_strings(named)


def _content_of(block: Any) -> Any:  # noqa: ANN401 -- any JSON
    return block.get("content") if isinstance(block, dict) else block


def _rendered_text(rendered: Any) -> str:  # noqa: ANN401 -- any JSON
    return "\n".join(iter_json_strings(_content_of(rendered)))


def _queued_prompt(attachment: dict[str, Any]) -> str:
    return "\n".join(iter_json_strings(attachment.get("prompt")))


def _queued_parts(attachment: dict[str, Any]) -> tuple[MessagePart, ...]:
    text = _queued_prompt(attachment)
    if not text:
        return ()
    typed = attachment.get("commandMode") in {None, "prompt"}
    return (MessagePart(PartKind.PROMPT if typed else PartKind.META, text, "queued_command"),)


def _attachment_path(attachment: dict[str, Any]) -> str | None:
    for name in _PATH_FIELDS:
        value = attachment.get(name)
        if isinstance(value, str) and value:
            return sanitize_path(value)
    return None
