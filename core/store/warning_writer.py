"""How warnings enter the log: each once, and never changed but for its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..levels import LevelWarning, Point
    from .writer import Writer


class Judged(msgspec.Struct, frozen=True):
    """What a context's new answers say."""

    session_id: str
    agent_id: str | None
    window_tokens: int
    """By which the ratios are."""
    last_point: Point
    """The newest of the answers and boundaries that were judged."""
    new_warnings: tuple[LevelWarning, ...] = ()
    cleared: tuple[tuple[int, Point], ...] = ()
    """Numbers of rows, and what ended them."""


def save_judged(writer: Writer, contexts: Iterable[Judged], now_ms: int) -> None:
    """Add to the log; belongs into the transaction in which it was read."""
    run = writer.connection
    for each in contexts:
        who = (each.session_id, each.agent_id or "")
        run.executemany(_INSERT, [_row(each, warning, now_ms) for warning in each.new_warnings])
        run.executemany(_CLEAR, [(by.at, by.mark, row) for row, by in each.cleared])
        run.execute(
            _STAND, (*who, each.last_point.offset, each.last_point.mark, each.last_point.at)
        )


def mark_judged(writer: Writer, files: Iterable[tuple[int, int]]) -> None:
    """Note up to which byte files were judged, by their numbers."""
    writer.connection.executemany("INSERT OR REPLACE INTO judged_file VALUES (?, ?)", files)


def _row(judged: Judged, warning: LevelWarning, now_ms: int) -> tuple[object, ...]:
    point, ended = warning.point, warning.cleared_by
    return (
        judged.session_id,
        judged.agent_id or "",
        warning.placed_threshold.name,
        warning.level.value,
        warning.threshold,
        warning.ratio,
        point.tokens or 0,
        judged.window_tokens,
        point.at,
        point.path,
        point.offset,
        point.mark,
        now_ms,
        ended.at if ended else None,
        ended.mark if ended else None,
    )


_INSERT: Final = f"""
INSERT OR IGNORE INTO warning (session_id, agent_id, threshold, level, line_ratio, ratio, tokens,
    window_tokens, at, path, offset, mark, logged_at, cleared_at, cleared_mark)
VALUES ({", ".join("?" * 15)})
"""

_CLEAR: Final = "UPDATE warning SET cleared_at = ?, cleared_mark = ? WHERE warning_id = ?"

_STAND: Final = "INSERT OR REPLACE INTO judged_context VALUES (?, ?, ?, ?, ?)"
