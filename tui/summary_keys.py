"""The keys of the summaries' page."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding

SUMMARY_KEYS: Final = (
    Binding(
        "slash",
        "filter",
        "Search",
        key_display="/",
        tooltip="search: words, phrases, -not, project: type: kind: since:",
        id="filter",
    ),
    Binding(
        "f",
        "chips",
        "Filter",
        tooltip="filter by kind, project, agent, time, session",
        id="filters",
    ),
    Binding("n", "hit(1)", "Next hit", show=False, tooltip="the next hit in the text", id="next"),
    Binding("N", "hit(-1)", "Hit before", show=False, tooltip="the hit before", id="before"),
    Binding(
        "equals_sign",
        "compare",
        "Compare",
        key_display="=",
        tooltip="compare the two that are marked",
        id="compare",
    ),
    Binding(
        "d",
        "replaced",
        "Replaced",
        tooltip="what it stands for, and what it leaves out",
        id="replaced",
    ),
    Binding("y", "copy", "Copy", show=False, tooltip="copy the text", id="copy"),
    Binding("x", "export", "Export", show=False, tooltip="export as Markdown", id="export"),
    Binding("z", "zoom", "Zoom", show=False, tooltip="this pane alone, or both again", id="zoom"),
    Binding("1", "pane('list')", "List", show=False, tooltip="the list", id="pane_1"),
    Binding("2", "pane('text')", "Text", show=False, tooltip="the text", id="pane_2"),
    Binding(
        "escape",
        "back",
        "Back",
        key_display="Esc",
        tooltip="back: zoom, search, filters, marks, then leave",
        id="back",
    ),
)
