"""What a plan changes, for people to read before they say yes."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from ..clean import clean_text
from ..surroundings.settings import without_secrets

if TYPE_CHECKING:
    from .plan import Plan
    from .settings_text import Settings

_NOWHERE: Final = "/dev/null"


def difference(plan: Plan) -> list[str]:
    """Show the change as a unified diff; what it leaves alone is shown without secrets."""
    lines = _unified(str(plan.file.path), plan.file.data, plan.after)
    for name in sorted({*plan.plugin_before, *plan.plugin_after}):
        path = str(plan.folder / name)
        old, new = plan.plugin_before.get(name), plan.plugin_after.get(name)
        if old is None and new is not None:
            lines.append(f"new file {path}: {len(new):,} bytes")
        elif new is None:
            lines.append(f"removed file {path}")
        else:
            lines += _unified(path, old, new)
    return [clean_text(line) for line in lines]


def _unified(name: str, before: bytes | None, after: bytes | None) -> list[str]:
    old, new = (_NOWHERE if data is None else name for data in (before, after))
    lines = difflib.unified_diff(_lines(before), _lines(after), old, new, lineterm="")
    return [without_secrets(line) if line.startswith(" ") else line for line in lines]


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines()


def compare(
    before: Settings, after: Settings
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Name what of ours comes and goes, and what of others stays."""
    old = {(hook.event, hook.command) for hook in before.hooks}
    new = {(hook.event, hook.command) for hook in after.hooks}
    added = [_hook(*each) for each in _ordered(after, new - old)]
    removed = [_hook(*each) for each in _ordered(before, old - new)]
    kept = [_hook(*each) for each in _ordered(after, old & new)]
    if before.status_command == after.status_command:
        kept += (
            [f"status line: {without_secrets(after.status_command)}"]
            if after.status_command
            else []
        )
    else:
        added += (
            [f"status line: {without_secrets(after.status_command)}"]
            if after.status_command
            else []
        )
        removed += (
            [f"status line: {without_secrets(before.status_command)}"]
            if before.status_command
            else []
        )
    return tuple(added), tuple(removed), tuple(kept)


def _ordered(settings: Settings, wanted: set[tuple[str, str]]) -> list[tuple[str, str]]:
    pairs = [(hook.event, hook.command) for hook in settings.hooks]
    return list(dict.fromkeys(pair for pair in pairs if pair in wanted))


def _hook(event: str, command: str) -> str:
    return f"hook {event}: {without_secrets(command)}"
