"""A person's choice of another model, as `/model` says it in the transcript."""

from __future__ import annotations

import re
from typing import Final

from ...core.models import LARGE_MARK
from ..clean import clean_title

CHOSEN: Final = "<local-command-stdout>Set model to "
"""How the command's answer begins; where nothing was changed it says `Kept model as`."""

_ID: Final = re.compile(r"claude-[a-z0-9-]+(?:\[1m\])?")
_NAME: Final = re.compile(r"\b(Opus|Sonnet|Haiku|Fable|Mythos) (\d+)(?:\.(\d+))?")
_LARGE: Final = re.compile(r"\b1M context\b|\[1m\]")


def read_choice(text: str) -> str | None:
    """Name the model that was chosen, with its mark; None for another text or an unknown name.

    The answer has the model's id or its name: `Opus 5.5`, `Sonnet 4.6 (1M context)`
    (client 2.1.329), `opus (claude-opus-4-5-20251101)` (2.0).
    """
    if not text.startswith(CHOSEN):
        return None
    said = clean_title(text.removeprefix(CHOSEN))
    if found := _ID.search(said):
        return found[0]
    name = _NAME.search(said)
    if name is None:
        return None
    family, *numbers = (part for part in name.groups() if part)
    mark = LARGE_MARK if _LARGE.search(said) else ""
    return "-".join(["claude", family.lower(), *numbers]) + mark
