"""Metrics as an OTLP/HTTP JSON request (ExportMetricsServiceRequest)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .metrics import Labels, Metric

Json = dict[str, Any]

CUMULATIVE: Final = 2
"""AGGREGATION_TEMPORALITY_CUMULATIVE; enums are numbers in OTLP's JSON."""

_NS_PER_MS: Final = 1_000_000


def request(
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
            "aggregationTemporality": CUMULATIVE,
            "isMonotonic": True,
        }
    }


def _point(labels: Labels, value: float, now: str) -> Json:
    number: Json = {"asInt": str(int(value))} if value == int(value) else {"asDouble": value}
    return {"attributes": _attributes(labels), "timeUnixNano": now} | number


def _attributes(labels: Labels) -> list[Json]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in labels]
