"""How much randomized and large tests try: some in `make test`, all in `make prove-engine`."""

from __future__ import annotations

import os
from typing import Final

IS_PROVING: Final = os.environ.get("CTXTOP_PROVE") == "1"


def tries(testing: int, proving: int) -> int:
    """Return how many to try: `testing` keeps `make test` short, `proving` is the full count."""
    return proving if IS_PROVING else testing
