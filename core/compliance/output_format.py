"""The grammar of compress-output (requirements 3.0.1) over the lines below the marker."""

from __future__ import annotations

from .blocks import Field, Kind, pieces
from .codes import Code
from .findings import at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Final

    from .findings import Finding, Limits
    from .lines import Line

CHANGED: Final = "Changed files"
RESULT: Final = "Result"
DECISIONS: Final = "Decisions"
BLOCKERS: Final = "Blockers"

KEYS: Final = (CHANGED, RESULT, DECISIONS, BLOCKERS)
"""In their order; Blockers may also come first (T-24)."""

KOREAN: Final = {
    "변경 파일": CHANGED,
    "핵심 결과": RESULT,
    "주요 결정사항": DECISIONS,
    "블로커": BLOCKERS,
}
"""Names that an earlier skill gave the fields (R000-23)."""

REQUIRED: Final = (CHANGED, RESULT)

NOTHING: Final = frozenset(
    {"", "none", "none.", "(none)", "n/a", "na", "-", "–", "—", "nothing", "없음"}
)
"""What an optional field says that had better be left out."""


def check_output(
    marker: Line, below: Sequence[Line], foreign: Iterable[str], limits: Limits, *, fenced: bool
) -> Iterator[Finding]:
    """Find V06, V07, V11, W01, W03 and W05 in the lines below the marker.

    `foreign` are the fields of the other format: none of them continues a field of this one.
    """
    fields: dict[str, Field] = {}
    open_field: Field | None = None
    after_break = korean = False
    for piece in pieces(below, (*KEYS, *KOREAN, *foreign), fenced=fenced):
        key = KOREAN.get(piece.key, piece.key)
        if piece.kind is Kind.FIELD:
            after_break = False
            open_field = Field(key, [piece.line], piece.value)
            if piece.key in KOREAN and not korean:
                korean = True
                yield at(Code.LEGACY_KOREAN, piece.line)
            if key in fields or key not in KEYS:
                yield at(Code.UNKNOWN_BLOCK, piece.line)
            else:
                fields[key] = open_field
        elif piece.kind is Kind.PLAIN and open_field:
            open_field.lines.append(piece.line)
            open_field.more_lines.append(piece.line)
        elif piece.kind is Kind.BREAK:
            open_field, after_break = None, True
        elif piece.kind is Kind.BLANK:
            open_field = None
        elif not after_break:
            yield at(Code.UNKNOWN_BLOCK, piece.line)
            # One finding a block, not a line.
            after_break, open_field = True, None
    yield from _missing(marker, fields)
    result = fields.get(RESULT)
    if result and len(result.lines) > limits.result_lines:
        yield at(Code.RESULT_TOO_LONG, result.lines[limits.result_lines])
    for key in (DECISIONS, BLOCKERS):
        found = fields.get(key)
        if found and not found.more_lines and found.value.lower() in NOTHING:
            yield at(Code.EMPTY_FIELD, found.lines[0])
    yield from _order(fields)


def _missing(marker: Line, fields: dict[str, Field]) -> Iterator[Finding]:
    for key in REQUIRED:
        found = fields.get(key)
        if found is None or not found.has_text:
            yield at(Code.FIELD_MISSING, found.lines[0] if found else marker, key)


def _order(fields: dict[str, Field]) -> Iterator[Finding]:
    # Only the others' order counts: blockers may lead (T-24).
    places = [KEYS.index(key) for key in fields if key != BLOCKERS]
    for before, place, key in zip(
        places, places[1:], [key for key in fields if key != BLOCKERS][1:], strict=False
    ):
        if place < before:
            yield at(Code.FIELD_ORDER, fields[key].lines[0])
            return
