"""How an old result is masked: its names stay, and the way back to its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..changes import called, input_of, replace_result, text_of
from ..notes import note
from ..stubs import is_worth

if TYPE_CHECKING:
    from ..changes import Intent
    from ..plan import Operation
    from ..view import Slot, View


def mask(view: View, block: Slot, reason: Intent, restore_hint: str) -> Operation | None:
    """Put a stub with a digest in a result's place; None where it is not worth it."""
    text = text_of(view, block)
    if text is None:
        return None
    call = view.call_of(block)
    asked = input_of(view, call) if call else {}
    short = note(view, text, f"{called(block, asked)}, ok", restore_hint)
    return replace_result(view, block, reason, short) if is_worth(text, short) else None
