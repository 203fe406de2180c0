"""What is said of the turn that a person looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.timeline import MarkKind
from .formats import NOTHING, after_tokens, model, one_line, percent, tokens
from .gauge import LEVEL_STYLES
from .sections import quiet
from .timeline_lines import CUT, MARK_SIGNS, clock, day

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..core.timeline import Cut, Mark, Timeline

CALLS_SHOWN: Final = 4
"""Of an answer; the rest is a number."""

SPARED: Final = (4, 1, 3)
"""Places of a turn's words that go where there is no room: model, time, growth."""

BETWEEN: Final = ("  ·  ", "$bar-mark")

_HAPPENED: Final = {
    MarkKind.STARTED: "started",
    MarkKind.RETURNED: "returned",
    MarkKind.FAILED: "failed or did not compress",
    MarkKind.WARNING: "reached",
    MarkKind.REFUSAL: "refused:",
    MarkKind.MODEL: "answers from here on:",
    MarkKind.CLEARED: "the client cleared",
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
        Content(day(seen.at) or NOTHING),
        Content.styled(
            f"{'≈' if seen.is_estimate else ''}{seen.tokens:,} tokens"
            f"  {percent(timeline.ratio(place))}"
            f"{f' {level.value}' if level else ''}",
            f"bold {LEVEL_STYLES[level]}",
        ),
        Content("the next answer measures it" if rests else _growth(grown)),
        Content(one_line(model(seen.model))),
    ]
    for spare in SPARED:
        line = Content.assemble(*_between([part for part in parts if part is not None]))
        if line.cell_length <= width:
            break
        parts[spare] = None
    return Content.assemble(*_between([part for part in parts if part is not None]))


def happened_line(timeline: Timeline, turn: int | None, calls: Sequence[str] | None) -> Content:
    """Write what an answer called and what happened at it; `calls` None: not known yet."""
    place = len(timeline.turns) - 1 if turn is None else turn
    turn_at = timeline.turns[place].at
    parts: list[Content] = []
    parts += [
        Content.styled(f"{CUT} {cut_words(cut)}", "$accent") + _later(cut.at, turn_at)
        for cut in timeline.compactions
        if cut.turns_before == place
    ]
    parts += [_mark(mark) + _later(mark.at, turn_at) for mark in timeline.events_at(place)]
    if timeline.ends_with_current and turn is None:
        calls = None
    if calls:
        shown = [one_line(call) for call in calls[:CALLS_SHOWN]]
        more = f" +{len(calls) - CALLS_SHOWN}" if len(calls) > CALLS_SHOWN else ""
        parts.append(quiet("called ") + Content(f"{', '.join(shown)}{more}"))
    elif calls is None and timeline.turns[place].tool_calls:
        number = timeline.turns[place].tool_calls
        parts.append(quiet(f"called {number} {'tool' if number == 1 else 'tools'}"))
    if not parts:
        parts.append(quiet("no tool was called"))
    return Content.assemble(*_between(parts))


def cut_words(cut: Cut) -> str:
    """Say what a compaction did to the context of the turn that follows it."""
    after = after_tokens(cut.next_tokens, cut.next_estimate)
    sizes = f"{tokens(cut.pre_tokens)} → {after}"
    return f"compacted before ({one_line(cut.trigger or '?')}): {sizes}"


def _later(at: int | None, turn_at: int | None) -> Content:
    """Write when something happened, unless it was in the minute that the turn is shown with."""
    if at is None or day(at) == day(turn_at):
        return Content("")
    same_day = day(at).split()[0] == day(turn_at).split()[0] if turn_at is not None else False
    return quiet(f" {clock(at) if same_day else day(at)}")


def _mark(mark: Mark) -> Content:
    sign, style = MARK_SIGNS[mark.kind]
    if mark.level:
        style = LEVEL_STYLES[mark.level]
    return Content.styled(f"{sign} ", style) + Content(mark_words(mark))


def mark_words(mark: Mark) -> str:
    """Say what happened."""
    what = one_line(model(mark.what) if mark.kind is MarkKind.MODEL else mark.what)
    said = _HAPPENED[mark.kind]
    before = mark.kind in {MarkKind.STARTED, MarkKind.RETURNED, MarkKind.FAILED}
    return f"{what} {said}" if before else f"{said} {what}"


def _growth(grown: int | None) -> str:
    if grown is None:
        return "the first"
    return f"{'+' if grown >= 0 else '−'}{abs(grown):,} by this turn"


def _between(parts: Sequence[Content]) -> Iterator[Content | tuple[str, str]]:
    for number, part in enumerate(parts):
        if number:
            yield BETWEEN
        yield part
