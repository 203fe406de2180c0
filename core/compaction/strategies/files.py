"""Level 0: make the file smaller without changing what the model sees."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from .. import edit_builder
from ..edit_builder import CONTENT_POINTER, Because, FindOperations, iter_strings, resolve_pointer
from ..plan import Operation
from ..protection import NEWEST_TURNS
from ..transcript_view import FileLine, TranscriptView
from .stubs import MIN_STUBBED_CHARS, has_stub, make_short_stub

MIN_LINE_BYTES: Final = 8_192  # of a line that is worth an edit (compaction.md 7.5; codeArbiter)
_RESULT_POINTER: Final = "/toolUseResult"  # the client's copy of a result beside the message
_IMAGE_SUFFIXES: Final = ("/base64", "/data")


def long_lines(view: TranscriptView, *types: str) -> Iterator[FileLine]:
    """Yield the long lines of some or all types, except protected ones and the newest turns'."""
    newest = {block.line for block in view.blocks if block.protected_reason == NEWEST_TURNS}
    for line in view.lines:
        is_kept = line.number in view.protected_lines or line.number in newest
        is_wanted = not types or line.type in types
        if is_wanted and not is_kept and line.content_bytes >= MIN_LINE_BYTES:
            yield line


def stub_long_strings(value: object, *roots: str) -> dict[str, str]:
    """Map the pointer of every long string below some pointers of a line to its stub."""
    return {
        pointer: make_short_stub(text, "left out of the file")
        for root in roots
        for pointer, text in iter_strings(resolve_pointer(value, root), root)
        if len(text) >= MIN_STUBBED_CHARS and not has_stub(text)
    }


def payload_finder(types: Sequence[str], roots: Sequence[str], why: str) -> FindOperations:
    """Return what stubs texts in lines that must stay themselves, because others are children."""

    def find(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
        for line in long_lines(view, *types):
            changes = stub_long_strings(view.decoded_line(line.number), *roots)
            yield edit_builder.replace_unsent_values(
                view, line.number, because(why), line.type, changes
            )

    return find


find_progress_payloads: Final = payload_finder(
    ("progress",), ("/data",), "the result has the outcome"
)
# A rewind across these lines is no longer possible.
find_file_history: Final = payload_finder(
    ("file-history-snapshot", "file-history-delta"), ("/snapshot",), "an old copy of a file"
)
find_attribution: Final = payload_finder(
    ("attribution-snapshot", "queue-operation"),
    ("/snapshot", "/fileStates", "/content"),
    "Claude Code's own bookkeeping, which is never sent",
)


def _lines_with_result(view: TranscriptView) -> Iterator[tuple[FileLine, Any]]:
    for line in long_lines(view):
        if line.has_result:
            yield line, view.decoded_line(line.number)


_STATE_FIELDS: Final = frozenset(
    {"agentId", "newTodos", "oldTodos", "plan", "filePlan", "task", "tasks"}
)
"""Fields of results that the client resumes from: an agent's, the todos', a plan's (2.6)."""


def find_tool_details(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find long texts in the client's copy of a result; its shape and keys stay."""
    reason = because("the model reads the result itself, not this copy")
    for line, value in _lines_with_result(view):
        details = resolve_pointer(value, _RESULT_POINTER)
        if not isinstance(details, dict) or _STATE_FIELDS & details.keys():
            continue
        changes = {
            pointer: stub
            for pointer, stub in stub_long_strings(value, _RESULT_POINTER).items()
            if not pointer.endswith(_IMAGE_SUFFIXES)
        }
        yield edit_builder.replace_unsent_values(view, line.number, reason, line.type, changes)


def find_before_boundary(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find long texts before the last boundary; a person's words stay, and every line."""
    boundary = max((n for n, why in view.protected_lines.items() if why == "boundary"), default=0)
    sent = {block.line for block in view.blocks}
    reason = because("a compaction removed it from the context")
    for line in long_lines(view, "user", "assistant"):
        if line.number >= boundary or line.number in sent:
            continue
        value = view.decoded_line(line.number)
        changes = {
            pointer: stub
            for pointer, stub in stub_long_strings(value, CONTENT_POINTER, _RESULT_POINTER).items()
            if not _must_stay(value, pointer)
        }
        yield edit_builder.replace_unsent_values(view, line.number, reason, line.type, changes)


def _must_stay(value: object, pointer: str) -> bool:
    """Whether a text is a user's, thinking, a signature or an image."""
    if not pointer.startswith(CONTENT_POINTER):
        return False
    if pointer == CONTENT_POINTER:
        return True
    block = resolve_pointer(value, "/".join(pointer.split("/")[:4]))
    type_ = block.get("type") if isinstance(block, dict) else None
    is_users = type_ == "text" and resolve_pointer(value, "/type") == "user"
    is_other = type_ not in {"text", "tool_use", "tool_result"}
    return is_users or is_other or pointer.endswith("/data")


BLANK_PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4"
    "2mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""An image of one pixel: an image may only be replaced by an image (V19)."""


def find_second_images(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find images in the client's copy of a result; the message keeps its own copy."""
    reason = because("the message has the same image")
    for line, value in _lines_with_result(view):
        content = iter_strings(resolve_pointer(value, CONTENT_POINTER), "")
        sent = {text for _, text in content if len(text) > len(BLANK_PNG)}
        changes: dict[str, str] = {}
        for pointer, text in iter_strings(resolve_pointer(value, _RESULT_POINTER), _RESULT_POINTER):
            if text not in sent or not pointer.endswith(_IMAGE_SUFFIXES):
                continue
            changes[pointer] = BLANK_PNG
            parent = pointer.rpartition("/")[0]
            for name in ("type", "media_type", "mediaType"):
                if str(resolve_pointer(value, f"{parent}/{name}")).startswith("image/"):
                    changes[f"{parent}/{name}"] = "image/png"
        yield edit_builder.replace_unsent_values(view, line.number, reason, line.type, changes)
