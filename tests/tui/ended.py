"""How a command ended that a test ran in its own process."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Ended(NamedTuple):
    """Its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 -- any JSON
        return json.loads(self.out)
