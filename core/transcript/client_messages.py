"""What Claude Code adds to a conversation: notifications, teammates' messages, attachments."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from ..model.conversation import Author, Entry, MessagePart, PartKind, PromptSnapshot
from .authorship import queued_author
from .line_decoder import decode_list
from .sanitize import sanitize_path, sanitize_title

TASK_NOTIFICATION: Final = "<task-notification>"

AGENT_TASK_TYPES: Final = frozenset({"local_agent", "remote_agent", "in_process_teammate"})
"""Types of background tasks that are agents; others are shells, workflows and monitors."""

_OTHER_TASK_SUMMARIES: Final = ("Background command ", "Monitor ", "Workflow ", "Dynamic workflow ")
"""Starts of the summary of a notification that no agent sent (clients 2.1.205 to 2.1.329)."""

_RESUMED_SUFFIX: Final = " was resumed by the user"
"""End of the summary of a notification that an agent is at work again."""


def is_agent_message(text: str) -> bool:
    """Return whether a text of the user's role is a message of an agent or a teammate."""
    if text.startswith(TASK_NOTIFICATION):
        return is_agent_notification(text)
    return text.startswith(PEER_MESSAGE_INTROS) and TEAMMATE_TAG in text


def is_agent_notification(text: str) -> bool:
    """Return whether a notification reports an agent's end: shells and monitors send them too."""
    _, rest = split_result(text)
    kind, summary = find_tag(rest, "task-type"), find_tag(rest, "summary") or ""
    if kind and kind not in AGENT_TASK_TYPES:
        return False
    resumed = find_tag(rest, "status") is None and summary.endswith(_RESUMED_SUFFIX)
    return not (resumed or summary.startswith(_OTHER_TASK_SUMMARIES))


def find_tag(text: str, name: str) -> str | None:
    match = re.search(rf"<{name}>\s*(.*?)\s*</{name}>", text, re.DOTALL)
    return match[1] if match else None


def split_result(text: str) -> tuple[str | None, str]:
    """Return the text between the first <result> and the last </result>, and the rest.

    A result may itself contain any tag. It is None if there is none.
    """
    start, end = text.find("<result>"), text.rfind("</result>")
    if not 0 <= start < end:
        return None, text
    return text[start + len("<result>") : end], text[:start] + text[end:]


MESSAGE_STATUS: Final = "message"  # a teammate says something and works on
SHUT_DOWN_STATUS: Final = "shut_down"  # a teammate agrees to end; its result came before

PEER_MESSAGE_INTROS: Final = (
    "Another Claude session sent a message",
    "A peer session sent a message",
)
"""How client 2.1.329 introduces a message that another session or a teammate sent."""

TEAMMATE_TAG: Final = "<teammate-message"
_TEAMMATE_BLOCK: Final = re.compile(
    r"<teammate-message\b[^>]*?\bteammate_id=\"([^\"]{1,200})\"[^>]*>(.*?)</teammate-message>",
    re.DOTALL,
)

_IDLE_STATUS: Final = {"interrupted": "stopped", "failed": "failed"}
"""By `idleReason`; "available", or none, means that the teammate finished its task."""


class TeammateMessage(msgspec.Struct, frozen=True):
    name: str
    status: str  # as a return's: completed, failed or stopped, MESSAGE_STATUS or SHUT_DOWN_STATUS
    text: str  # empty if it only reports how the teammate ended


class _TeammateFrame(msgspec.Struct, rename="camel"):
    """A message that the client wrote for the teammate (schema of client 2.1.329)."""

    type: str
    sender: str | None = msgspec.field(name="from", default=None)
    idle_reason: str | None = None
    completed_status: str | None = None
    failure_reason: str | None = None
    result: str | None = None
    subject: str | None = None
    description: str | None = None
    assigned_by: str | None = None


class _MailboxMessage(msgspec.Struct):
    """A message in the attachment that delivers several in the middle of a turn."""

    sender: str | None = msgspec.field(name="from", default=None)
    text: str | None = None


def parse_teammate_messages(text: str) -> Iterator[TeammateMessage]:
    """Yield the messages in a user's text; none if a person wrote it.

    Frames that are neither a result nor an end (a permission request, a task) are skipped.
    """
    if text.startswith((TEAMMATE_TAG, *PEER_MESSAGE_INTROS)):
        for name, body in _TEAMMATE_BLOCK.findall(text):
            yield from _to_teammate_messages(name, body.strip("\n"))


