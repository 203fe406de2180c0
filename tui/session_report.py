"""All that ctxtop knows of one session, and how it knows, as a text to read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec
from textual.content import Content

from ..core.claims import WORDS
from .formats import NOTHING, age, middle, model, one_line, percent, tokens, turns_left
from .gauge import gauge
from .told_lines import steered_lines, told_lines

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from ..core.context import Context
    from ..core.forecast import Forecast
    from ..core.sessions import Session
    from ..core.steered import Steered
    from ..core.store.rows import CompactionRow
    from ..core.told import Told
    from ..core.warning_log import ContextWarning

_LABEL: Final = 16
_TOLD_LABEL: Final = 14
_HOW = {
    "measured": "the last answer's input: fresh, written to and read from the cache",
    "estimated": "the client's own estimate at the compaction; the next answer measures it",
    "unknown": "no answer yet",
}


class Known(msgspec.Struct, frozen=True):
    """What the store has of a session."""

    session: Session
    compactions: tuple[tuple[CompactionRow, Told | None], ...]
    """Each with what is told of it; None: nothing yet."""
    warnings: tuple[ContextWarning, ...]
    steered: tuple[tuple[Steered, ...], ...] = ()
    """What each compaction was asked to keep."""


def read_known(db: sqlite3.Connection, session: Session) -> Known:
    """Read what the report needs."""
    from ..core.steered import steered_by
    from ..core.store.answer_queries import given
    from ..core.store.queries import compactions
    from ..core.told import unpack
    from ..core.warning_log import session_warnings

    rows = [(row, unpack(row.told)) for row in compactions(db, session.session_id)]
    return Known(
        session,
        tuple(rows),
        tuple(session_warnings(db, session)),
        tuple(steered_by(rows, given(db, "steer", session.session_id))),
    )


def session_report(known: Known, filling: Content, width: int, now_ms: int) -> Content:
    """Write the report for lines of `width` cells; `filling` says what fills the context."""
    session = known.session
    context = session.context
    tokens_now = NOTHING if context.tokens is None else f"{context.tokens:,}"
    lines = [
        Content.assemble(" ", gauge(context, 40)),
        Content(""),
        *_section("Context"),
        _line("in context", f"{tokens_now} tokens, {context.state.value}"),
        _line("", _HOW[context.state.value], "$quiet"),
        _line("window", f"{context.window.tokens:,} tokens"),
        _line("", context.window.why, "$quiet"),
        *_compaction(context),
        *_contradictions(context),
        *_outlook(session),
        _line("level", context.level.value if context.level else "below every threshold"),
    ]
    if session.refusal:
        lines.append(_line("last refusal", session.refusal, "$level-emergency"))
    lines += [
        Content(""),
        *_section("What fills it"),
        *filling.split("\n"),
        Content(""),
        *_section("Session"),
        _line("id", session.session_id),
        _line("project", session.cwd or session.project),
        _line("model", f"{model(session.model)}  ({session.model or NOTHING})"),
        _line("client", session.client_version or NOTHING),
        _line("status", _status(session)),
        _line("started", _time(session.started_at, now_ms)),
        _line("last activity", _time(session.last_activity_at, now_ms)),
        _line("agents", _agents(session)),
        _line("transcript", session.path),
        Content(""),
        *_section("Compactions"),
        *_compactions(known, width, now_ms),
        Content(""),
        *_section("Warnings"),
        *_warnings(known.warnings, now_ms),
    ]
    return Content("\n").join(_hang(line, width) for line in lines)


def _compaction(context: Context) -> Iterable[Content]:
    """Tell the counter against the trigger, which are not the fill and the window."""
    trigger, numbers = context.trigger, context.numbers
    if trigger is None:
        return
    if trigger.tokens is None:
        yield _line("compaction", trigger.why)
    else:
        counted = NOTHING if numbers.counter is None else f"{numbers.counter:,}"
        yield _line(
            "compaction",
            f"at {trigger.tokens:,}; its counter stands at {counted},"
            f" {percent(context.trigger_ratio)} of the way",
        )
        yield _line("", trigger.why, "$quiet")
    if numbers.hook is not None:
        what = "the compaction's estimate" if numbers.fill is None else "with the last answer"
        yield _line("", f"hooks are told {numbers.hook:,}: {what}", "$quiet")
    if numbers.report is not None:
        yield _line("", f"the last /context counted {numbers.report:,}", "$quiet")


def _contradictions(context: Context) -> Iterable[Content]:
    claims = [("window", claim) for claim in context.window.contradicted]
    claims += (
        [("trigger", claim) for claim in context.trigger.contradicted] if context.trigger else []
    )
    for what, claim in claims:
        said = "none" if claim.tokens is None else f"{claim.tokens:,}"
        yield _line("but", f"{what} {said}: {WORDS[claim.source]}", "$level-warning")


def _outlook(session: Session) -> Iterable[Content]:
    end, ahead = session.outlook.end, session.outlook.ahead
    trigger = session.context.trigger
    if end:
        where = "compaction" if trigger and trigger.tokens else "the window's end"
        yield _line("turns left", f"{_left(end)} to {where}")
    if ahead and ahead.forecast:
        at = f"{ahead.level.value} at {percent(ahead.threshold)}"
        yield _line("" if end else "turns left", f"{_left(ahead.forecast)} to {at}")


def _left(forecast: Forecast) -> str:
    turns, minutes = forecast.turns, forecast.minutes
    work = f", ≈ {age(round(minutes.p50 * 60_000))} of work" if minutes else ""
    return f"{turns_left(forecast)}, as likely under as over {turns.p50:,.0f}{work}"


def _section(name: str) -> Iterable[Content]:
    yield Content.styled(name, "bold $accent")


def _line(label: str, value: str, style: str = "$foreground") -> Content:
    return Content.assemble((f"  {label:<{_LABEL}}", "$quiet"), (one_line(value), style))


def _hang(line: Content, width: int) -> Content:
    """Break a long line between words; what follows begins below its value."""
    indent = " " * (_LABEL + 2)
    parts = []
    while line.cell_length > width:
        place = line.plain.rfind(" ", len(indent) + 1, width + 1)
        if place < 0:
            break
        parts.append(line[:place])
        line = Content(indent) + line[place + 1 :]
    return Content("\n").join([*parts, line])


def _agents(session: Session) -> str:
    failed = session.agents_failed
    return f"{session.agents}, {failed} not compliant" if failed else str(session.agents)


def _status(session: Session) -> str:
    where = f" in tmux {session.tmux}" if session.tmux else ""
    return f"{session.status.value.replace('_', ' ')}{where}"


def _compactions(known: Known, width: int, now_ms: int) -> Iterator[Content]:
    if not known.compactions:
        yield _line("", "none", "$quiet")
    room = max(1, width - _LABEL - _TOLD_LABEL - 2)
    asked = known.steered or ((),) * len(known.compactions)
    for (row, told), items in zip(known.compactions, asked, strict=True):
        yield _line(_ago(row.at, now_ms), _cut(row))
        for label, text in (
            *steered_lines(items),
            *(told_lines(told, room) if told else ()),
        ):
            yield Content.assemble(
                (f"{'':<{_LABEL + 2}}{label:<{_TOLD_LABEL}}", "$quiet"), middle(text, room)
            )


def _cut(row: CompactionRow) -> str:
    """Say what a compaction did to the context."""
    kept = f", {row.kept_messages} messages kept" if row.kept_messages else ""
    took = f", took {age(row.duration_ms)}" if row.duration_ms else ""
    sizes = f"{tokens(row.pre_tokens)} → ≈{tokens(row.post_tokens)}"
    return f"{row.trigger or 'unknown trigger'}: {sizes}{kept}{took}"


def _warnings(found: Sequence[ContextWarning], now_ms: int) -> list[Content]:
    if not found:
        return [_line("", "none", "$quiet")]
    return [
        _line(
            _ago(one.warning.at, now_ms),
            f"{one.warning.level.value} at {percent(one.warning.ratio)}"
            + ("" if one.warning.cleared_at is None else ", cleared"),
        )
        for one in reversed(found)
    ]


def _time(at: int | None, now_ms: int) -> str:
    if at is None:
        return NOTHING
    moment = datetime.fromtimestamp(at / 1000, UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S}, {_ago(at, now_ms)}"


def _ago(at: int | None, now_ms: int) -> str:
    return NOTHING if at is None else f"{age(now_ms - at)} ago"
