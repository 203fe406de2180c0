"""Waiting for what another process does, without end never."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Found = TypeVar("Found")

LOOK_S: Final = 0.1
"""Between two looks: less than a person notices."""

COMPACT_S: Final = 300.0
"""A summary of a full large window takes three minutes; after this the request is an orphan."""


def wait_for(poll: Callable[[], Found | None], timeout_s: float) -> Found | None:
    """Look again and again until there is something, or `most_s` seconds have passed."""
    until = time.monotonic() + timeout_s
    while True:
        found = poll()
        if found is not None or time.monotonic() >= until:
            return found
        time.sleep(LOOK_S)
