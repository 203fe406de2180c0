"""Metrics for Prometheus, which scrapes a server on this machine, and as OTLP/HTTP requests."""

from __future__ import annotations

import hmac
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from ...core.host import LOOPBACK, is_loopback, loopback_hosts
from .metrics import Labels, Metric, MetricUnit

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_UNIT_SUFFIXES: Final = {
    MetricUnit.TOKENS: "_tokens",
    MetricUnit.RATIO: "_ratio",
    MetricUnit.COUNT: "",
    MetricUnit.SECONDS: "_seconds",
    MetricUnit.DOLLARS: "_dollars",
}
_WITHOUT_UNIT: Final = frozenset(
    {"build.info", "session.live", "session.waiting", "session.cost.estimated"}
)
"""Of 0 and 1 only: they are no ratios to a reader."""


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """Write metrics for a scrape or for the textfile collector of the node exporter.

    Source: prometheus.io/docs, "Exposition formats" and "Metric and label naming".
    """
    lines: list[str] = []
    for metric in metrics:
        if not metric.samples:
            continue
        name = metric_name(metric)
        lines.append(f"# HELP {name} {_escape(metric.help)}")
        lines.append(f"# TYPE {name} {'counter' if metric.is_counter else 'gauge'}")
        lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in metric.samples]
    return "\n".join(lines) + "\n"


def metric_name(metric: Metric) -> str:
    """Name a metric with its base unit, and a total as one."""
    unit = "" if metric.name in _WITHOUT_UNIT else _UNIT_SUFFIXES[metric.unit]
    return f"ctxtop_{metric.name.replace('.', '_')}{unit}{'_total' if metric.is_counter else ''}"


def _labels(labels: Labels) -> str:
    said = ",".join(f'{name}="{_escape(value, quotes=True)}"' for name, value in labels)
    return f"{{{said}}}" if said else ""


def _escape(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quotes else escaped


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


METRICS_PATH: Final = "/metrics"

REQUEST_TIMEOUT_S: Final = 10.0
"""How long a client may take to say what it wants: Prometheus' own limit of a scrape."""

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
        self._make: Final = make_text
        self._tell: Final = report
        self._turn: Final = threading.Lock()

    @property
    def address(self) -> str:
        """Return the URL to scrape."""
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
            self._tell(str(error))

    def metrics(self) -> str:
        """Make the text of one scrape; two at once wait for each other."""
        with self._turn:
            return self._make()


class _ScrapeHandler(BaseHTTPRequestHandler):
    timeout = REQUEST_TIMEOUT_S
    server_version = "ctxtop"
    sys_version = ""

    def do_GET(self) -> None:
        metrics = self.server
        if not isinstance(metrics, MetricsServer):
            raise TypeError(type(metrics))
        host, said = self.headers.get("Host", ""), self.headers.get("Authorization", "")
        refused = metrics.refusal_status(host, said)
        if refused is not None:
            self._answer(refused, "refused\n")
        elif self.path.partition("?")[0] != METRICS_PATH:
            self._answer(404, f"look at {METRICS_PATH}\n")
        else:
            try:
                text = metrics.metrics()
            except Exception as error:
                # The scraper shows what it is told; the server goes on.
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


Json = dict[str, Any]

CUMULATIVE_TEMPORALITY: Final = 2
"""AGGREGATION_TEMPORALITY_CUMULATIVE; enums are numbers in OTLP's JSON."""

_NS_PER_MS: Final = 1_000_000


def otlp_request(
    metrics: Iterable[Metric],
    version: str,
    since_ms: int,
    now_ms: int,
    resource: Mapping[str, str],
) -> Json:
    """Make the body that a collector takes at /v1/metrics.

    Source: opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding": 64-bit numbers are
    texts, keys are in camel case.
    """
    about = {"service.name": "ctxtop", "service.version": version, **resource}
    return {
        "resourceMetrics": [
            {
                "resource": {"attributes": _attributes(tuple(about.items()))},
                "scopeMetrics": [
                    {
                        "scope": {"name": "ctxtop", "version": version},
                        "metrics": [
                            _metric(each, str(since_ms * _NS_PER_MS), str(now_ms * _NS_PER_MS))
                            for each in metrics
                            if each.samples
                        ],
                    }
                ],
            }
        ]
    }


def _metric(metric: Metric, since: str, now: str) -> Json:
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
    """Raise NotSentError unless an address is one that may be sent to."""
    try:
        parts = urlsplit(url)
        scheme, host, _ = parts.scheme, parts.hostname or "", parts.port
    except ValueError:
        scheme = host = ""
    if not host or scheme not in {"http", "https"}:
        raise NotSentError(f"{url!r} is no address: give http://127.0.0.1:4318/v1/metrics")
    if not is_loopback(host) and not allow_remote:
        raise NotSentError(f"{host} is another machine: add --allow-remote to send it there")


def send_metrics(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> int:
    """POST a request, and say how many points were refused; raises NotSentError."""
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
    found: dict[str, str] = {}
    for pair in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals) or not f"{name}{value}".isprintable():
            raise NotSentError("OTEL_EXPORTER_OTLP_HEADERS is not name=value,name=value")
        found[name.lower()] = value
    return found
