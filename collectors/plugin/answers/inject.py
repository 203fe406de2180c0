"""Feature `inject`: give an agent that starts the results of earlier agents and its own tasks."""

from __future__ import annotations

from ...plugin_files.plugin_log import ANSWER_FAULTS, log_path, note_fault
from ...plugin_files.state_files import record_answer
from ..hook_answer import HookReply, find_hook_project, session_of, text_field, transcript_path

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path

    from ....core.injection.context_selection import Injection, InjectionLimits
    from ...claude_code.injection_sources import InjectionRequest
    from ..hook_answer import HookCall


def answer(call: HookCall) -> HookReply | None:
    """Return at SubagentStart the context that `ctxtop inject` shows; None if nothing fits."""
    transcript, agent_type = transcript_path(call.fields), text_field(call.fields, "agent_type")
    # An agent without a type is the client's own.
    if call.event != "SubagentStart" or transcript is None or not agent_type:
        return None
    call.begin_slow()
    from pathlib import Path

    from ....core.injection.context_selection import injection_limits
    from ....core.transcript.sanitize import sanitize_title
    from ...claude_code.injection_sources import InjectionRequest
    from ..hook_inputs import resolve_hook_policy

    root, agent_type = find_hook_project(call.fields), sanitize_title(agent_type)
    limits = injection_limits(resolve_hook_policy(call.fields)) if agent_type else None
    if limits is None:
        return None
    agent_id = sanitize_title(text_field(call.fields, "agent_id")) or None
    project = Path(root) if root else None
    request = InjectionRequest(Path(transcript), agent_type, agent_id, project_root=project)
    injection = _choose_injection(request, Path(call.store), limits)
    if not injection.context:
        return None
    for entry in injection.entries:
        record_answer(
            call.store,
            feature="inject",
            session_id=session_of(transcript),
            agent_id=agent_id,
            kind=entry.stage.value,
            text=entry.reason,
            tokens=entry.token_bound,
            from_session_id=entry.session_id,
            from_agent_id=entry.agent_id,
        )
    return HookReply(context=injection.context)


def _choose_injection(request: InjectionRequest, store: Path, limits: InjectionLimits) -> Injection:
    import sqlite3

    from ....core.injection.context_selection import select_context
    from ....core.store.bulkhead import take_faults
    from ...claude_code.injection_sources import gather_injection_sources
    from ...plugin_files.hook_store import note_store_error, open_store_without_waiting

    try:
        with open_store_without_waiting(store) as db:
            start, pasts = gather_injection_sources(request, db, limits)
    except sqlite3.Error as error:
        # Locked, damaged, or of another ctxtop version: the files alone.
        note_store_error(store, error)
        start, pasts = gather_injection_sources(request, None, limits)
    for fault in take_faults():
        note_fault(log_path(str(store), ANSWER_FAULTS), f"inject: {fault.where}: {fault.what}")
    return select_context(start, pasts, limits)
