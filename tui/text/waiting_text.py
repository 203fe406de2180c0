"""What a session waits for, in words."""

from typing import Final

from ...core.measure.waiting import WaitingFor, WaitingKind
from ...core.model.session import Session
from ...core.transcript.sanitize import one_line

PLAN_TEXT: Final = "plan approval"
QUESTION_TEXT: Final = "a question"
PERMISSION_TEXT: Final = "permission"
UNKNOWN_TEXT: Final = "an answer"


def waiting_text(session: Session) -> str:
    """Describe what a session waits for in one line, as `Bash: rm -rf build`; "" for nothing.

    The text comes from a transcript: it is sanitized, and never parsed as markup.
    """
    return one_line(_describe(session.waiting_for)) if session.waiting_for else ""


def _describe(waiting: WaitingFor) -> str:
    match waiting.kind:
        case WaitingKind.PLAN:
            return PLAN_TEXT
        case WaitingKind.QUESTION:
            return f"asks: {waiting.text}" if waiting.text else QUESTION_TEXT
        case WaitingKind.PERMISSION:
            return ": ".join(filter(None, (waiting.tool, waiting.text))) or PERMISSION_TEXT
        case _:
            return waiting.text or UNKNOWN_TEXT
