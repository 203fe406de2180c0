"""F6: the second copy of a picture, which the client keeps for its screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, at, file_only, strings
from ..plan import Harm
from .file_lines import long_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "second-images"
LEVEL: Final = Harm.FILE_ONLY

PIXEL: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4"
    "2mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""A picture of one dot: what stands in a picture's place must be one (V19)."""

_ROOT: Final = "/toolUseResult"


def find(view: View) -> Iterator[Operation]:
    """Find pictures in what the client keeps of a result; the message keeps its own copy."""
    intent = Intent(NAME, LEVEL, "the message holds the same picture")
    for line in long_lines(view):
        value = view.decoded_line(line.number) if line.has_result else None
        sent = {
            text for _, text in strings(at(value, "/message/content"), "") if len(text) > len(PIXEL)
        }
        changes: dict[str, str] = {}
        for place, text in strings(at(value, _ROOT), _ROOT):
            if text not in sent or not place.endswith(("/base64", "/data")):
                continue
            changes[place] = PIXEL
            folder = place.rpartition("/")[0]
            for name in ("type", "media_type", "mediaType"):
                if str(at(value, f"{folder}/{name}")).startswith("image/"):
                    changes[f"{folder}/{name}"] = "image/png"
        made = file_only(view, line.number, intent, line.type, changes)
        if made:
            yield made
