"""What a session waits for, in words that fit a row."""

from __future__ import annotations

import pytest
from ctxtop.core.model.session_activity import WaitingFor, WaitingKind
from ctxtop.tui.text.session_text import waiting_text
from msgspec.structs import replace

from ..tui.makers import session


@pytest.mark.parametrize(
    ("kind", "tool", "text", "words"),
    [
        (WaitingKind.PERMISSION, "Bash", "rm -rf build", "Bash: rm -rf build"),
        (WaitingKind.PERMISSION, "Bash", "a\nb\x1b[2J [bold]c", "Bash: a b[2J [bold]c"),
        (WaitingKind.PERMISSION, "Bash", "", "Bash"),
        (WaitingKind.PERMISSION, "", "", "permission"),
        (WaitingKind.QUESTION, "AskUserQuestion", "Which database?", "asks: Which database?"),
        (WaitingKind.QUESTION, "AskUserQuestion", "", "a question"),
        (WaitingKind.PLAN, "ExitPlanMode", "", "plan approval"),
        (WaitingKind.OTHER, "", "worker request", "worker request"),
        (WaitingKind.OTHER, "", "", "an answer"),
    ],
)
def test_the_words(kind: WaitingKind, tool: str, text: str, words: str) -> None:
    waiting = WaitingFor(kind, tool, text, None)
    assert waiting_text(replace(session(), waiting_for=waiting)) == words


def test_who_waits_for_nothing_has_no_words() -> None:
    assert waiting_text(session()) == ""
