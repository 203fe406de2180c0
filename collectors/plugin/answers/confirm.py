"""Feature `confirm`: tell a session once how a compaction ended that ctxtop asked for."""

from __future__ import annotations

import os

from ...plugin_files import compact_requests
from ..hook_answer import HookReply

TYPE_CHECKING = False

if TYPE_CHECKING:
    from ..hook_answer import HookCall

REASON_CHARS = 200  # of a reason: one line


def answer(call: HookCall) -> HookReply | None:
    """Report how the newest request ended, once; None if there is nothing new."""
    session_id = call.fields.get("session_id")
    if call.event != "UserPromptSubmit" or not isinstance(session_id, str):
        return None
    session_id = session_id.lower()
    if not compact_requests.is_session_id(session_id):
        return None
    text = take_confirmation(call.store, session_id)
    return HookReply(context=text) if text else None


def take_confirmation(store: str, session_id: str) -> str | None:
    """Claim the results not yet reported to the session and describe the newest.

    None if there is nothing to report.
    """
    try:
        compact_requests.check_request_folders(store)
        requests = compact_requests.list_requests(store, compact_requests.RESULT, session_id)
    except FileNotFoundError:
        return None
    results = [result for ids in requests if (result := _take_result(store, *ids)) is not None]
    newest = max(results, key=lambda result: str(result.get("at")), default=None)
    return None if newest is None else describe_result(newest)


def describe_result(result: dict[str, object]) -> str | None:
    """Describe a result in one line; None for a refusal, which the requester has already seen."""
    if result.get("state") == "done":
        names = ("pre_tokens", "estimated_next_tokens", "post_tokens")
        before, after, messages = (_format_tokens(result.get(name)) for name in names)
        # What the client counts is without the system prompt and the tools.
        left = f"{messages} tokens of messages" if after == "?" else f"{after} tokens"
        return f"ctxtop compacted this session: {before} → {left}."
    if result.get("state") == "failed":
        why = " ".join(str(result.get("why") or "no reason was given").split())[:REASON_CHARS]
        return f"ctxtop asked to compact this session, but it failed: {why}"
    return None


def _take_result(store: str, session_id: str, request: str) -> dict[str, object] | None:
    """Rename a result, so that only one of several hooks reports it; None if another has."""
    kinds = (compact_requests.RESULT, compact_requests.TOLD)
    result, told = (
        compact_requests.request_path(store, session_id, request, kind) for kind in kinds
    )
    try:
        os.rename(result, told)
        return compact_requests.read_request_file(told)
    except (OSError, ValueError):
        return None


def _format_tokens(tokens: object) -> str:
    if type(tokens) is not int:
        return "?"
    return f"{round(tokens / 1000)}k" if tokens >= 1000 else str(tokens)
