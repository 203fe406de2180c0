"""The formats of compressed results, and the skills that ask for them."""

from __future__ import annotations

import re
from enum import StrEnum

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final


class ResultFormat(StrEnum):
    OUTPUT = "output"  # by the skill compress-output (requirements 3.0.1)
    REVIEW = "review"  # by the skill compress-review (requirements 3.0.2)
    NONE = "none"


COMPRESSED_MARKER: Final = "[COMPRESSED]"
"""Begins a compressed result; case counts (requirements 3)."""

FORMAT_OF_SKILL: Final = {
    "compress-output": ResultFormat.OUTPUT,
    "compress-review": ResultFormat.REVIEW,
}
"""The skills that ask for a format (000-07, 000-09)."""

CLNODE_FORMATS: Final = {
    "node-backend": ResultFormat.OUTPUT,
    "react-frontend": ResultFormat.OUTPUT,
    "cli-hooks": ResultFormat.OUTPUT,
    "reviewer": ResultFormat.REVIEW,
    "clnode-curator": ResultFormat.OUTPUT,
}
"""The preset clnode's formats by agent type, for types without a definition (000-40 to 000-44)."""


def skill_in_prompt(prompt: str) -> str | None:
    skill = re.search(rf"(?<![\w-])(?:{'|'.join(FORMAT_OF_SKILL)})(?![\w-])", prompt)
    if skill:
        return skill[0]
    return "compress-output" if re.search(_MARKER_REQUEST, prompt, re.IGNORECASE) else None


_MARKER_REQUEST: Final = (
    r"(?:return|reply|respond|answer|report|output|begin|start|end)\w*\b[^.\n]{0,80}"
    + re.escape(COMPRESSED_MARKER)
)
"""A prompt that only quotes another agent's result has the marker at the start of a line."""


def format_of_skills(skills: Iterable[str]) -> ResultFormat | None:
    """Return the format of the first skill that asks for one; a plugin's name may precede it."""
    formats = (FORMAT_OF_SKILL.get(skill.rpartition(":")[2]) for skill in skills)
    return next(filter(None, formats), None)
