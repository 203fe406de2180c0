"""Plugins that stand in the folder of skills: the client loads them without any list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ...core.store.surroundings_facts import PluginFact
from .contained import child, children, read_found
from .loose import decode_json, fields, title

if TYPE_CHECKING:
    from pathlib import Path

    from .contained import Found

MARKET: Final = "skills-dir"
"""What the client calls the place that they come from (seen in 2.1.329)."""

FOLDER: Final = ".claude-plugin"
MANIFEST: Final = "plugin.json"

LARGEST: Final = 64 * 1024
"""Bytes of a manifest; it has about 400."""


class SkillPlugin(msgspec.Struct, frozen=True):
    """A folder of a plugin, and its manifest."""

    folder: Found
    manifest: Found


def find_skill_plugins(skills: Found, root: Path) -> list[SkillPlugin]:
    """Look for plugins among the skills; raises OSError where that is not possible."""
    found = []
    for folder in children(skills, root):
        inner = child(folder, FOLDER, root)
        manifest = child(inner, MANIFEST, root) if inner else None
        if manifest and not manifest.problem:
            found.append(SkillPlugin(folder, manifest))
    return found


def read_skill_plugin(found: SkillPlugin) -> PluginFact:
    """Read a manifest; raises BadJsonError where it is none, OSError where it cannot be read."""
    said = fields(decode_json(read_found(found.manifest, LARGEST)))
    return PluginFact(
        plugin_id=f"{title(said.get('name')) or found.folder.path.name}@{MARKET}",
        scope="user",
        project="",
        install_path=str(found.folder.path),
        version=title(said.get("version")),
    )
