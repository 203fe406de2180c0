"""Tags: by which results and agents name what they are about.

The convention is ours: a line `tags: cart, payment` among the first lines of a prompt, in the
head of an agent's definition, or in a result. `all` is for every agent (R000-13).
"""

from __future__ import annotations

import re
from typing import Final

EVERYBODY: Final = "all"

LOOKED_AT: Final = 4_000
"""Characters of a text: its first lines, and all of a compressed result."""

MOST_TAGS: Final = 20
"""Of one text: more tell nothing apart."""

_LINE: Final = re.compile(r"^[ \t>*-]*tags:[ \t]*\[?([^\]\n]{1,400})\]?[ \t]*$", re.I | re.M)
_TAG: Final = re.compile(r"[\w.:/-]{1,60}")


def tags_in(text: str) -> frozenset[str]:
    """Read the tags of a text, in small letters: `tags: a, b` or `tags: [a, b]`, in any line."""
    found = [
        tag[0].casefold()
        for line in _LINE.finditer(text[:LOOKED_AT])
        for part in line[1].split(",")
        if (tag := _TAG.fullmatch(part.strip(" \t\"'#")))
    ]
    return frozenset(found[:MOST_TAGS])
