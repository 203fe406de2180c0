"""The tmux pane in which a client runs: found by its process and terminal, never by a title."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.child_process import find_program
from ..registry import linux_field
from .outcome import NotCompactedError, Why
from .prompt_box import find_box

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .prompt_box import PromptBox

TMUX_S: Final = 5.0
"""tmux answers in milliseconds; a server that hangs is not waited for."""

_FORMAT: Final = "#{pane_tty}\t#{pane_id}\t#{pane_dead}\t#{pane_in_mode}\t#{synchronize-panes}"
_CURSOR: Final = "#{cursor_x},#{cursor_y},#{pane_in_mode},#{synchronize-panes}"
_TMUX: Final = "tmux"
_TTY_FIELD: Final = 7
"""Of /proc/PID/stat, as proc(5) counts."""

_OFF: Final = frozenset({"", "0", "off"})


class Pane(msgspec.Struct, frozen=True):
    """One pane of a tmux server of ours."""

    socket: str
    pane_id: str

    def read_prompt_box(self) -> PromptBox | None:
        """Read the client's prompt box; raises NotCompactedError where the pane takes no keys."""
        about = self._run("display-message", "-p", "-t", self.pane_id, _CURSOR).strip().split(",")
        if len(about) != 4 or not (about[0].isdecimal() and about[1].isdecimal()):
            raise NotCompactedError(Why.UNSAFE, f"tmux does not say where {self.pane_id} stands")
        if about[2] not in _OFF:
            raise NotCompactedError(
                Why.UNSAFE, f"the pane {self.pane_id} is in copy mode: leave it"
            )
        if about[3] not in _OFF:
            raise NotCompactedError(
                Why.UNSAFE, f"keys to {self.pane_id} go to other panes too (synchronize-panes)"
            )
        screen = self._run("capture-pane", "-p", "-e", "-t", self.pane_id)
        return find_box(screen, (int(about[0]), int(about[1])))

    def type(self, text: str) -> None:
        """Type a text as it stands."""
        # At the end of an argument tmux takes it for the end of the command.
        plain = f"{text[:-1]}\\;" if text.endswith(";") else text
        self._run("send-keys", "-t", self.pane_id, "-l", "--", plain)

    def press(self, key: str) -> None:
        """Press a key by its name in tmux."""
        self._run("send-keys", "-t", self.pane_id, key)

    def _run(self, *words: str) -> str:
        return _tmux(self.socket, words)


def find_pane(pid: int) -> Pane | None:
    """Find the pane whose terminal is a process's; None where there is none."""
    import psutil

    if find_program(_TMUX) is None:
        return None
    try:
        terminal = _terminal(pid)
        # An environment holds secrets: nothing but this one is looked at.
        named = psutil.Process(pid).environ().get("TMUX", "")
    except (psutil.Error, OSError):
        return None
    if terminal is None:
        return None
    for socket in _sockets(named):
        try:
            listed = _tmux(socket, ["list-panes", "-a", "-F", _FORMAT])
        except NotCompactedError:
            continue
        for line in listed.splitlines():
            tty, pane_id, dead, *_ = line.split("\t")
            if dead in _OFF and _device(tty) == terminal:
                return Pane(socket, pane_id)
    return None


def _terminal(pid: int) -> int | None:
    """Say which device is a process's terminal."""
    if sys.platform == "linux":
        # psutil lists the terminals once: it does not know one that was opened since.
        field = linux_field(pid, _TTY_FIELD)
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
    return [socket for socket in dict.fromkeys(found) if socket and _is_ours(Path(socket))]


def _is_ours(socket: Path) -> bool:
    try:
        status = socket.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and status.st_uid == os.geteuid()


def _tmux(socket: str, arguments: Sequence[str]) -> str:
    program = find_program(_TMUX)
    if program is None:
        raise NotCompactedError(Why.UNSAFE, "there is no `tmux` on the PATH")
    try:
        ended = subprocess.run(  # noqa: S603 -- our own words, no shell
            [program, "-S", socket, *arguments],
            capture_output=True,
            timeout=TMUX_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotCompactedError(Why.UNSAFE, f"tmux does not answer: {error}") from error
    if ended.returncode:
        said = ended.stderr.decode("utf-8", "replace").strip()
        raise NotCompactedError(Why.UNSAFE, f"tmux refuses: {said}")
    return ended.stdout.decode("utf-8", "replace")
