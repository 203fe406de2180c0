"""The commands that Claude Code runs of ours: written for this machine, and known again."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_RUN: Final = "run.py"
_PLACES: Final = ("ctxtop/collectors/plugin/", "collectors/plugin/")
_HOOK: Final = "hook"
_LINE: Final = "statusline"
_WRAP: Final = "--"


@dataclass(frozen=True, slots=True)
class Own:
    """A command of ours, whichever ctxtop wrote it."""

    interpreter: str
    script: str
    store: str
    event: str
    """Empty for the status line."""
    features: tuple[str, ...] = ()
    wrapped: str | None = None
    """The command that our status line runs: the one that was there before."""


def hook(store: Path, event: str, features: Sequence[str]) -> str:
    """Write the command of a hook."""
    # Without its site Python starts in two thirds of the time; answers need what is there.
    flags = ["-I"] if features else ["-I", "-S"]
    return shlex.join([sys.executable, *flags, _script(), _HOOK, str(store), event, *features])


def status_line(store: Path, wrapped: str | None) -> str:
    """Write the command of the status line."""
    words = [sys.executable, "-I", _script(), _LINE, str(store)]
    return shlex.join(words if wrapped is None else [*words, _WRAP, wrapped])


def read(command: str) -> Own | None:
    """Know a command as ours; None for anybody else's."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    place = next((n for n, word in enumerate(words[:4]) if _is_script(word)), None)
    if not place or len(words) < place + 3:
        return None
    interpreter, script, kind, store = words[0], *words[place : place + 3]
    rest = words[place + 3 :]
    if kind == _HOOK and rest:
        return Own(interpreter, script, store, rest[0], tuple(rest[1:]))
    if kind == _LINE:
        wrapped = rest[1] if len(rest) == 2 and rest[0] == _WRAP else None
        return Own(interpreter, script, store, "", (), wrapped)
    return None


def _script() -> str:
    return str(Path(__file__).parents[1] / "plugin" / _RUN)


def _is_script(word: str) -> bool:
    return word.endswith(tuple(f"/{place}{_RUN}" for place in _PLACES))
