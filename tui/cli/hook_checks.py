"""What `ctxtop doctor` says of our hooks in the settings: that they can run, and do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...collectors.plugin.command_line import Own, read_command
from ...collectors.surroundings.skill_plugins import MARKET
from ...core.settings import resolve_settings
from ...core.store import log_queries, queries, surroundings_queries
from ..formats import plural
from .checks import Check, well, wrong
from .times import time_of

if TYPE_CHECKING:
    import sqlite3

    from ...core.store.surroundings_facts import SettingsFact

SETTLED_MS: Final = 60_000
"""A session that begins this soon after the last word of a hook may have begun before it."""

_NAME: Final = "hooks"
_PLUGIN: Final = f"ctxtop@{MARKET}"


def hook_check(db: sqlite3.Connection, store: Path) -> Check:
    """Look at the hooks that write this store's log, for all projects."""
    files = [file for file in surroundings_queries.settings_files(db) if file.project is None]
    ours = [(file, own) for file in files for own in _ours(file, store)]
    if not ours and (placed := _plugin(db)):
        return well(_NAME, f"in the plugin {placed}", "`ctxtop hooks status` looks at each")
    if not ours:
        return well(_NAME, "none of this store's in the user's settings")
    detail = f"{plural(len(ours), 'hook')} in {ours[0][0].path}"
    for _, own in ours:
        if not (os.access(own.interpreter, os.X_OK) and Path(own.script).is_file()):
            gone = f"{detail} name a ctxtop that is gone: {own.interpreter} {own.script}"
            return wrong(_NAME, gone, "install them again: `ctxtop hooks install`")
    off = resolve_settings(files, None).get("disableAllHooks")
    if off is not None and off.value is True:
        return wrong(_NAME, f"{detail}; disableAllHooks in {off.path}", "take that setting out")
    installed_ms = max(file.mark.mtime_ns for file, _ in ours) // 1_000_000
    last_ms = max(installed_ms, log_queries.last_event_at(db) or 0)
    deaf = [
        row
        for row in queries.sessions(db)
        if row.answer_tokens and (row.started_at or 0) > last_ms + SETTLED_MS
    ]
    if deaf:
        since = f"none ran since {time_of(last_ms)}, though {plural(len(deaf), 'session')} began"
        return wrong(_NAME, f"{detail}; {since}", "see `/hooks` and `claude doctor`")
    return well(_NAME, detail)


def _plugin(db: sqlite3.Connection) -> str | None:
    """Name the folder of our plugin, where it is installed."""
    found = [one for one in surroundings_queries.plugins(db) if one.plugin_id == _PLUGIN]
    return found[0].install_path if found else None


def _ours(file: SettingsFact, store: Path) -> list[Own]:
    commands = (read_command(hook.command) for hook in file.hooks)
    return [own for own in commands if own and own.store == str(store)]
