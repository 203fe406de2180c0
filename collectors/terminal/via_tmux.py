"""Type `/compact` into the tmux pane of an idle client.

A key in the wrong place answers a question that nobody has read. So a pane is found by its process
and terminal, never by a title; it gets keys only when its screen shows an empty prompt; and Enter
is pressed only when the prompt shows our line and nothing else.

The prompt box as 2.1.329 draws it (seen): two rules of ─ over the whole width, between them "❯",
a no-break space and the text, wrapped with two blanks in front. The cursor is behind the text, in
an empty box two cells from the left. A suggestion is dim. In shell mode the sign is "!";
dialogs and the detailed transcript have no such box; a busy client shows "esc to interrupt" below.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from ...core.actions.session_access import CompactFailure, NotCompactedError, Via
from ...core.model.transcript_records import LiveSession
from .request_receipts import (
    COMPACT_TIMEOUT_S,
    BoundaryWatch,
    CompactRequest,
    NewBoundary,
    wait_for,
)
from .tmux_panes import TmuxPane, strip_escapes

PROMPT_SIGN: Final = "❯"
RULE_CHAR: Final = "─"
MIN_RULE_CELLS: Final = 10  # a narrower pane shows no box that can be trusted
TEXT_INDENT_CELLS: Final = 2
BUSY_HINT: Final = "esc to interrupt"

_SGR: Final = re.compile(r"\x1b\[([0-9;]*)m")

_DIM, _NORMAL = "2", frozenset({"", "0", "22"})
_REVERSE, _UPRIGHT = "7", frozenset({"", "0", "27"})


class PromptBox(msgspec.Struct, frozen=True):
    text: str  # without dim text; every run of blanks is one space
    has_cursor: bool  # the cursor is in the box
    is_busy: bool


def find_prompt_box(screen: str, cursor: tuple[int, int]) -> PromptBox | None:
    """Find the prompt box on a screen with its colors; None if there is none.

    `cursor` is a column and a row from 0.
    """
    raw = screen.split("\n")
    plain = [strip_escapes(line) for line in raw]
    rules = [row for row, line in enumerate(plain) if _is_rule(line)]
    if len(rules) < 2:
        return None
    top, bottom = rules[-2:]
    if bottom - top < 2 or not plain[top + 1].startswith(PROMPT_SIGN):
        return None
    lines = _without_suggestions(raw[top + 1 : bottom])
    lines[0] = lines[0].removeprefix(PROMPT_SIGN)
    column, row = cursor
    return PromptBox(
        text=" ".join(" ".join(lines).split()),
        has_cursor=top < row < bottom and column >= TEXT_INDENT_CELLS,
        is_busy=any(BUSY_HINT in line for line in plain[bottom:]),
    )


def _is_rule(line: str) -> bool:
    line = line.strip()
    return len(line) >= MIN_RULE_CELLS and set(line) == {RULE_CHAR}


def _without_suggestions(lines: list[str]) -> list[str]:
    """Remove dim text, and the cursor's cell if a dim suggestion continues after it."""
    shown: list[str] = []
    is_dim = is_reverse = False
    for line in lines:
        kept = held = ""
        end = 0
        for match in [*_SGR.finditer(line), None]:
            text = strip_escapes(line[end : match.start() if match else len(line)])
            if is_dim and text.strip():
                # The cell under the cursor is the suggestion's first.
                held = ""
            elif is_reverse:
                held += text
            elif text:
                kept, held = kept + held + text, ""
            if match:
                codes = match.group(1).split(";")
                is_dim = _is_style_on(is_dim, codes, _DIM, _NORMAL)
                is_reverse = _is_style_on(is_reverse, codes, _REVERSE, _UPRIGHT)
                end = match.end()
        shown.append((kept + held).replace("\xa0", " "))
    return shown


def _is_style_on(is_on: bool, codes: list[str], on: str, off: frozenset[str]) -> bool:  # noqa: FBT001
    if codes[0] in {"38", "48"}:
        # A color's own numbers follow.
        return is_on
    for code in codes:
        is_on = code == on or (is_on and code not in off)
    return is_on


