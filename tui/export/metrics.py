"""Metrics of sessions and of the fleet, for Prometheus (scraped here) and as OTLP/HTTP requests."""

import hmac
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ...core.host import LOOPBACK, is_loopback, loopback_hosts
from ...core.measure.plan_limits import PlanLimit
from ...core.model.levels import Level
from ...core.model.session import Session, SessionStatus
from ...core.model.session_activity import ActivityKind
from ...core.model.stored_rows import UsageRow

MAX_SESSIONS: Final = 200
"""Sessions with values of their own: with 20 values each a monitor keeps 4,000 series."""

RECENT_H: Final = 24
"""Hours after which a session that is not live no longer has values of its own."""

Json = dict[str, Any]
Labels = tuple[tuple[str, str], ...]


class MetricUnit(StrEnum):
    """What a value counts, as UCUM writes it for OpenTelemetry."""

    TOKENS = "{token}"
    RATIO = "1"
    COUNT = "{count}"
    SECONDS = "s"
    DOLLARS = "USD"


class Metric(msgspec.Struct, frozen=True):
    name: str  # its parts with dots, without a unit
    unit: MetricUnit
    help: str
    samples: tuple[tuple[Labels, float], ...]
    is_counter: bool = False  # a total that only grows; else a gauge


_TOKENS, _RATIO, _COUNT, _SECONDS, _DOLLARS = MetricUnit
_LEVEL_RANKS: Final = {level: rank for rank, level in enumerate(Level, 1)}
_LEVEL_HELP: Final = ", ".join(f"{rank} {level}" for level, rank in _LEVEL_RANKS.items())
_TOKEN_KINDS: Final = ("input", "cache_creation", "cache_read", "output")
_COUNTERS: Final = {"spent", "responses", "compactions", "session.compactions", "session.spent"}

# Names, units and texts: for what all sessions have together, then for each session.
_METRICS: Final = {
    "build.info": (_RATIO, "Always 1; the version is a label."),
    "sessions": (_COUNT, "Sessions of the store by status."),
    "sessions.at.level": (_COUNT, "Live sessions by the highest level that their context reached."),
    "sessions.left.out": (
        _COUNT,
        "Live and recent sessions without values of their own, because there are too many.",
    ),
    "spent": (_TOKENS, "Tokens of all answers by kind; each answer counts once."),
    "responses": (_COUNT, "Answers of the API; each counts once."),
    "cost": (_DOLLARS, "Cost of all sessions, as far as it is known; mostly estimated."),
    "compactions": (_COUNT, "Compactions of all sessions."),
    "agents": (_COUNT, "Agents of all sessions."),
    "agents.noncompliant": (_COUNT, "Agents with noncompliant results."),
    "limit.used": (
        _RATIO,
        "Share of a window of the plan's limits that is used, by its last report.",
    ),
    "limit.age": (_SECONDS, "How long ago an answer of the API last confirmed that share."),
    "limit.stale": (_RATIO, "1 once the window was reset: its share then says nothing about now."),
    "limit.resets.timestamp": (_SECONDS, "When the window is reset, in seconds since 1970."),
    "limit.burn": (_RATIO, "Share of the window used in an hour, by the newest reports."),
    "limit.exhausted.timestamp": (
        _SECONDS,
        "Median projection of when it is full, in seconds since 1970; missing before its reset.",
    ),
    "session.live": (_RATIO, "1 while it is open in Claude Code."),
    "session.waiting": (_RATIO, "1 while it waits for a person: for a permission or an answer."),
    "session.context": (_TOKENS, "Tokens that the model saw in the last request."),
    "session.window": (_TOKENS, "The context window."),
    "session.used": (
        _RATIO,
        "Context divided by window; above 1 if the window is larger than assumed.",
    ),
    "session.trigger": (
        _TOKENS,
        "Tokens at which Claude Code auto-compacts; missing if that is not armed.",
    ),
    "session.trigger.left": (
        _TOKENS,
        "Tokens until Claude Code auto-compacts, by its own counter.",
    ),
    "session.turns.left": (
        _COUNT,
        "Median forecast of the turns to auto-compaction or the window's end, up to 40.",
    ),
    "session.level": (_COUNT, f"0 for none, then {_LEVEL_HELP}."),
    "session.agents": (_COUNT, "Agents that it started; not those of the session it forked."),
    "session.agents.noncompliant": (_COUNT, "Agents with noncompliant results."),
    "session.compactions": (_COUNT, "Compactions."),
    "session.cost": (_DOLLARS, "Cost, including its agents."),
    "session.cost.estimated": (
        _RATIO,
        "1 if the cost is computed from list prices, 0 if Claude Code reported it.",
    ),
    "session.cache.expires.timestamp": (
        _SECONDS,
        "When its prompt cache expires, in seconds since 1970.",
    ),
    "session.last.activity.timestamp": (_SECONDS, "When it last wrote, in seconds since 1970."),
    "session.spent": (_TOKENS, "Tokens of the session's answers by kind, including its agents."),
}


