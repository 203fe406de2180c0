"""Reads what `/context` said, from its text or from the figures that newer clients keep."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ...core.context_report import DEFERRED, ContextReport, Reported
from ...core.store.facts import ReportFact
from ..clean import clean_title
from ..times import to_ms
from .lines import decode_blocks, decode_word

if TYPE_CHECKING:
    from .lines import Line

_NUMBER: Final = r"[\d.]{1,20}[km]?"

_HEAD: Final = re.compile(
    r"\*\*Model:\*\* (?P<model>\S{1,200})\s+"
    rf"\*\*Tokens:\*\* (?P<used>{_NUMBER}) / (?P<window>{_NUMBER}) \((?P<percent>\d{{1,9}})%\)"
)
_ROW: Final = re.compile(
    rf"^\| (?P<name>[^|\n]{{1,80}}?) \| (?P<tokens>{_NUMBER}) \| [\d.]+% \|$", re.MULTILINE
)
_UNITS: Final = {"k": 1_000, "m": 1_000_000}

TYPED: Final = "## Context Usage"
"""How the report begins that an interactive client gives the model (client 2.1.329)."""

_MOST: Final = 10**9
"""Tokens; what claims more is no report."""


class _Counted(msgspec.Struct):
    name: str
    tokens: int


class _Usage(msgspec.Struct):
    model: str
    total_tokens: int
    raw_max_tokens: int
    percentage: int
    categories: list[_Counted]


_usage: Final = msgspec.json.Decoder(_Usage, strict=False)


def read_report(offset: int, line: Line) -> ReportFact | None:
    """Read a local command's line; None where the command was another one.

    Raises NotJsonError as `decode_word` does.
    """
    said = read_context_usage(line.context_usage) or read_context_text(decode_word(line.content))
    return None if said is None else _fact(offset, line, said)


def read_typed_report(offset: int, line: Line) -> ReportFact | None:
    """Read the line in which the model is told what `/context` printed on a person's screen.

    None for any other line; raises NotJsonError as `decode_blocks` does.
    """
    blocks = decode_blocks(line.message.content) if line.message else []
    text = next((block.text for block in blocks if block.type == "text" and block.text), "")
    said = read_context_text(text) if text.startswith(TYPED) else None
    return None if said is None else _fact(offset, line, said)


def _fact(offset: int, line: Line, said: ContextReport) -> ReportFact:
    return ReportFact(
        offset=offset,
        at=to_ms(line.timestamp),
        model=said.model,
        total_tokens=said.total_tokens,
        window_tokens=said.window_tokens,
        buffer_tokens=said.autocompact_buffer,
    )


def read_context_text(text: str) -> ContextReport | None:
    """Read the Markdown that `/context` printed; None where a text is no such report."""
    head = _HEAD.search(text)
    if not head:
        return None
    used, window = _tokens(head["used"]), _tokens(head["window"])
    rows = {row["name"]: _tokens(row["tokens"]) for row in _ROW.finditer(text)}
    if used is None or window is None or not rows:
        return None
    counted = {name: tokens for name, tokens in rows.items() if tokens is not None}
    return _report(head["model"], used, window, int(head["percent"]), counted)


def read_context_usage(data: Raw | UnsetType) -> ContextReport | None:
    """Read a line's `contextUsage` (client 2.1.329), exact to the token; None for anything else."""
    if data is UNSET:
        return None
    try:
        said = _usage.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    counted = {each.name: each.tokens for each in said.categories}
    return _report(said.model, said.total_tokens, said.raw_max_tokens, said.percentage, counted)


def _report(
    model: str, used: int, window: int, percent: int, counted: dict[str, int]
) -> ContextReport | None:
    if not 0 < window <= _MOST or not 0 <= used <= _MOST:
        return None
    outside = {Reported.FREE_SPACE, Reported.AUTOCOMPACT_BUFFER}
    return ContextReport(
        model=clean_title(model),
        total_tokens=used,
        window_tokens=window,
        percent=percent,
        categories={
            clean_title(name): tokens
            for name, tokens in counted.items()
            if name not in outside and not name.endswith(DEFERRED)
        },
        autocompact_buffer=counted.get(Reported.AUTOCOMPACT_BUFFER),
    )


def _tokens(text: str) -> int | None:
    number, unit = text.rstrip("km"), text[-1]
    try:
        return round(float(number) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        return None