def parse_teammate_tasks(text: str) -> Iterator[tuple[str, str]]:
    """Yield what teammates ask for in a user's text: each one's name, and the words."""
    if not text.startswith((TEAMMATE_TAG, *PEER_MESSAGE_INTROS)):
        return
    for name, body in _TEAMMATE_BLOCK.findall(text):
        frame = _parse_frame(body)
        if frame is None:
            yield sanitize_title(name), body.strip()
        elif frame.type == "task_assignment":
            words = "\n".join(filter(None, (frame.subject, frame.description)))
            yield sanitize_title(frame.assigned_by or name), words.strip()


def parse_mailbox(messages: Raw | UnsetType) -> Iterator[TeammateMessage]:
    """Yield the messages of a `teammate_mailbox` attachment."""
    for message in decode_list(messages, _MailboxMessage):
        if message.sender and message.text:
            yield from _to_teammate_messages(message.sender, message.text)


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


_UNSENT_ATTACHMENTS: Final = frozenset(
    {
        "command_permissions", "hook_cancelled", "hook_non_blocking_error",
        "hook_permission_decision", "hook_system_message", "prompt_snapshot", "session_context",
        "thinking_drop", "thinking_stripped",
    }
)  # fmt: skip
"""Kinds that the model never reads (client 2.1.329; older ones wrote no `rendered`)."""

_TEXT_FIELDS: Final = (
    "content", "text", "prompt", "snippet", "addedLines", "addedBlocks", "skills",
    "blockingError", "message", "items", "planContent", "memories", "diff", "messages",
)  # fmt: skip
"""Fields that hold what the model reads, if the client did not record it as sent."""

NESTED_MEMORY: Final = "nested_memory"  # the attachment of a memory file beside one that was read
_PATH_FIELDS: Final = ("filename", "displayPath", "path", "planFilePath")
MEMORY_FILE_HEADING: Final = "Contents of "  # starts each memory file (client 2.1.329)

FILE_REFERENCE_TEXT: Final = (
    "Note: {} was read before the last conversation was summarized, but the contents are too"
    " large to include. Use Read tool if you need to access it."
)
"""What the model reads of a file after a compaction, if the client recorded only its name."""

_REMINDER_CHARS: Final = 458
"""Characters of a reminder of the task tools, whose text clients before 2.1.2xx did not record:
its length in client 2.1.329, which does."""


def attachment_parts(
    kind: str, attachment: dict[str, Any], rendered: list[Any] | None
) -> tuple[MessagePart, ...]:
    """Make the parts of an attachment; none if the model reads nothing of it."""
    if kind in _UNSENT_ATTACHMENTS:
        return ()
    sent = None if rendered is None else [_rendered_text(each) for each in rendered]
    if kind == QUEUED_PROMPT:
        prompt = "\n".join(iter_json_strings(attachment.get("prompt")))
        if is_agent_message(prompt):
            text = prompt if sent is None else "\n".join(sent)
            return (MessagePart(PartKind.AGENT_RETURN, text),)
        if queued_author(attachment) is not Author.PERSON:
            texts = [prompt] if sent is None else sent
            return tuple(MessagePart(PartKind.META, text, kind) for text in texts if text)
        if sent is None:
            return (MessagePart(PartKind.PROMPT, prompt, kind),) if prompt else ()
    if sent is not None:
        # Each is a text of its own in the request.
        texts = sent
    else:
        texts = ["\n".join(iter_json_strings([attachment.get(name) for name in _TEXT_FIELDS]))]
        if kind in {"task_reminder", "todo_reminder"}:
            texts = [_reminder_list(attachment.get("content")) + " " * _REMINDER_CHARS]
    path = _attachment_path(kind, attachment)
    if kind == "compact_file_reference" and path and not texts[0]:
        texts = [FILE_REFERENCE_TEXT.format(path)]
    return tuple(
        MessagePart(PartKind.ATTACHMENT, part, kind, path=own_path or path)
        for text in texts
        for own_path, part in _split_by_file(text, attachment)
    )