def make_metrics(
    sessions: Sequence[Session],
    spent: Mapping[str, UsageRow],
    version: str,
    now_ms: int,
    labels: Iterable[str] = (),  # title, project and cwd may name a session beside its id
    max_sessions: int = MAX_SESSIONS,
    limits: Iterable[PlanLimit] = (),
) -> list[Metric]:
    chosen, recent = frozenset(labels), _recent_sessions(sessions, now_ms)
    samples = _fleet_samples(sessions, spent.values(), version)
    samples["sessions.left.out"] = [((), len(recent[max_sessions:]))]
    for name in _METRICS.keys() - samples.keys():
        samples[name] = []
    for limit in limits:
        for name, value in _limit_values(limit, now_ms).items():
            if value is not None:
                samples[name].append(((("window", limit.window),), value))
    for session in recent[:max_sessions]:
        own = _session_labels(session, chosen)
        for name, value in _session_values(session).items():
            if value is not None:
                samples[name].append((own, value))
        if row := spent.get(session.session_id):
            samples["session.spent"] += _spent_samples([row], own)
    return [
        Metric(
            name,
            unit,
            text,
            tuple((own, float(value)) for own, value in samples[name]),
            is_counter=name in _COUNTERS,
        )
        for name, (unit, text) in _METRICS.items()
    ]


def _recent_sessions(sessions: Iterable[Session], now_ms: int) -> list[Session]:
    since = now_ms - RECENT_H * 3_600_000
    recent = [each for each in sessions if each.live or (each.last_activity_at or 0) >= since]
    return sorted(recent, key=lambda each: (not each.live, -(each.last_activity_at or 0)))


def _session_labels(session: Session, chosen: frozenset[str]) -> Labels:
    optional = {"title": session.title, "project": session.project, "cwd": session.cwd}
    named = tuple((name, value or "") for name, value in optional.items() if name in chosen)
    return (("session", session.session_id), ("model", session.model or ""), *named)


def _spent_samples(rows: Collection[UsageRow], labels: Labels = ()) -> list[tuple[Labels, float]]:
    return [
        ((*labels, ("kind", kind)), sum(getattr(row, f"{kind}_tokens") for row in rows))
        for kind in _TOKEN_KINDS
    ]


def _fleet_samples(
    sessions: Sequence[Session], rows: Collection[UsageRow], version: str
) -> dict[str, list[tuple[Labels, float]]]:
    by_status = Counter(each.status for each in sessions)
    by_level = Counter(each.context.level for each in sessions if each.live)
    return {
        "build.info": [((("version", version),), 1)],
        "sessions": [((("status", each.value),), by_status[each]) for each in SessionStatus],
        "sessions.at.level": [((("level", each.value),), by_level[each]) for each in Level],
        "spent": _spent_samples(rows),
        "responses": [((), sum(row.responses for row in rows))],
        "cost": [((), sum(each.cost.usd for each in sessions if each.cost))],
        "compactions": [((), sum(each.compactions for each in sessions))],
        "agents": [((), sum(each.agents - each.agents_copied for each in sessions))],
        "agents.noncompliant": [((), sum(_own_noncompliant(each) or 0 for each in sessions))],
    }


def _own_noncompliant(session: Session) -> int | None:
    found = session.agents_noncompliant
    return None if found is None else found - session.noncompliant_copied


def _limit_values(limit: PlanLimit, now_ms: int) -> dict[str, float | None]:
    full_at = limit.exhaustion.at if limit.exhaustion else None
    return {
        "limit.used": limit.used_ratio,
        "limit.age": limit.age_ms(now_ms) / 1000,
        "limit.stale": limit.is_stale(now_ms),
        "limit.resets.timestamp": None if limit.resets_at is None else limit.resets_at / 1000,
        "limit.burn": limit.burn.ratio_per_hour if limit.burn else None,
        "limit.exhausted.timestamp": None if full_at is None else full_at / 1000,
    }


