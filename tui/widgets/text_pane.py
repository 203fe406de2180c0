"""Scrolling text: panes that draw only visible lines, and pagers for other widgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from ..base.keymap import bind_hidden
from ..base.messages import WidgetMessage
from ..text.text_lines import Passage


def movement_bindings(page_down: str = "ctrl+d,pagedown") -> tuple[Binding, ...]:
    """Bind the actions move(rows), page(pages) and edge(0 or -1)."""
    return (
        bind_hidden("j,down", "move(1)", "Down", "down", "down"),
        bind_hidden("k,up", "move(-1)", "Up", "up", "up"),
        bind_hidden("g,home", "edge(0)", "First", "first", "first"),
        bind_hidden("G,end", "edge(-1)", "Last", "last", "last"),
        bind_hidden(page_down, "page(1)", "Page down", "a page down", "page_down"),
        bind_hidden("ctrl+u,pageup", "page(-1)", "Page up", "a page up", "page_up"),
    )


PAGER_PAGE_DOWN_KEYS: Final = "ctrl+d,pagedown,space"  # if the space marks nothing

CURRENT_PASSAGE_STYLE: Final = "bold $background on $accent"
MAX_CACHED_STRIPS: Final = 2_000  # drawn lines that are cached: some screens of them
CONTEXT_LINES_ABOVE: Final = 3  # lines above a passage that the user goes to


class SizeWatch:
    """Sends its widget a Resize for every size that it is drawn in.

    Textual (8.2.8) sends none if a scroll computes the positions of all widgets after one of them
    was added and before the layout.
    """

    def __init__(self, widget: Widget) -> None:
        self._widget: Final = widget
        self._known = Size()

    def receive(self, event: events.Resize) -> None:
        self._known = event.size

    def check(self) -> None:
        """Compare the size; to be called before lines are drawn."""
        widget, size = self._widget, self._widget.outer_size
        if size != self._known:
            self._known = size
            widget.post_message(events.Resize(size, widget.virtual_size, widget.container_size))


class TextPane(ScrollView, can_focus=True):
    """Lines of text, of which one passage can be marked."""

    DEFAULT_CSS = """
    TextPane {
        height: 1fr;
        background: $background;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*movement_bindings(PAGER_PAGE_DOWN_KEYS)]

    class Resized(WidgetMessage["TextPane"]):
        """The lines must be wrapped for another width."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, type(self)) and message.widget is self.widget

    @dataclass
    class Scrolled(WidgetMessage["TextPane"]):
        """Another line is the first visible one."""

        line: int

    def __init__(self, *, id: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id)
        self.lines: Sequence[Content] = ()
        self._current: Passage | None = None
        self._width = 0
        self._size_watch: Final = SizeWatch(self)
        self._strips: dict[int, Strip] = {}

    @property
    def line_width(self) -> int:
        return self.scrollable_content_region.width

    def show(
        self, lines: Sequence[Content], *, top: int | None = None, current: Passage | None = None
    ) -> None:
        self.lines = lines
        self._current = current
        self._strips.clear()
        self.virtual_size = Size(self.line_width, len(lines))
        if top is not None:
            self.jump(top)
        self.refresh()

    def go_to(self, passage: Passage) -> None:
        self._current = passage
        self._strips.clear()
        self.go_to_line(passage.line)
        self.refresh()

    def line_passage(self, line: int) -> Passage:
        return Passage(line, 0, len(self.lines[line]))

    def go_to_line(self, line: int) -> None:
        height = self.scrollable_content_region.height
        top = round(self.scroll_offset.y)
        if not top <= line < top + height - 1:
            self.jump(max(0, line - CONTEXT_LINES_ABOVE))

    def jump(self, line: int) -> None:
        self.scroll_to(y=line, animate=False, immediate=True)

    def action_move(self, by: int) -> None:
        self.jump(round(self.scroll_offset.y) + by)

    def action_page(self, by: int) -> None:
        self.jump(round(self.scroll_offset.y) + by * self.scrollable_content_region.height)

    def action_edge(self, place: int) -> None:
        self.jump(len(self.lines) if place else 0)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._size_watch.check()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        number = self.scroll_offset.y + y
        if not 0 <= number < len(self.lines):
            return Strip.blank(self.size.width, self.visual_style.rich_style)
        strip = self._strips.get(number)
        if strip is None or strip.cell_length != self.size.width:
            if len(self._strips) > MAX_CACHED_STRIPS:
                self._strips.clear()
            strip = self._strips[number] = self._draw(number)
        return strip

    def _draw(self, number: int) -> Strip:
        width, style = self.size.width, self.visual_style
        line = self.lines[number]
        marked = self._current
        if marked is not None and marked.line == number:
            line = line.stylize(CURRENT_PASSAGE_STYLE, marked.start, marked.end)
        (strip, *_) = Visual.to_strips(self, line, width, 1, style, pad=True)
        return strip.crop_extend(0, width, style.rich_style)

    def on_resize(self, event: events.Resize) -> None:
        self._size_watch.receive(event)
        if self.line_width != self._width:
            self._width = self.line_width
            self.post_message(self.Resized(self))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Post Scrolled when the first visible line changes."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled(self, round(new_value)))

    def notify_style_update(self) -> None:
        self._strips.clear()
        self.refresh()
        super().notify_style_update()


def next_place(place: int, by: int, count: int) -> int:
    """Return the index `by` further on, round the ends; -1 is before the first."""
    return (place + by) % count if place >= 0 or by > 0 else count - 1


class Pager(VerticalScroll, inherit_bindings=False):
    """Scrolls a widget with the keys of a list."""

    BINDINGS: ClassVar[list[BindingType]] = [*movement_bindings()]

    def action_move(self, by: int) -> None:
        self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        self.scroll_relative(y=by * self.scrollable_content_region.height, animate=False)

    def action_edge(self, place: int) -> None:
        if place:
            self.scroll_end(animate=False)
        else:
            self.scroll_home(animate=False)


class Reader(Pager, inherit_bindings=False):
    """A pager in which the space pages down, as in less."""

    BINDINGS: ClassVar[list[BindingType]] = [*movement_bindings(PAGER_PAGE_DOWN_KEYS)]
