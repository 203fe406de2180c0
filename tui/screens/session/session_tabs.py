"""What each tab of a session's page lists, shows beside the list, and copies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from rich.cells import cell_len
from textual.content import Content

from ....core.measure.composition import Composition
from ....core.measure.forecast import Forecast
from ....core.model.context import ContextState
from ....core.model.session import Session
from ....core.transcript.sanitize import one_line
from ...text.compaction_text import forgotten_prompt
from ...text.formats import (
    NOTHING,
    date_time_and_age,
    duration,
    fit_left,
    fit_right,
    model_name,
    percent,
    shorten_middle,
    tokens,
    tokens_of_window,
    turns_left,
)
from ...text.gauge import LEVEL_STYLES, gauge
from ...text.session_text import cache_texts, cost_texts, doing_age, doing_text
from ...text.text_lines import SessionTab, heading, join_lines, quiet
from ...widgets.row_list import Listing, Row
from .compaction_rows import compaction_detail, compactions_listing, find_compaction
from .context_breakdown import (
    categories_listing,
    category_detail,
    find_item,
    items_listing,
    source_detail,
    sources_listing,
)

if TYPE_CHECKING:
    from ....core.measure.timeline import TimelineTurn
    from ....core.store.warning_log import ContextWarning
    from .session_details import SessionDetails, TurnDetails


LABEL_CELLS: Final = 16
LEVEL_CELLS: Final = 12
ACTIVITY_CELLS: Final = 80
REACHED_CELLS: Final = 22
RATIO_CELLS: Final = 9
TOKENS_FROM_CELLS: Final = 60  # cells from which the tokens stand beside the ratio
AGE_CELLS: Final = 12

NO_WARNINGS: Final = (
    "No level was reached yet. The lines in the timeline show where they are; P shows the policy."
)


def warnings_listing(found: Sequence[ContextWarning], width: int, now_ms: int) -> Listing:
    """List what was reached, the newest first."""
    rows = tuple(Row(str(one.log_id), _warning_line(one, width, now_ms)) for one in reversed(found))
    standing = sum(1 for one in found if one.warning.cleared_by is None)
    head = quiet(f"{len(rows)} reached, {standing} standing; ⏎ goes to the turn")
    return Listing(rows, head, NO_WARNINGS)


def find_warning(found: Sequence[ContextWarning], key: str) -> ContextWarning | None:
    return next((one for one in found if str(one.log_id) == key), None)


def warning_detail(one: ContextWarning, now_ms: int) -> Content:
    warning = one.warning
    style = LEVEL_STYLES[warning.level]
    ended = "it stands"
    if warning.cleared_by is not None:
        ended = f"cleared {date_time_and_age(warning.cleared_at, now_ms)}"
    return join_lines(
        Content.styled(f"▲ {warning.level.value}", f"bold {style}"),
        Content(f"begins at {percent(warning.threshold)} of the window"),
        Content(f"reached with {tokens(warning.point.tokens)} tokens, {percent(warning.ratio)}"),
        quiet(f"reached {date_time_and_age(warning.at, now_ms)}"),
        quiet(ended),
        Content(""),
        quiet("It is said once, and again after a compaction or when the fill fell well below it."),
    )


def info_listing(session: Session, width: int, now_ms: int) -> Listing:
    facts = session_facts(session, now_ms)
    rows = tuple(
        Row(
            label,
            Content.assemble(
                (fit_left(label, LABEL_CELLS), "$quiet"),
                (shorten_middle(value, max(1, width - LABEL_CELLS)), style),
            ),
        )
        for label, value, style in facts
    )
    return Listing(rows, quiet("y copies the marked one"), "nothing is known yet")


def info_value(session: Session, key: str, now_ms: int) -> str:
    """Return the full value of a row, empty if `key` is unknown."""
    return next((value for label, value, _ in session_facts(session, now_ms) if label == key), "")


def info_detail(session: Session, key: str, now_ms: int) -> Content:
    return join_lines(heading(key), Content(info_value(session, key, now_ms)))


def session_facts(session: Session, now_ms: int) -> list[tuple[str, str, str]]:
    """Name what is known: label, value, style."""
    found = [
        ("title", one_line(session.title)),
        ("id", session.session_id),
        ("project", one_line(session.cwd or session.project)),
        ("model", one_line(f"{model_name(session.model)}  ({session.model or NOTHING})")),
        ("client", one_line(session.client_version or NOTHING)),
        ("status", status_text(session)),
        *_activity(session, now_ms),
        *outlook_texts(session),
        ("started", date_time_and_age(session.started_at, now_ms)),
        ("last activity", date_time_and_age(session.last_activity_at, now_ms)),
        ("agents", _agents_text(session)),
        ("compactions", str(session.compactions)),
        ("transcript", one_line(session.path)),
    ]
    if session.forked_from:
        found.append(("forked from", session.forked_from))
    facts = [(label, value, "$foreground") for label, value in found]
    if session.refusal:
        facts.insert(0, ("last refusal", one_line(session.refusal), "$level-emergency"))
    return facts


def _activity(session: Session, now_ms: int) -> Iterator[tuple[str, str]]:
    if session.live and session.activity is not None:
        yield "does", f"{doing_text(session, ACTIVITY_CELLS)}, for {doing_age(session, now_ms)}"
    # Each is a list of the same words from long to short.
    for label, words in (
        ("cache", cache_texts(session, now_ms)),
        ("cost", cost_texts(session.cost)),
    ):
        if words:
            yield label, words[0]


def status_text(session: Session) -> str:
    """Return the status, and the tmux pane if there is one."""
    where = f" in tmux {session.tmux}" if session.tmux else ""
    return f"{session.status.value.replace('_', ' ')}{where}"


def outlook_texts(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the turns left until compaction and until the next level, each with a label."""
    end, ahead = session.outlook.end, session.outlook.next_threshold
    trigger = session.context.trigger
    if end:
        where = "compaction" if trigger and trigger.tokens else "the window's end"
        yield "turns left", f"{_turns_left(end)} to {where}"
    if ahead and ahead.forecast:
        at = f"{ahead.level.value} at {percent(ahead.threshold)}"
        yield "next level", f"{_turns_left(ahead.forecast)} to {at}"


