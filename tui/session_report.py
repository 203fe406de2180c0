"""All that ctxtop knows of one session, and how it knows, as a text to read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from textual.content import Content

from .formats import NOTHING, age, model, one_line, percent, tokens
from .gauge import gauge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..core.sessions import Session
    from ..core.store.rows import CompactionRow
    from ..core.warning_log import ContextWarning

_LABEL: int = 16
_HOW = {
    "measured": "the last answer's input: fresh, written to and read from the cache",
    "estimated": "the client's own estimate at the compaction; the next answer measures it",
    "unknown": "no answer yet",
}


def session_report(
    session: Session,
    compactions: Sequence[CompactionRow],
    warnings: Sequence[ContextWarning],
    now_ms: int,
) -> Content:
    """Write the report."""
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
        _line("level", context.level.value if context.level else "below every threshold"),
    ]
    if session.refusal:
        lines.append(_line("last refusal", session.refusal, "$level-emergency"))
    lines += [
        Content(""),
        *_section("Session"),
        _line("id", session.session_id),
        _line("project", session.cwd or session.project),
        _line("model", f"{model(session.model)}  ({session.model or NOTHING})"),
        _line("client", session.client_version or NOTHING),
        _line("status", _status(session)),
        _line("started", _time(session.started_at, now_ms)),
        _line("last activity", _time(session.last_activity_at, now_ms)),
        _line("agents", str(session.agents)),
        _line("transcript", session.path),
        Content(""),
        *_section("Compactions"),
        *_compactions(compactions, now_ms),
        Content(""),
        *_section("Warnings"),
        *_warnings(warnings, now_ms),
    ]
    return Content("\n").join(lines)


def _section(name: str) -> Iterable[Content]:
    yield Content.styled(name, "bold $accent")


def _line(label: str, value: str, style: str = "$foreground") -> Content:
    return Content.assemble((f"  {label:<{_LABEL}}", "$quiet"), (one_line(value), style))


def _status(session: Session) -> str:
    where = f" in tmux {session.tmux}" if session.tmux else ""
    return f"{session.status.value.replace('_', ' ')}{where}"


def _compactions(rows: Sequence[CompactionRow], now_ms: int) -> list[Content]:
    if not rows:
        return [_line("", "none", "$quiet")]
    return [
        _line(
            _ago(row.at, now_ms),
            f"{row.trigger or 'unknown trigger'}: {tokens(row.pre_tokens)} → "
            f"≈{tokens(row.post_tokens)}"
            + (f", {row.kept_messages} messages kept" if row.kept_messages else ""),
        )
        for row in rows
    ]


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
