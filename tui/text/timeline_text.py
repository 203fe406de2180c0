"""A timeline in words: the turn under the cursor, what happened at it, all events as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from textual.content import Content

from ...core.measure.timeline import Timeline, TimelineCompaction, TimelineEvent, TimelineEventKind
from ...core.transcript.sanitize import one_line
from ..widgets.timeline_picture import COMPACTION_SIGN, MARK_SIGNS
from .formats import NOTHING, model_name, month_day_time, percent, time_of_day, tokens, tokens_after
from .gauge import LEVEL_STYLES
from .text_lines import quiet

MAX_CALLS: Final = 4  # of an answer; the rest is a number
DROP_ORDER: Final = (4, 1, 3)
"""Places of a turn's words that go where there is no room: model, time, growth."""

SEPARATOR: Final = ("  ·  ", "$bar-mark")

_EVENT_TEXTS: Final = {
    TimelineEventKind.STARTED: "started",
    TimelineEventKind.RETURNED: "returned",
    TimelineEventKind.FAILED: "failed or did not compress",
    TimelineEventKind.WARNING: "reached",
    TimelineEventKind.REFUSAL: "refused:",
    TimelineEventKind.MODEL: "answers from here on:",
    TimelineEventKind.CLEARED: "the client cleared",
}


def turn_line(timeline: Timeline, turn: int | None, width: int) -> Content:
    """Write a turn's numbers, as many as fit and none cut; None: the newest."""
    place = len(timeline.turns) - 1 if turn is None else turn
    seen = timeline.turns[place]
    level = timeline.level(place)
    grown = timeline.growth(place)
    total = len(timeline.turns) - timeline.ends_with_current
    rests = timeline.ends_with_current and place == total
    where = f"now: turn {total:,}" if turn is None else f"turn {place + 1:,} of {total:,}"
    if rests:
        compacted = bool(timeline.compactions) and timeline.compactions[-1].turns_before == total
        where = f"now: {'compacted ' if compacted else ''}after turn {total:,}"
    parts: list[Content | None] = [
        Content.styled(where, "bold"),
        Content(month_day_time(seen.at) or NOTHING),
        Content.styled(
            f"{'≈' if seen.is_estimate else ''}{seen.tokens:,} tokens"
            f"  {percent(timeline.ratio(place))}"
            f"{f' {level.value}' if level else ''}",
            f"bold {LEVEL_STYLES[level]}",
        ),
        Content("the next answer measures it" if rests else _growth_text(grown)),
        Content(one_line(model_name(seen.model))),
    ]
    for spare in DROP_ORDER:
        line = Content.assemble(*_separated([part for part in parts if part is not None]))
        if line.cell_length <= width:
            break
        parts[spare] = None
    return Content.assemble(*_separated([part for part in parts if part is not None]))


def turn_events_line(timeline: Timeline, turn: int | None, calls: Sequence[str] | None) -> Content:
    """Write what an answer called and what happened at it; `calls` None: not known yet."""
    place = len(timeline.turns) - 1 if turn is None else turn
    turn_at = timeline.turns[place].at
    parts: list[Content] = []
    parts += [
        Content.styled(f"{COMPACTION_SIGN} {compaction_event_text(cut)}", "$accent")
        + _time_if_later(cut.at, turn_at)
        for cut in timeline.compactions
        if cut.turns_before == place
    ]
    parts += [
        _mark_content(mark) + _time_if_later(mark.at, turn_at) for mark in timeline.events_at(place)
    ]
    if timeline.ends_with_current and turn is None:
        calls = None
    if calls:
        shown = [one_line(call) for call in calls[:MAX_CALLS]]
        more = f" +{len(calls) - MAX_CALLS}" if len(calls) > MAX_CALLS else ""
        parts.append(quiet("called ") + Content(f"{', '.join(shown)}{more}"))
    elif calls is None and timeline.turns[place].tool_calls:
        number = timeline.turns[place].tool_calls
        parts.append(quiet(f"called {number} {'tool' if number == 1 else 'tools'}"))
    if not parts:
        parts.append(quiet("no tool was called"))
    return Content.assemble(*_separated(parts))


def compaction_event_text(cut: TimelineCompaction) -> str:
    """Format how a compaction changed the context, measured at the turn after it."""
    after = tokens_after(cut.next_tokens, cut.next_estimate)
    sizes = f"{tokens(cut.pre_tokens)} → {after}"
    return f"compacted before ({one_line(cut.trigger or '?')}): {sizes}"


def _time_if_later(at: int | None, turn_at: int | None) -> Content:
    """Write when something happened, unless it was in the minute that the turn is shown with."""
    if at is None or month_day_time(at) == month_day_time(turn_at):
        return Content("")
    same_day = (
        month_day_time(at).split()[0] == month_day_time(turn_at).split()[0]
        if turn_at is not None
        else False
    )
    return quiet(f" {time_of_day(at) if same_day else month_day_time(at)}")


def _mark_content(mark: TimelineEvent) -> Content:
    sign, style = MARK_SIGNS[mark.kind]
    if mark.level:
        style = LEVEL_STYLES[mark.level]
    return Content.styled(f"{sign} ", style) + Content(mark_text(mark))


def mark_text(mark: TimelineEvent) -> str:
    what = one_line(model_name(mark.what) if mark.kind is TimelineEventKind.MODEL else mark.what)
    said = _EVENT_TEXTS[mark.kind]
    before = mark.kind in {
        TimelineEventKind.STARTED,
        TimelineEventKind.RETURNED,
        TimelineEventKind.FAILED,
    }
    return f"{what} {said}" if before else f"{said} {what}"


def _growth_text(grown: int | None) -> str:
    if grown is None:
        return "the first"
    return f"{'+' if grown >= 0 else '−'}{abs(grown):,} by this turn"


def _separated(parts: Sequence[Content]) -> Iterator[Content | tuple[str, str]]:
    for number, part in enumerate(parts):
        if number:
            yield SEPARATOR
        yield part


def timeline_events(timeline: Timeline) -> list[list[str]]:
    """List compactions and marks with their turns, and first and last: turn, time, size, what.

    The time is the event's own, which may be long after its turn began; empty where unknown.
    """
    turns = timeline.turns
    last = len(turns) - 1
    found = [(0, 0, turns[0].at, f"begins with {model_name(turns[0].model)}")]
    found += [
        (min(cut.turns_before, last), 1, cut.at, f"{COMPACTION_SIGN} {compaction_event_text(cut)}")
        for cut in timeline.compactions
    ]
    found += [
        (mark.turn, 2, mark.at, f"{MARK_SIGNS[mark.kind][0]} {mark_text(mark)}")
        for mark in timeline.events
    ]
    found.append((last, 3, turns[last].at, "now"))
    return [
        [
            f"{turn + 1:,}",
            month_day_time(at),
            tokens(turns[turn].tokens),
            percent(timeline.ratio(turn)),
            words,
        ]
        for turn, _, at, words in sorted(found, key=lambda each: each[:2])
    ]
