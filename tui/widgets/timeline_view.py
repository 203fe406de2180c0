"""The timeline widget: a context over its turns, which can be scrubbed and zoomed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from ...core.measure.timeline import Timeline
from ..messages import WidgetMessage
from .timeline_picture import TimelineMove, TimelineViewport, timeline_lines, turn_axis

READING: Final = "reading its turns …"
EMPTY: Final = "no answer yet: the timeline begins with the first one"

WHEEL_FRACTION: Final = 8  # a turn of the wheel goes on by this part of what is seen


def timeline_keys(action: str, *, priority: bool = False) -> list[BindingType]:
    """Bind the keys of a timeline to an action that takes a move; `first`: before the focus's."""
    listed = (
        ("left", TimelineMove.EARLIER, "Scrub", "←→", True, "back in time by a turn"),
        ("right", TimelineMove.LATER, "Later", "", False, "on by a turn"),
        ("shift+left", TimelineMove.FAR_EARLIER, "Far back", "", False, "back by ten turns"),
        ("shift+right", TimelineMove.FAR_LATER, "Far on", "", False, "on by ten turns"),
        ("home", TimelineMove.FIRST, "First", "", False, "to the first turn"),
        ("end", TimelineMove.NEWEST, "Now", "", False, "to now, and stay there"),
        ("plus,equals_sign", TimelineMove.ZOOM_IN, "Zoom", "+-", True, "closer"),
        ("minus", TimelineMove.ZOOM_OUT, "Wider", "", False, "wider"),
        ("0", TimelineMove.ZOOM_RESET, "Whole", "", False, "the whole of it"),
        (
            "left_square_bracket",
            TimelineMove.PREVIOUS_EVENT,
            "Before",
            "[",
            False,
            "to what happened before",
        ),
        (
            "right_square_bracket",
            TimelineMove.NEXT_EVENT,
            "After",
            "]",
            False,
            "to what happened next",
        ),
    )
    return [
        Binding(
            key,
            f"{action}('{move}')",
            title,
            show=show,
            key_display=display or None,
            tooltip=words,
            priority=priority,
            id=f"timeline_{move}",
        )
        for key, move, title, display, show, words in listed
    ]


class TimelineView(Widget):
    """Draws a timeline; who shows it hears which turn is looked at."""

    BINDINGS: ClassVar[list[BindingType]] = timeline_keys("move")

    @dataclass
    class Scrubbed(WidgetMessage["TimelineView"]):
        """Another turn is looked at."""

        turn: int | None  # none: the newest, whichever that is

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self.can_focus = True
        self._timeline: Timeline | None = None
        self._scope = TimelineViewport()
        self._dragged = False

    @property
    def timeline(self) -> Timeline | None:
        """What is shown; None before it was read."""
        return self._timeline

    @property
    def turn(self) -> int | None:
        """The turn that is looked at; None: the newest."""
        return self._scope.at

    @property
    def viewport(self) -> TimelineViewport:
        """What is seen of it."""
        return self._scope

    def show(self, timeline: Timeline) -> None:
        """Show this one; the turn that is looked at stays, and the end where that was it."""
        self._timeline = timeline
        self._look(self._scope.with_count(len(timeline.turns)))
        self.refresh()

    def render(self) -> Content:
        width, height = self.size
        if self._timeline is None or not self._timeline.turns:
            return Content.styled(READING if self._timeline is None else EMPTY, "$quiet")
        return Content("\n").join(timeline_lines(self._timeline, self._scope, width, height))

    def action_move(self, move: str) -> None:
        self.move(TimelineMove(move))

    def move(self, move: TimelineMove) -> None:
        if self._timeline is None or not self._timeline.turns:
            return
        if move in {TimelineMove.PREVIOUS_EVENT, TimelineMove.NEXT_EVENT}:
            self._look(self._scope.moved_to(self._happening(move)))
        else:
            self._look(self._scope.after_move(move))

    def move_to(self, turn: int) -> None:
        self._look(self._scope.moved_to(turn))

    def _happening(self, move: TimelineMove) -> int:
        """Find the next turn at which something happened, on one side."""
        timeline, cursor = self._timeline, self._scope.cursor
        if timeline is None:
            return cursor
        places = {cut.turns_before for cut in timeline.compactions} | {
            mark.turn for mark in timeline.events
        }
        if move is TimelineMove.PREVIOUS_EVENT:
            return max((place for place in places if place < cursor), default=0)
        return min((place for place in places if place > cursor), default=self._scope.count - 1)

    def _look(self, scope: TimelineViewport) -> None:
        before, self._scope = self._scope, scope
        if scope == before:
            return
        self.refresh()
        if scope.at != before.at:
            self.post_message(self.Scrubbed(self, scope.at))

    # The mouse: a click looks, a drag scrubs, the wheel goes along, with ctrl it zooms.

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Look at the turn under the mouse, and follow it."""
        self._dragged = True
        self.capture_mouse()
        self._look_at(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged:
            self._look_at(event)

    def on_mouse_up(self) -> None:
        self._dragged = False
        self.release_mouse()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Go back; with ctrl, closer."""
        self._wheel(event, TimelineMove.ZOOM_IN, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Go on; with ctrl, wider."""
        self._wheel(event, TimelineMove.ZOOM_OUT, 1)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._wheel(event, None, -1)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._wheel(event, None, 1)

    def _wheel(self, event: events.MouseEvent, zoom: TimelineMove | None, side: int) -> None:
        event.stop()
        event.prevent_default()
        if event.ctrl and zoom is not None:
            self.move(zoom)
        else:
            step = side * max(1, self._scope.visible // WHEEL_FRACTION)
            whole = self._scope.visible == self._scope.count
            self._look(
                self._scope.moved_to(self._scope.cursor + step)
                if whole
                else self._scope.panned(step)
            )

    def _look_at(self, event: events.MouseEvent) -> None:
        if self._timeline is not None and self._timeline.turns:
            along = turn_axis(self._scope, self.size.width)
            self._look(self._scope.moved_to(along.turn_at(event.x)))
