"""The address of this machine itself: the only one listened to, or trusted without TLS."""

from __future__ import annotations

import ipaddress
from typing import Final

LOOPBACK: Final = "127.0.0.1"
"""The only address that is listened to; for another machine there is `ssh -L`."""

_LOOPBACK_NAMES: Final = (LOOPBACK, "localhost")


def is_loopback(host: str) -> bool:
    """Whether a name or an address always leads to this machine (RFC 6761, RFC 5735)."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def loopback_hosts(port: int) -> tuple[str, ...]:
    """Return the Host headers that a request to a port of this machine may have.

    After DNS rebinding, a page of another site sends its own name instead.
    """
    return tuple(f"{name}:{port}" for name in _LOOPBACK_NAMES)
