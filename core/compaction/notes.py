"""What a strategy leaves in a text's place: a stub or a pointer, with what would be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .stubs import DIGEST_CHARS, is_worth, pointer, stub, stubs

if TYPE_CHECKING:
    from .view import View


def note(view: View, out: str, what: str, back: str, kept: str = "") -> str:
    """Write a stub for a part of a piece; it names what no other piece does, nor `kept`.

    What one digest does not hold gets several, if the text is long enough for that.
    """
    names = view.holders.sole(out, kept)
    if sum(len(name) + 2 for name in names) > DIGEST_CHARS:
        several = stubs(out, what, back, names)
        if is_worth(out, several):
            return several
    return stub(out, what, back, names)


def overtaken(view: View, out: str, why: str, kept: str = "") -> str:
    """Write a pointer for a part of a piece, with what no other piece names, nor `kept`."""
    return pointer(out, why, view.holders.sole(out, kept))
