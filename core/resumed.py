"""When an agent that returned is at work again."""

from __future__ import annotations

from typing import Final

RESUMED_MS: Final = 2_000
"""An agent that writes this long after it returned was sent another message."""
