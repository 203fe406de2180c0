"""Send one JSON request to an HTTPS API without ever showing its key."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from ...system.loopback import is_loopback
from .provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping


MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
"""Bytes: a summary of 8,192 tokens has some 40,000."""

ERROR_CHARS: Final = 200
"""Characters of what an API says of an error: one line."""

RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which asking again may help."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A key is never sent to where somebody else points."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow nothing."""
        return


def post_json(
    url: str, headers: Mapping[str, str], body: Mapping[str, object], timeout_s: float
) -> dict[str, Any]:
    """Send a JSON object and give the one that comes back; raises ProviderError.

    Only https, or http to this machine itself.
    """
    _check_url(url)
    request = urllib.request.Request(  # noqa: S310 -- checked above
        url,
        data=msgspec.json.encode(body),
        headers={"content-type": "application/json", **headers},
        method="POST",
    )
    host = urlsplit(url).hostname
    try:
        with _opener(url).open(request, timeout=timeout_s) as answer:
            data = answer.read(MAX_RESPONSE_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            said = _redact_keys(headers, error.read(ERROR_CHARS * 4).decode("utf-8", "replace"))
        passing = error.code in RETRYABLE_STATUSES
        raise ProviderError(f"{host} answered {error.code}: {said}", passing=passing) from None
    except TimeoutError:
        raise ProviderError(f"{host} took more than {timeout_s:.0f} s", passing=True) from None
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or error
        raise ProviderError(f"{host} cannot be reached: {why}", passing=True) from None
    if len(data) > MAX_RESPONSE_BYTES:
        raise ProviderError(f"{host} answered more than {MAX_RESPONSE_BYTES:,} bytes")
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        decoded = None
    if not isinstance(decoded, dict):
        raise ProviderError(f"{host} answered what is no JSON object: is the address right?")
    return decoded


def _opener(url: str) -> urllib.request.OpenerDirector:
    # What runs on this machine is not reached through a proxy.
    own = [urllib.request.ProxyHandler({})] if is_loopback(urlsplit(url).hostname or "") else []
    return urllib.request.build_opener(_NoRedirect, *own)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise ProviderError("the address of the API is no URL: give https://…") from None
    if parts.username or parts.password:
        raise ProviderError("the address of the API holds a password: give the key as a variable")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ProviderError("the address of the API is not https: a key would be sent in the open")


def _redact_keys(headers: Mapping[str, str], said: str) -> str:
    """Redact keys in an API's error message: some repeat the key that they reject."""
    for value in headers.values():
        for secret in (value, value.removeprefix("Bearer ")):
            said = said.replace(secret, "…") if len(secret) > len("2023-06-01") else said
    return " ".join(said.split())[:ERROR_CHARS]