def _session_values(session: Session) -> dict[str, float | None]:
    context, activity, cost = session.context, session.activity, session.cost
    end, expires_at, last_at = (
        session.outlook.end,
        session.cache.expires_at,
        session.last_activity_at,
    )
    return {
        "session.live": session.live,
        "session.waiting": activity is not None and activity.kind is ActivityKind.PERSON,
        "session.context": context.tokens,
        "session.window": context.window.tokens,
        "session.used": context.ratio,
        "session.trigger": context.trigger_tokens,
        "session.trigger.left": context.trigger_left,
        "session.turns.left": end.turns.p50 if end and not end.turns.is_open else None,
        "session.level": _LEVEL_RANKS[context.level] if context.level else 0,
        "session.agents": session.agents - session.agents_copied,
        "session.agents.noncompliant": _own_noncompliant(session),
        "session.compactions": session.compactions,
        "session.cost": cost.usd if cost else None,
        "session.cost.estimated": cost.estimated if cost else None,
        "session.cache.expires.timestamp": None if expires_at is None else expires_at / 1000,
        "session.last.activity.timestamp": None if last_at is None else last_at / 1000,
    }


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_UNIT_SUFFIXES: Final = {
    MetricUnit.TOKENS: "_tokens",
    MetricUnit.RATIO: "_ratio",
    MetricUnit.COUNT: "",
    MetricUnit.SECONDS: "_seconds",
    MetricUnit.DOLLARS: "_dollars",
}
_WITHOUT_UNIT: Final = {
    "build.info",
    "session.live",
    "session.waiting",
    "session.cost.estimated",
    "limit.stale",
}
"""Metrics that are 0 or 1: not ratios to a reader."""


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """Write metrics for a scrape or for the textfile collector of the node exporter.

    Source: prometheus.io/docs, "Exposition formats" and "Metric and label naming".
    """
    lines: list[str] = []
    for metric in metrics:
        if not metric.samples:
            continue
        unit = "" if metric.name in _WITHOUT_UNIT else _UNIT_SUFFIXES[metric.unit]
        total = "_total" if metric.is_counter else ""
        name = f"ctxtop_{metric.name.replace('.', '_')}{unit}{total}"
        lines.append(f"# HELP {name} {_escape(metric.help)}")
        lines.append(f"# TYPE {name} {'counter' if metric.is_counter else 'gauge'}")
        lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in metric.samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escape(value, quotes=True)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escape(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quotes else escaped


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


METRICS_PATH: Final = "/metrics"
REQUEST_TIMEOUT_S: Final = 10.0  # for a client to send its request: Prometheus' limit of a scrape
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403


class MetricsServer(ThreadingHTTPServer):
    """Answers scrapes, one at a time, until it is shut down."""

    daemon_threads = True

    def __init__(
        self,
        port: int,
        token: str | None,
        make_text: Callable[[], str],
        report: Callable[[str], None],
    ) -> None:
        super().__init__((LOOPBACK, port), _ScrapeHandler)
        self._token: Final = token
        self._make_text: Final = make_text
        self._report: Final = report
        self._lock: Final = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.server_address[1]}{METRICS_PATH}"

    def refusal_status(self, host: str, authorization: str) -> int | None:
        """Return the HTTP status to refuse a request with; None if it is allowed."""
        if host not in loopback_hosts(self.server_address[1]):
            return FORBIDDEN
        if self._token is None:
            return None
        expected = f"Bearer {self._token}".encode()
        is_known = hmac.compare_digest(authorization.encode("utf-8", "replace"), expected)
        return None if is_known else UNAUTHORIZED

    def handle_error(self, request: object, client_address: object) -> None:
        """Report an error in one line; ignore scrapers that disconnect."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, (ConnectionError, TimeoutError)):
            self._report(str(error))

    def metrics(self) -> str:
        """Make the text of one scrape; concurrent scrapes wait for each other."""
        with self._lock:
            return self._make_text()


class _ScrapeHandler(BaseHTTPRequestHandler):
    timeout = REQUEST_TIMEOUT_S
    server_version = "ctxtop"
    sys_version = ""
    server: MetricsServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        host, authorization = self.headers.get("Host", ""), self.headers.get("Authorization", "")
        refused = self.server.refusal_status(host, authorization)
        if refused is not None:
            self._answer(refused, "refused\n")
        elif self.path.partition("?")[0] != METRICS_PATH:
            self._answer(404, f"look at {METRICS_PATH}\n")
        else:
            try:
                text = self.server.metrics()
            except Exception as error:
                # The scraper shows the message; the server keeps running.
                self._answer(500, f"{error}\n")
                raise
            self._answer(200, text)

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base's name
        """Do not log each scrape."""


CUMULATIVE_TEMPORALITY: Final = 2
"""AGGREGATION_TEMPORALITY_CUMULATIVE; enums are numbers in OTLP's JSON."""


