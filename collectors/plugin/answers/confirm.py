"""Feature `confirm`: the session is told once how a compaction ended that ctxtop asked for."""

from __future__ import annotations

import os

from .. import exchange
from ..call import Call, Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

EVENT: Final = "UserPromptSubmit"

WHY_CHARS: Final = 200
"""Of a reason: one line."""

_THOUSAND: Final = 1000


def answer(call: Call) -> Reply | None:
    """Say how the newest request ended, and never again; None where there is nothing new."""
    session_id = call.fields.get("session_id")
    if call.event != EVENT or not isinstance(session_id, str):
        return None
    session_id = session_id.lower()
    if not exchange.is_session(session_id):
        return None
    said = confirm_once(str(call.store), session_id)
    return Reply(context=said) if said else None


def confirm_once(store: str, session_id: str) -> str | None:
    """Take the results that the session has not been told, and put the newest into words."""
    try:
        exchange.check_folders(store)
        names = os.listdir(exchange.kept_folder(store))
    except FileNotFoundError:
        return None
    results = [told for name in names if (told := _take(store, name, session_id)) is not None]
    newest = max(results, key=lambda result: str(result.get("at")), default=None)
    return None if newest is None else in_words(newest)


def in_words(result: dict[str, object]) -> str | None:
    """Say a result in one line; what was only refused was said to whoever asked."""
    if result.get("state") == "done":
        sizes = f"{_short(result.get('pre_tokens'))} → {_short(result.get('post_tokens'))}"
        return f"ctxtop compacted this session: {sizes} tokens."
    if result.get("state") == "failed":
        why = " ".join(str(result.get("why") or "it did not say why").split())[:WHY_CHARS]
        return f"ctxtop asked to compact this session, and it failed: {why}"
    return None


def _take(store: str, name: str, session_id: str) -> dict[str, object] | None:
    """Rename a result, so that of several hooks one tells it; None where another has."""
    parts = exchange.split_name(name)
    if parts is None or parts[0] != session_id or parts[2] != exchange.RESULT:
        return None
    folder = exchange.kept_folder(store)
    told = f"{folder}/{exchange.file_name(session_id, parts[1], exchange.TOLD)}"
    try:
        os.rename(f"{folder}/{name}", told)
        return exchange.read(told)
    except (OSError, ValueError):
        return None


def _short(tokens: object) -> str:
    if type(tokens) is not int:
        return "?"
    return f"{round(tokens / _THOUSAND)}k" if tokens >= _THOUSAND else str(tokens)
