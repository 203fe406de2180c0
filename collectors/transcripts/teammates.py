"""What teammates of an agent team say to the session that leads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from ..clean import clean_title
from .lines import decode_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msgspec import Raw, UnsetType

MESSAGE: Final = "message"
"""Status of a return by which a teammate says something and works on."""

SHUT_DOWN: Final = "shut_down"
"""Status of a return by which a teammate agrees to end; its result came before."""

FROM_ANOTHER_SESSION: Final = (
    "Another Claude session sent a message",
    "A peer session sent a message",
)
"""How client 2.1.329 introduces a message that another session or a teammate sent."""

TAG: Final = "<teammate-message"
"""How each message begins."""

_BLOCK: Final = re.compile(
    r"<teammate-message\b[^>]*?\bteammate_id=\"([^\"]{1,200})\"[^>]*>(.*?)</teammate-message>",
    re.DOTALL,
)

_IDLE_STATUS: Final = {"interrupted": "stopped", "failed": "failed"}
"""By `idleReason`; "available", or none, says that the teammate finished what it was asked."""


class Saying(msgspec.Struct, frozen=True):
    """One message of a teammate, by its name."""

    name: str
    status: str
    """As a return's: completed, failed or stopped, MESSAGE or SHUT_DOWN."""
    text: str
    """Empty where it only says how it ended."""


class _Frame(msgspec.Struct, rename="camel"):
    """A message that the client wrote for the teammate (schema of client 2.1.329)."""

    type: str
    sender: str | None = msgspec.field(name="from", default=None)
    idle_reason: str | None = None
    completed_status: str | None = None
    failure_reason: str | None = None
    result: str | None = None


class _Mail(msgspec.Struct):
    """A message in the attachment by which several arrive in the middle of a turn."""

    sender: str | None = msgspec.field(name="from", default=None)
    text: str | None = None


def is_teammate_text(text: str) -> bool:
    """Whether a user's text is a message of another session or a teammate, not a person's."""
    return text.startswith((TAG, *FROM_ANOTHER_SESSION))


def sayings_in(text: str) -> Iterator[Saying]:
    """Read the messages of a user's text; none where it is no teammate's.

    A frame that is neither a result nor an end (a permission request, a task) is passed over.
    """
    if is_teammate_text(text):
        for name, body in _BLOCK.findall(text):
            yield from _saying(name, body.strip("\n"))


def sayings_of_mail(messages: Raw | UnsetType) -> Iterator[Saying]:
    """Read the messages of a `teammate_mailbox` attachment."""
    for mail in decode_list(messages, _Mail):
        if mail.sender and mail.text:
            yield from _saying(mail.sender, mail.text)


def _saying(name: str, body: str) -> Iterator[Saying]:
    frame = _frame(body)
    if frame is None:
        yield Saying(clean_title(name), MESSAGE, body)
        return
    name = clean_title(frame.sender or name)
    if frame.type == "shutdown_approved":
        yield Saying(name, SHUT_DOWN, "")
    elif frame.type == "idle_notification":
        failed = frame.completed_status == "failed"
        status = "failed" if failed else _IDLE_STATUS.get(frame.idle_reason or "", "completed")
        yield Saying(name, status, frame.result or frame.failure_reason or "")


def _frame(body: str) -> _Frame | None:
    if not body.lstrip().startswith("{"):
        return None
    try:
        return msgspec.json.decode(body, type=_Frame)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
