"""What each part of a session's page lists, shows beside it, and gives to copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from .about_rows import (
    about_detail,
    about_listing,
    about_value,
    warning_detail,
    warning_of,
    warnings_listing,
)
from .compaction_rows import compaction_detail, compaction_of, compactions_listing
from .evidence_rows import evidence_detail, evidence_listing
from .fills_rows import fills_detail, fills_listing, item_of, items_listing
from .forgotten_prompt import forgotten_prompt
from .formats import one_line
from .sections import Listing, Section

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ..core.composition import Composition
    from ..core.sessions import Session
    from .moments import Moment
    from .session_known import Known

BEING_READ: Final = "its transcript is being read …"


@dataclass(frozen=True, slots=True)
class Shown:
    """All that the parts are made of."""

    session: Session
    details: Known
    moment: Moment | None
    """None while it is looked up."""
    is_past: bool
    now_ms: int

    @property
    def composition(self) -> Composition | None:
        """What fills the context; None where that is not known."""
        return self.moment.composition if self.moment else None


def title(part: Section, shown: Shown) -> str:
    """Name what is listed."""
    when = " then" if shown.is_past else ""
    names = {
        Section.BREAKDOWN: f"What filled it{when}" if shown.is_past else "What fills it",
        Section.ITEMS: f"The largest items{when}",
        Section.COMPACTIONS: "Compactions",
        Section.WARNINGS: "Warnings",
        Section.SOURCES: "Why ctxtop believes its numbers",
        Section.ABOUT: "The session",
    }
    return names[part]


def counts(shown: Shown) -> tuple[str, ...]:
    """Say how much each part holds; empty where that tells nothing."""
    standing = sum(1 for one in shown.details.warnings if one.warning.cleared_by is None)
    listed = (0, 0, len(shown.details.compactions), standing, 0, 0)
    return tuple(str(count) if count else "" for count in listed)


def listing(part: Section, shown: Shown, width: int) -> Listing:
    """List a part in lines of `width` cells."""
    if part in {Section.BREAKDOWN, Section.ITEMS}:
        found = shown.composition
        if found is None:
            why = one_line(shown.moment.problem) if shown.moment else BEING_READ
            return Listing((), Content(""), why)
        lay_out = fills_listing if part is Section.BREAKDOWN else items_listing
        return lay_out(found, width)
    if part is Section.COMPACTIONS:
        return compactions_listing(shown.details, width, shown.now_ms)
    if part is Section.WARNINGS:
        return warnings_listing(shown.details.warnings, width, shown.now_ms)
    if part is Section.SOURCES:
        return evidence_listing(shown.session.context, shown.details.reasons, width)
    return about_listing(shown.session, width, shown.now_ms)


def detail(part: Section, shown: Shown, key: str, width: int) -> Content:
    """Show of a row what its line has no room for; an item's text is looked up by the page."""
    found = shown.composition
    if part is Section.BREAKDOWN:
        return fills_detail(found, key, width) if found else Content("")
    if part is Section.COMPACTIONS:
        return compaction_detail(shown.details, key, width, shown.now_ms)
    if part is Section.WARNINGS:
        one = warning_of(shown.details.warnings, key)
        return warning_detail(one, shown.now_ms) if one else Content("")
    if part is Section.SOURCES:
        return evidence_detail(shown.session.context, shown.details.reasons, key)
    if part is Section.ABOUT:
        return about_detail(shown.session, key, shown.now_ms)
    return Content("")


def to_copy(part: Section, shown: Shown, key: str) -> tuple[str, str]:
    """Give what a row stands for, and what to call that."""
    if part is Section.ITEMS and shown.composition:
        item = item_of(shown.composition, key)
        return (one_line(item.name) if item else "", "the item's name")
    if part is Section.COMPACTIONS:
        found = compaction_of(shown.details, key)
        told = found[1] if found else None
        prompt = forgotten_prompt(told.forgotten) if told else ""
        if prompt:
            return prompt, "what was forgotten, as a prompt"
    if part is Section.ABOUT:
        return about_value(shown.session, key, shown.now_ms), f"the {key}"
    rows = listing(part, shown, 100).rows
    return "\n".join(row.content.plain.rstrip() for row in rows), "the list"


def text_of(db: sqlite3.Connection, projects: Path, session_id: str, line: int) -> str:
    """Read how an item begins, or say why that cannot be read."""
    from ..collectors.composing import NothingToComposeError
    from ..collectors.moments import read_line

    try:
        return read_line(db, projects, session_id, line)
    except NothingToComposeError as error:
        return str(error)
