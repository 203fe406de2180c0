"""What the client's own compaction is told to keep: its PreCompact hook's plain output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ....core.summaries.steering import STEER, tokens_of, within, words
from ...standing import read_essentials
from .. import notes
from ..at_once import policy_at_once
from ..call import Reply
from ..fields import text_of, transcript_of
from ..kept import keep

if TYPE_CHECKING:
    from pathlib import Path

    from ..call import Call


def answer(call: Call) -> Reply | None:
    """Tell a compaction what must survive; None where there is nothing, or nothing to read."""
    transcript = transcript_of(call.fields)
    if call.event != "PreCompact" or transcript is None:
        return None
    agent_id = text_of(call.fields, "agent_id")
    budget = policy_at_once(call.fields).integer("steering.budget") or 0
    context = _agents_own(transcript, agent_id) if agent_id else transcript
    try:
        items = within(read_essentials(context, call.now_ms), budget, STEER)
    except FileNotFoundError:
        # A session that is not kept on disk.
        return None
    if not items:
        return None
    session_id = transcript.stem.lower()
    for item in items:
        keep(
            call.store,
            "steer",
            session_id=session_id,
            agent_id=agent_id or None,
            kind=item.kind.value,
            text=item.text,
            tokens=tokens_of(item),
        )
    if not agent_id:
        # Its PostCompact judges the summary by this.
        notes.leave(call.store, f"steered-{session_id}", msgspec.json.encode(items))
    return Reply(context=words(items, STEER))


def _agents_own(transcript: Path, agent_id: str) -> Path:
    return transcript.with_suffix("") / "subagents" / f"agent-{agent_id}.jsonl"
