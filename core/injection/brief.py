"""What of a result concerns an agent of another kind: not its details (requirements 000-33)."""

from __future__ import annotations

import re
from typing import Final

SHORT_CHARS: Final = 300
"""Of a result that is not compressed, or of one field of one that is."""

_KEY: Final = re.compile(r"^([A-Z][A-Za-z ]{1,30}):[ \t]*(.*)$")

LASTING: Final = frozenset({"Decisions", "Blockers"})
"""What holds for later work whoever did it: the seed's decision and blocker (R000-13)."""

OUTCOME: Final = LASTING | {"Result", "Verdict"}


def fields_of(text: str, wanted: frozenset[str]) -> str:
    """Take fields of a compressed result (requirements 3) out of it; empty where it has none."""
    found: list[str] = []
    key = ""
    for line in text.splitlines():
        match = _KEY.match(line)
        if match:
            key = match[1]
        if key in wanted and line.strip() and not line.startswith("[COMPRESSED]"):
            found.append(line.rstrip()[:SHORT_CHARS])
    return "\n".join(found)


def outcome_of(text: str) -> str:
    """Say in short how a run ended: its fields for that, else how its text begins."""
    return fields_of(text, OUTCOME) or " ".join(text[: 4 * SHORT_CHARS].split())[:SHORT_CHARS]
