"""A session's warnings, and what is known of it beside its context, as rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import (
    NOTHING,
    age,
    fit,
    fit_right,
    middle,
    model,
    one_line,
    percent,
    tokens,
    turns_left,
)
from .gauge import LEVEL_STYLES
from .sections import Listing, heading, lines, quiet
from .session_words import cache_words, cost_words, doing_words, shown_age
from .widgets.row_list import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..core.forecast import Forecast
    from ..core.sessions import Session
    from ..core.warning_log import ContextWarning

LABEL_CELLS: Final = 16
LEVEL_CELLS: Final = 12
DOING_CELLS: Final = 80
REACHED_CELLS: Final = 22
SHORT_CELLS: Final = 9
WIDE: Final = 60
"""Cells from which the tokens stand beside the ratio."""
WHEN_CELLS: Final = 12

NO_WARNINGS: Final = (
    "No level was reached yet. The lines in the timeline show where they are; P shows the policy."
)


def warnings_listing(found: Sequence[ContextWarning], width: int, now_ms: int) -> Listing:
    """List what was reached, the newest first."""
    rows = tuple(Row(str(one.log_id), _warning(one, width, now_ms)) for one in reversed(found))
    standing = sum(1 for one in found if one.warning.cleared_by is None)
    head = quiet(f"{len(rows)} reached, {standing} standing; ⏎ goes to the turn")
    return Listing(rows, head, NO_WARNINGS)


def warning_of(found: Sequence[ContextWarning], key: str) -> ContextWarning | None:
    """Find the warning that a row is of."""
    return next((one for one in found if str(one.log_id) == key), None)


def warning_detail(one: ContextWarning, now_ms: int) -> Content:
    """Tell of a warning all that is known."""
    warning = one.warning
    style = LEVEL_STYLES[warning.level]
    ended = "it stands"
    if warning.cleared_by is not None:
        ended = f"cleared {time_words(warning.cleared_at, now_ms)}"
    return lines(
        Content.styled(f"▲ {warning.level.value}", f"bold {style}"),
        Content(f"begins at {percent(warning.threshold)} of the window"),
        Content(f"reached with {tokens(warning.point.tokens)} tokens, {percent(warning.ratio)}"),
        quiet(f"reached {time_words(warning.at, now_ms)}"),
        quiet(ended),
        Content(""),
        quiet("It is said once, and again after a compaction or when the fill fell well below it."),
    )


def about_listing(session: Session, width: int, now_ms: int) -> Listing:
    """List what is known of a session."""
    facts = about_facts(session, now_ms)
    rows = tuple(
        Row(
            label,
            Content.assemble(
                (fit(label, LABEL_CELLS), "$quiet"),
                (middle(value, max(1, width - LABEL_CELLS)), style),
            ),
        )
        for label, value, style in facts
    )
    return Listing(rows, quiet("y copies the marked one"), "nothing is known yet")


def about_value(session: Session, key: str, now_ms: int) -> str:
    """Give the whole of a row's value."""
    return next((value for label, value, _ in about_facts(session, now_ms) if label == key), "")


def about_detail(session: Session, key: str, now_ms: int) -> Content:
    """Show a value whole, however long it is."""
    return lines(heading(key), Content(about_value(session, key, now_ms)))


def about_facts(session: Session, now_ms: int) -> list[tuple[str, str, str]]:
    """Name what is known: label, value, style."""
    found = [
        ("title", one_line(session.title)),
        ("id", session.session_id),
        ("project", one_line(session.cwd or session.project)),
        ("model", one_line(f"{model(session.model)}  ({session.model or NOTHING})")),
        ("client", one_line(session.client_version or NOTHING)),
        ("status", status_words(session)),
        *_activity(session, now_ms),
        *outlook_words(session),
        ("started", time_words(session.started_at, now_ms)),
        ("last activity", time_words(session.last_activity_at, now_ms)),
        ("agents", _agents(session)),
        ("compactions", str(session.compactions)),
        ("transcript", one_line(session.path)),
    ]
    if session.forked_from:
        found.append(("forked from", session.forked_from))
    facts = [(label, value, "$foreground") for label, value in found]
    if session.refusal:
        facts.insert(0, ("last refusal", one_line(session.refusal), "$level-emergency"))
    return facts


def _activity(session: Session, now_ms: int) -> Iterator[tuple[str, str]]:
    if session.live and session.activity is not None:
        yield "does", f"{doing_words(session, DOING_CELLS)}, for {shown_age(session, now_ms)}"
    # Each is a list of the same words from long to short.
    for label, words in (
        ("cache", cache_words(session, now_ms)),
        ("cost", cost_words(session.cost)),
    ):
        if words:
            yield label, words[0]


def status_words(session: Session) -> str:
    """Say what it is doing, and where."""
    where = f" in tmux {session.tmux}" if session.tmux else ""
    return f"{session.status.value.replace('_', ' ')}{where}"


def outlook_words(session: Session) -> Iterator[tuple[str, str]]:
    """Say how many turns are left, to the compaction and to the next level."""
    end, ahead = session.outlook.end, session.outlook.next_threshold
    trigger = session.context.trigger
    if end:
        where = "compaction" if trigger and trigger.tokens else "the window's end"
        yield "turns left", f"{_left(end)} to {where}"
    if ahead and ahead.forecast:
        at = f"{ahead.level.value} at {percent(ahead.threshold)}"
        yield "next level", f"{_left(ahead.forecast)} to {at}"


def time_words(at: int | None, now_ms: int) -> str:
    """Write a moment, and how long ago it was."""
    if at is None:
        return NOTHING
    moment = datetime.fromtimestamp(at / 1000, UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S}, {age(now_ms - at)} ago"


def _left(forecast: Forecast) -> str:
    turns, minutes = forecast.turns, forecast.minutes
    work = f", ≈ {age(round(minutes.p50 * 60_000))} of work" if minutes else ""
    return f"{turns_left(forecast)}, as likely under as over {turns.p50:,.0f}{work}"


def _agents(session: Session) -> str:
    failed = session.agents_noncompliant
    return f"{session.agents}, {failed} not compliant" if failed else str(session.agents)


def _warning(one: ContextWarning, width: int, now_ms: int) -> Content:
    warning = one.warning
    style = LEVEL_STYLES[warning.level]
    stands = warning.cleared_by is None
    ended = "stands" if stands else f"cleared {_ago(warning.cleared_at, now_ms)}"
    reached, cells = f"at {percent(warning.ratio)}", SHORT_CELLS
    if width >= WIDE:
        reached, cells = f"{reached} ({tokens(warning.point.tokens)})", REACHED_CELLS
    room = max(0, width - 2 - LEVEL_CELLS - cells - WHEN_CELLS)
    return Content.assemble(
        ("▲ ", style),
        (fit(warning.level.value, LEVEL_CELLS), f"bold {style}" if stands else style),
        (fit(reached, cells), "$foreground"),
        (fit(ended, room), "$quiet"),
        (fit_right(_ago(warning.at, now_ms), WHEN_CELLS), "$quiet"),
    )


def _ago(at: int | None, now_ms: int) -> str:
    return NOTHING if at is None else f"{age(now_ms - at)} ago"
