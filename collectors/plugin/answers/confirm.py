"""Feature `confirm`: tell a session once how a compaction ended that ctxtop asked for."""

from __future__ import annotations

import os

from .. import compact_requests
from ..hook_call import HookCall, HookReply

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Final


CONFIRM_EVENT: Final = "UserPromptSubmit"

REASON_CHARS: Final = 200  # of a reason: one line
_THOUSAND: Final = 1000


def answer(call: HookCall) -> HookReply | None:
    """Report how the newest request ended, once; None if there is nothing new."""
    session_id = call.fields.get("session_id")
    if call.event != CONFIRM_EVENT or not isinstance(session_id, str):
        return None
    session_id = session_id.lower()
    if not compact_requests.is_session_id(session_id):
        return None
    said = take_confirmation(str(call.store), session_id)
    return HookReply(context=said) if said else None


def take_confirmation(store: str, session_id: str) -> str | None:
    """Claim the results not yet reported to the session and describe the newest.

    None if there is nothing to report.
    """
    try:
        compact_requests.check_request_folders(store)
        names = os.listdir(compact_requests.request_history_folder(store))
    except FileNotFoundError:
        return None
    results = [
        told for name in names if (told := _take_result(store, name, session_id)) is not None
    ]
    newest = max(results, key=lambda result: str(result.get("at")), default=None)
    return None if newest is None else describe_result(newest)


def describe_result(result: dict[str, object]) -> str | None:
    """Describe a result in one line; None for a refusal, which the requester has already seen."""
    if result.get("state") == "done":
        sizes = (
            f"{_format_tokens(result.get('pre_tokens'))} →"
            f" {_format_tokens(result.get('post_tokens'))}"
        )
        return f"ctxtop compacted this session: {sizes} tokens."
    if result.get("state") == "failed":
        why = " ".join(str(result.get("why") or "it did not say why").split())[:REASON_CHARS]
        return f"ctxtop asked to compact this session, and it failed: {why}"
    return None


def _take_result(store: str, name: str, session_id: str) -> dict[str, object] | None:
    """Rename a result, so that of several hooks one tells it; None where another has."""
    parts = compact_requests.parse_request_file_name(name)
    if parts is None or parts[0] != session_id or parts[2] != compact_requests.RESULT:
        return None
    folder = compact_requests.request_history_folder(store)
    file_name = compact_requests.request_file_name(session_id, parts[1], compact_requests.TOLD)
    told = f"{folder}/{file_name}"
    try:
        os.rename(f"{folder}/{name}", told)
        return compact_requests.read_request_file(told)
    except (OSError, ValueError):
        return None


def _format_tokens(tokens: object) -> str:
    if type(tokens) is not int:
        return "?"
    return f"{round(tokens / _THOUSAND)}k" if tokens >= _THOUSAND else str(tokens)
