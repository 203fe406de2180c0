"""What there is in the beginning of a story: turns, perhaps a compaction, strange lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from .sessions_on_disk import result_lines, turns
from .transcripts import SESSION, JsonLine, boundary, chained, summary, user

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

STRANGE: Final[tuple[JsonLine | bytes, ...]] = (
    b"",
    b"no JSON",
    b'{"type":"note"}\r',
    b'{"type":"new","x":"\xff"}',
    '{"type":"new","x":"\u2028\x85"}'.encode(),
    {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}, "sessionId": SESSION},
    {"type": "progress", "data": {}},
    user("aside", 50, isSidechain=True),
    chained("attachment", 50, attachment={"type": "date", "content": "x"}),
    chained("system", 50, subtype="turn_duration"),
)
"""Lines that lead nowhere, as they stand between others."""
TAILS: Final = (b"", b"", b'{"type":"user","uuid":"ha', b'{"type":"new","x":"\xff"}\r\n')


def session(choose: random.Random) -> list[JsonLine | bytes]:
    """Turns, perhaps behind a compaction, and strange lines in between."""
    lines: list[JsonLine | bytes] = [*turns(choose.choice([2, 3]), 30)]
    if choose.random() < 0.3:
        *before, last = turns(1, 30)
        middle = boundary(logicalParentUuid=last["leafUuid"])
        end = summary(parentUuid=middle["uuid"])
        first = line_with(lines, '"user"')
        lines[first - 1] = as_line(lines[first - 1]) | {"parentUuid": end["uuid"]}
        lines[:1] = [*before, middle, end]
    for strange in choose.choices(STRANGE, k=choose.randint(0, 3)):
        lines.insert(choose.randint(1, len(lines) - 1), strange)
    return lines


def results_of(lines: Sequence[JsonLine | bytes]) -> list[int]:
    """Number the results that are sent, counted from 1."""
    known = [as_line(each) for each in lines]
    after = max((n for n, each in enumerate(known) if "compactMetadata" in each), default=0)
    return [n for n in result_lines(known) if n > after]


def as_line(line: JsonLine | bytes) -> JsonLine:
    return {} if isinstance(line, bytes) else line


def line_with(lines: Sequence[JsonLine | bytes], text: str, after: int = 0) -> int:
    """Number the first line that holds a text, counted from 1."""
    return next(
        n for n, each in enumerate(lines, 1) if n > after and text in json.dumps(as_line(each))
    )


def uuid_of(line: bytes) -> str:
    try:
        return str(json.loads(line).get("uuid"))
    except ValueError:
        return ""


def lines_of(data: bytes) -> Iterator[bytes]:
    *whole, last = data.split(b"\n")
    yield from (line + b"\n" for line in whole)
    if last:
        yield last
