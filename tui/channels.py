"""Ways to a notification outside of the terminal's page: escape sequences and programs."""

from __future__ import annotations

import html
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..core.child_process import find_program
from ..core.policy.schema import AUTO, OFF
from .formats import middle, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .notices import Notice

TITLE_CELLS: Final = 60
WORDS_CELLS: Final = 200
"""A notification shows no more, and a terminal need not take more."""

TIMEOUT_S: Final = 5.0
"""After this a notification's program hangs: no session bus, or nobody who listens."""

PASSTHROUGH: Final = "tmux passes it on with `set -g allow-passthrough on`"

_ESC: Final = "\x1b"
_ST: Final = f"{_ESC}\\"
_BEL: Final = "\x07"

_OSC9: Final = frozenset({"iTerm.app", "WezTerm", "ghostty"})
"""TERM_PROGRAM of terminals that show OSC 9 (their own documentation)."""

_APPLE_SCRIPT: Final = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
"""The words come as arguments: nothing of them is read as a script."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """Something to write to the terminal."""

    text: str


@dataclass(frozen=True, slots=True)
class Program:
    """Something to run, without a shell."""

    arguments: tuple[str, ...]


Way = Sequence | Program


def choose(setting: str, environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """Name the way that `auto` stands for on this terminal; OFF where none is known."""
    if setting != AUTO:
        return setting
    if "KITTY_WINDOW_ID" in environ or environ.get("TERM") == "xterm-kitty":
        return "osc99"
    if environ.get("TERM_PROGRAM") in _OSC9 or environ.get("LC_TERMINAL") == "iTerm2":
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


def way_of(notice: Notice, channel: str, environ: Mapping[str, str]) -> Way | None:
    """Say how to tell a notice that way; None for OFF."""
    title = _harmless(f"ctxtop: {notice.title}", TITLE_CELLS)
    words = _harmless(notice.body, WORDS_CELLS)
    sequences = {
        "osc9": f"{_ESC}]9;{title}: {words}{_BEL}",
        "osc777": f"{_ESC}]777;notify;{title};{words}{_ST}",
        "osc99": f"{_ESC}]99;i=ctxtop:d=0;{title}{_ST}{_ESC}]99;i=ctxtop:p=body;{words}{_ST}",
    }
    if channel in sequences:
        return Sequence(_through_tmux(sequences[channel], environ))
    if channel == "notify-send":
        urgency = ("low", "normal", "critical")[notice.severity]
        # Its body is markup for most who show it.
        body = html.escape(words, quote=False)
        return Program(
            ("notify-send", "--app-name=ctxtop", f"--urgency={urgency}", "--", title, body)
        )
    if channel == "osascript":
        script = [part for line in _APPLE_SCRIPT for part in ("-e", line)]
        return Program(("osascript", *script, "--", title, words))
    return None


def run(program: Program) -> str:
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
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{name} did not end within {TIMEOUT_S:.0f} s: choose another notify.desktop"
    except OSError as error:
        return f"{name} cannot be run ({error.strerror}): choose another notify.desktop"
    if ended.returncode:
        return f"{name} ended with code {ended.returncode}: is there a desktop that shows it?"
    return ""


def said_of(channel: str, environ: Mapping[str, str]) -> str:
    """Say of a way what a person must know; empty where there is nothing."""
    return PASSTHROUGH if channel.startswith("osc") and "TMUX" in environ else ""


def environment() -> Mapping[str, str]:
    """What this process was told of its terminal."""
    return os.environ


def _harmless(text: str, cells: int) -> str:
    # A semicolon would begin the next field of a sequence; controls are gone with one_line.
    return middle(one_line(text).replace(";", ","), cells)


def _through_tmux(sequence: str, environ: Mapping[str, str]) -> str:
    if "TMUX" not in environ:
        return sequence
    return f"{_ESC}Ptmux;{sequence.replace(_ESC, _ESC * 2)}{_ST}"
