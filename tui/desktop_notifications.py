"""Notifications outside the page: the bell, escape sequences, and desktop programs."""

from __future__ import annotations

import html
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..core.files.file_operations import LockHeldError, file_lock
from ..core.host import find_program
from ..core.policy.schema import AUTO, OFF
from ..core.transcript.sanitize import one_line
from .text.formats import shorten_middle

if TYPE_CHECKING:
    from .notifications import Notification


class BellLock:
    """Belongs to one thread; where there are no such locks everybody rings."""

    def __init__(self, store: Path) -> None:
        self._path: Final = store.with_name(f"{store.name}.bell")
        self._held: Final = ExitStack()
        self._is_held = False

    def acquire(self) -> bool:
        """Try to become the one process that rings, until `release`; returns whether it is.

        Also true if locks are unavailable: ringing twice is better than not at all.
        """
        if self._is_held:
            return True
        try:
            self._held.enter_context(file_lock(self._path))
        except LockHeldError:
            return False
        except OSError:
            return True
        self._is_held = True
        return True

    def release(self) -> None:
        """Allow another process to ring."""
        self._held.close()
        self._is_held = False


TITLE_CELLS: Final = 60
BODY_CELLS: Final = 200  # a notification shows no more, and a terminal need not take more
PROGRAM_TIMEOUT_S: Final = 5.0
"""After this a notification's program hangs: no session bus, or nobody who listens."""

TMUX_PASSTHROUGH_HINT: Final = "tmux passes it on with `set -g allow-passthrough on`"

_ESC: Final = "\x1b"
_ST: Final = f"{_ESC}\\"
_BEL: Final = "\x07"

_OSC9_TERMINALS: Final = frozenset({"iTerm.app", "WezTerm", "ghostty"})
"""TERM_PROGRAM of terminals that show OSC 9 (their own documentation)."""

_APPLE_SCRIPT: Final = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
"""The words come as arguments: nothing of them is read as a script."""


@dataclass(frozen=True, slots=True)
class TerminalSequence:
    """Something to write to the terminal."""

    text: str


@dataclass(frozen=True, slots=True)
class NotificationProgram:
    """Something to run, without a shell."""

    arguments: tuple[str, ...]


DesktopNotification = TerminalSequence | NotificationProgram


def choose_channel(setting: str, environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """Name the way that `auto` stands for on this terminal; OFF where none is known."""
    if setting != AUTO:
        return setting
    if "KITTY_WINDOW_ID" in environ or environ.get("TERM") == "xterm-kitty":
        return "osc99"
    if environ.get("TERM_PROGRAM") in _OSC9_TERMINALS or environ.get("LC_TERMINAL") == "iTerm2":
        return "osc9"
    if environ.get("TERM", "").startswith(("foot", "rxvt-unicode")):
        return "osc777"
    if "SSH_CONNECTION" in environ:
        # A program would tell whoever sits at the other machine.
        return OFF
    if platform == "darwin":
        return "osascript"
    has_screen = any(each in environ for each in ("DISPLAY", "WAYLAND_DISPLAY"))
    return "notify-send" if has_screen and find_program("notify-send") else OFF


def desktop_notification(
    notice: Notification, channel: str, environ: Mapping[str, str]
) -> DesktopNotification | None:
    """Return how to send a notification over a channel; None for OFF."""
    title = _safe_text(f"ctxtop: {notice.title}", TITLE_CELLS)
    words = _safe_text(notice.body, BODY_CELLS)
    sequences = {
        "osc9": f"{_ESC}]9;{title}: {words}{_BEL}",
        "osc777": f"{_ESC}]777;notify;{title};{words}{_ST}",
        "osc99": f"{_ESC}]99;i=ctxtop:d=0;{title}{_ST}{_ESC}]99;i=ctxtop:p=body;{words}{_ST}",
    }
    if channel in sequences:
        return TerminalSequence(_through_tmux(sequences[channel], environ))
    if channel == "notify-send":
        urgency = ("low", "normal", "critical")[notice.severity]
        # Its body is markup for most who show it.
        body = html.escape(words, quote=False)
        return NotificationProgram(
            ("notify-send", "--app-name=ctxtop", f"--urgency={urgency}", "--", title, body)
        )
    if channel == "osascript":
        script = [part for line in _APPLE_SCRIPT for part in ("-e", line)]
        return NotificationProgram(("osascript", *script, "--", title, words))
    return None


def run_program(program: NotificationProgram) -> str:
    """Run it; say in a line what is in its way, empty where it went well."""
    name = program.arguments[0]
    found = find_program(name)
    if found is None:
        return f"{name} is not installed: choose another notify.desktop"
    try:
        ended = subprocess.run(  # noqa: S603 -- a list of words, no shell
            [found, *program.arguments[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROGRAM_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{name} did not end within {PROGRAM_TIMEOUT_S:.0f} s: choose another notify.desktop"
    except OSError as error:
        return f"{name} cannot be run ({error.strerror}): choose another notify.desktop"
    if ended.returncode:
        return f"{name} ended with code {ended.returncode}: is there a desktop that shows it?"
    return ""


def channel_hint(channel: str, environ: Mapping[str, str]) -> str:
    """Return what the user needs to know about a channel; empty if there is nothing."""
    return TMUX_PASSTHROUGH_HINT if channel.startswith("osc") and "TMUX" in environ else ""


def terminal_environment() -> Mapping[str, str]:
    """What this process was told of its terminal."""
    return os.environ


def _safe_text(text: str, cells: int) -> str:
    # A semicolon would begin the next field of a sequence; controls are gone with one_line.
    return shorten_middle(one_line(text).replace(";", ","), cells)


def _through_tmux(sequence: str, environ: Mapping[str, str]) -> str:
    if "TMUX" not in environ:
        return sequence
    return f"{_ESC}Ptmux;{sequence.replace(_ESC, _ESC * 2)}{_ST}"
