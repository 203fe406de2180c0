"""What each tab of a session's page lists, shows beside the list, and copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ....core.transcript.sanitize import one_line
from ...text.compaction_text import forgotten_prompt
from ...text.listing import Listing, SessionTab
from .compaction_rows import compaction_detail, compactions_listing, find_compaction
from .context_breakdown import categories_listing, category_detail, find_item, items_listing
from .number_sources import source_detail, sources_listing
from .session_info import (
    find_warning,
    info_detail,
    info_listing,
    info_value,
    warning_detail,
    warnings_listing,
)

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ....core.measure.composition import Composition
    from ....core.model.session import Session
    from .session_details import SessionDetails, TurnDetails


READING_TRANSCRIPT: Final = "its transcript is being read …"


@dataclass(frozen=True, slots=True)
class SessionTabData:
    """All that the parts are made of."""

    session: Session
    details: SessionDetails
    moment: TurnDetails | None
    """None while it is looked up."""
    is_past: bool
    now_ms: int

    @property
    def composition(self) -> Composition | None:
        """What fills the context; None where that is not known."""
        return self.moment.composition if self.moment else None


def tab_title(part: SessionTab, shown: SessionTabData) -> str:
    """Name what is listed."""
    when = " then" if shown.is_past else ""
    names = {
        SessionTab.BREAKDOWN: f"What filled it{when}" if shown.is_past else "What fills it",
        SessionTab.ITEMS: f"The largest items{when}",
        SessionTab.COMPACTIONS: "Compactions",
        SessionTab.WARNINGS: "Warnings",
        SessionTab.SOURCES: "Why ctxtop believes its numbers",
        SessionTab.ABOUT: "The session",
    }
    return names[part]


def tab_counts(shown: SessionTabData) -> tuple[str, ...]:
    """Return the number of entries in each tab, empty where it is 0 or says nothing."""
    standing = sum(1 for one in shown.details.warnings if one.warning.cleared_by is None)
    listed = (0, 0, len(shown.details.compactions), standing, 0, 0)
    return tuple(str(count) if count else "" for count in listed)


def tab_listing(part: SessionTab, shown: SessionTabData, width: int) -> Listing:
    """List a part in lines of `width` cells."""
    if part in {SessionTab.BREAKDOWN, SessionTab.ITEMS}:
        found = shown.composition
        if found is None:
            why = one_line(shown.moment.problem) if shown.moment else READING_TRANSCRIPT
            return Listing((), Content(""), why)
        lay_out = categories_listing if part is SessionTab.BREAKDOWN else items_listing
        return lay_out(found, width)
    if part is SessionTab.COMPACTIONS:
        return compactions_listing(shown.details, width, shown.now_ms)
    if part is SessionTab.WARNINGS:
        return warnings_listing(shown.details.warnings, width, shown.now_ms)
    if part is SessionTab.SOURCES:
        return sources_listing(shown.session.context, shown.details.reasons, width)
    return info_listing(shown.session, width, shown.now_ms)


def tab_detail(part: SessionTab, shown: SessionTabData, key: str, width: int) -> Content:
    """Show of a row what its line has no room for; an item's text is looked up by the page."""
    found = shown.composition
    if part is SessionTab.BREAKDOWN:
        return category_detail(found, key, width) if found else Content("")
    if part is SessionTab.COMPACTIONS:
        return compaction_detail(shown.details, key, width, shown.now_ms)
    if part is SessionTab.WARNINGS:
        one = find_warning(shown.details.warnings, key)
        return warning_detail(one, shown.now_ms) if one else Content("")
    if part is SessionTab.SOURCES:
        return source_detail(shown.session.context, shown.details.reasons, key)
    if part is SessionTab.ABOUT:
        return info_detail(shown.session, key, shown.now_ms)
    return Content("")


def tab_copy_text(part: SessionTab, shown: SessionTabData, key: str) -> tuple[str, str]:
    """Return the text to copy for a row, and a name for that text."""
    if part is SessionTab.ITEMS and shown.composition:
        item = find_item(shown.composition, key)
        return (one_line(item.name) if item else "", "the item's name")
    if part is SessionTab.COMPACTIONS:
        found = find_compaction(shown.details, key)
        told = found[1] if found else None
        prompt = forgotten_prompt(told.forgotten) if told else ""
        if prompt:
            return prompt, "what was forgotten, as a prompt"
    if part is SessionTab.ABOUT:
        return info_value(shown.session, key, shown.now_ms), f"the {key}"
    rows = tab_listing(part, shown, 100).rows
    return "\n".join(row.content.plain.rstrip() for row in rows), "the list"


def read_item_text(db: sqlite3.Connection, projects: Path, session_id: str, line: int) -> str:
    """Read how an item begins, or say why that cannot be read."""
    from ....collectors.claude_code.transcript_details import (
        TranscriptUnavailableError,
        read_line_text,
    )

    try:
        return read_line_text(db, projects, session_id, line)
    except TranscriptUnavailableError as error:
        return str(error)
