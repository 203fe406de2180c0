"""Type `/compact` into the tmux pane of an idle client.

A key in the wrong place answers a question that nobody read. So a pane is found by its process
and terminal, never by a title; it is touched only when its screen shows an empty prompt; and
Enter is pressed only when the prompt shows our line and nothing else.

The prompt box as 2.1.329 draws it (seen): two rules of ─ over the whole width, between them "❯",
a no-break space and the text, wrapped with two blanks in front. The cursor stands behind the
text, in an empty box two cells from the left. A suggestion is dim. In shell mode the sign is "!";
dialogs and the detailed transcript have no such box; a busy client shows "esc to interrupt" below.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ...core.actions.session_access import CompactFailure, NotCompactedError, Via
from ...core.host import find_program
from ...core.store.transcript_records import LiveSession
from ..claude_code.registry import linux_stat_field
from .request_receipts import (
    COMPACT_TIMEOUT_S,
    BoundaryWatch,
    CompactRequest,
    NewBoundary,
    wait_for,
)

PROMPT_SIGN: Final = "❯"
RULE_CHAR: Final = "─"

MIN_RULE_CELLS: Final = 10  # cells: a narrower pane shows no box that can be trusted
TEXT_INDENT_CELLS: Final = 2  # cells before the text
BUSY_HINT: Final = "esc to interrupt"

_SGR: Final = re.compile(r"\x1b\[([0-9;]*)m")
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")

_DIM: Final = "2"
_NORMAL: Final = frozenset({"", "0", "22"})
_REVERSE: Final = "7"
_UPRIGHT: Final = frozenset({"", "0", "27"})


class PromptBox(msgspec.Struct, frozen=True):
    """What the box shows, and where the cursor is."""

    text: str  # without what is dim; blanks that break and that do not are the same
    has_cursor: bool  # the cursor is in the box
    is_busy: bool

    @property
    def is_empty(self) -> bool:
        """Nothing was typed, and what is typed now goes into it."""
        return self.has_cursor and not self.text and not self.is_busy


def find_prompt_box(screen: str, cursor: tuple[int, int]) -> PromptBox | None:
    """Find the prompt box on a screen with its colours; None where there is none.

    `cursor` is its column and row from 0.
    """
    raw = screen.split("\n")
    plain = [_ESCAPE.sub("", line) for line in raw]
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
    found: list[str] = []
    is_dim = is_reverse = False
    for line in lines:
        kept = held = ""
        end = 0
        for match in [*_SGR.finditer(line), None]:
            text = _ESCAPE.sub("", line[end : match.start() if match else len(line)])
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
        found.append((kept + held).replace("\xa0", " "))
    return found


def _is_style_on(is_on: bool, codes: list[str], on: str, off: frozenset[str]) -> bool:  # noqa: FBT001
    if codes[0] in {"38", "48"}:
        # A colour's own numbers follow.
        return is_on
    for code in codes:
        if code == on:
            is_on = True
        elif code in off:
            is_on = False
    return is_on


TMUX_TIMEOUT_S: Final = 5.0  # tmux answers in milliseconds; a server that hangs is not waited for
_PANE_FORMAT: Final = "#{pane_tty}\t#{pane_id}\t#{pane_dead}\t#{pane_in_mode}\t#{synchronize-panes}"
_CURSOR_FORMAT: Final = "#{cursor_x},#{cursor_y},#{pane_in_mode},#{synchronize-panes}"
_TMUX_PROGRAM: Final = "tmux"
_TTY_FIELD: Final = 7  # of /proc/PID/stat, as proc(5) counts
_OFF: Final = frozenset({"", "0", "off"})


class TmuxPane(msgspec.Struct, frozen=True):
    socket: str
    pane_id: str

    def read_prompt_box(self) -> PromptBox | None:
        """Read the client's prompt box; raises NotCompactedError where the pane takes no keys."""
        about = (
            self._run("display-message", "-p", "-t", self.pane_id, _CURSOR_FORMAT)
            .strip()
            .split(",")
        )
        if len(about) != 4 or not (about[0].isdecimal() and about[1].isdecimal()):
            raise NotCompactedError(
                CompactFailure.UNSAFE, f"tmux does not say where {self.pane_id} stands"
            )
        if about[2] not in _OFF:
            raise NotCompactedError(
                CompactFailure.UNSAFE, f"the pane {self.pane_id} is in copy mode: leave it"
            )
        if about[3] not in _OFF:
            raise NotCompactedError(
                CompactFailure.UNSAFE,
                f"keys to {self.pane_id} go to other panes too (synchronize-panes)",
            )
        screen = self._run("capture-pane", "-p", "-e", "-t", self.pane_id)
        return find_prompt_box(screen, (int(about[0]), int(about[1])))

    def type(self, text: str) -> None:
        # At the end of an argument tmux takes it for the end of the command.
        plain = f"{text[:-1]}\\;" if text.endswith(";") else text
        self._run("send-keys", "-t", self.pane_id, "-l", "--", plain)

    def press(self, key: str) -> None:
        self._run("send-keys", "-t", self.pane_id, key)

    def _run(self, *words: str) -> str:
        return _run_tmux(self.socket, words)


