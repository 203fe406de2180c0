"""The plugin's installations: whether its halves fit together, and what it will say next."""

from enum import StrEnum

import msgspec

from ..model.config_records import MemoryPluginRecord, SaveFileKind
from .save_noise import ALL_CATEGORIES
from .save_status import SaveState, SaveStatus, ends_current_save
from .selected_files import ProjectSaveFiles, content_of


class PluginFit(StrEnum):
    """Whether the skill can read what the triage hands over."""

    OK = "ok"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class SaveArchitecture(StrEnum):
    """How a version of the plugin saves (004-12, R004-17)."""

    INLINE = "inline"
    FILE = "file"
    DETERMINISTIC = "deterministic"
    UNKNOWN = "unknown"


class PluginCompatibility(msgspec.Struct, frozen=True):
    plugin: MemoryPluginRecord
    fit: PluginFit
    architecture: SaveArchitecture
    reason: str


def check_plugin(plugin: MemoryPluginRecord) -> PluginCompatibility:
    """Judge the two halves of an installation by what their files mention.

    Source: the matrix of 004-37: only an old skill with a new triage is broken, and then every
    save fails silently.
    """
    fit = PluginFit.OK
    if plugin.skill_takes_file is None or plugin.triage_writes_file is None:
        missing = "SKILL.md" if plugin.skill_takes_file is None else "memory_triage.py"
        fit, reason = PluginFit.UNKNOWN, f"{missing} was not found"
    elif plugin.triage_writes_file and not plugin.skill_takes_file:
        fit = PluginFit.BROKEN
        reason = (
            "old skill, new triage: the skill does not know <triage_data_file>, so every save"
            " fails silently; update SKILL.md, or revert memory_triage.py"
        )
    else:
        skill = "new" if plugin.skill_takes_file else "old"
        triage = "new" if plugin.triage_writes_file else "old"
        reason = f"{skill} skill, {triage} triage"
    return PluginCompatibility(plugin, fit, _architecture(plugin), reason)


def _architecture(plugin: MemoryPluginRecord) -> SaveArchitecture:
    if plugin.has_orchestrator:
        return SaveArchitecture.DETERMINISTIC
    if plugin.triage_writes_file is None:
        return SaveArchitecture.UNKNOWN
    return SaveArchitecture.FILE if plugin.triage_writes_file else SaveArchitecture.INLINE


class BlindSpot(StrEnum):
    """A case in which the plugin reports less than its files show."""

    EMPTY_PENDING = "empty_pending"  # R004-07: no category is named, so nothing is reported
    ANY_RESULT = "any_result"
    """R004-08: any result file, stale, torn or another project's, hides an orphan once."""
    MISSING_DATA = "missing_data"  # it looks for triage data, and there is none
    ALL_IS_ONE = "all_is_one"  # R004-06: `["all"]` is counted as one category; it is six


BLIND_SPOT_TEXTS = {
    BlindSpot.EMPTY_PENDING: "the plugin reports nothing: it counts an empty list of categories",
    BlindSpot.ANY_RESULT: "the plugin reports nothing this time: the result file of another save"
    " hides it",
    BlindSpot.MISSING_DATA: "the plugin reports nothing: it looks for the triage data alone",
    BlindSpot.ALL_IS_ONE: 'the plugin says 1 category: it counts ["all"] as one',
}


class PluginMessage(msgspec.Struct, frozen=True):
    text: str | None
    blind_spots: tuple[BlindSpot, ...] = ()


ORPHAN_MESSAGE = "Previous session may have crashed during save. Use /memory:save to retry."


def next_plugin_message(flow: ProjectSaveFiles, status: SaveStatus) -> PluginMessage:
    """Predict the plugin's message at the next prompt (004-58, 004-60, 004-63)."""
    if flow.pending:
        return _pending_message(content_of(flow.pending).categories or ())
    if status.state is SaveState.ORPHANED and flow.triage is None:
        return PluginMessage(None, (BlindSpot.MISSING_DATA,))
    if status.state is SaveState.ORPHANED:
        in_sight = [file for file in (flow.result, *flow.invalid, *flow.other_results) if file]
        own = flow.result if flow.result and ends_current_save(flow.result, flow) else None
        if any(
            file.kind is SaveFileKind.RESULT and not (own and file.path == own.path)
            for file in in_sight
        ):
            return PluginMessage(None, (BlindSpot.ANY_RESULT,))
        return PluginMessage(ORPHAN_MESSAGE)
    if flow.result and status.source_file == flow.result:
        content = content_of(flow.result)
        saved = f"Memories saved ({', '.join(content.categories or ())})"
        return PluginMessage(f"{saved}: {', '.join(content.titles or ())}")
    return PluginMessage(None)


def _pending_message(categories: tuple[str, ...]) -> PluginMessage:
    if not categories:
        return PluginMessage(None, (BlindSpot.EMPTY_PENDING,))
    is_all = [name.lower() for name in categories] == [ALL_CATEGORIES]
    count = "1 category" if len(categories) == 1 else f"{len(categories)} categories"
    text = (
        f"Pending memory save: {count} from last session. Run /memory:save to re-triage and save."
    )
    return PluginMessage(text, (BlindSpot.ALL_IS_ONE,) if is_all else ())
