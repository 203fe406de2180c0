"""Metrics as an OTLP/HTTP JSON request, and sending it to a collector that a person named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ...core.system.loopback import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .metrics import Labels, Metric


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


SEND_TIMEOUT_S: Final = 10.0
"""OpenTelemetry's own default for an export."""


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
    from ...core.summaries.providers.json_post import post_json
    from ...core.summaries.providers.provider import ProviderError

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
