"""tmux panes: the one that a process runs in, what its screen shows, and keys for it.

A pane is found by its process and terminal, never by a title.
"""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from ...core.host import find_program
from ...core.transcript.sanitize import sanitize_title
from ..claude_code.registry import linux_stat_field

TMUX_TIMEOUT_S: Final = 5.0  # tmux answers in milliseconds, unless its server hangs
_PANE_FORMAT: Final = "#{pane_tty}\t#{pane_id}\t#{pane_dead}"
_CURSOR_FORMAT: Final = "#{cursor_x},#{cursor_y},#{pane_in_mode},#{synchronize-panes}"
_ADDRESS_FORMAT: Final = "#{session_name}:#{window_index}.#{pane_index}"
_TMUX_PROGRAM: Final = "tmux"
_SENT: Final = "sent"
_OFF: Final = frozenset({"", "0", "off"})
_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")

# Fields of /proc/PID/stat, as proc(5) counts.
_GROUP_FIELD: Final = 5
_TTY_FIELD: Final = 7
_FOREGROUND_FIELD: Final = 8


class PaneError(Exception):
    """A pane or its server cannot be used; the message says why, and what to do."""


class PaneScreen(msgspec.Struct, frozen=True):
    text: str  # with its colors
    cursor: tuple[int, int]  # column and row, from 0


def strip_escapes(text: str) -> str:
    return _ESCAPE.sub("", text)


class TmuxPane(msgspec.Struct, frozen=True):
    socket: str
    pane_id: str

    def read_screen(self) -> PaneScreen:
        """Read what the pane shows; raises PaneError if it takes no keys."""
        target = ("-p", "-t", self.pane_id)
        # In one command: what both say is of the same moment.
        answer = self.run(
            "display-message", *target, _CURSOR_FORMAT, ";", "capture-pane", "-e", *target
        )
        state, _, screen = answer.partition("\n")
        fields = state.split(",")
        why = ""
        if len(fields) != 4 or not (fields[0].isdecimal() and fields[1].isdecimal()):
            why = f"tmux has no pane {self.pane_id}"
        elif fields[2] not in _OFF:
            why = f"the pane {self.pane_id} is in copy mode: leave that mode first"
        elif fields[3] not in _OFF:
            why = f"keys to {self.pane_id} go to other panes too (synchronize-panes)"
        if why:
            raise PaneError(why)
        return PaneScreen(screen, (int(fields[0]), int(fields[1])))

    def type(self, text: str) -> None:
        self.run("send-keys", "-t", self.pane_id, "-l", "--", escape_argument(text))

    def press(self, key: str) -> None:
        self.run("send-keys", "-t", self.pane_id, key)

    def press_at(self, cursor: tuple[int, int], key: str) -> bool:
        """Press a key if the cursor is there when tmux sends it; return whether it was."""
        column, row = cursor
        is_there = f"#{{?pane_in_mode,0,#{{==:#{{cursor_x}} #{{cursor_y}},{column} {row}}}}}"
        send = f"send-keys -t {self.pane_id} {key} ; display-message -p {_SENT}"
        return self.run("if-shell", "-F", "-t", self.pane_id, is_there, send).strip() == _SENT

    def address(self) -> str:
        """Return the pane's address for people, such as work:3.1; raises PaneError."""
        answer = self.run("display-message", "-p", "-t", self.pane_id, _ADDRESS_FORMAT)
        return sanitize_title(answer)

    def session_id(self) -> str:
        """Return tmux's own id of the session that has the pane; raises PaneError."""
        return self.run("display-message", "-p", "-t", self.pane_id, "#{session_id}").strip()

    def run(self, *words: str) -> str:
        return run_tmux(self.socket, words)


def escape_argument(text: str) -> str:
    """Escape an argument for tmux, to which a semicolon at its end would end the command."""
    return f"{text[:-1]}\\;" if text.endswith(";") else text


