"""The address of this machine itself: the only one listened to, or trusted without TLS."""

from __future__ import annotations

import ipaddress
from typing import Final

LOOPBACK: Final = "127.0.0.1"
"""The only address that is listened to; for another machine there is `ssh -L`."""

_LOOPBACK_NAMES: Final = (LOOPBACK, "localhost")


def is_loopback(host: str) -> bool:
    """Say whether a name or an address always leads to this machine (RFC 6761, RFC 5735)."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def loopback_hosts(port: int) -> tuple[str, ...]:
    """Give what a request to a port of this machine names as its host.

    A page of another site whose name was made to lead here names its own.
    """
    return tuple(f"{name}:{port}" for name in _LOOPBACK_NAMES)
