"""What a session is at, and until when its prompt cache is warm, by the newest words on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .activity import NO_CACHE, Cache, Doing, DoingKind
from .store.facts import Turn

if TYPE_CHECKING:
    from .store.activity_queries import ActivityRow

ASKING: Final = {"AskUserQuestion": "an answer", "ExitPlanMode": "approval of a plan"}
"""Tools that wait for a person, and for what."""

PERMISSION: Final = "permission"
"""What a person is asked for where a hook was told of a permission."""

ANYTHING: Final = "an answer"
"""What a person is asked for where the client does not say."""

FIVE_MINUTES_MS: Final = 300_000
HOUR_MS: Final = 3_600_000
"""How long what is written to the prompt cache stays there after its last use
(platform.claude.com/docs, prompt caching)."""

_WAITING, _BUSY, _IDLE = "waiting", "busy", "idle"
_UNANSWERED: Final = frozenset({Turn.ASKED, Turn.RESULT})
_PERMISSION_NOTICES: Final = frozenset({"permission_prompt", "worker_permission_prompt"})


def doing_of(row: ActivityRow) -> Doing | None:
    """Say what a live session is at; None where nothing is in flight, or nobody can tell.

    The client's registry says best whether it waits for a person; the transcript says which
    tool runs. Of two words that differ the newer one counts.
    """
    call = _call(row)
    if row.live_status == _WAITING:
        return _person(row, call, row.waiting_for or ANYTHING, row.live_updated_at)
    if call and call.what in ASKING:
        return Doing(DoingKind.PERSON, ASKING[call.what], call.detail, call.since)
    newest = max(row.turn_at or 0, row.call_at or 0)
    if row.live_status == _IDLE and (row.live_updated_at or 0) >= newest:
        return None
    if _is_asked_for_permission(row, newest):
        return _person(row, call, PERMISSION, row.hook_at)
    if call:
        return call
    if row.turn in _UNANSWERED:
        return Doing(DoingKind.MODEL, "", since=row.turn_at)
    return (
        Doing(DoingKind.MODEL, "", since=row.live_updated_at) if row.live_status == _BUSY else None
    )


def cache_of(row: ActivityRow) -> Cache:
    """Say until when the next request is read from the cache of the last answer.

    The client's word counts where it is the newest; else it is the answer's time and the
    lifetime of what was last written. A compaction leaves nothing to read.
    """
    if row.answer_at is None:
        return NO_CACHE
    if row.status_cache_warm is not None and (row.status_at or 0) >= row.answer_at:
        expires = row.status_cache_expires_at
        if expires is not None or not row.status_cache_warm:
            return Cache(expires or row.status_at, estimated=False)
    if not row.cached_tokens:
        return NO_CACHE
    return Cache(row.answer_at + (HOUR_MS if row.cache_1h_tokens else FIVE_MINUTES_MS))


def _call(row: ActivityRow) -> Doing | None:
    if row.call_name is None:
        return None
    return Doing(DoingKind.TOOL, row.call_name, row.call_detail or "", row.call_at)


def _person(row: ActivityRow, call: Doing | None, what: str, since: int | None) -> Doing:
    tool = call.what if call else row.hook_tool
    detail = ": ".join(part for part in (tool, call.detail if call else "") if part)
    return Doing(DoingKind.PERSON, what, detail, since)


def _is_asked_for_permission(row: ActivityRow, newest: int) -> bool:
    asked = row.hook_event == "PermissionRequest" or (
        row.hook_event == "Notification" and row.hook_kind in _PERMISSION_NOTICES
    )
    return asked and (row.hook_at or 0) >= max(newest, row.live_updated_at or 0)
