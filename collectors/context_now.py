"""A session's fill at this moment: from its transcript's end, without waiting for the reader."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..core.claims import Source
from ..core.client_setup import VARIABLES
from ..core.context import measure
from ..core.counter import Counted
from ..core.evidence import Evidence, Facts, Seen, read_facts
from ..core.models import SMALL_WINDOW
from ..core.policy.layers import Policies
from ..core.sessions import make_session
from ..core.store import queries
from .clean import clean_title
from .plugin.at_once import store_at_once
from .transcripts.newest import introduced_model

if TYPE_CHECKING:
    from pathlib import Path

    from ..core.context import Context
    from ..core.policy.policy import Policy
    from .transcripts.newest import Newest


def context_now(
    transcript: Path, cwd: str, store: Path, policy: Policy, latest: Newest, now_ms: int
) -> Context | None:
    """Measure the last answer against its window; None where nobody can say how large that is.

    Raises OSError where the transcript cannot be read.
    """
    facts, context = _stored(transcript, store, policy, latest, now_ms)
    if context is not None:
        return context
    evidence = Evidence(facts, Policies(policy, {}))
    introduced = introduced_model(transcript)
    seen = Seen(
        session_id=transcript.stem.lower(),
        cwd=cwd or None,
        model=latest.model,
        asked_model=introduced,
        client_version=latest.client_version,
        peak_tokens=latest.tokens or 0,
    )
    window = evidence.window_of(seen)
    if window.source is Source.ASSUMED:
        return None
    if introduced is None and (window.tokens, window.source) == (SMALL_WINDOW, Source.TABLE):
        # The API's name of a model is the same for both windows.
        return None
    trigger = evidence.trigger_of(seen, window)
    lines = policy.place_thresholds(window, trigger.tokens)
    return measure(Counted(answer=latest.tokens), window, trigger, lines)


def _stored(
    transcript: Path, store: Path, policy: Policy, end: Newest, now_ms: int
) -> tuple[Facts, Context | None]:
    """Take the window that the store knows of this session and model."""
    facts, session_id = Facts(), transcript.stem.lower()
    try:
        with store_at_once(store) as db:
            if db is None:
                return _here(facts, session_id), None
            db.row_factory = sqlite3.Row
            facts = _here(read_facts(db), session_id)
            evidence = Evidence(facts, Policies(policy, {}))
            rows = queries.sessions(db, [session_id])
    except sqlite3.Error:
        # Locked, damaged, or of another ctxtop: the transcript alone.
        return _here(facts, session_id), None
    for row in rows:
        context = make_session(row, evidence, now_ms).context
        peaked = row.last_model == end.model and (end.tokens or 0) <= context.window.tokens
        if peaked and context.window.source is not Source.ASSUMED:
            return facts, measure(
                Counted(answer=end.tokens), context.window, context.trigger, context.thresholds
            )
    return facts, None


def _here(facts: Facts, session_id: str) -> Facts:
    """Add the client's own environment, which a hook has from it."""
    own = {name: clean_title(os.environ[name]) for name in VARIABLES if name in os.environ}
    return replace(facts, environments=facts.environments | {session_id: own})
