"""The installed claude-memory plugin: whether its parts fit, and what it tells its user."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ..store.config_records import MemoryPluginRecord
from .project_save_files import ProjectSaveFiles, content_of
from .save_noise import ALL_CATEGORIES
from .save_status import SaveState, SaveStatus, ends_current_save


class PluginFit(StrEnum):
    """Whether the skill can read what the triage hands over."""

    OK = "ok"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class SaveArchitecture(StrEnum):
    """What a version of the plugin does with a save (004-12, R004-17)."""

    INLINE = "inline"
    FILE = "file"
    DETERMINISTIC = "deterministic"
    UNKNOWN = "unknown"


class PluginCompatibility(msgspec.Struct, frozen=True):
    """One installation of the plugin."""

    plugin: MemoryPluginRecord
    fit: PluginFit
    architecture: SaveArchitecture
    reason: str


def check_plugin(plugin: MemoryPluginRecord) -> PluginCompatibility:
    """Judge the two halves of an installation by what their files mention.

    Source: the matrix of 004-37: only an old skill with a new triage is broken, and then every
    save fails in silence.
    """
    architecture = _architecture(plugin)
    if plugin.skill_takes_file is None or plugin.triage_writes_file is None:
        missing = "SKILL.md" if plugin.skill_takes_file is None else "memory_triage.py"
        return PluginCompatibility(
            plugin, PluginFit.UNKNOWN, architecture, f"{missing} was not found"
        )
    skill = "new" if plugin.skill_takes_file else "old"
    triage = "new" if plugin.triage_writes_file else "old"
    if plugin.triage_writes_file and not plugin.skill_takes_file:
        why = (
            "old skill, new triage: the skill does not know <triage_data_file>, so every save"
            " fails in silence; update SKILL.md, or take memory_triage.py back"
        )
        return PluginCompatibility(plugin, PluginFit.BROKEN, architecture, why)
    return PluginCompatibility(
        plugin, PluginFit.OK, architecture, f"{skill} skill, {triage} triage"
    )


def _architecture(plugin: MemoryPluginRecord) -> SaveArchitecture:
    if plugin.has_orchestrator:
        return SaveArchitecture.DETERMINISTIC
    if plugin.triage_writes_file is None:
        return SaveArchitecture.UNKNOWN
    return SaveArchitecture.FILE if plugin.triage_writes_file else SaveArchitecture.INLINE


class BlindSpot(StrEnum):
    """A case in which the plugin says less than its files do."""

    EMPTY_PENDING = "empty_pending"
    """R004-07: what is pending names no category, so neither it nor an orphan is told of."""
    ANY_RESULT = "any_result"
    """R004-08: any result file, stale, torn or another project's, hides an orphan once."""
    ALL_IS_ONE = "all_is_one"  # R004-06: `["all"]` is counted as one category; it is six


BLIND_SPOT_TEXTS = {
    BlindSpot.EMPTY_PENDING: "the plugin says nothing: it counts an empty list of categories",
    BlindSpot.ANY_RESULT: "the plugin says nothing this once: a result file that is not this"
    " save's hides it",
    BlindSpot.ALL_IS_ONE: 'the plugin says 1 category: it counts ["all"] as one of them',
}


class PluginMessage(msgspec.Struct, frozen=True):
    """The plugin's words at the next prompt, and where they fall short."""

    text: str | None
    blind_spots: tuple[BlindSpot, ...] = ()


def next_plugin_message(flow: ProjectSaveFiles, status: SaveStatus) -> PluginMessage:
    """Predict the plugin's message at the next prompt (004-58, 004-60, 004-63)."""
    if flow.pending:
        named = content_of(flow.pending).categories or ()
        if not named:
            return PluginMessage(None, (BlindSpot.EMPTY_PENDING,))
        spots = (
            (BlindSpot.ALL_IS_ONE,) if [each.lower() for each in named] == [ALL_CATEGORIES] else ()
        )
        return PluginMessage(_pending_message(len(named)), spots)
    if status.state is SaveState.ORPHANED:
        in_sight = [each for each in (flow.result, *flow.invalid, *flow.other_results) if each]
        if any(
            each.kind.value == "result" and not _is_own_result(flow, each.path) for each in in_sight
        ):
            return PluginMessage(None, (BlindSpot.ANY_RESULT,))
        return PluginMessage(ORPHAN_MESSAGE)
    if flow.result and status.source_file == flow.result:
        content = content_of(flow.result)
        what = f"Memories saved ({', '.join(content.categories or ())})"
        return PluginMessage(f"{what}: {', '.join(content.titles or ())}")
    return PluginMessage(None)


ORPHAN_MESSAGE = "Previous session may have crashed during save. Use /memory:save to retry."


def _pending_message(count: int) -> str:
    what = "1 category" if count == 1 else f"{count} categories"
    return f"Pending memory save: {what} from last session. Run /memory:save to re-triage and save."


def _is_own_result(flow: ProjectSaveFiles, path: str) -> bool:
    result = flow.result
    return result is not None and result.path == path and ends_current_save(result, flow)