def find_pane(pid: int) -> TmuxPane | None:
    """Find the pane whose terminal is a process's; None where there is none."""
    import psutil

    if find_program(_TMUX_PROGRAM) is None:
        return None
    try:
        terminal = _terminal_device(pid)
        # An environment holds secrets: nothing but this one is looked at.
        named = psutil.Process(pid).environ().get("TMUX", "")
    except (psutil.Error, OSError):
        return None
    if terminal is None:
        return None
    for socket in _sockets(named):
        try:
            listed = _run_tmux(socket, ["list-panes", "-a", "-F", _PANE_FORMAT])
        except NotCompactedError:
            continue
        for line in listed.splitlines():
            tty, pane_id, dead, *_ = line.split("\t")
            if dead in _OFF and _device(tty) == terminal:
                return TmuxPane(socket, pane_id)
    return None


def _terminal_device(pid: int) -> int | None:
    """Return the device number of a process's terminal; None if it has none."""
    if sys.platform == "linux":
        # psutil lists the terminals once: it does not know one that was opened since.
        field = linux_stat_field(pid, _TTY_FIELD)
        return int(field) or None if field else None
    import psutil

    name = psutil.Process(pid).terminal()
    return _device(name) if name else None


def _device(path: str) -> int | None:
    try:
        return Path(path).stat().st_rdev
    except OSError:
        return None


def _sockets(tmux_variable: str) -> list[str]:
    """List the servers that may hold it: its own, ours, the user's default."""
    default = f"{os.environ.get('TMUX_TMPDIR', '/tmp')}/tmux-{os.geteuid()}/default"  # noqa: S108
    found = [tmux_variable.partition(",")[0], os.environ.get("TMUX", "").partition(",")[0], default]
    return [socket for socket in dict.fromkeys(found) if socket and _is_own_socket(Path(socket))]


def _is_own_socket(socket: Path) -> bool:
    try:
        status = socket.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid()


