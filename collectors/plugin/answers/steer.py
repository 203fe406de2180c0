"""Feature `steer`: tell Claude Code's own compaction at PreCompact what its summary must keep."""

from __future__ import annotations

from ...plugin_files import state_files
from ..hook_answer import HookReply, session_of, text_field, transcript_path

TYPE_CHECKING = False

if TYPE_CHECKING:
    from ..hook_answer import HookCall


def answer(call: HookCall) -> HookReply | None:
    """Return what a compaction must keep; None if that is nothing or there is no transcript."""
    transcript = transcript_path(call.fields)
    if call.event != "PreCompact" or transcript is None:
        return None
    call.begin_slow()
    from pathlib import Path

    from ....core.store.database import state_folder
    from ....core.summaries.rule_choices import read_rule_choices
    from ....core.summaries.steering import (
        KEEP_HEADING,
        essential_tokens,
        fit_essentials,
        render_essentials,
    )
    from ...claude_code.current_context import read_essentials, read_rules
    from ..hook_inputs import resolve_hook_policy

    agent_id = text_field(call.fields, "agent_id")
    budget = resolve_hook_policy(call.fields).count("steering.budget")
    path = Path(transcript)
    if agent_id:
        path = path.with_suffix("") / "subagents" / f"agent-{agent_id}.jsonl"
    choices = read_rule_choices(state_folder(Path(call.store)))
    try:
        essentials = read_essentials(path, read_rules(path, choices), call.now_ms)
    except FileNotFoundError:
        # The session is not kept on disk.
        return None
    items = fit_essentials(essentials, budget, KEEP_HEADING)
    if not items:
        return None
    session_id = session_of(transcript)
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
    return HookReply(context=render_essentials(items, KEEP_HEADING))
