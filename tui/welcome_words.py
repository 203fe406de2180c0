"""What the first-run screen says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from .formats import one_line

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Choice:
    """Something that a person can begin with."""

    title: str
    what: str


CHOICES: Final = {
    "go_on": Choice("Go on to my sessions", "Enter or Esc; this page is shown once"),
    "demo": Choice("Look at the demo", "made-up sessions that work by themselves; q comes back"),
    "install": Choice(
        "Install the plugin", "shows what it would write, then asks; `ctxtop hooks` takes it out"
    ),
}

ASK: Final = "Install the plugin?"
INSTALLED: Final = "Sessions that start from now on tell ctxtop what they do."
WHAT_COMES: Final = "The plugin is installed"

WHAT: Final = (
    "How full the context of every Claude Code session and agent is, what fills it, when it"
    " overflows; and how it is made smaller, when you ask for that."
)


def touched(config_dir: Path, store: Path) -> tuple[tuple[str, str], ...]:
    """Say what it reads and keeps, and what it never does: a word, and the rest of it."""
    return (
        ("It reads", one_line(f"{config_dir}: transcripts, agents, settings")),
        ("It keeps", one_line(f"{store}: what it read, readable by you alone")),
        (
            "It writes",
            "nothing of Claude Code's, unless you ask by name: with backup, receipt and undo",
        ),
        ("It sends", "nothing to anybody; a model writes a summary only where you name it"),
    )
