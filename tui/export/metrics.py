"""What is measured, by no format's rules yet: gauges and totals of each session and of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from ...core.measure.activity import ActivityKind
from ...core.measure.levels import Level
from ...core.model.session import Session, SessionStatus
from ...core.store.queries.query_rows import UsageRow

MAX_SESSIONS: Final = 200
"""That have values of their own: with 20 values each a monitor keeps 4,000 series."""

RECENT_H: Final = 24
"""Hours after which a session that is not live has no values of its own any more."""

Labels = tuple[tuple[str, str], ...]


class MetricUnit(StrEnum):
    """What a value counts, as UCUM writes it for OpenTelemetry."""

    TOKENS = "{token}"
    RATIO = "1"
    COUNT = "{count}"
    SECONDS = "s"
    DOLLARS = "USD"


class SessionLabel(StrEnum):
    """What may name a session beside its id; a person asks for it."""

    TITLE = "title"
    PROJECT = "project"
    CWD = "cwd"


class Metric(msgspec.Struct, frozen=True):
    """One thing that is measured, of everything that has it."""

    name: str  # its parts with dots, without a unit
    unit: MetricUnit
    help: str
    samples: tuple[tuple[Labels, float], ...]
    is_counter: bool = False  # a total that only grows; else a value of now


class MetricsInput(msgspec.Struct, frozen=True):
    """What metrics are made of, at one moment."""

    sessions: Sequence[Session]
    spent: Mapping[str, UsageRow]
    version: str
    now_ms: int
    since_ms: int  # when the oldest session began


def make_metrics(
    found: MetricsInput,
    labels: Iterable[SessionLabel] = (),
    max_sessions: int = MAX_SESSIONS,
    recent_h: int = RECENT_H,
) -> list[Metric]:
    """Measure the sessions that are live or recent one by one, and all of them together."""
    shown = _recent_sessions(found, recent_h)
    chosen = tuple(labels)
    labelled = [(_labels(each, chosen), each) for each in shown[:max_sessions]]
    return [
        *_fleet_metrics(found, len(shown[max_sessions:])),
        *(
            Metric(name, unit, text, _samples(labelled, value), is_counter=name in _COUNTERS)
            for name, unit, text, value in _SESSION_METRICS
        ),
        _tokens(labelled, found.spent),
    ]


def _recent_sessions(found: MetricsInput, recent_h: int) -> list[Session]:
    since = found.now_ms - recent_h * 3_600_000
    recent = [each for each in found.sessions if each.live or (each.last_activity_at or 0) >= since]
    return sorted(recent, key=lambda each: (not each.live, -(each.last_activity_at or 0)))


def _labels(session: Session, named: tuple[SessionLabel, ...]) -> Labels:
    said = {
        SessionLabel.TITLE: session.title,
        SessionLabel.PROJECT: session.project,
        SessionLabel.CWD: session.cwd,
    }
    own = tuple((name.value, said[name] or "") for name in SessionLabel if name in named)
    return (("session", session.session_id), ("model", session.model or ""), *own)


def _samples(
    labelled: list[tuple[Labels, Session]], value: Callable[[Session], float | None]
) -> tuple[tuple[Labels, float], ...]:
    found = ((labels, value(session)) for labels, session in labelled)
    return tuple((labels, number) for labels, number in found if number is not None)


_TOKEN_KINDS: Final = ("input", "cache_creation", "cache_read", "output")


def _tokens(labelled: list[tuple[Labels, Session]], spent: Mapping[str, UsageRow]) -> Metric:
    samples = tuple(
        ((*labels, ("kind", kind)), float(getattr(own, f"{kind}_tokens")))
        for labels, session in labelled
        if (own := spent.get(session.session_id)) is not None
        for kind in _TOKEN_KINDS
    )
    text = "Tokens of the session's answers by kind, its agents' with them."
    return Metric("session.spent", MetricUnit.TOKENS, text, samples, is_counter=True)


def _fleet_metrics(found: MetricsInput, left_out: int) -> Iterable[Metric]:
    by_status = Counter(each.status for each in found.sessions)
    by_level = Counter(each.context.level for each in found.sessions if each.live)
    rows = found.spent.values()
    costs = [each.cost.usd for each in found.sessions if each.cost]
    for name, unit, text, samples, grows in (
        (
            "build.info",
            MetricUnit.RATIO,
            "Always 1; the version is a label.",
            [((("version", found.version),), 1)],
            False,
        ),
        (
            "sessions",
            MetricUnit.COUNT,
            "Sessions of the store by status.",
            [((("status", each.value),), by_status[each]) for each in SessionStatus],
            False,
        ),
        (
            "sessions.at.level",
            MetricUnit.COUNT,
            "Live sessions by the highest level that their context reached.",
            [((("level", each.value),), by_level[each]) for each in Level],
            False,
        ),
        (
            "sessions.left.out",
            MetricUnit.COUNT,
            "Live and recent sessions without values of their own, because there are too many.",
            [((), left_out)],
            False,
        ),
        (
            "spent",
            MetricUnit.TOKENS,
            "Tokens of all answers by kind; each answer counts once.",
            [
                ((("kind", kind),), sum(getattr(row, f"{kind}_tokens") for row in rows))
                for kind in _TOKEN_KINDS
            ],
            True,
        ),
        (
            "responses",
            MetricUnit.COUNT,
            "Answers of the API; each counts once.",
            [((), sum(row.responses for row in rows))],
            True,
        ),
        (
            "cost",
            MetricUnit.DOLLARS,
            "What all sessions cost, as far as it is known; most of it is estimated.",
            [((), sum(costs))],
            False,
        ),
        (
            "compactions",
            MetricUnit.COUNT,
            "Compactions of all sessions.",
            [((), sum(each.compactions for each in found.sessions))],
            True,
        ),
        (
            "agents",
            MetricUnit.COUNT,
            "Agents of all sessions.",
            [((), sum(each.agents for each in found.sessions))],
            False,
        ),
        (
            "agents.noncompliant",
            MetricUnit.COUNT,
            "Agents that did not compress their results.",
            [((), sum(each.agents_noncompliant or 0 for each in found.sessions))],
            False,
        ),
    ):
        values = tuple((labels, float(value)) for labels, value in samples)
        yield Metric(name, unit, text, values, is_counter=grows)


_LEVEL_RANKS: Final = {level: rank for rank, level in enumerate(Level, 1)}


def _level_rank(session: Session) -> int:
    return _LEVEL_RANKS[session.context.level] if session.context.level else 0


def _seconds(at_ms: int | None) -> float | None:
    return None if at_ms is None else at_ms / 1000


def _turns_left(session: Session) -> float | None:
    end = session.outlook.end
    return end.turns.p50 if end else None


def _is_waiting(session: Session) -> int:
    return int(session.activity is not None and session.activity.kind is ActivityKind.PERSON)


_COUNTERS: Final = frozenset({"session.compactions"})
_SESSION_METRICS: Final[
    tuple[tuple[str, MetricUnit, str, Callable[[Session], float | None]], ...]
] = (
    (
        "session.live",
        MetricUnit.RATIO,
        "1 while a client has it open.",
        lambda each: int(each.live),
    ),
    (
        "session.waiting",
        MetricUnit.RATIO,
        "1 while it waits for a person: a permission, an answer.",
        _is_waiting,
    ),
    (
        "session.context",
        MetricUnit.TOKENS,
        "Tokens that the model saw in the last request.",
        lambda each: each.context.tokens,
    ),
    (
        "session.window",
        MetricUnit.TOKENS,
        "The context window.",
        lambda each: each.context.window.tokens,
    ),
    (
        "session.used",
        MetricUnit.RATIO,
        "Context over window; above 1 where the window is not what was believed.",
        lambda each: each.context.ratio,
    ),
    (
        "session.trigger",
        MetricUnit.TOKENS,
        "Where the client compacts by itself; missing where that is not armed.",
        lambda each: each.context.trigger.tokens if each.context.trigger else None,
    ),
    (
        "session.trigger.used",
        MetricUnit.RATIO,
        "What the client counts over its trigger.",
        lambda each: each.context.trigger_ratio,
    ),
    (
        "session.turns.left",
        MetricUnit.COUNT,
        "Turns to the trigger or to the window's end, the middle of the forecast.",
        _turns_left,
    ),
    (
        "session.level",
        MetricUnit.COUNT,
        "0 for none, then "
        + ", ".join(f"{rank} {level}" for level, rank in _LEVEL_RANKS.items())
        + ".",
        _level_rank,
    ),
    ("session.agents", MetricUnit.COUNT, "Agents that it started.", lambda each: each.agents),
    (
        "session.agents.noncompliant",
        MetricUnit.COUNT,
        "Agents that did not compress their results.",
        lambda each: each.agents_noncompliant,
    ),
    ("session.compactions", MetricUnit.COUNT, "Compactions.", lambda each: each.compactions),
    (
        "session.cost",
        MetricUnit.DOLLARS,
        "What it cost, its agents with it.",
        lambda each: each.cost.usd if each.cost else None,
    ),
    (
        "session.cost.estimated",
        MetricUnit.RATIO,
        "1 where the cost is worked out by list prices, 0 where the client said it.",
        lambda each: int(each.cost.estimated) if each.cost else None,
    ),
    (
        "session.cache.expires.timestamp",
        MetricUnit.SECONDS,
        "When its prompt cache goes cold, in seconds since 1970.",
        lambda each: _seconds(each.cache.expires_at),
    ),
    (
        "session.last.activity.timestamp",
        MetricUnit.SECONDS,
        "When it last wrote, in seconds since 1970.",
        lambda each: _seconds(each.last_activity_at),
    ),
)