def _run_tmux(socket: str, arguments: Sequence[str]) -> str:
    program = find_program(_TMUX_PROGRAM)
    if program is None:
        raise NotCompactedError(CompactFailure.UNSAFE, "there is no `tmux` on the PATH")
    try:
        ended = subprocess.run(  # noqa: S603 -- our own words, no shell
            [program, "-S", socket, *arguments],
            capture_output=True,
            timeout=TMUX_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotCompactedError(CompactFailure.UNSAFE, f"tmux does not answer: {error}") from error
    if ended.returncode:
        said = ended.stderr.decode("utf-8", "replace").strip()
        raise NotCompactedError(CompactFailure.UNSAFE, f"tmux refuses: {said}")
    return ended.stdout.decode("utf-8", "replace")


COMPACT_COMMAND: Final = "/compact"

REDRAW_TIMEOUT_S: Final = 3.0  # the client draws what was typed in 50 ms, when it is not at work
START_TIMEOUT_S: Final = 10.0
"""An idle client begins at once; one that is idle again without a boundary has refused."""


def ask_via_tmux(
    request: CompactRequest,
    watch: BoundaryWatch,
    pane: TmuxPane,
    read_client: Callable[[], LiveSession | None],
) -> NewBoundary:
    """Type the command and wait for the boundary; `look` reads the registry's entry again.

    Raises NotCompactedError where that is not safe, or where the client does not compact.
    """
    line = f"{COMPACT_COMMAND} {request.text}".strip()
    _require_empty(pane.read_prompt_box())
    # A person may have begun a turn meanwhile.
    _require_idle(read_client())
    request.begin(Via.TMUX)
    pane.type(line)
    if not wait_for(lambda: _shows_line(pane.read_prompt_box(), line), REDRAW_TIMEOUT_S):
        raise _take_line_back(pane, line)
    pane.press("Enter")
    return _wait_for_boundary(watch, read_client)


def _require_empty(box: PromptBox | None) -> None:
    if box is None:
        raise NotCompactedError(
            CompactFailure.UNSAFE, "its pane shows no prompt: a dialog is open, or another program"
        )
    if box.is_busy:
        raise NotCompactedError(CompactFailure.LIVE, "it is busy: wait until it is idle")
    if box.text:
        raise NotCompactedError(
            CompactFailure.UNSAFE, "its prompt is not empty: send it off or clear it"
        )
    if not box.has_cursor:
        raise NotCompactedError(CompactFailure.UNSAFE, "the cursor is not in its prompt")


def _require_idle(live: LiveSession | None) -> None:
    if live is None or live.status != "idle":
        state = live.status if live else "closed"
        raise NotCompactedError(CompactFailure.LIVE, f"it is {state} now: wait until it is idle")


def _shows_line(box: PromptBox | None, line: str) -> bool | None:
    if box is None or not box.has_cursor or box.is_busy:
        return None
    return _without_blanks(box.text) == _without_blanks(line) or None


def _without_blanks(text: str) -> str:
    """Leave the blanks out: where a line is wrapped the screen has one more or less."""
    return "".join(text.split())


def _take_line_back(pane: TmuxPane, line: str) -> NotCompactedError:
    """Clear the line we typed if the prompt holds nothing else; Enter is not pressed.

    Returns the error to raise.
    """
    box = pane.read_prompt_box()
    if (
        box
        and box.has_cursor
        and box.text
        and _without_blanks(line).startswith(_without_blanks(box.text))
    ):
        for _ in range(1 + len(line) // 20):
            # It clears a line of the box, and there are as many as the line is wrapped into.
            pane.press("C-u")
        return NotCompactedError(
            CompactFailure.UNSAFE, "the line did not come whole: it was taken back"
        )
    return NotCompactedError(
        CompactFailure.UNSAFE,
        f"its prompt does not show `{line}` alone: nothing was sent, look at the pane",
    )


def _wait_for_boundary(
    watch: BoundaryWatch, read_client: Callable[[], LiveSession | None]
) -> NewBoundary:
    def begun() -> NewBoundary | bool | None:
        return watch.poll() or _has_status(read_client(), "busy")

    def ended() -> NewBoundary | bool | None:
        return watch.poll() or _has_status(read_client(), "idle")

    found = wait_for(begun, START_TIMEOUT_S)
    if found is None:
        raise NotCompactedError(
            CompactFailure.NOTHING, "the client had nothing to compact, or refused"
        )
    if found is True:
        found = wait_for(ended, COMPACT_TIMEOUT_S)
    if found is True:
        # The registry may be faster than the transcript.
        found = wait_for(watch.poll, REDRAW_TIMEOUT_S)
    if not isinstance(found, NewBoundary):
        raise NotCompactedError(
            CompactFailure.FAILED, "the client did not compact: look at its pane"
        )
    return found


def _has_status(live: LiveSession | None, status: str) -> bool | None:
    """Return True if the client has this status or has closed, else None, to keep waiting."""
    return True if live is None or live.status == status else None