def find_pane(pid: int) -> TmuxPane | None:
    """Find the pane whose terminal is a process's; None if there is none."""
    import psutil

    if find_program(_TMUX_PROGRAM) is None:
        return None
    try:
        terminal = _terminal_device(pid)
        # An environment holds secrets: nothing but this variable is read.
        named = psutil.Process(pid).environ().get("TMUX", "")
    except (psutil.Error, OSError):
        return None
    if terminal is None:
        return None
    for socket in _sockets(named):
        try:
            listed = run_tmux(socket, ["list-panes", "-a", "-F", _PANE_FORMAT])
        except PaneError:
            continue
        for line in listed.splitlines():
            tty, pane_id, dead, *_ = line.split("\t")
            if dead in _OFF and _device(tty) == terminal:
                return TmuxPane(socket, pane_id)
    return None


def find_surrounding_pane(pid: int) -> TmuxPane | None:
    """Find the pane in which a process is shown; None if there is none.

    A program such as `script` gives what it runs a terminal of its own: then it is the pane of a
    process above it. Keys would not go to the process alone: this is for looking only.
    """
    import psutil

    try:
        above = psutil.Process(pid).parents()
    except (psutil.Error, OSError):
        return None
    panes = (find_pane(each) for each in (pid, *(process.pid for process in above)))
    return next((pane for pane in panes if pane is not None), None)


def own_pane(environ: Mapping[str, str] = os.environ) -> TmuxPane | None:
    """Return the pane that this process runs in; None outside of tmux."""
    socket, pane_id = environ.get("TMUX", "").partition(",")[0], environ.get("TMUX_PANE", "")
    if not pane_id.startswith("%") or not socket or not _is_own_socket(Path(socket)):
        return None
    return TmuxPane(socket, pane_id)


def is_same_server(one: TmuxPane, other: TmuxPane) -> bool:
    try:
        return Path(one.socket).samefile(other.socket)
    except OSError:
        return False


def default_socket() -> str:
    folder = os.environ.get("TMUX_TMPDIR", "/tmp")  # noqa: S108 -- tmux's own default
    return f"{folder}/tmux-{os.geteuid()}/default"


def is_in_foreground(pid: int) -> bool | None:
    """Whether a process gets the keys of its terminal; None if that is not known here."""
    if sys.platform != "linux":
        return None
    group = linux_stat_field(pid, _GROUP_FIELD)
    return group is not None and group == linux_stat_field(pid, _FOREGROUND_FIELD)


def _terminal_device(pid: int) -> int | None:
    """Return the device number of a process's terminal; None if it has none."""
    if sys.platform == "linux":
        # psutil lists the terminals once: it does not know one that was opened later.
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
    """List the servers that may have the pane: its own, ours, the user's default."""
    own, ours = (text.partition(",")[0] for text in (tmux_variable, os.environ.get("TMUX", "")))
    sockets = dict.fromkeys((own, ours, default_socket()))
    return [socket for socket in sockets if socket and _is_own_socket(Path(socket))]


def _is_own_socket(socket: Path) -> bool:
    try:
        status = socket.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid()


def run_tmux(socket: str, arguments: Sequence[str], folder: str | None = None) -> str:
    """Run one tmux command, in a folder, and return what it prints; raises PaneError."""
    program = find_program(_TMUX_PROGRAM)
    if program is None:
        raise PaneError("`tmux` is not on the PATH")
    try:
        ended = subprocess.run(  # noqa: S603 -- our own arguments, no shell
            [program, "-S", socket, *arguments],
            capture_output=True,
            cwd=folder,
            timeout=TMUX_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PaneError(f"tmux does not respond: {error}") from error
    if ended.returncode:
        why = sanitize_title(ended.stderr.decode("utf-8", "replace"))
        raise PaneError(f"tmux refused: {why}")
    return ended.stdout.decode("utf-8", "replace")
