"""The commands that ctxtop installs in Claude Code's settings, and the features they name.

Claude Code passes them to `sh -c`. They exit with 0 and consume their stdin even if ctxtop or its
Python is gone: the client reports every other exit to the user.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


FEATURE_EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "enforce": ("SubagentStop",),
    "inject": ("SubagentStart",),
    "steer": ("PreCompact",),
    "remember": ("PostCompact", "UserPromptSubmit"),
    "prompts": ("UserPromptSubmit", "PostToolUse"),
    "confirm": ("UserPromptSubmit",),
    "cold": ("UserPromptSubmit",),
}
"""Each is a module of `answers`; the order is that of an installed command."""

HOOK_KIND: Final = "hook"
STATUS_LINE_KIND: Final = "statusline"

_RUN_SCRIPT: Final = "collectors/plugin/run.py"
_WRAP_SEPARATOR: Final = "--"
_BEFORE, _AFTER = "then", "; else"


@dataclass(frozen=True, slots=True)
class InstalledCommand:
    """A command of ours, whichever ctxtop wrote it."""

    interpreter: str
    script: str
    store: str
    event: str  # empty for the status line
    features: tuple[str, ...] = ()
    wrapped: str | None = None  # the command that our status line runs beside itself


def hook_command(store: Path, event: str, features: Sequence[str] = ()) -> str:
    """Return the command of a hook; without features it only records."""
    return _guarded([HOOK_KIND, str(store), event, *features], "cat >/dev/null")


def statusline_command(store: Path, wrapped: str | None = None) -> str:
    """Return the command of the status line, which also runs the command that was there before.

    If ctxtop is gone, that command alone is run.
    """
    more = [] if wrapped is None else [_WRAP_SEPARATOR, wrapped]
    gone = "cat >/dev/null" if wrapped is None else shlex.join(["sh", "-c", wrapped])
    return _guarded([STATUS_LINE_KIND, str(store), *more], gone)


def parse_command(command: str) -> InstalledCommand | None:
    """Parse a command of ours; None for anybody else's."""
    try:
        words = _split_call(command)
    except ValueError:
        return None
    place = next((n for n, word in enumerate(words) if word.endswith(f"/{_RUN_SCRIPT}")), None)
    if not place or len(words) < place + 3:
        return None
    kind, store, *rest = words[place + 1 :]
    if kind == HOOK_KIND and rest:
        return InstalledCommand(words[0], words[place], store, rest[0], tuple(rest[1:]))
    if kind == STATUS_LINE_KIND:
        wrapped = rest[1] if len(rest) == 2 and rest[0] == _WRAP_SEPARATOR else None
        return InstalledCommand(words[0], words[place], store, "", (), wrapped)
    return None


def _guarded(words: list[str], gone: str) -> str:
    python, script = shlex.quote(sys.executable), shlex.quote(_script_path())
    # Without its site Python starts in two thirds of the time; run.py adds it where it is needed.
    run = shlex.join([sys.executable, "-I", "-S", _script_path(), *words])
    return f"if [ -x {python} ] && [ -f {script} ]; {_BEFORE} {run}{_AFTER} {gone}; fi || :"


def _split_call(command: str) -> list[str]:
    """Split the call into words, without its shell guard; raises ValueError for an open quote."""
    words = shlex.shlex(command, posix=True, punctuation_chars=";")
    words.whitespace_split = True
    all_words = list(words)
    if _BEFORE not in all_words:
        return shlex.split(command)
    call = all_words[all_words.index(_BEFORE) + 1 :]
    # A wrapped command may itself be a semicolon: the call ends where the guard's `; else` begins.
    ends = (n for n, pair in enumerate(pairwise(call)) if pair == (";", "else"))
    return call[: next(ends, len(call))]


def _script_path() -> str:
    return str(Path(__file__).with_name(Path(_RUN_SCRIPT).name))