def _reminder_list(items: object) -> str:
    """Write the tasks or todos of a reminder as the client sends them (2.1.329, its code)."""
    if isinstance(items, str):
        return items
    listed = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    return "\n".join(
        f"#{item['id']}. [{item.get('status')}] {item.get('subject')}"
        if "id" in item
        else f"{number}. [{item.get('status')}] {item.get('content')}"
        for number, item in enumerate(listed, 1)
    )


QUEUED_PROMPT: Final = "queued_command"  # the attachment of a prompt that was sent during a turn
_QUEUED_PROMPT_TEXT: Final = re.compile(
    r"The user sent a new message while you were working:\n(.*?)"
    r"(?:\n\nThis is how Claude Code surfaces messages|\n</system-reminder>|\Z)",
    re.DOTALL,
)
"""What client 2.1.329 writes around it; older clients did not record what they sent."""


def typed_text(part: MessagePart) -> str | None:
    """Return a prompt's text, also of one that was sent during a turn; None for other parts."""
    if part.kind is PartKind.PROMPT:
        return part.text
    if part.kind is not PartKind.ATTACHMENT or part.name != QUEUED_PROMPT:
        return None
    queued = _QUEUED_PROMPT_TEXT.search(part.text)
    return queued[1] if queued else None


_GIVEN_KINDS: Final = frozenset({PartKind.META, PartKind.AGENT_RETURN})
_SENDERS: Final = {
    "<channel": "a channel",
    "<cross-session-message": "another session",
    "<agent-message": "another agent",
    "<coordinator-relay": "the coordinator",
    "<slack-": "Slack",
    **dict.fromkeys(PEER_MESSAGE_INTROS, "another session"),
}
"""Who sent a message that began a conversation, by its first characters (client 2.1.332)."""


def given_tasks(entry: Entry) -> Iterator[tuple[str, str]]:
    """Yield what someone other than the user asked for in a line: the sender and the words."""
    for part in entry.parts:
        if part.kind in _GIVEN_KINDS and part.tool_use_id is None:
            tasks = [*parse_teammate_tasks(part.text)]
            yield from ((f'the teammate "{name}"', words) for name, words in tasks if words)
            if not tasks and TEAMMATE_TAG not in part.text:
                senders = (who for start, who in _SENDERS.items() if part.text.startswith(start))
                yield from ((who, part.text.strip()) for who in senders)


def is_given_task(part: MessagePart) -> bool:
    """Whether a part may hold the task of a session that no person began: it is read whole."""
    return part.kind is PartKind.META and part.text.startswith((TEAMMATE_TAG, *_SENDERS))


def _split_by_file(text: str, attachment: dict[str, Any]) -> Iterable[tuple[str | None, str]]:
    """Split the text that shows memory files before each file; the first part has no path."""
    files = attachment.get("files")
    paths = [
        file["path"]
        for file in (files if isinstance(files, list) else [])
        if isinstance(file, dict) and isinstance(file.get("path"), str)
    ]
    found = sorted((text.find(f"{MEMORY_FILE_HEADING}{path}"), path) for path in paths)
    starts = [(0, None), *((start, sanitize_path(path)) for start, path in found if start > 0)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    for (start, path), end in zip(starts, ends, strict=True):
        if text[start:end]:
            yield path, text[start:end]


def parse_prompt_snapshot(attachment: dict[str, Any]) -> PromptSnapshot:
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
    schema = tool.get("schema")
    return schema if isinstance(schema, dict) and "description" in schema else tool


def iter_json_strings(value: Any) -> Iterable[str]:  # noqa: ANN401 -- any JSON
    """Yield the strings of a value in order; of an object only those of its text field.

    That is `content`, else `text`, else `file`.
    """
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, list):
        for each in value:
            yield from iter_json_strings(each)
    elif isinstance(value, dict):
        yield from iter_json_strings(value.get("content", value.get("text", value.get("file"))))


def _rendered_text(rendered: Any) -> str:  # noqa: ANN401 -- any JSON
    content = rendered.get("content") if isinstance(rendered, dict) else rendered
    return "\n".join(iter_json_strings(content))


def _attachment_path(kind: str, attachment: dict[str, Any]) -> str | None:
    # What is displayed of a memory file is relative to wherever the session is at that moment.
    names = ("path", *_PATH_FIELDS) if kind == NESTED_MEMORY else _PATH_FIELDS
    values = (attachment.get(name) for name in names)
    path = next((value for value in values if isinstance(value, str) and value), None)
    return sanitize_path(path) if path else None
