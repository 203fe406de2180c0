"""What the plugin tells its user of a save, and the three cases in which that is not so."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from .categories import ALL
from .flow import says
from .states import SaveState, belongs

if TYPE_CHECKING:
    from .flow import Flow
    from .states import Standing


class BlindSpot(StrEnum):
    """A case in which the plugin says less than its files do."""

    EMPTY_PENDING = "empty_pending"
    """R004-07: what is pending names no category, so neither it nor an orphan is told of."""
    ANY_RESULT = "any_result"
    """R004-08: any result file, stale, torn or another project's, hides an orphan once."""
    ALL_IS_ONE = "all_is_one"
    """R004-06: `["all"]` is counted as one category; it is six."""


WORDS = {
    BlindSpot.EMPTY_PENDING: "the plugin says nothing: it counts an empty list of categories",
    BlindSpot.ANY_RESULT: "the plugin says nothing this once: a result file that is not this"
    " save's hides it",
    BlindSpot.ALL_IS_ONE: 'the plugin says 1 category: it counts ["all"] as one of them',
}


class PluginSays(msgspec.Struct, frozen=True):
    """The plugin's words at the next prompt, and where they fall short."""

    text: str | None
    blind_spots: tuple[BlindSpot, ...] = ()


def plugin_says(flow: Flow, status: Standing) -> PluginSays:
    """Say what the plugin will tell at the next prompt (004-58, 004-60, 004-63)."""
    if flow.pending:
        named = says(flow.pending).categories or ()
        if not named:
            return PluginSays(None, (BlindSpot.EMPTY_PENDING,))
        spots = (BlindSpot.ALL_IS_ONE,) if [each.lower() for each in named] == [ALL] else ()
        return PluginSays(_pending(len(named)), spots)
    if status.state is SaveState.ORPHANED:
        in_sight = [each for each in (flow.result, *flow.invalid, *flow.other_results) if each]
        if any(each.kind.value == "result" and not _is_end(flow, each.path) for each in in_sight):
            return PluginSays(None, (BlindSpot.ANY_RESULT,))
        return PluginSays(ORPHAN_WORDS)
    if flow.result and status.source_file == flow.result:
        content = says(flow.result)
        what = f"Memories saved ({', '.join(content.categories or ())})"
        return PluginSays(f"{what}: {', '.join(content.titles or ())}")
    return PluginSays(None)


ORPHAN_WORDS = "Previous session may have crashed during save. Use /memory:save to retry."


def _pending(count: int) -> str:
    what = "1 category" if count == 1 else f"{count} categories"
    return f"Pending memory save: {what} from last session. Run /memory:save to re-triage and save."


def _is_end(flow: Flow, path: str) -> bool:
    result = flow.result
    return result is not None and result.path == path and belongs(result, flow)
