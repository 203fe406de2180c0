"""Actions as rows: when, which session, how, what it freed, and how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import age, fit, fit_right, one_line, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .actions import Action

_WHEN: Final = 7
_MODE: Final = 16
_FREED: Final = 8
_STATE: Final = 16
_WIDE: Final = 100
"""Cells from which on there is room for what was done and by whom."""


def head_line(width: int) -> Content:
    """Write the line above the rows."""
    return Content.styled(
        _laid_out("ago", "session", "how", "what", "freed", "state", width), "$quiet"
    )


def action_line(
    action: Action, title: str, check_result: str | None, now_ms: int, width: int
) -> Content:
    """Write a row; `said` is how it stands where that was tried out."""
    freed = "–" if action.freed_tokens is None else f"≈ {tokens(action.freed_tokens)}"
    state = check_result or action.state
    by = "" if action.requested_by in {"you", ""} else f" (by itself: {action.requested_by})"
    words = _laid_out(
        age(now_ms - action.at), title, action.mode, f"{action.what}{by}", freed, state, width
    )
    stands = action.undo_obstacle is None
    return Content.styled(words, "$foreground" if stands else "$quiet")


def select_actions(
    actions: Iterable[Action], titles: Mapping[str, str], words: str
) -> list[Action]:
    """Keep those that have all of some words in what is shown of them."""
    wanted = words.lower().split()

    def said(each: Action) -> str:
        title = titles.get(each.session_id or "", "")
        parts = (
            title,
            each.session_id,
            each.receipt_id,
            each.mode,
            each.what,
            each.requested_by,
            each.state,
        )
        return " ".join(part for part in parts if part).lower()

    return [each for each in actions if all(word in said(each) for word in wanted)]


def _laid_out(
    when: str, session: str, mode: str, what: str, freed: str, state: str, width: int
) -> str:
    fixed = _WHEN + _MODE + _FREED + _STATE + 4
    room = max(0, width - fixed)
    if width < _WIDE:
        titled = fit(one_line(session), room)
        return (
            f"{fit_right(when, _WHEN)} {titled} {fit(mode, _MODE)} {fit_right(freed, _FREED)}"
            f" {fit(one_line(state), _STATE)}"
        )
    named = room * 2 // 5
    return (
        f"{fit_right(when, _WHEN)} {fit(one_line(session), named)} {fit(mode, _MODE)}"
        f" {fit(one_line(what), room - named - 1)} {fit_right(freed, _FREED)}"
        f" {fit(one_line(state), _STATE)}"
    )
