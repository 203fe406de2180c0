"""What an agent that starts is given: results of earlier ones and its tasks."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from ....core.injection.choose import choose
from ....core.injection.limits import limits_of
from ...clean import clean_title
from ...giving import Asked, gather
from ..at_once import policy_at_once, store_at_once
from ..call import Reply
from ..fields import text_of, transcript_of
from ..kept import keep
from ..project_root import project_root

if TYPE_CHECKING:
    from ....core.injection.past import Injection, Limits
    from ..call import Call


def answer(call: Call) -> Reply | None:
    """Give an agent at its SubagentStart what `ctxtop inject` shows; None where nothing fits."""
    transcript, root = transcript_of(call.fields), project_root(call.fields)
    agent_type = clean_title(text_of(call.fields, "agent_type"))
    # An agent without a type is the client's own.
    if call.event != "SubagentStart" or transcript is None or not agent_type:
        return None
    limits = limits_of(policy_at_once(call.fields))
    if limits is None:
        return None
    agent_id = clean_title(text_of(call.fields, "agent_id")) or None
    asked = Asked(transcript, agent_type, agent_id, project_root=Path(root) if root else None)
    found = _choose(asked, call.store, limits)
    if not found.context:
        return None
    for entry in found.entries:
        keep(
            call.store,
            feature="inject",
            session_id=transcript.stem.lower(),
            agent_id=agent_id,
            kind=entry.stage.value,
            text=entry.reason,
            tokens=entry.token_bound,
            from_session_id=entry.session_id,
            from_agent_id=entry.agent_id,
        )
    return Reply(context=found.context)


def _choose(asked: Asked, store: Path, limits: Limits) -> Injection:
    try:
        with store_at_once(store) as db:
            start, pasts = gather(asked, db, limits)
    except sqlite3.Error:
        # Not there, locked, damaged, or of another ctxtop: the files alone.
        start, pasts = gather(asked, None, limits)
    return choose(start, pasts, limits)
