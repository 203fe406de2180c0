"""Which version of the plugin is installed, and whether its parts fit together (004-27, 004-37)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from ..store.surroundings_facts import SavePluginFact


class Fit(StrEnum):
    """Whether the skill can read what the triage hands over."""

    OK = "ok"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Architecture(StrEnum):
    """What a version of the plugin does with a save (004-12, R004-17)."""

    INLINE = "inline"
    FILE = "file"
    DETERMINISTIC = "deterministic"
    UNKNOWN = "unknown"


class Compat(msgspec.Struct, frozen=True):
    """One installation of the plugin."""

    plugin: SavePluginFact
    fit: Fit
    architecture: Architecture
    reason: str


def judge_plugin(plugin: SavePluginFact) -> Compat:
    """Judge the two halves of an installation by what their files mention.

    Source: the matrix of 004-37: only an old skill with a new triage is broken, and then every
    save fails in silence.
    """
    architecture = _architecture(plugin)
    if plugin.skill_takes_file is None or plugin.triage_writes_file is None:
        missing = "SKILL.md" if plugin.skill_takes_file is None else "memory_triage.py"
        return Compat(plugin, Fit.UNKNOWN, architecture, f"{missing} was not found")
    skill = "new" if plugin.skill_takes_file else "old"
    triage = "new" if plugin.triage_writes_file else "old"
    if plugin.triage_writes_file and not plugin.skill_takes_file:
        why = (
            "old skill, new triage: the skill does not know <triage_data_file>, so every save"
            " fails in silence; update SKILL.md, or take memory_triage.py back"
        )
        return Compat(plugin, Fit.BROKEN, architecture, why)
    return Compat(plugin, Fit.OK, architecture, f"{skill} skill, {triage} triage")


def _architecture(plugin: SavePluginFact) -> Architecture:
    if plugin.has_orchestrator:
        return Architecture.DETERMINISTIC
    if plugin.triage_writes_file is None:
        return Architecture.UNKNOWN
    return Architecture.FILE if plugin.triage_writes_file else Architecture.INLINE
