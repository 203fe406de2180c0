"""What follows the mouse while its button is held."""

from textual import events
from textual.widget import Widget


class Draggable(Widget):
    """A press of the button grabs what is at its place, and the mouse drags it from there."""

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
