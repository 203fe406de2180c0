"""What a session waits for: a permission, the answer to a question, or the approval of a plan."""

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .activity import Activity, ActivityKind

if TYPE_CHECKING:
    from ..store.queries.activity_queries import ActivityRow


class WaitingKind(StrEnum):
    PERMISSION = "permission"
    QUESTION = "question"
    PLAN = "plan"
    OTHER = "other"


class WaitingFor(msgspec.Struct, frozen=True):
    kind: WaitingKind
    tool: str  # that asks for permission; empty if it is not known
    text: str  # the command, the file or the question; for OTHER the client's own words
    since: int | None  # milliseconds since 1970


_TOOL_KINDS: Final = {"AskUserQuestion": WaitingKind.QUESTION, "ExitPlanMode": WaitingKind.PLAN}
_PERMISSION_WORD: Final = "permission"  # in what the client's registry says of one that waits


def find_waiting(row: "ActivityRow", activity: Activity | None) -> WaitingFor | None:
    """Return what a live session waits for; None if it waits for nobody."""
    if activity is None or activity.kind is not ActivityKind.PERSON:
        return None
    tool, text = row.call_name or row.hook_tool or "", row.call_detail or ""
    if kind := _TOOL_KINDS.get(tool):
        return WaitingFor(kind, tool, text if kind is WaitingKind.QUESTION else "", activity.since)
    if _PERMISSION_WORD in activity.what:
        return WaitingFor(WaitingKind.PERMISSION, tool, text, activity.since)
    return WaitingFor(WaitingKind.OTHER, "", activity.what, activity.since)
