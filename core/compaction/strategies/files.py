"""Level 0: make the file smaller without changing what the model sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..edit_builder import OperationReason, iter_strings, replace_unsent_values, resolve_pointer
from ..plan import Severity
from ..protection import NEWEST_TURNS
from ..stubs import MIN_STUBBED_CHARS, has_stub, make_short_stub

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..transcript_view import FileLine, TranscriptView


MIN_LINE_BYTES: Final = 8_192
"""Of a line that is worth an edit (compaction.md 7.5; codeArbiter)."""


def long_lines(view: TranscriptView, *types: str) -> Iterator[FileLine]:
    """Yield the long lines of the given types, of all types if none is given.

    Protected lines and those of the newest turns are left out.
    """
    newest = {each.line for each in view.blocks if each.protected_reason == NEWEST_TURNS}
    for line in view.lines:
        if (
            line.content_bytes < MIN_LINE_BYTES
            or line.number in view.protected_lines
            or line.number in newest
        ):
            continue
        if not types or line.type in types:
            yield line


def stub_long_strings(value: object, root: str) -> dict[str, str]:
    """Return a stub for every long string inside a value, by its pointer."""
    return {
        place: make_short_stub(text, "left out of the file")
        for place, text in iter_strings(value, root)
        if len(text) >= MIN_STUBBED_CHARS and not has_stub(text)
    }


PROGRESS_PAYLOADS: Final = "progress-payloads"
LEVEL: Final = Severity.FILE_ONLY


def find_progress_payloads(view: TranscriptView) -> Iterator[Operation]:
    """Find the payloads of progress lines; the lines stay, for others hang on them."""
    intent = OperationReason(PROGRESS_PAYLOADS, LEVEL, "the result says what came of it")
    for line in long_lines(view, "progress"):
        changes = stub_long_strings(
            resolve_pointer(view.decoded_line(line.number), "/data"), "/data"
        )
        made = replace_unsent_values(view, line.number, intent, line.type, changes)
        if made:
            yield made


FILE_HISTORY: Final = "file-history"


def find_file_history(view: TranscriptView) -> Iterator[Operation]:
    """Find long texts in snapshots of files; rewinding over them is lost."""
    intent = OperationReason(FILE_HISTORY, LEVEL, "an old copy of a file")
    for line in long_lines(view, "file-history-snapshot", "file-history-delta"):
        changes = stub_long_strings(
            resolve_pointer(view.decoded_line(line.number), "/snapshot"), "/snapshot"
        )
        made = replace_unsent_values(view, line.number, intent, line.type, changes)
        if made:
            yield made


ATTRIBUTION: Final = "attribution"

_ATTRIBUTION_POINTERS: Final = ("/snapshot", "/fileStates", "/content")


def find_attribution(view: TranscriptView) -> Iterator[Operation]:
    """Find the payloads of attribution snapshots and of the queue's operations."""
    intent = OperationReason(
        ATTRIBUTION, LEVEL, "bookkeeping of the client, which no request holds"
    )
    for line in long_lines(view, "attribution-snapshot", "queue-operation"):
        value = view.decoded_line(line.number)
        changes = {
            place: note
            for root in _ATTRIBUTION_POINTERS
            for place, note in stub_long_strings(resolve_pointer(value, root), root).items()
        }
        made = replace_unsent_values(view, line.number, intent, line.type, changes)
        if made:
            yield made


TOOL_DETAILS: Final = "tool-details"

_DETAILS_POINTER: Final = "/toolUseResult"

_STATE_FIELDS: Final = frozenset(
    {"agentId", "newTodos", "oldTodos", "plan", "filePlan", "task", "tasks"}
)
"""Fields of results that the client goes on from: an agent's, the todos', a plan's (2.6)."""

_IMAGE_SUFFIXES: Final = ("/base64", "/data")


def find_tool_details(view: TranscriptView) -> Iterator[Operation]:
    """Find long texts in what the client keeps of a result; its shape stays, and its keys."""
    intent = OperationReason(
        TOOL_DETAILS, LEVEL, "the model reads the result itself, not this copy"
    )
    for line in long_lines(view):
        details = (
            resolve_pointer(view.decoded_line(line.number), _DETAILS_POINTER)
            if line.has_result
            else None
        )
        if not isinstance(details, dict) or _STATE_FIELDS & details.keys():
            continue
        changes = {
            place: note
            for place, note in stub_long_strings(details, _DETAILS_POINTER).items()
            if not place.endswith(_IMAGE_SUFFIXES)
        }
        made = replace_unsent_values(view, line.number, intent, line.type, changes)
        if made:
            yield made


BEFORE_BOUNDARY: Final = "before-boundary"

_TEXT_POINTERS: Final = ("/message/content", "/toolUseResult")


def find_before_boundary(view: TranscriptView) -> Iterator[Operation]:
    """Find long texts before the last boundary; a person's words stay, and every line."""
    boundary = max((n for n, why in view.protected_lines.items() if why == "boundary"), default=0)
    sent = {each.line for each in view.blocks}
    intent = OperationReason(BEFORE_BOUNDARY, LEVEL, "a compaction took it out of the context")
    for line in long_lines(view, "user", "assistant"):
        if line.number >= boundary or line.number in sent:
            continue
        value = view.decoded_line(line.number)
        changes = {
            place: note
            for root in _TEXT_POINTERS
            for place, note in stub_long_strings(resolve_pointer(value, root), root).items()
            if not _must_stay(value, place)
        }
        made = replace_unsent_values(view, line.number, intent, line.type, changes)
        if made:
            yield made


def _must_stay(value: object, place: str) -> bool:
    """Whether a text is a user's, thinking, a signature or an image."""
    if not place.startswith("/message/content"):
        return False
    if place.count("/") == _STRING_CONTENT_DEPTH:
        return True
    block = resolve_pointer(value, "/".join(place.split("/")[:4]))
    type_ = block.get("type") if isinstance(block, dict) else None
    said = type_ == "text" and resolve_pointer(value, "/type") == "user"
    return said or type_ not in {"text", "tool_use", "tool_result"} or place.endswith("/data")


_STRING_CONTENT_DEPTH: Final = 2
"""Parts of the pointer of a content that is one text."""


SECOND_IMAGES: Final = "second-images"

BLANK_PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4"
    "2mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""A picture of one dot: what stands in a picture's place must be one (V19)."""

_IMAGE_COPIES_POINTER: Final = "/toolUseResult"


def find_second_images(view: TranscriptView) -> Iterator[Operation]:
    """Find pictures in what the client keeps of a result; the message keeps its own copy."""
    intent = OperationReason(SECOND_IMAGES, LEVEL, "the message holds the same picture")
    for line in long_lines(view):
        value = view.decoded_line(line.number) if line.has_result else None
        sent = {
            text
            for _, text in iter_strings(resolve_pointer(value, "/message/content"), "")
            if len(text) > len(BLANK_PNG)
        }
        changes: dict[str, str] = {}
        for place, text in iter_strings(
            resolve_pointer(value, _IMAGE_COPIES_POINTER), _IMAGE_COPIES_POINTER
        ):
            if text not in sent or not place.endswith(("/base64", "/data")):
                continue
            changes[place] = BLANK_PNG
            folder = place.rpartition("/")[0]
            for name in ("type", "media_type", "mediaType"):
                if str(resolve_pointer(value, f"{folder}/{name}")).startswith("image/"):
                    changes[f"{folder}/{name}"] = "image/png"
        made = replace_unsent_values(view, line.number, intent, line.type, changes)
        if made:
            yield made
