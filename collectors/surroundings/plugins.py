"""Which plugins are installed, and where their files are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...core.store.surroundings_facts import PluginFact
from .contained import read_found
from .loose import decode_json, fields, items, title

if TYPE_CHECKING:
    from .contained import Found

LARGEST: Final = 1024 * 1024
"""Bytes; an entry has about 400."""

MOST: Final = 500
"""Installations; a person has about 20."""

INSTALLED: Final = ("installed_plugins.json", "installed_plugins_v2.json")
"""Below plugins/; the client wrote the second one beside a first of version 1 for a while."""


def read_plugins(found: Found) -> list[PluginFact]:
    """Read a list of installed plugins, of version 1 or 2.

    Raises BadJsonError where it is no such list, OSError where it cannot be read.
    """
    said = fields(fields(decode_json(read_found(found, LARGEST))).get("plugins"))
    installed: dict[tuple[str, str, str], PluginFact] = {}
    for plugin_id, entries in said.items():
        # Version 1 has one entry a plugin, version 2 a list: one for each scope and project.
        for entry in items(entries) or [entries]:
            fact = _plugin(plugin_id, fields(entry))
            if fact:
                installed.setdefault((fact.plugin_id, fact.scope, fact.project), fact)
    return list(installed.values())[:MOST]


def _plugin(plugin_id: str, entry: dict[str, Any]) -> PluginFact | None:
    place, name = entry.get("installPath"), title(plugin_id)
    if not name or not isinstance(place, str) or not Path(place).is_absolute() or "\0" in place:
        return None
    project = entry.get("projectPath")
    return PluginFact(
        plugin_id=name,
        scope=title(entry.get("scope")) or "user",
        project=project if isinstance(project, str) else "",
        install_path=place,
        version=title(entry.get("version")),
    )
