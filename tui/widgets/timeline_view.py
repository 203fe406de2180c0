"""The timeline widget: a context over its turns, with a cursor and zoom."""

from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import BindingType
from textual.content import Content

from ...core.measure.timeline import Timeline
from ..base.keymap import bind
from ..base.messages import WidgetMessage
from ..entities.timeline_picture import TimelineMove, TimelineViewport, timeline_lines, turn_axis
from .draggable import Draggable

READING: Final = "reading its turns …"
EMPTY: Final = "no answers yet: the timeline begins with the first one"

WHEEL_FRACTION: Final = 8  # the wheel moves by this fraction of the visible turns

_KEYS: Final = (
    ("left", TimelineMove.EARLIER, "Step", "previous turn", "←→"),
    ("right", TimelineMove.LATER, "Later", "next turn", ""),
    ("shift+left", TimelineMove.FAR_EARLIER, "Far back", "ten turns back", ""),
    ("shift+right", TimelineMove.FAR_LATER, "Far ahead", "ten turns forward", ""),
    ("home", TimelineMove.FIRST, "First", "first turn", ""),
    ("end", TimelineMove.NEWEST, "Now", "now, and follow", ""),
    ("plus,equals_sign", TimelineMove.ZOOM_IN, "Zoom", "zoom in", "+-"),
    ("minus", TimelineMove.ZOOM_OUT, "Zoom out", "zoom out", ""),
    ("0", TimelineMove.ZOOM_RESET, "Whole", "the whole timeline", ""),
    ("left_square_bracket", TimelineMove.PREVIOUS_EVENT, "Previous", "previous event", "["),
    ("right_square_bracket", TimelineMove.NEXT_EVENT, "Next", "next event", "]"),
)  # the key line shows those of several keys


def timeline_keys(action: str, *, priority: bool = False) -> list[BindingType]:
    """Bind the keys of a timeline, with `priority` even before those of the focus."""
    return [
        bind(
            keys,
            f"{action}('{move}')",
            title,
            tooltip,
            f"timeline_{move}",
            show=len(display) > 1,
            key_display=display or None,
            priority=priority,
        )
        for keys, move, title, tooltip, display in _KEYS
    ]


class TimelineView(Draggable):
    BINDINGS: ClassVar[list[BindingType]] = timeline_keys("move")

    @dataclass
    class Scrubbed(WidgetMessage["TimelineView"]):
        """The cursor moved to another turn."""

        turn: int | None  # none: the newest, whichever that is

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self.can_focus = True
        self.timeline: Timeline | None = None  # none before it is read
        self.viewport = TimelineViewport()

    @property
    def turn(self) -> int | None:
        """The turn under the cursor; None: the newest."""
        return self.viewport.at

    def show(self, timeline: Timeline) -> None:
        """Show a timeline; the cursor stays on its turn, or on the newest."""
        self.timeline = timeline
        self._change_viewport(self.viewport.with_count(len(timeline.turns)))
        self.refresh()

    def render(self) -> Content:
        if self.timeline is None or not self.timeline.turns:
            return Content.styled(READING if self.timeline is None else EMPTY, "$quiet")
        return Content("\n").join(timeline_lines(self.timeline, self.viewport, *self.size))

    def action_move(self, move: str) -> None:
        self.move(TimelineMove(move))

    def move(self, move: TimelineMove) -> None:
        if self.timeline is None or not self.timeline.turns:
            return
        if move in {TimelineMove.PREVIOUS_EVENT, TimelineMove.NEXT_EVENT}:
            self.move_to(self._event_turn(self.timeline, move))
        else:
            self._change_viewport(self.viewport.after_move(move))

    def move_to(self, turn: int) -> None:
        self._change_viewport(self.viewport.moved_to(turn))

    def _event_turn(self, timeline: Timeline, move: TimelineMove) -> int:
        """Find the next turn with an event on one side of the cursor."""
        cursor = self.viewport.cursor
        turns = {cut.turns_before for cut in timeline.compactions}
        turns |= {event.turn for event in timeline.events}
        if move is TimelineMove.PREVIOUS_EVENT:
            return max((turn for turn in turns if turn < cursor), default=0)
        return min((turn for turn in turns if turn > cursor), default=self.viewport.count - 1)

    def _change_viewport(self, viewport: TimelineViewport) -> None:
        before, self.viewport = self.viewport, viewport
        if viewport != before:
            self.refresh()
            if viewport.at != before.at:
                self.post_message(self.Scrubbed(self, viewport.at))

    # The mouse: a click or a drag moves the cursor, the wheel scrolls, and with ctrl it zooms.

    def grab(self, x: int, y: int) -> bool:
        self.drag(x)
        return True

    def drag(self, x: int) -> None:
        if self.timeline is not None and self.timeline.turns:
            self.move_to(turn_axis(self.viewport, self.size.width).turn_at(x))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll(event, TimelineMove.ZOOM_IN, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll(event, TimelineMove.ZOOM_OUT, 1)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._scroll(event, None, -1)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._scroll(event, None, 1)

    def _scroll(self, event: events.MouseEvent, zoom: TimelineMove | None, side: int) -> None:
        event.stop()
        event.prevent_default()
        viewport = self.viewport
        step = side * max(1, viewport.visible // WHEEL_FRACTION)
        if event.ctrl and zoom is not None:
            self.move(zoom)
        elif viewport.visible == viewport.count:
            self.move_to(viewport.cursor + step)
        else:
            self._change_viewport(viewport.panned(step))
