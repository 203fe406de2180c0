"""A session's warnings, and its id, model, times and other facts, as rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ....core.transcript.sanitize import one_line
from ...text.formats import (
    NOTHING,
    duration,
    fit_left,
    fit_right,
    model_name,
    percent,
    shorten_middle,
    tokens,
    turns_left,
)
from ...text.gauge import LEVEL_STYLES
from ...text.listing import Listing, heading, join_lines, quiet
from ...text.session_text import cache_texts, cost_texts, doing_age, doing_text
from ...widgets.row_list import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ....core.measure.forecast import Forecast
    from ....core.measure.warning_log import ContextWarning
    from ....core.model.session import Session


LABEL_CELLS: Final = 16
LEVEL_CELLS: Final = 12
ACTIVITY_CELLS: Final = 80
REACHED_CELLS: Final = 22
RATIO_CELLS: Final = 9
TOKENS_FROM_CELLS: Final = 60
"""Cells from which the tokens stand beside the ratio."""
AGE_CELLS: Final = 12

NO_WARNINGS: Final = (
    "No level was reached yet. The lines in the timeline show where they are; P shows the policy."
)


def warnings_listing(found: Sequence[ContextWarning], width: int, now_ms: int) -> Listing:
    """List what was reached, the newest first."""
    rows = tuple(Row(str(one.log_id), _warning_line(one, width, now_ms)) for one in reversed(found))
    standing = sum(1 for one in found if one.warning.cleared_by is None)
    head = quiet(f"{len(rows)} reached, {standing} standing; ⏎ goes to the turn")
    return Listing(rows, head, NO_WARNINGS)


def find_warning(found: Sequence[ContextWarning], key: str) -> ContextWarning | None:
    """Find the warning that a row is of."""
    return next((one for one in found if str(one.log_id) == key), None)


def warning_detail(one: ContextWarning, now_ms: int) -> Content:
    warning = one.warning
    style = LEVEL_STYLES[warning.level]
    ended = "it stands"
    if warning.cleared_by is not None:
        ended = f"cleared {time_text(warning.cleared_at, now_ms)}"
    return join_lines(
        Content.styled(f"▲ {warning.level.value}", f"bold {style}"),
        Content(f"begins at {percent(warning.threshold)} of the window"),
        Content(f"reached with {tokens(warning.point.tokens)} tokens, {percent(warning.ratio)}"),
        quiet(f"reached {time_text(warning.at, now_ms)}"),
        quiet(ended),
        Content(""),
        quiet("It is said once, and again after a compaction or when the fill fell well below it."),
    )


def info_listing(session: Session, width: int, now_ms: int) -> Listing:
    """List what is known of a session."""
    facts = session_facts(session, now_ms)
    rows = tuple(
        Row(
            label,
            Content.assemble(
                (fit_left(label, LABEL_CELLS), "$quiet"),
                (shorten_middle(value, max(1, width - LABEL_CELLS)), style),
            ),
        )
        for label, value, style in facts
    )
    return Listing(rows, quiet("y copies the marked one"), "nothing is known yet")


def info_value(session: Session, key: str, now_ms: int) -> str:
    """Return the full value of a row, empty if `key` is unknown."""
    return next((value for label, value, _ in session_facts(session, now_ms) if label == key), "")


def info_detail(session: Session, key: str, now_ms: int) -> Content:
    """Show a value whole, however long it is."""
    return join_lines(heading(key), Content(info_value(session, key, now_ms)))


def session_facts(session: Session, now_ms: int) -> list[tuple[str, str, str]]:
    """Name what is known: label, value, style."""
    found = [
        ("title", one_line(session.title)),
        ("id", session.session_id),
        ("project", one_line(session.cwd or session.project)),
        ("model", one_line(f"{model_name(session.model)}  ({session.model or NOTHING})")),
        ("client", one_line(session.client_version or NOTHING)),
        ("status", status_text(session)),
        *_activity(session, now_ms),
        *outlook_texts(session),
        ("started", time_text(session.started_at, now_ms)),
        ("last activity", time_text(session.last_activity_at, now_ms)),
        ("agents", _agents_text(session)),
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
        yield "does", f"{doing_text(session, ACTIVITY_CELLS)}, for {doing_age(session, now_ms)}"
    # Each is a list of the same words from long to short.
    for label, words in (
        ("cache", cache_texts(session, now_ms)),
        ("cost", cost_texts(session.cost)),
    ):
        if words:
            yield label, words[0]


def status_text(session: Session) -> str:
    """Return the status, and the tmux pane if there is one."""
    where = f" in tmux {session.tmux}" if session.tmux else ""
    return f"{session.status.value.replace('_', ' ')}{where}"


def outlook_texts(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the turns left until compaction and until the next level, each with a label."""
    end, ahead = session.outlook.end, session.outlook.next_threshold
    trigger = session.context.trigger
    if end:
        where = "compaction" if trigger and trigger.tokens else "the window's end"
        yield "turns left", f"{_turns_left(end)} to {where}"
    if ahead and ahead.forecast:
        at = f"{ahead.level.value} at {percent(ahead.threshold)}"
        yield "next level", f"{_turns_left(ahead.forecast)} to {at}"


def time_text(at: int | None, now_ms: int) -> str:
    """Write a moment, and how long ago it was."""
    if at is None:
        return NOTHING
    moment = datetime.fromtimestamp(at / 1000, UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S}, {duration(now_ms - at)} ago"


def _turns_left(forecast: Forecast) -> str:
    turns, minutes = forecast.turns, forecast.minutes
    work = f", ≈ {duration(round(minutes.p50 * 60_000))} of work" if minutes else ""
    return f"{turns_left(forecast)}, as likely under as over {turns.p50:,.0f}{work}"


def _agents_text(session: Session) -> str:
    failed = session.agents_noncompliant
    return f"{session.agents}, {failed} not compliant" if failed else str(session.agents)


def _warning_line(one: ContextWarning, width: int, now_ms: int) -> Content:
    warning = one.warning
    style = LEVEL_STYLES[warning.level]
    stands = warning.cleared_by is None
    ended = "stands" if stands else f"cleared {_age_text(warning.cleared_at, now_ms)}"
    reached, cells = f"at {percent(warning.ratio)}", RATIO_CELLS
    if width >= TOKENS_FROM_CELLS:
        reached, cells = f"{reached} ({tokens(warning.point.tokens)})", REACHED_CELLS
    room = max(0, width - 2 - LEVEL_CELLS - cells - AGE_CELLS)
    return Content.assemble(
        ("▲ ", style),
        (fit_left(warning.level.value, LEVEL_CELLS), f"bold {style}" if stands else style),
        (fit_left(reached, cells), "$foreground"),
        (fit_left(ended, room), "$quiet"),
        (fit_right(_age_text(warning.at, now_ms), AGE_CELLS), "$quiet"),
    )


def _age_text(at: int | None, now_ms: int) -> str:
    return NOTHING if at is None else f"{duration(now_ms - at)} ago"
