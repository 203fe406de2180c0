"""The commands that stand in Claude Code's settings: written for this machine, and known again.

Claude Code gives them to `sh -c`. They end well also where ctxtop or its Python is gone, and
take what they are given all the same: the client shows a person every other end.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

HOOK: Final = "hook"
STATUS_LINE: Final = "statusline"

_RUN: Final = "collectors/plugin/run.py"
_WRAP: Final = "--"
_BEFORE, _AFTER = "then", "; else"


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
    """The command that our status line runs beside itself."""


def hook_command(store: Path, event: str, features: Sequence[str] = ()) -> str:
    """Write the command of a hook; without features it only records."""
    # Without its site Python starts in two thirds of the time; answers need what is there.
    flags = ["-I"] if features else ["-I", "-S"]
    gone = "cat >/dev/null"
    return _guarded(flags, [HOOK, str(store), event, *features], gone)


def statusline_command(store: Path, wrapped: str | None = None) -> str:
    """Write the command of the status line, beside the command that was there before.

    Where ctxtop is gone, that command is run alone.
    """
    more = [] if wrapped is None else [_WRAP, wrapped]
    gone = "cat >/dev/null" if wrapped is None else shlex.join(["sh", "-c", wrapped])
    return _guarded(["-I", "-S"], [STATUS_LINE, str(store), *more], gone)


def is_ours(command: str) -> bool:
    """Say whether a command of the settings is ctxtop's."""
    return read_command(command) is not None


def read_command(command: str) -> Own | None:
    """Read a command of ours; None for anybody else's."""
    try:
        words = _call(command)
    except ValueError:
        return None
    place = next((n for n, word in enumerate(words) if word.endswith(f"/{_RUN}")), None)
    if not place or len(words) < place + 3:
        return None
    kind, store, *rest = words[place + 1 :]
    if kind == HOOK and rest:
        return Own(words[0], words[place], store, rest[0], tuple(rest[1:]))
    if kind == STATUS_LINE:
        wrapped = rest[1] if len(rest) == 2 and rest[0] == _WRAP else None
        return Own(words[0], words[place], store, "", (), wrapped)
    return None


def _guarded(flags: list[str], words: list[str], gone: str) -> str:
    python, script = shlex.quote(sys.executable), shlex.quote(_script())
    run = shlex.join([sys.executable, *flags, _script(), *words])
    there = f"[ -x {python} ] && [ -f {script} ]"
    return f"if {there}; {_BEFORE} {run}{_AFTER} {gone}; fi || :"


def _call(command: str) -> list[str]:
    """Take the words of the call out of its guard; raises ValueError where a quote is open."""
    words = shlex.shlex(command, posix=True, punctuation_chars=";")
    words.whitespace_split = True
    found = list(words)
    if _BEFORE not in found:
        return shlex.split(command)
    call = found[found.index(_BEFORE) + 1 :]
    return call[: call.index(";")] if ";" in call else call


def _script() -> str:
    return str(Path(__file__).with_name(Path(_RUN).name))
