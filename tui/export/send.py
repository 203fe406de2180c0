"""Sending metrics to a collector, and only to the one that a person named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ...core.loopback import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S: Final = 10.0
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


def send(url: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> int:
    """POST a request, and say how many points were refused; raises NotSentError."""
    from ...core.summaries.providers.post import post
    from ...core.summaries.providers.provider import ProviderError

    try:
        answer = post(url, headers, body, TIMEOUT_S)
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