def _turns_left(forecast: Forecast) -> str:
    turns, minutes = forecast.turns, forecast.minutes
    work = f", ≈ {duration(round(minutes.p50 * 60_000))} of work" if minutes else ""
    return f"{turns_left(forecast)}, as likely under as over {turns.p50:,.0f}{work}"


def _agents_text(session: Session) -> str:
    failed = session.agents_noncompliant
    return f"{session.agents}, {failed} not compliant" if failed else str(session.agents)


def _warning_line(one: ContextWarning, width: int, now_ms: int) -> Content:
    warning = one.warning
    style = LEVEL_STYLES[warning.level]
    stands = warning.cleared_by is None
    ended = "stands" if stands else f"cleared {_age_text(warning.cleared_at, now_ms)}"
    reached, cells = f"at {percent(warning.ratio)}", RATIO_CELLS
    if width >= TOKENS_FROM_CELLS:
        reached, cells = f"{reached} ({tokens(warning.point.tokens)})", REACHED_CELLS
    room = max(0, width - 2 - LEVEL_CELLS - cells - AGE_CELLS)
    return Content.assemble(
        ("▲ ", style),
        (fit_left(warning.level.value, LEVEL_CELLS), f"bold {style}" if stands else style),
        (fit_left(reached, cells), "$foreground"),
        (fit_left(ended, room), "$quiet"),
        (fit_right(_age_text(warning.at, now_ms), AGE_CELLS), "$quiet"),
    )


def _age_text(at: int | None, now_ms: int) -> str:
    return NOTHING if at is None else f"{duration(now_ms - at)} ago"


READING_TRANSCRIPT: Final = "its transcript is being read …"


@dataclass(frozen=True, slots=True)
class SessionTabData:
    """All that the parts are made of."""

    session: Session
    details: SessionDetails
    moment: TurnDetails | None  # none while it is looked up
    is_past: bool
    now_ms: int

    @property
    def composition(self) -> Composition | None:
        """What fills the context; None where that is not known."""
        return self.moment.composition if self.moment else None


def tab_title(part: SessionTab, shown: SessionTabData) -> str:
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


MIN_HEADER_BAR: Final = 20  # cells of the bar


HEADER_TEXT_CELLS: Final = 76  # cells beside it, about


MAX_HEADER_BAR: Final = 60


HEADER_DOING_CELLS: Final = 30  # cells of what it does


HEADER_SEPARATOR: Final = "  ·  "


def session_header(session: Session, past: TimelineTurn | None, width: int, now_ms: int) -> Content:
    """Draw the gauge as it is, or as it was at a turn, and say what lies ahead."""
    context = session.context
    if past is not None:
        context = replace(context, tokens=past.tokens, state=ContextState.MEASURED)
    cells = min(MAX_HEADER_BAR, max(MIN_HEADER_BAR, width - HEADER_TEXT_CELLS))
    drawn = Content.assemble(" ", gauge(context, cells))
    if drawn.cell_length + 2 + cell_len(tokens_of_window(context)) <= width:
        drawn = Content.assemble(drawn, "  ", (tokens_of_window(context), "bold"))
    for said in _past_facts(session) if past is not None else _current_facts(session, now_ms):
        if drawn.cell_length + len(HEADER_SEPARATOR) + cell_len(said) <= width:
            drawn = Content.assemble(drawn, (HEADER_SEPARATOR, "$bar-mark"), (said, "$quiet"))
    return drawn


def _past_facts(session: Session) -> list[str]:
    return [f"as it was; now {percent(session.context.ratio)}", "end goes to now"]


def _current_facts(session: Session, now_ms: int) -> list[str]:
    end, trigger = session.outlook.end, session.context.trigger
    said = []
    if end:
        where = "compaction" if trigger and trigger.tokens else "the end"
        said.append(f"{turns_left(end)} turns to {where}")
    elif trigger and trigger.tokens:
        said.append(f"compacts at {tokens(trigger.tokens)}")
    said.append(doing_text(session, HEADER_DOING_CELLS))
    said += cache_texts(session, now_ms)[:1]
    said += cost_texts(session.cost)[:1]
    return [*said, one_line(model_name(session.model))]
