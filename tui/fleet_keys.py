"""The keys of the fleet, beside those that arrange its list."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding

FLEET_KEYS: Final = (
    Binding(
        "c",
        "app.go('compact')",
        "Compact",
        tooltip="plan how to make this session smaller",
        id="compact",
    ),
    Binding(
        "slash",
        "filter",
        "Filter",
        key_display="/",
        tooltip="filter sessions; in the summaries: search all",
        id="filter",
    ),
    Binding(
        "p",
        "pause",
        "Pause",
        show=False,
        tooltip="stand still, or go on; nothing is missed",
        id="pause",
    ),
    Binding(
        "y",
        "copy",
        "Copy",
        show=False,
        tooltip="copy: ids of sessions, a result, a summary",
        id="copy",
    ),
    Binding("z", "zoom", "Zoom", show=False, tooltip="this pane alone, or all", id="zoom"),
    Binding("1", "pane('sessions')", "Sessions", show=False, tooltip="sessions", id="pane_1"),
    Binding("2", "pane('agents')", "Agents", show=False, tooltip="agents", id="pane_2"),
    Binding("3", "pane('summaries')", "Summaries", show=False, tooltip="summaries", id="pane_3"),
    Binding("4", "pane('fills')", "Fills", show=False, tooltip="what fills it", id="pane_4"),
    Binding("u", "app.undo", "Undo", tooltip="take back what was done last", id="undo"),
    Binding(
        "escape",
        "back",
        "Back",
        show=False,
        key_display="Esc",
        tooltip="back: zoom, filter, marks, then to the sessions",
        id="back",
    ),
)
