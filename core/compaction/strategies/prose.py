"""Level 6: shorten the model's old answers and long pasted output."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...summaries.decision_patterns import DECISION_PATTERN, REASON_PATTERN, RULE_PATTERN
from ...transcript.conversation import PartKind
from ..edit_builder import OperationReason, read_text, replace_text
from ..plan import Severity
from ..stubs import MIN_STUBBED_CHARS, is_worth_stubbing, stub_with_unique_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..transcript_view import TranscriptView


OLD_PROSE: Final = "old-prose"
LEVEL: Final = Severity.PROSE

_SENTENCE: Final = re.compile(r"[^\n]+?(?:[.!?](?=\s)|$)", re.MULTILINE)
_KEY_PATTERNS: Final = (DECISION_PATTERN, RULE_PATTERN, REASON_PATTERN)


def find_old_prose(view: TranscriptView) -> Iterator[Operation]:
    """Find long answers; sentences that decide, forbid or give a reason stay as they are."""
    for slot in view.changeable_blocks():
        if slot.part.kind is not PartKind.TEXT or slot.chars < MIN_STUBBED_CHARS:
            continue
        text = read_text(view, slot) or ""
        kept = extract_key_sentences(text)
        short = f"{kept}\n{stub_with_unique_names(view, text, 'the rest of this answer', '', kept)}"
        if not is_worth_stubbing(text, short):
            continue
        intent = OperationReason(OLD_PROSE, LEVEL, "words that are old: decisions and names stay")
        made = replace_text(view, slot, intent, short)
        if made:
            yield made


def extract_key_sentences(text: str) -> str:
    """Keep the first sentence and those with a cue."""
    sentences = [found[0].strip() for found in _SENTENCE.finditer(text) if found[0].strip()]
    return "\n".join(
        each
        for number, each in enumerate(sentences)
        if number == 0 or any(cue.search(each) for cue in _KEY_PATTERNS)
    )


LONG_PASTES: Final = "long-pastes"

KEPT_PASTE_CHARS: Final = 200
"""Of its beginning, which says what it is."""

_CLOSING_TAG: Final = re.compile(r"\s*</[\w-]+>\s*\Z")
"""The tag around an output; what follows it is the person's again."""


def find_long_pastes(view: TranscriptView) -> Iterator[Operation]:
    """Find what commands of the client and of its shell printed into the conversation."""
    for slot in view.changeable_blocks():
        if slot.part.kind is not PartKind.META or slot.chars < MIN_STUBBED_CHARS:
            continue
        text = read_text(view, slot) or ""
        closing = _CLOSING_TAG.search(text)
        end = closing.start() if closing else len(text)
        kept, rest = text[:KEPT_PASTE_CHARS], text[KEPT_PASTE_CHARS:end]
        said = stub_with_unique_names(view, rest, "the rest of this output", "Ask for it.", kept)
        short = f"{kept}\n{said}{text[end:]}"
        intent = OperationReason(LONG_PASTES, LEVEL, "output that is old")
        made = is_worth_stubbing(text, short) and replace_text(view, slot, intent, short)
        if made:
            yield made