def read_prompt_box(pane: TmuxPane) -> PromptBox | None:
    """Read the client's prompt box; raises PaneError if the pane takes no keys."""
    screen = pane.read_screen()
    return find_prompt_box(screen.text, screen.cursor)


REDRAW_TIMEOUT_S: Final = 3.0  # an idle client draws what was typed in 50 ms
START_TIMEOUT_S: Final = 10.0  # an idle client begins at once; one that does not has refused


def ask_via_tmux(
    request: CompactRequest,
    watch: BoundaryWatch,
    pane: TmuxPane,
    read_client: Callable[[], LiveSession | None],
) -> NewBoundary:
    """Type the command and wait for the boundary; `read_client` reads the registry again.

    Raises NotCompactedError if that is not safe, or if the client does not compact, and
    PaneError if the pane takes no keys.
    """
    line = f"/compact {request.text}".strip()
    _require_empty(read_prompt_box(pane))
    # A person may have begun a turn meanwhile.
    live = read_client()
    if live is None or live.status != "idle":
        why = f"it is {live.status if live else 'closed'} now: wait until it is idle"
        raise NotCompactedError(CompactFailure.LIVE, why)
    request.begin(Via.TMUX)
    pane.type(line)
    if not wait_for(lambda: _shows_line(read_prompt_box(pane), line) or None, REDRAW_TIMEOUT_S):
        raise _take_line_back(pane, line)
    pane.press("Enter")
    return _wait_for_boundary(watch, read_client)


def _require_empty(box: PromptBox | None) -> None:
    failure, why = CompactFailure.UNSAFE, ""
    if box is None:
        why = "its pane shows no prompt: a dialog or another program is open"
    elif box.is_busy:
        failure, why = CompactFailure.LIVE, "it is busy: wait until it is idle"
    elif box.text:
        why = "its prompt is not empty: send it or clear it"
    elif not box.has_cursor:
        why = "the cursor is not in its prompt"
    if why:
        raise NotCompactedError(failure, why)


def _shows_line(box: PromptBox | None, line: str) -> bool:
    if box is None or not box.has_cursor or box.is_busy:
        return False
    return _without_blanks(box.text) == _without_blanks(line)


def _without_blanks(text: str) -> str:
    """Remove blanks: where a line is wrapped the screen has one more or less."""
    return "".join(text.split())


def _take_line_back(pane: TmuxPane, line: str) -> NotCompactedError:
    """Clear the line we typed if the prompt holds nothing else; Enter is not pressed.

    Returns the error to raise.
    """
    box = read_prompt_box(pane)
    shown = _without_blanks(box.text) if box and box.has_cursor else ""
    if shown and _without_blanks(line).startswith(shown):
        for _ in range(1 + len(line) // 20):
            # It clears one line of the box, and our line may be wrapped into several.
            pane.press("C-u")
        why = "only part of the command arrived: it was cleared"
    else:
        why = f"its prompt shows more than `{line}`: nothing was sent; check the pane"
    return NotCompactedError(CompactFailure.UNSAFE, why)


def _wait_for_boundary(
    watch: BoundaryWatch, read_client: Callable[[], LiveSession | None]
) -> NewBoundary:
    def poll(status: str) -> NewBoundary | bool | None:
        """Return the boundary, or True if the client has this status or has closed."""
        if boundary := watch.poll():
            return boundary
        live = read_client()
        return True if live is None or live.status == status else None

    found = wait_for(lambda: poll("busy"), START_TIMEOUT_S)
    if found is None:
        why = "Claude Code had nothing to compact, or refused"
        raise NotCompactedError(CompactFailure.NOTHING, why)
    if found is True:
        found = wait_for(lambda: poll("idle"), COMPACT_TIMEOUT_S)
    if found is True:
        # The registry may be faster than the transcript.
        found = wait_for(watch.poll, REDRAW_TIMEOUT_S)
    if not isinstance(found, NewBoundary):
        why = "Claude Code did not compact: check its pane"
        raise NotCompactedError(CompactFailure.FAILED, why)
    return found
