"""What a strategy leaves in a text's place: a stub or a pointer, with what would be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .stubs import DIGEST_CHARS, is_worth, pointer, stub, stubs

if TYPE_CHECKING:
    from .view import View


def note(
    view: View, removed_text: str, description: str, restore_hint: str, kept_text: str = ""
) -> str:
    """Write a stub for a part of a piece; it names what no other piece does, nor `kept`.

    What one digest does not hold gets several, if the text is long enough for that.
    """
    names = view.name_index.unique_names(removed_text, kept_text)
    if sum(len(name) + 2 for name in names) > DIGEST_CHARS:
        several = stubs(removed_text, description, restore_hint, names)
        if is_worth(removed_text, several):
            return several
    return stub(removed_text, description, restore_hint, names)


def overtaken(view: View, removed_text: str, reason: str, kept_text: str = "") -> str:
    """Write a pointer for a part of a piece, with what no other piece names, nor `kept`."""
    return pointer(removed_text, reason, view.name_index.unique_names(removed_text, kept_text))
