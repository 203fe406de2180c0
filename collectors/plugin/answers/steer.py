"""Feature `steer`: tell Claude Code's own compaction at PreCompact what its summary must keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ....core.summaries.steering import (
    KEEP_HEADING,
    essential_tokens,
    fit_essentials,
    render_essentials,
)
from ...claude_code.current_context import read_essentials
from .. import state_files
from ..hook_answer import HookReply, text_field, transcript_path
from ..hook_inputs import resolve_hook_policy

if TYPE_CHECKING:
    from ..hook_answer import HookCall


def answer(call: HookCall) -> HookReply | None:
    """Return what a compaction must keep; None if that is nothing or there is no transcript."""
    transcript = transcript_path(call.fields)
    if call.event != "PreCompact" or transcript is None:
        return None
    agent_id = text_field(call.fields, "agent_id")
    budget = resolve_hook_policy(call.fields).count("steering.budget")
    path = transcript
    if agent_id:
        path = transcript.with_suffix("") / "subagents" / f"agent-{agent_id}.jsonl"
    try:
        items = fit_essentials(read_essentials(path, call.now_ms), budget, KEEP_HEADING)
    except FileNotFoundError:
        # The session is not kept on disk.
        return None
    if not items:
        return None
    session_id = transcript.stem.lower()
    for item in items:
        state_files.record_answer(
            call.store,
            "steer",
            session_id=session_id,
            agent_id=agent_id or None,
            kind=item.kind.value,
            text=item.text,
            tokens=essential_tokens(item),
        )
    if not agent_id:
        # `remember` checks the summary against these.
        state_files.leave_note(call.store, f"steered-{session_id}", msgspec.json.encode(items))
    return HookReply(context=render_essentials(items, KEEP_HEADING))
