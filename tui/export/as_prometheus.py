"""Metrics in Prometheus' text format 0.0.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .metrics import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .metrics import Labels, Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_UNITS: Final = {
    Unit.TOKENS: "_tokens",
    Unit.RATIO: "_ratio",
    Unit.COUNT: "",
    Unit.SECONDS: "_seconds",
    Unit.DOLLARS: "_dollars",
}
_PLAIN: Final = frozenset(
    {"build.info", "session.live", "session.waiting", "session.cost.estimated"}
)
"""Of 0 and 1 only: they are no ratios to a reader."""


def exposition(metrics: Iterable[Metric]) -> str:
    """Write metrics for a scrape or for the textfile collector of the node exporter.

    Source: prometheus.io/docs, "Exposition formats" and "Metric and label naming".
    """
    lines: list[str] = []
    for metric in metrics:
        if not metric.samples:
            continue
        name = name_of(metric)
        lines.append(f"# HELP {name} {_escape(metric.help)}")
        lines.append(f"# TYPE {name} {'counter' if metric.is_counter else 'gauge'}")
        lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in metric.samples]
    return "\n".join(lines) + "\n"


def name_of(metric: Metric) -> str:
    """Name a metric with its base unit, and a total as one."""
    unit = "" if metric.name in _PLAIN else _UNITS[metric.unit]
    return f"ctxtop_{metric.name.replace('.', '_')}{unit}{'_total' if metric.is_counter else ''}"


def _labels(labels: Labels) -> str:
    said = ",".join(f'{name}="{_escape(value, quotes=True)}"' for name, value in labels)
    return f"{{{said}}}" if said else ""


def _escape(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quotes else escaped


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
