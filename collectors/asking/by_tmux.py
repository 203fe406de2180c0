"""Asking through the keyboard: `/compact` typed into the pane of an idle client.

A key in the wrong place answers a question that nobody read. So a pane is only touched when
its screen shows an empty prompt, and Enter is only pressed when it shows our line and nothing
else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .boundary import NewBoundary
from .outcome import NotCompactedError, Via, Why
from .waiting import COMPACT_S, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.store.facts import LiveSession
    from .boundary import BoundaryWatch
    from .pane import Pane
    from .prompt_box import PromptBox
    from .receipts import Asking

COMMAND: Final = "/compact"

DRAWN_S: Final = 3.0
"""The client draws what was typed in 50 ms, when it is not at work."""

BEGIN_S: Final = 10.0
"""An idle client begins at once; one that is idle again without a boundary has refused."""


def ask(
    request: Asking,
    watch: BoundaryWatch,
    pane: Pane,
    read_client: Callable[[], LiveSession | None],
) -> NewBoundary:
    """Type the command and wait for the boundary; `look` reads the registry's entry again.

    Raises NotCompactedError where that is not safe, or where the client does not compact.
    """
    line = f"{COMMAND} {request.text}".strip()
    _require_empty(pane.read_prompt_box())
    # A person may have begun a turn meanwhile.
    _require_idle(read_client())
    request.begin(Via.TMUX)
    pane.type(line)
    if not wait_for(lambda: _shows(pane.read_prompt_box(), line), DRAWN_S):
        raise _not_shown(pane, line)
    pane.press("Enter")
    return _wait(watch, read_client)


def _require_empty(box: PromptBox | None) -> None:
    if box is None:
        raise NotCompactedError(
            Why.UNSAFE, "its pane shows no prompt: a dialog is open, or another program"
        )
    if box.is_busy:
        raise NotCompactedError(Why.LIVE, "it is busy: wait until it is idle")
    if box.text:
        raise NotCompactedError(Why.UNSAFE, "its prompt is not empty: send it off or clear it")
    if not box.has_cursor:
        raise NotCompactedError(Why.UNSAFE, "the cursor is not in its prompt")


def _require_idle(live: LiveSession | None) -> None:
    if live is None or live.status != "idle":
        state = live.status if live else "closed"
        raise NotCompactedError(Why.LIVE, f"it is {state} now: wait until it is idle")


def _shows(box: PromptBox | None, line: str) -> bool | None:
    if box is None or not box.has_cursor or box.is_busy:
        return None
    return _squeezed(box.text) == _squeezed(line) or None


def _squeezed(text: str) -> str:
    """Leave the blanks out: where a line is wrapped the screen has one more or less."""
    return "".join(text.split())


def _not_shown(pane: Pane, line: str) -> NotCompactedError:
    """Take back what we typed where nothing else stands there; Enter is not pressed."""
    box = pane.read_prompt_box()
    if box and box.has_cursor and box.text and _squeezed(line).startswith(_squeezed(box.text)):
        for _ in range(1 + len(line) // 20):
            # It clears a line of the box, and there are as many as the line is wrapped into.
            pane.press("C-u")
        return NotCompactedError(Why.UNSAFE, "the line did not come whole: it was taken back")
    return NotCompactedError(
        Why.UNSAFE, f"its prompt does not show `{line}` alone: nothing was sent, look at the pane"
    )


def _wait(watch: BoundaryWatch, read_client: Callable[[], LiveSession | None]) -> NewBoundary:
    def begun() -> NewBoundary | bool | None:
        return watch.poll() or _is(read_client(), "busy")

    def ended() -> NewBoundary | bool | None:
        return watch.poll() or _is(read_client(), "idle")

    found = wait_for(begun, BEGIN_S)
    if found is None:
        raise NotCompactedError(Why.NOTHING, "the client had nothing to compact, or refused")
    if found is True:
        found = wait_for(ended, COMPACT_S)
    if found is True:
        # The registry may be faster than the transcript.
        found = wait_for(watch.poll, DRAWN_S)
    if not isinstance(found, NewBoundary):
        raise NotCompactedError(Why.FAILED, "the client did not compact: look at its pane")
    return found


def _is(live: LiveSession | None, status: str) -> bool | None:
    """Say that it is so; a client that has closed will never be anything else."""
    return True if live is None or live.status == status else None