def otlp_request(
    metrics: Iterable[Metric], version: str, since_ms: int, now_ms: int, resource: Mapping[str, str]
) -> Json:
    """Make the body that a collector takes at /v1/metrics.

    Source: opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding": 64-bit numbers are
    texts, keys are in camel case.
    """
    about = {"service.name": "ctxtop", "service.version": version, **resource}
    since, now = (str(at_ms * 1_000_000) for at_ms in (since_ms, now_ms))
    scope = {
        "scope": {"name": "ctxtop", "version": version},
        "metrics": [_otlp_metric(each, since, now) for each in metrics if each.samples],
    }
    attributes = _attributes(tuple(about.items()))
    return {"resourceMetrics": [{"resource": {"attributes": attributes}, "scopeMetrics": [scope]}]}


def _otlp_metric(metric: Metric, since: str, now: str) -> Json:
    points = [_point(labels, value, now) for labels, value in metric.samples]
    about: Json = {
        "name": f"ctxtop.{metric.name}",
        "description": metric.help,
        "unit": metric.unit.value,
    }
    if not metric.is_counter:
        return about | {"gauge": {"dataPoints": points}}
    return about | {
        "sum": {
            "dataPoints": [{"startTimeUnixNano": since} | point for point in points],
            "aggregationTemporality": CUMULATIVE_TEMPORALITY,
            "isMonotonic": True,
        }
    }


def _point(labels: Labels, value: float, now: str) -> Json:
    number: Json = {"asInt": str(int(value))} if value == int(value) else {"asDouble": value}
    return {"attributes": _attributes(labels), "timeUnixNano": now} | number


def _attributes(labels: Labels) -> list[Json]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in labels]


SEND_TIMEOUT_S: Final = 10.0  # OpenTelemetry's own default for an export


class NotSentError(Exception):
    """Metrics that did not arrive; the message says why and what to do."""


def check_endpoint(url: str, *, allow_remote: bool) -> None:
    """Raise NotSentError unless metrics may be sent to this URL."""
    try:
        parts = urlsplit(url)
        scheme, host, _ = parts.scheme, parts.hostname or "", parts.port
    except ValueError:
        scheme = host = ""
    if not host or scheme not in {"http", "https"}:
        raise NotSentError(f"{url!r} is not an address: use http://127.0.0.1:4318/v1/metrics")
    if not is_loopback(host) and not allow_remote:
        raise NotSentError(f"{host} is another machine: add --allow-remote to send it there")


def send_metrics(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> int:
    """POST a request and return how many points were refused; raises NotSentError."""
    from ...core.summaries.model_providers import post_json
    from ...core.summaries.model_summary import ProviderError

    try:
        answer = post_json(url, headers, body, SEND_TIMEOUT_S)
    except ProviderError as error:
        raise NotSentError(f"{error}; nothing is kept to be sent later") from error
    partial = answer.get("partialSuccess")
    refused = partial.get("rejectedDataPoints", 0) if isinstance(partial, dict) else 0
    return int(refused) if str(refused).isdecimal() else 0


def parse_headers(text: str) -> dict[str, str]:
    """Read OTEL_EXPORTER_OTLP_HEADERS: name=value with commas; raises NotSentError."""
    headers: dict[str, str] = {}
    for pair in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals) or not f"{name}{value}".isprintable():
            raise NotSentError("OTEL_EXPORTER_OTLP_HEADERS is not name=value,name=value")
        headers[name.lower()] = value
    return headers
