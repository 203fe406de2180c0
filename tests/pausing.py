"""Sessions as a pause finds them, made by hand."""

from __future__ import annotations

from typing import Any, Final

from ctxtop.core.actions.pause_rules import PauseCandidate
from ctxtop.core.actions.session_access import Via
from ctxtop.core.model.claude_models import HOUR_MS
from ctxtop.core.model.context import Context, ContextState
from ctxtop.core.model.session import Session, SessionStatus
from ctxtop.core.model.session_activity import PromptCache
from msgspec.structs import replace

from .tui.makers import WINDOW, session
from .tui.support import NOW_MS

MINUTE: Final = 60_000
TOKENS: Final = 150_000


def idle_session(**fields: Any) -> Session:  # noqa: ANN401 -- any field may be named
    """A session that is open, idle, warm for 50 more minutes, and worth a pause."""
    made = session(
        model="claude-opus-5-5",
        status=SessionStatus.IDLE,
        live=True,
        context=Context(TOKENS, ContextState.MEASURED, WINDOW),
        cache=PromptCache(NOW_MS + 50 * MINUTE, tokens=TOKENS, lifetime_ms=HOUR_MS),
    )
    return replace(made, **fields)


def candidate(of: Session | None = None, **fields: Any) -> PauseCandidate:  # noqa: ANN401
    made = PauseCandidate(
        of or idle_session(), bytes=1_000, answered_at=NOW_MS - 10 * MINUTE, via=Via.PLUGIN
    )
    return replace(made, **fields)
