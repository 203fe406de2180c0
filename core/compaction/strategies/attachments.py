"""Levels 1 to 3: attachments that occur again, that newer ones replace, and old files' texts."""

from collections.abc import Iterator
from typing import Final

from ...measure.tokens import TASK_REMINDERS
from ...model.conversation import PartKind
from ...transcript.visible_messages import STATE_ATTACHMENTS
from .. import edit_builder
from ..edit_builder import Because, OperationReason, read_text
from ..plan import Operation
from ..transcript_view import TranscriptView, VisibleBlock
from . import stubs
from .stubs import is_worth_stubbing, make_short_stub


def find_repeated_attachments(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find attachments that occur again; of those that may change, the newest stays."""
    retained: dict[str, VisibleBlock] = {}
    for block in view.blocks:
        if block.part.kind is PartKind.ATTACHMENT and not block.is_replaced:
            known = retained.get(block.digest)
            if known is None or known.protected_reason is None:
                retained[block.digest] = block
    for block in stubs.long_blocks(view, PartKind.ATTACHMENT):
        twin = retained[block.digest]
        text = read_text(view, block) if twin is not block else None
        if text is not None:
            stub = make_short_stub(text, "the same text is attached elsewhere here")
            reason = because(f"the same text is at line {twin.line}")
            yield _replace_attachment(view, block, reason, text, stub)


def find_replaced_attachments(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find attachments that report a state, such as the todos, if a newer one follows."""
    newest = {block.part.name: block for block in view.blocks if _reports_state(block)}
    for block in stubs.long_blocks(view, PartKind.ATTACHMENT):
        later = newest.get(block.part.name, block)
        text = read_text(view, block) if later.entry is not block.entry else None
        if text is not None:
            stub = stubs.superseded_stub(view, text, "old: a newer one follows")
            reason = because(f"replaced at line {later.line}")
            yield _replace_attachment(view, block, reason, text, stub)


_STATE_KINDS: Final = STATE_ATTACHMENTS | TASK_REMINDERS


def _reports_state(block: VisibleBlock) -> bool:
    return block.part.kind is PartKind.ATTACHMENT and block.part.name in _STATE_KINDS


_FILE_KINDS: Final = frozenset({"file", "edited_text_file"})  # the text of a file, or of a part


def find_old_attachments(view: TranscriptView, because: Because) -> Iterator[Operation | None]:
    """Find old attachments that hold the text of a file."""
    reason = because("an old copy of a file")
    for block in stubs.long_blocks(view, PartKind.ATTACHMENT, _FILE_KINDS):
        text = read_text(view, block)
        if text is not None:
            what = block.part.path or "a file"
            stub = stubs.stub_with_unique_names(view, text, what, "Read it for more.", what)
            yield _replace_attachment(view, block, reason, text, stub)


_REMINDER_TAGS: Final = "<system-reminder>", "</system-reminder>"


def _replace_attachment(
    view: TranscriptView, block: VisibleBlock, reason: OperationReason, text: str, stub: str
) -> Operation | None:
    start, end = _REMINDER_TAGS
    if text.strip().startswith(start) and text.strip().endswith(end):
        # Without its tags a reminder reads as the words of a tool or a person.
        stub = f"{start}\n{stub}\n{end}"
    if not is_worth_stubbing(text, stub):
        return None
    return edit_builder.replace_text(view, block, reason, stub)
