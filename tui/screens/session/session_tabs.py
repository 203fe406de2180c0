"""The tabs of a session's page: what they read, list, show beside the list, and copy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len
from textual.content import Content

from ....core.archive.archive_mode import ArchiveMode
from ....core.measure.composition import CategoryShare, Composition, ContextItem
from ....core.measure.plan_limits import PlanLimit
from ....core.measure.prompt_cache.cache_ledger import CacheLedger, CacheMiss
from ....core.measure.retention import days_left
from ....core.model.context import ContextState
from ....core.model.outlook import Forecast
from ....core.model.session import Session
from ....core.store.warning_log import ContextWarning
from ....core.transcript.sanitize import one_line
from ...entities import context_breakdown
from ...entities.compactions import ReportedCompaction, compaction_detail, compactions_listing
from ...entities.context_breakdown import NumberSource
from ...text import formats
from ...text.compaction_text import forgotten_prompt
from ...text.formats import NOTHING, duration, fit_left, fit_right, percent, shorten, tokens
from ...text.gauge import LEVEL_STYLES, gauge
from ...text.limits_report import session_binding
from ...text.limits_text import binding_text, client_facts
from ...text.listing import Listing, Row
from ...text.session_text import (
    LEVEL_PURPOSES,
    cache_texts,
    cost_texts,
    counting_texts,
    doing_age,
    doing_text,
    fork_text,
    rewrite_amounts,
    rewrite_size,
    unsaved_texts,
)
from ...text.text_lines import heading, join_lines, quiet
from ..session import cache_pane

if TYPE_CHECKING:
    from ....core.measure.evidence import AssessedClaim
    from ....core.measure.timeline import TimelineTurn
    from ....core.model.context_window import Trigger, Window
    from ....core.policy.resolve import Policies


class SessionTab(StrEnum):
    """A tab of the session page; its position is the key that opens it."""

    BREAKDOWN = "Context"
    ITEMS = "Items"
    COMPACTIONS = "Compactions"
    WARNINGS = "Warnings"
    SOURCES = "Sources"
    ABOUT = "About"
    CONVERSATION = "Conversation"
    CACHE = "Cache"


SHORT_TAB_NAMES: Final = (
    "Context",
    "Items",
    "Compact",
    "Warn",
    "Sources",
    "About",
    "Read",
    "Cache",
)
"""In narrow windows."""


class SessionDetails(msgspec.Struct, frozen=True):
    """What the store has about a session beside its row in the fleet."""

    compactions: tuple[ReportedCompaction, ...] = ()  # newest first
    warnings: tuple[ContextWarning, ...] = ()  # oldest first
    reasons: tuple[AssessedClaim, ...] = ()  # every claim of its window and its trigger
    resolved: tuple[Window, Trigger | None] | None = None  # what the claims led to


def read_session_details(
    db: sqlite3.Connection,
    session: Session,
    policies: Policies,
    previous: SessionDetails | None = None,
) -> SessionDetails:
    """Read the details; the claims of `previous` are reused if they led to the same window."""
    from ....core.readers.fleet_reader import read_assessed_claims
    from ....core.store.queries.agent_queries import answer_items
    from ....core.store.queries.session_queries import compactions
    from ....core.store.warning_log import context_warnings
    from ....core.summaries.compaction_report import decode_report, steering_outcomes

    resolved = (session.context.window, session.context.trigger)
    # Reading the claims queries the whole store.
    if previous is not None and previous.resolved == resolved:
        reasons = previous.reasons
    else:
        reasons = read_assessed_claims(db, session.session_id, policies)
    rows = [(row, decode_report(row.report)) for row in compactions(db, session.session_id)]
    steering = steering_outcomes(rows, answer_items(db, "steer", session.session_id))
    details = (
        ReportedCompaction(*row, outcomes, policies.common.target_reduction)
        for row, outcomes in zip(rows, steering, strict=True)
    )
    warnings = context_warnings(db, session.session_id)
    return SessionDetails(tuple(details), tuple(warnings), reasons, resolved)


MAX_ITEMS: Final = 200  # the largest of a context: more than anybody looks through


@dataclass(frozen=True, slots=True)
class TurnDetails:
    """What the transcript has about a turn."""

    composition: Composition | None = None  # none if it cannot be read
    calls: tuple[str, ...] = ()
    problem: str = ""  # why it cannot be read


def read_turn_details(
    db: sqlite3.Connection,
    projects: Path,
    session: Session,
    newest: TimelineTurn | None,
    past: TimelineTurn | None,
    warn_result_chars: int,
) -> TurnDetails:
    """Read the composition and the tool calls as of turn `past`; None reads the current ones."""
    from ....collectors.claude_code.transcript_details import (
        TranscriptUnavailableError,
        read_composition,
        read_tool_calls,
    )

    turn, until = past or newest, past.last_offset if past else None
    try:
        composition = read_composition(
            db,
            projects,
            session.session_id,
            counting=session.context.counting,
            until_offset=until,
            max_items=MAX_ITEMS,
            warn_result_chars=warn_result_chars,
        )
        calls = read_tool_calls(db, projects, session.session_id, turn) if turn else ()
    except TranscriptUnavailableError as error:
        return TurnDetails(problem=str(error))
    return TurnDetails(composition, calls)


def read_item_text(db: sqlite3.Connection, projects: Path, session_id: str, line: int) -> str:
    """Read the beginning of an item; returns why if it cannot be read."""
    from ....collectors.claude_code.transcript_details import (
        TranscriptUnavailableError,
        read_line_text,
    )

    try:
        return read_line_text(db, projects, session_id, line)
    except TranscriptUnavailableError as error:
        return str(error)


LEVEL_CELLS: Final = 12
REACHED_CELLS: Final = 22
RATIO_CELLS: Final = 9
TOKENS_FROM_CELLS: Final = 60  # cells from which tokens are shown beside the ratio
AGE_CELLS: Final = 12

NO_WARNINGS: Final = (
    "No warnings yet. The lines in the timeline show the thresholds; P shows the settings."
)


def _warnings_listing(warnings: Sequence[ContextWarning], width: int, now_ms: int) -> Listing:
    rows = tuple(
        Row(str(each.log_id), _warning_line(each, width, now_ms), each)
        for each in reversed(warnings)
    )
    active = sum(each.warning.cleared_by is None for each in warnings)
    of_limit = "; % of the limit" if any(each.warning.limit_tokens for each in warnings) else ""
    head = quiet(f"{len(rows)} reached, {active} active{of_limit}; ⏎ goes to the turn")
    return Listing(rows, head, NO_WARNINGS)


def _warning_line(found: ContextWarning, width: int, now_ms: int) -> Content:
    warning = found.warning
    style = LEVEL_STYLES[warning.level]
    is_active = warning.cleared_by is None
    end = "active" if is_active else f"cleared {_age_text(warning.cleared_at, now_ms)}"
    reached, cells = f"at {percent(warning.limit_ratio)}", RATIO_CELLS
    if width >= TOKENS_FROM_CELLS:
        reached, cells = f"{reached} ({tokens(warning.point.tokens)})", REACHED_CELLS
    room = max(0, width - 2 - LEVEL_CELLS - cells - AGE_CELLS)
    return Content.assemble(
        ("▲ ", style),
        (fit_left(warning.level.value, LEVEL_CELLS), f"bold {style}" if is_active else style),
        (fit_left(reached, cells), "$foreground"),
        (fit_left(end, room), "$quiet"),
        (fit_right(_age_text(warning.at, now_ms), AGE_CELLS), "$quiet"),
    )


def _warning_detail(found: ContextWarning, now_ms: int) -> Content:
    warning = found.warning
    end = "still active"
    if warning.cleared_by is not None:
        end = f"cleared {formats.date_time_and_age(warning.cleared_at, now_ms)}"
    return join_lines(
        Content.styled(f"▲ {warning.level.value}", f"bold {LEVEL_STYLES[warning.level]}"),
        Content(LEVEL_PURPOSES[warning.level.severity]),
        Content(f"begins at {formats.threshold_text(warning)}"),
        Content(
            f"reached with {tokens(warning.point.tokens)} tokens, {formats.fill_text(warning)}"
        ),
        quiet(f"reached {formats.date_time_and_age(warning.at, now_ms)}"),
        quiet(end),
        Content(""),
        quiet(
            "It is reported once, and again after a compaction or once "
            "the context has fallen well below."
        ),
    )


def _age_text(at: int | None, now_ms: int) -> str:
    return NOTHING if at is None else f"{duration(now_ms - at)} ago"


LABEL_CELLS: Final = 16
ACTIVITY_CELLS: Final = 80


def _about_listing(data: SessionTabData, width: int) -> Listing:
    rows = []
    for label, value in session_facts(data.session, data.now_ms, data.limits).items():
        style = "$level-emergency" if label == LAST_REFUSAL else "$foreground"
        shown = shorten(value, max(1, width - LABEL_CELLS))
        line = Content.assemble((fit_left(label, LABEL_CELLS), "$quiet"), (shown, style))
        rows.append(Row(label, line, (label, value)))
    return Listing(tuple(rows), quiet("y copies the selected one"), "nothing is known yet")


LAST_REFUSAL: Final = "last refusal"


def session_facts(
    session: Session, now_ms: int, limits: Sequence[PlanLimit] = ()
) -> dict[str, str]:
    """Return the values that the About tab lists, by label."""
    failed = session.agents_noncompliant
    facts = {LAST_REFUSAL: one_line(session.refusal)} if session.refusal else {}
    facts |= {
        "title": one_line(session.title),
        "id": session.session_id,
        "project": one_line(session.cwd or session.project),
        "model": one_line(f"{formats.model_name(session.model)}  ({session.model or NOTHING})"),
        "client": one_line(session.client_version or NOTHING),
        "status": session.status.value.replace("_", " ")
        + (f" in tmux {session.tmux}" if session.tmux else ""),
        **dict(_activity_facts(session, now_ms)),
        **dict(_outlook_facts(session)),
        **dict(_binding_facts(session, limits, now_ms)),
        "started": formats.date_time_and_age(session.started_at, now_ms),
        "last activity": formats.date_time_and_age(session.last_activity_at, now_ms),
        "agents": f"{session.agents}, {failed} noncompliant" if failed else str(session.agents),
        "compactions": str(session.compactions),
        "transcript": one_line(session.path),
        **dict(_retention_facts(session, now_ms)),
    }
    if session.forked_from:
        facts["forked from"] = f"{session.forked_from}  ({fork_text(session)})"
    if session.recovered_in:
        facts["recovered in"] = session.recovered_in
    return facts


def _activity_facts(session: Session, now_ms: int) -> Iterator[tuple[str, str]]:
    if texts := unsaved_texts(session, now_ms):
        yield "saving", texts[0]
    if session.live and session.activity is not None:
        yield "does", f"{doing_text(session, ACTIVITY_CELLS)}, for {doing_age(session, now_ms)}"
    if texts := cache_texts(session, now_ms):
        yield "cache", texts[0]
        prompt = session.cold_prompt(now_ms)
        if prompt.tokens:
            amounts = rewrite_amounts(session, prompt)[:1]
            prices = "".join(f", {each} to write again once cold" for each in amounts)
            yield "cached", f"{rewrite_size(prompt)} tokens{prices}"
    if texts := cost_texts(session.cost):
        yield "cost", texts[0]
    if session.client is not None:
        yield from client_facts(session.client)


def _retention_facts(session: Session, now_ms: int) -> Iterator[tuple[str, str]]:
    days = days_left(session.deleted_at, now_ms)
    if days is not None:
        date = formats.date_time(session.deleted_at)
        yield "deleted", f"{date} by Claude Code, in {formats.plural(days, 'day')}"
    if session.archived == ArchiveMode.ALL:
        yield "archived", "whole: e restores it"
    elif session.archived:
        yield "archived", "only its summaries: the conversation was not kept"


def _outlook_facts(session: Session) -> Iterator[tuple[str, str]]:
    end, threshold = session.outlook.end, session.outlook.next_threshold
    trigger = session.context.trigger
    if trigger and trigger.is_passed:
        yield "auto-compact", one_line(trigger.why)
    if end:
        where = "compaction" if trigger and trigger.tokens else "the window's end"
        yield "turns left", f"{_turns_left(end)} to {where}"
    if threshold and threshold.forecast:
        at = f"{threshold.level.value} at {percent(threshold.threshold)}"
        yield "next level", f"{_turns_left(threshold.forecast)} to {at}"


def _binding_facts(
    session: Session, limits: Sequence[PlanLimit], now_ms: int
) -> Iterator[tuple[str, str]]:
    """Yield what is reached first, where there are limits beside the context."""
    if limits and (text := binding_text(session_binding(limits, session, now_ms), now_ms)):
        yield "reached first", text


def _turns_left(forecast: Forecast) -> str:
    turns, minutes = forecast.turns, forecast.minutes
    left = formats.turns_left(forecast)
    if turns.is_open:
        least = f", {duration(round(minutes.low * 60_000))} of work or more" if minutes else ""
        return f"{left}{least}"
    work = f", ≈ {duration(round(minutes.p50 * 60_000))} of work" if minutes else ""
    return f"{left}, median {turns.p50:,.0f}{work}"


READING_TRANSCRIPT: Final = "reading the transcript …"
CONVERSATION_NOTE: Final = (
    "it is read from the transcript piece by piece"  # and shown by its own pane
)


@dataclass(frozen=True, slots=True)
class SessionTabData:
    session: Session
    details: SessionDetails
    turn: TurnDetails | None  # none while it is looked up
    is_past: bool
    now_ms: int
    ledger: CacheLedger | None = None  # none while it is read
    limits: tuple[PlanLimit, ...] = ()  # of the plan

    @property
    def composition(self) -> Composition | None:
        return self.turn.composition if self.turn else None


def tab_title(tab: SessionTab, data: SessionTabData) -> str:
    then = " then" if data.is_past else ""
    return {
        SessionTab.BREAKDOWN: "Breakdown at this turn" if data.is_past else "Breakdown",
        SessionTab.ITEMS: f"The largest items{then}",
        SessionTab.COMPACTIONS: "Compactions",
        SessionTab.WARNINGS: "Warnings",
        SessionTab.SOURCES: "Sources",
        SessionTab.ABOUT: "The session",
        SessionTab.CONVERSATION: "Conversation",
        SessionTab.CACHE: "Prompt cache",
    }[tab]


def tab_names(data: SessionTabData) -> list[str]:
    """Return the names of the tabs, with the number of compactions and active warnings."""
    active = sum(each.warning.cleared_by is None for each in data.details.warnings)
    counts = {SessionTab.COMPACTIONS: len(data.details.compactions), SessionTab.WARNINGS: active}
    return [f"{tab} {counts[tab]}" if counts.get(tab) else str(tab) for tab in SessionTab]


def tab_listing(tab: SessionTab, data: SessionTabData, width: int) -> Listing:
    session, details, now_ms = data.session, data.details, data.now_ms
    if tab in {SessionTab.BREAKDOWN, SessionTab.ITEMS}:
        if data.composition is None:
            why = one_line(data.turn.problem) if data.turn else READING_TRANSCRIPT
            return Listing((), Content(""), why)
        if tab is SessionTab.BREAKDOWN:
            window = session.context.window.tokens
            return context_breakdown.categories_listing(data.composition, window, width)
        return context_breakdown.items_listing(data.composition, width)
    if tab is SessionTab.COMPACTIONS:
        return compactions_listing(details.compactions, width, now_ms)
    if tab is SessionTab.WARNINGS:
        return _warnings_listing(details.warnings, width, now_ms)
    if tab is SessionTab.CACHE:
        return cache_pane.ledger_listing(session, data.ledger, width, now_ms)
    if tab is SessionTab.CONVERSATION:
        return Listing((), Content(""), CONVERSATION_NOTE)
    if tab is SessionTab.SOURCES:
        return context_breakdown.sources_listing(
            session.context, details.reasons, width, session.spent_tokens
        )
    return _about_listing(data, width)


def row_detail(data: SessionTabData, item: object, width: int) -> Content:
    """Describe the item of a row; the page itself describes a ContextItem."""
    if isinstance(item, CategoryShare) and data.composition:
        window = data.session.context.window.tokens
        return context_breakdown.category_detail(data.composition, item, window, width)
    if isinstance(item, ReportedCompaction):
        return compaction_detail(item, width, data.now_ms)
    if isinstance(item, ContextWarning):
        return _warning_detail(item, data.now_ms)
    if isinstance(item, NumberSource):
        return context_breakdown.source_detail(item, data.details.reasons)
    if isinstance(item, (CacheMiss, cache_pane.LedgerSums)):
        return cache_pane.ledger_detail(item, width, data.now_ms)
    if isinstance(item, tuple):
        label, value = item
        return join_lines(heading(label), Content(value))
    return Content("")


def row_copy_text(item: object) -> tuple[str, str] | None:
    """Return the text to copy for an item and a name for it; None to copy the whole list."""
    if isinstance(item, ContextItem):
        return one_line(item.name), "the item's name"
    if isinstance(item, ReportedCompaction) and item.report:
        prompt = forgotten_prompt(item.report.forgotten)
        return (prompt, "what was lost, as a prompt") if prompt else None
    if isinstance(item, tuple):
        label, value = item
        return value, f"the {label}"
    return None


MIN_HEADER_BAR: Final = 20  # cells
MAX_HEADER_BAR: Final = 60  # cells
HEADER_TEXT_CELLS: Final = 76  # beside the bar, about
HEADER_DOING_CELLS: Final = 30
HEADER_SEPARATOR: Final = "  ·  "


def session_header(session: Session, past: TimelineTurn | None, width: int, now_ms: int) -> Content:
    """Draw the gauge, as it is or as it was at a turn, and the facts that fit beside it."""
    context = session.context
    if past is None:
        facts = _header_facts(session, now_ms)
    else:
        facts = [(f"as it was; now {percent(context.limit_ratio)}",), ("End returns to now",)]
        is_estimate = context.counting.counts_text
        state = ContextState.ESTIMATED if is_estimate else ContextState.MEASURED
        context = replace(context, tokens=past.tokens, state=state)
    cells = min(MAX_HEADER_BAR, max(MIN_HEADER_BAR, width - HEADER_TEXT_CELLS))
    header = Content.assemble(" ", gauge(context, cells))
    size = formats.tokens_of_window(context)
    if header.cell_length + 2 + cell_len(size) <= width:
        header = Content.assemble(header, "  ", (size, "bold"))
    for texts in facts:
        room = width - header.cell_length - len(HEADER_SEPARATOR)
        if fact := next((each for each in texts if cell_len(each) <= room), ""):
            header = Content.assemble(header, (HEADER_SEPARATOR, "$bar-mark"), (fact, "$quiet"))
    return header


def _header_facts(session: Session, now_ms: int) -> list[tuple[str, ...]]:
    """Return what the header shows where it fits, each from long to short."""
    end, trigger = session.outlook.end, session.context.trigger
    facts: list[tuple[str, ...]] = []
    if end and session.live:
        where = "compaction" if trigger and trigger.tokens else "the end"
        facts.append((f"{formats.turns_to_go(end)} to {where}",))
    elif trigger and trigger.tokens:
        facts.append((f"compacts at {tokens(trigger.tokens)}",))
    facts.append((doing_text(session, HEADER_DOING_CELLS),))
    if session.context.window.limit:
        facts.append((f"{percent(session.context.ratio)} of the window",))
    facts += [cache_texts(session, now_ms), cost_texts(session.cost)[:1]]
    facts += [(text,) for text in counting_texts(session)]
    return [*facts, (one_line(formats.model_name(session.model)),)]
