"""Dragging with the mouse, for sliders and timelines."""

from textual import events
from textual.widget import Widget


class Draggable(Widget):
    """Grabs what is under the mouse when its button is pressed; drags it until it is released."""

    def grab(self, x: int, y: int) -> bool:
        """Prepare to drag what is at a cell; return whether anything is."""
        raise NotImplementedError

    def drag(self, x: int) -> None:
        """Move what was grabbed to a cell, which may be outside the widget."""
        raise NotImplementedError

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if self.grab(event.x, event.y):
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self.drag(event.x)

    def on_mouse_up(self) -> None:
        self.release_mouse()
