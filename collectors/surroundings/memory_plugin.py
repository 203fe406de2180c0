"""The installed claude-memory: what its two halves mention, which have to fit (004-37)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.store import surroundings_queries as queries
from ...core.store.surroundings_facts import SavePluginFact
from ...core.store.surroundings_writer import forget_memory_plugins, save_memory_plugin
from .contained import TooLargeError, child, read_found, why_not

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ...core.store.writer import Writer
    from .contained import Found

NAME: Final = "claude-memory"
"""In the plugin's id, whatever marketplace it comes from."""

LARGEST: Final = 512 * 1024
"""Bytes; the largest of these files has about 70 KB."""

_TAG: Final = b"triage_data_file"
_SKILL: Final = ("skills", "memory-management", "SKILL.md")
_TRIAGE: Final = ("hooks", "scripts", "memory_triage.py")
_ORCHESTRATE: Final = ("hooks", "scripts", "memory_orchestrate.py")


def is_memory_plugin(plugin_id: str) -> bool:
    """Say whether a plugin is claude-memory."""
    return plugin_id.partition("@")[0].lower() == NAME


class FollowedMemoryPlugins:
    """What the store knows of each installation; read again when a file of it changes."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer
        self._known: Final = {
            each.install_path: each for each in queries.save_plugins(writer.connection)
        }

    def follow(
        self, plugin_id: str, version: str | None, place: Path, folder: Found | None, root: Path
    ) -> None:
        """Look at an installation; raises OSError where it cannot be looked at."""
        path = str(place)
        known = self._known.get(path)
        found = [_below(folder, parts, root) for parts in (_SKILL, _TRIAGE, _ORCHESTRATE)]
        skill, triage, orchestrate = found
        mark = f"{version or ''} " + " ".join(_mark(each) for each in found)
        if known and known.mark == mark and known.plugin_id == plugin_id:
            return
        fact = SavePluginFact(
            install_path=path,
            plugin_id=plugin_id,
            version=version,
            mark=mark,
            skill_takes_file=_mentions(skill),
            triage_writes_file=_mentions(triage),
            has_orchestrator=orchestrate is not None,
        )
        save_memory_plugin(self._writer, fact)
        self._known[path] = fact

    def keep_only(self, places: Iterable[str]) -> None:
        """Forget installations that are no more."""
        left = self._known.keys() - set(places)
        if left:
            forget_memory_plugins(self._writer, left)
            for place in left:
                del self._known[place]


def _below(folder: Found | None, parts: tuple[str, ...], root: Path) -> Found | None:
    found = folder
    for name in parts:
        found = child(found, name, root) if found else None
    return found if found and why_not(found) is None else None


def _mark(found: Found | None) -> str:
    if found is None:
        return "-"
    mark = found.mark
    return f"{mark.size}:{mark.mtime_ns}:{mark.inode}"


def _mentions(found: Found | None) -> bool | None:
    if found is None:
        return None
    try:
        return _TAG in read_found(found, LARGEST)
    except (FileNotFoundError, TooLargeError):
        # Gone meanwhile, or no file of the plugin's: it says nothing.
        return None
