"""Asking the module that the plugin put into the client: a request file, and its answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from ..clean import clean_title
from ..plugin import exchange
from .outcome import NotCompactedError, Via, Why
from .waiting import COMPACT_S, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.store.facts import LiveSession
    from .boundary import BoundaryWatch, NewBoundary
    from .receipts import Asking

TAKE_S: Final = 4.0
"""The module looks every second, and a process of its own takes the request; a client that
is at work may be slower."""

AFTER_S: Final = 5.0
"""The boundary is in the transcript before the client says that it is done."""

EXPIRES_MS: Final = 30_000
"""No module carries out a request that is older: whoever asked has gone."""

_IN_TURN: Final = "turn is running"
_TOO_FEW: Final = "not enough messages"
"""Words of 2.1.329 (seen): in a turn, and where there is nothing to summarise."""


def is_there(store: Path, live: LiveSession) -> bool:
    """Say whether the module of this very process has said that it runs."""
    path = f"{exchange.kept_folder(str(store))}/{live.pid}.{exchange.ALIVE}"
    try:
        exchange.check_folders(str(store))
        said = exchange.read(path)
    except (OSError, ValueError):
        return False
    at = said.get("at")
    # A process that began later has only inherited the number.
    return isinstance(at, int) and (live.started_at is None or at >= live.started_at)


def ask(request: Asking, watch: BoundaryWatch) -> NewBoundary | None:
    """Leave a request and wait for the boundary; None where nobody takes it.

    Raises NotCompactedError where the client refuses or fails.
    """
    request.begin(Via.PLUGIN)
    path = request.file_path(exchange.ASK)
    expires = {"text": request.text, "expires_at": exchange.now_ms() + EXPIRES_MS}
    exchange.write(str(path), request.with_ids(expires))
    if not wait_for(lambda: None if os.path.lexists(path) else True, TAKE_S) and _withdraw(path):
        return None

    def look() -> tuple[NewBoundary | None, dict[str, object] | None] | None:
        found = watch.poll(), request.read_result()
        return found if any(found) else None

    boundary, result = wait_for(look, COMPACT_S) or (None, None)
    if boundary:
        # Its result is on the way, and ours must come after it.
        wait_for(request.read_result, AFTER_S)
        return boundary
    if result is None:
        raise NotCompactedError(
            Why.FAILED, f"no compaction after {COMPACT_S:.0f} s: look at the session"
        )
    return _after(result, watch)


def _withdraw(path: Path) -> bool:
    """Take the request back; False where it was taken at the last moment."""
    aside = path.with_suffix(f".{exchange.TAKEN}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return False
    aside.unlink(missing_ok=True)
    return True


def _after(result: dict[str, object], watch: BoundaryWatch) -> NewBoundary:
    why = clean_title(str(result.get("why") or "without a reason"))
    if result.get("state") == "done":
        found = wait_for(watch.poll, AFTER_S)
        if found is None:
            raise NotCompactedError(
                Why.FAILED, "the client says that it is done, and there is no boundary"
            )
        return found
    if _IN_TURN in why:
        raise NotCompactedError(Why.LIVE, f"it is busy: {why}")
    if _TOO_FEW in why.lower():
        raise NotCompactedError(Why.NOTHING, f"nothing to compact: {why}")
    raise NotCompactedError(Why.FAILED, f"the client did not compact: {why}")
