"""What `ctxtop hooks` prints, for programs and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ....collectors.claude_code.config.client_settings import mask_secrets
from ....collectors.install.install_status import CommandStatus, InstallState, InstallStatus
from ...tables import Column, TextColumn
from ...text.formats import iso_time, plural
from .printing import clean_line, draw_table, paint

if TYPE_CHECKING:
    from ....collectors.install.install_plan import InstallPlan


STATUS_LINE_KEY: Final = ""  # where an event's name stands for a hook


def install_plan_record(
    plan: InstallPlan, lines: Sequence[str], backup: Path | None
) -> dict[str, Any]:
    return {
        "settings": str(plan.file.path),
        "added": list(plan.added),
        "removed": list(plan.removed),
        "kept": list(plan.unchanged),
        "backup": str(backup) if backup else None,
        "difference": list(lines),
    }


def install_plan_text(plan: InstallPlan) -> str:
    """Sum a plan up in one line, for who does not want to read the whole difference."""
    parts = (("adds", plan.added), ("removes", plan.removed), ("keeps", plan.unchanged))
    said = [f"{verb} {_kinds_text(things)}" for verb, things in parts if things]
    return clean_line(f"{plan.file.path}: {'; '.join(said)}")


def _kinds_text(things: Sequence[str]) -> str:
    kinds = Counter(_kind_of(each) for each in things)
    return ", ".join(plural(count, kind) for kind, count in kinds.items())


def _kind_of(thing: str) -> str:
    return next(kind for kind in ("hook", "status line", "file") if thing.startswith(kind))


def install_status_record(
    found: InstallStatus, last: Mapping[str, int | None], faults: Sequence[str]
) -> dict[str, Any]:
    """Return as a JSON record what is installed, when it was last active, and its problems.

    `last` has times in milliseconds since 1970; `faults` turn a clean state into a faulty one.
    """
    line = found.status_line
    state = InstallState.FAULTY if faults and found.state is InstallState.CLEAN else found.state
    return {
        "state": str(state),
        "plugin": str(found.plugin) if found.plugin else None,
        "plugin_version": found.version,
        "hooks": [_hook_record(hook, last.get(hook.event)) for hook in found.hooks],
        "status_line": _hook_record(line, last.get(STATUS_LINE_KEY)) if line else None,
        "problems": [*found.problems, *faults],
    }


_HOOK_COLUMNS: Final[Sequence[TextColumn[Mapping[str, Any]]]] = (
    Column("event", lambda hook: hook["event"]),
    Column("does", lambda hook: ",".join(hook["features"]) or "record"),
    Column("last record", lambda hook: hook["last_record_at"] or "never"),
)


def install_status_lines(found: InstallStatus, record: Mapping[str, Any]) -> list[str]:
    """Lay out what is installed: one word, a line an event, what is wrong."""
    state = record["state"]
    lines = [paint(state, {"clean": "ok", "faulty": "bad"}.get(state, ""))]
    if state == InstallState.ABSENT:
        return [*lines, "nothing of ctxtop's runs in Claude Code: `ctxtop hooks install`"]
    if record["hooks"]:
        lines += draw_table(_HOOK_COLUMNS, record["hooks"])
    if found.status_line:
        wrapped = found.status_line.own_command.wrapped
        line = f"status line, runs {mask_secrets(wrapped)}" if wrapped else "status line"
        lines.append(clean_line(line))
    places = [hook.path for hook in found.hooks]
    lines += [clean_line(f"in {path}") for path in dict.fromkeys(places)]
    return [*lines, *(paint(clean_line(each), "bad") for each in record["problems"])]


def _hook_record(one: CommandStatus, last: int | None) -> dict[str, Any]:
    return {
        "event": one.event or None,
        "scope": str(one.scope),
        "settings": str(one.path),
        "command": mask_secrets(one.command),
        "features": list(one.own_command.features),
        "wrapped": mask_secrets(one.own_command.wrapped) if one.own_command.wrapped else None,
        "problem": one.problem,
        "last_record_at": iso_time(last),
    }
