"""What `ctxtop hooks` prints, for programs and for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ...collectors.install.status import State
from ...collectors.surroundings.settings import without_secrets
from ..formats import plural
from .columns import Column, draw, one_line, paint, terminal_width
from .times import time_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ...collectors.install.plan import Plan
    from ...collectors.install.status import Installed, Status


STATUS_LINE: Final = ""
"""Where an event's name stands for a hook."""


def plan_record(plan: Plan, lines: Sequence[str], backup: Path | None) -> dict[str, Any]:
    """Say what a plan adds, removes and keeps."""
    return {
        "settings": str(plan.file.path),
        "added": list(plan.added),
        "removed": list(plan.removed),
        "kept": list(plan.unchanged),
        "backup": str(backup) if backup else None,
        "difference": list(lines),
    }


def plan_words(plan: Plan) -> str:
    """Sum a plan up in one line, for who does not want to read the whole difference."""
    parts = (("adds", plan.added), ("removes", plan.removed), ("keeps", plan.unchanged))
    said = [f"{verb} {_counted(things)}" for verb, things in parts if things]
    return one_line(f"{plan.file.path}: {'; '.join(said)}")


def _counted(things: Sequence[str]) -> str:
    kinds = Counter(_kind(each) for each in things)
    return ", ".join(plural(count, kind) for kind, count in kinds.items())


def _kind(thing: str) -> str:
    return next(kind for kind in ("hook", "status line", "file") if thing.startswith(kind))


def status_record(
    found: Status, last: Mapping[str, int | None], faults: Sequence[str]
) -> dict[str, Any]:
    """Say what is installed, when it last told something, and what is wrong."""
    line = found.status_line
    state = State.FAULTY if faults and found.state is State.CLEAN else found.state
    return {
        "state": str(state),
        "plugin": str(found.plugin) if found.plugin else None,
        "plugin_version": found.version,
        "hooks": [_installed(hook, last.get(hook.event)) for hook in found.hooks],
        "status_line": _installed(line, last.get(STATUS_LINE)) if line else None,
        "problems": [*found.problems, *faults],
    }


def status_lines(found: Status, record: Mapping[str, Any]) -> list[str]:
    """Lay out what is installed: one word, a line an event, what is wrong."""
    state = record["state"]
    lines = [paint(state, {"clean": "ok", "faulty": "bad"}.get(state, ""))]
    if state == State.ABSENT:
        return [*lines, "nothing of ctxtop's runs in Claude Code: `ctxtop hooks install`"]
    rows = [
        [hook["event"], ",".join(hook["features"]) or "record", hook["last_record_at"] or "never"]
        for hook in record["hooks"]
    ]
    if rows:
        columns = [Column("event"), Column("does"), Column("last record")]
        lines += draw(columns, rows, terminal_width())
    if found.status_line:
        wrapped = found.status_line.own_command.wrapped
        line = f"status line, runs {without_secrets(wrapped)}" if wrapped else "status line"
        lines.append(one_line(line))
    places = [hook.path for hook in found.hooks]
    lines += [one_line(f"in {path}") for path in dict.fromkeys(places)]
    return [*lines, *(paint(one_line(each), "bad") for each in record["problems"])]


def _installed(one: Installed, last: int | None) -> dict[str, Any]:
    return {
        "event": one.event or None,
        "scope": str(one.scope),
        "settings": str(one.path),
        "command": without_secrets(one.command),
        "features": list(one.own_command.features),
        "wrapped": without_secrets(one.own_command.wrapped) if one.own_command.wrapped else None,
        "problem": one.problem,
        "last_record_at": time_of(last),
    }
