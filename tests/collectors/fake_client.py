"""Stands in for the client in a pane: it draws a prompt, and `/compact` writes a boundary.

Run as `python fake_client.py REGISTRY_ENTRY TRANSCRIPT MOOD`; the mood says what is different:
ok, draft, dialog, busy, deaf (does not draw what is typed), echoes (draws something else), idle
(does nothing at Enter).
"""

from __future__ import annotations

import json
import os
import sys
import termios
import time
import tty
from pathlib import Path

RULE = "─" * 60
ENTER = b"\r"
CLEAR = b"\x15"
BOUNDARY = {
    "type": "system",
    "subtype": "compact_boundary",
    "uuid": "b-1",
    "compactMetadata": {"trigger": "manual", "preTokens": 52_012, "postTokens": 2_949},
}


def main(entry: Path, transcript: Path, mood: str) -> None:
    """Draw, and take keys until the terminal is gone."""
    about = json.loads(entry.read_text(encoding="utf-8"))
    tty.setraw(sys.stdin.fileno(), termios.TCSANOW)
    typed = "a draft" if mood == "draft" else ""
    pressed = transcript.with_suffix(".pressed")
    draw(typed, mood)
    say(entry, about | {"pid": os.getpid(), "status": "idle"})
    while key := os.read(0, 4096):
        pressed.write_bytes((pressed.read_bytes() if pressed.exists() else b"") + key)
        if key == ENTER and mood != "idle":
            say(entry, about | {"pid": os.getpid(), "status": "busy"})
            time.sleep(0.3)
            with transcript.open("a", encoding="utf-8") as file:
                file.write(json.dumps(BOUNDARY | {"content": typed}) + "\n")
            say(entry, about | {"pid": os.getpid(), "status": "idle"})
            typed = ""
        elif key == CLEAR:
            typed = ""
        elif mood == "echoes":
            typed += "x" + key.decode()
        elif mood != "deaf":
            typed += key.decode()
        draw(typed, mood)


def say(entry: Path, about: dict[str, object]) -> None:
    """Write the registry's entry as the client does: whole."""
    part = entry.with_suffix(".part")
    part.write_text(json.dumps(about), encoding="utf-8")
    part.rename(entry)


def draw(typed: str, mood: str) -> None:
    """Draw the screen anew."""
    foot = "  ⏸ manual mode on" + (" · esc to interrupt" if mood == "busy" else "")
    lines = [RULE, f"❯\xa0{typed}", RULE, "", foot]
    if mood == "dialog":
        lines = [RULE, "  Do you want to proceed?", "  ❯ 1. Yes", "    2. No"]
    out = "\x1b[2J\x1b[H" + "\r\n".join(lines)
    if mood != "dialog":
        out += f"\x1b[2;{3 + len(typed)}H"
    os.write(1, out.encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
