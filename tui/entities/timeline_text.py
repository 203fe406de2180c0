"""A timeline in words: the turn under the cursor, what happened at it, all events as rows."""

from collections.abc import Sequence
from typing import Final

from textual.content import Content

from ...core.measure.timeline import Timeline, TimelineCompaction, TimelineEvent, TimelineEventKind
from ...core.transcript.sanitize import one_line
from ..text import formats
from ..text.gauge import LEVEL_STYLES
from ..text.text_lines import quiet
from .timeline_picture import COMPACTION_SIGN, MARK_SIGNS

SEPARATOR: Final = Content.styled("  ·  ", "$bar-mark")


def turn_line(timeline: Timeline, turn: int | None, width: int) -> Content:
    """Write a turn's numbers, as many as fit and none cut; None is the newest turn."""
    place = len(timeline.turns) - 1 if turn is None else turn
    shown, level = timeline.turns[place], timeline.level(place)
    size = f"{'≈' if shown.is_estimate else ''}{shown.tokens:,} tokens"
    share = formats.percent(timeline.limit_ratio(place))
    of_limit = " of the limit" if timeline.limit else ""
    size += f"  {share}{of_limit}{f' {level.value}' if level else ''}"
    parts = {
        "where": Content.styled(_turn_name(timeline, turn, place), "bold"),
        "time": Content(formats.month_day_time(shown.at) or formats.NOTHING),
        "size": Content.styled(size, f"bold {LEVEL_STYLES[level]}"),
        "growth": Content(_growth_text(timeline, place)),
        "model": Content(one_line(formats.model_name(shown.model))),
    }
    for spare in ("model", "time", "growth"):
        line = SEPARATOR.join(parts.values())
        if line.cell_length <= width:
            return line
        del parts[spare]
    return SEPARATOR.join(parts.values())


def _turn_name(timeline: Timeline, turn: int | None, place: int) -> str:
    total = len(timeline.turns) - timeline.ends_with_current
    if _is_current(timeline, place):
        compacted = bool(timeline.compactions) and timeline.compactions[-1].turns_before == total
        return f"now: {'compacted ' if compacted else ''}after turn {total:,}"
    return f"now: turn {total:,}" if turn is None else f"turn {place + 1:,} of {total:,}"


def _is_current(timeline: Timeline, place: int) -> bool:
    return timeline.ends_with_current and place == len(timeline.turns) - 1


def _growth_text(timeline: Timeline, place: int) -> str:
    if _is_current(timeline, place):
        return "measured by the next answer"
    grown = timeline.growth(place)
    if grown is None:
        return "the first"
    return f"{'+' if grown >= 0 else '−'}{abs(grown):,} by this turn"


MAX_CALLS: Final = 4  # of an answer; the others are counted


def turn_events_line(timeline: Timeline, turn: int | None, calls: Sequence[str] | None) -> Content:
    """Write what an answer called and what happened at it; `calls` None: not known yet."""
    place = len(timeline.turns) - 1 if turn is None else turn
    shown = timeline.turns[place]
    parts = [
        Content.styled(f"{COMPACTION_SIGN} {_compaction_text(cut)}", "$accent")
        + _time_if_later(cut.at, shown.at)
        for cut in timeline.compactions
        if cut.turns_before == place
    ]
    parts += [
        _mark_content(mark) + _time_if_later(mark.at, shown.at)
        for mark in timeline.events_at(place)
    ]
    if timeline.ends_with_current and turn is None:
        calls = None
    if calls:
        names = ", ".join(one_line(call) for call in calls[:MAX_CALLS])
        more = f" +{len(calls) - MAX_CALLS}" if len(calls) > MAX_CALLS else ""
        parts.append(quiet("called ") + Content(f"{names}{more}"))
    elif calls is None and shown.tool_calls:
        parts.append(quiet(f"called {formats.plural(shown.tool_calls, 'tool')}"))
    return SEPARATOR.join(parts or [quiet("no tool was called")])


def _compaction_text(cut: TimelineCompaction) -> str:
    sizes = formats.tokens_before_and_after(cut)
    return f"compacted before ({one_line(cut.trigger or '?')}): {sizes}"


def _time_if_later(at: int | None, turn_at: int | None) -> Content:
    """Write when something happened, unless it was in the minute that the turn is shown with."""
    time, turn_time = formats.month_day_time(at), formats.month_day_time(turn_at)
    if at is None or time == turn_time:
        return Content("")
    is_same_day = turn_at is not None and time.split()[:1] == turn_time.split()[:1]
    return quiet(f" {formats.time_of_day(at) if is_same_day else time}")


def _mark_content(mark: TimelineEvent) -> Content:
    sign, style = MARK_SIGNS[mark.kind]
    if mark.level:
        style = LEVEL_STYLES[mark.level]
    return Content.styled(f"{sign} ", style) + Content(_mark_text(mark))


_MARK_TEXTS: Final = {
    TimelineEventKind.STARTED: "{} started",
    TimelineEventKind.RETURNED: "{} returned",
    TimelineEventKind.FAILED: "{} failed or noncompliant",
    TimelineEventKind.WARNING: "reached {}",
    TimelineEventKind.REFUSAL: "refused: {}",
    TimelineEventKind.MODEL: "answers from here on: {}",
    TimelineEventKind.CLEARED: "Claude Code cleared {}",
    TimelineEventKind.CACHE_MISS: "cache miss: {}",
}


def _mark_text(mark: TimelineEvent) -> str:
    what = formats.model_name(mark.what) if mark.kind is TimelineEventKind.MODEL else mark.what
    return _MARK_TEXTS[mark.kind].format(one_line(what))


def timeline_events(timeline: Timeline) -> list[list[str]]:
    """List compactions and marks with their turns, and first and last: turn, time, size, what.

    The time is the event's own, which may be long after its turn began; empty if unknown.
    """
    turns = timeline.turns
    last = len(turns) - 1
    events = [(0, 0, turns[0].at, f"begins with {formats.model_name(turns[0].model)}")]
    events += [
        (min(cut.turns_before, last), 1, cut.at, f"{COMPACTION_SIGN} {_compaction_text(cut)}")
        for cut in timeline.compactions
    ]
    events += [
        (mark.turn, 2, mark.at, f"{MARK_SIGNS[mark.kind][0]} {_mark_text(mark)}")
        for mark in timeline.events
    ]
    events.append((last, 3, turns[last].at, "now"))
    return [
        [
            f"{turn + 1:,}",
            formats.month_day_time(at),
            formats.tokens(turns[turn].tokens),
            formats.percent(timeline.limit_ratio(turn)),
            text,
        ]
        for turn, _, at, text in sorted(events, key=lambda each: each[:2])
    ]
