"""The lines around a page: breadcrumbs and tabs above, keys, state and problems below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len
from textual import events
from textual.binding import ActiveBinding, Binding
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from ...core.transcript.sanitize import one_line
from ..text.formats import plural, shorten

if TYPE_CHECKING:
    from ...core.model.problem import Problem


SEPARATOR: Final = " › "
MIN_CRUMB_CELLS: Final = 6  # a shorter crumb names nothing
_WAITING: Final = "waiting"  # style metadata: the count of sessions that wait for a person
_LIMITS: Final = "limits"  # style metadata: the plan's limits, whose page a click opens
_FILTER: Final = "filter"  # style metadata: the filter that finds what a count counts
_PLACE: Final = "place"  # style metadata: the place of a crumb or tab, from 0


class Crumbs(Widget):
    path: reactive[tuple[str, ...]] = reactive(())

    @dataclass
    class Chosen(Message):
        """A crumb before the last was clicked."""

        place: int

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(classes="crumbs")
        self.set_reactive(Crumbs.path, path)

    def render(self) -> Content:
        crumbs = shorten_crumbs(self.path, self.size.width - 2)
        last = len(crumbs) - 1
        parts = [
            Content.styled(crumb, "bold $foreground" if place == last else "$quiet").stylize(
                Style.from_meta({_PLACE: place})
            )
            for place, crumb in enumerate(crumbs)
        ]
        return Content(" ") + Content.styled(SEPARATOR, "$quiet").join(parts)

    def on_click(self, event: events.Click) -> None:
        place = event.style.meta.get(_PLACE)
        if isinstance(place, int) and place < len(self.path) - 1:
            self.post_message(self.Chosen(place))


def shorten_crumbs(path: Sequence[str], cells: int) -> list[str]:
    """Shorten the longest crumbs until all fit, or none can be shortened further."""
    crumbs = [one_line(crumb) for crumb in path]
    room = cells - cell_len(SEPARATOR) * (len(crumbs) - 1)
    widths = [cell_len(crumb) for crumb in crumbs]
    while sum(widths) > room and max(widths) > MIN_CRUMB_CELLS:
        widest = max(widths)
        second = max([width for width in widths if width < widest], default=MIN_CRUMB_CELLS)
        count = widths.count(widest)
        # All of the widest at once, down to the next: a title may have a million characters.
        least = max(second, MIN_CRUMB_CELLS, widest - -(-(sum(widths) - room) // count))
        widths = [least if width == widest else width for width in widths]
    return [shorten(crumb, width) for crumb, width in zip(crumbs, widths, strict=True)]


_KEY_CLASS: Final = "key-line--key"
_DESCRIPTION_CLASS: Final = "key-line--words"
_HOVERED_CLASS: Final = "key-line--hovered"


class FooterKey(msgspec.Struct, frozen=True):
    binding: Binding
    display: str
    tooltip: str
    is_enabled: bool
    start: int  # cells before it

    @property
    def width(self) -> int:
        return Content(f" {self.display} {self.binding.description} ").cell_length


class KeyLine(Widget):
    """The keys that can be pressed now, as one text: a click presses one.

    Textual's footer has a widget for each. All are mounted, styled and laid out again, and the
    whole screen drawn, whenever the focus moves: half of what Tab took.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {_KEY_CLASS, _DESCRIPTION_CLASS, _HOVERED_CLASS}

    keys: reactive[tuple[FooterKey, ...]] = reactive(())
    hovered: reactive[FooterKey | None] = reactive(None)

    def __init__(self, *, if_room: Sequence[str] = ()) -> None:
        """`if_room`: the ids of hidden bindings that are shown where the line has room."""
        super().__init__()
        self._if_room: Final = if_room

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self.take_keys)

    def on_resize(self) -> None:
        self.take_keys(self.screen)

    def take_keys(self, screen: Screen[object]) -> None:
        """Show a screen's keys, except while the terminal has lost the focus."""
        if not screen.app.app_focus or screen is not self.screen:
            return
        shown: dict[str, FooterKey] = {}
        hidden: dict[str | None, FooterKey] = {}
        for each in screen.active_bindings.values():
            key = self._footer_key(each)
            if key.binding.show:
                shown.setdefault(key.binding.action, key)
            else:
                hidden[key.binding.id] = key
        keys = [*shown.values()]
        place = next((n for n, key in enumerate(keys) if key.binding.id == "help"), len(keys))
        keys[place:place] = self._fitting_keys(hidden, sum(key.width for key in keys))
        starts = accumulate((key.width for key in keys), initial=0)
        self.keys = tuple(
            replace(key, start=start) for key, start in zip(keys, starts, strict=False)
        )

    def _fitting_keys(
        self, hidden: Mapping[str | None, FooterKey], used_cells: int
    ) -> Iterator[FooterKey]:
        """Yield the first hidden keys, as many as the line has room for."""
        room = self.size.width - used_cells
        for key in [hidden[name] for name in self._if_room if name in hidden]:
            room -= key.width
            if room < 0:
                return
            yield key

    def _footer_key(self, active: ActiveBinding) -> FooterKey:
        display = self.app.get_key_display(active.binding)
        return FooterKey(active.binding, display, active.tooltip, active.enabled, 0)

    def render(self) -> Content:
        return Content("").join(map(self._draw_key, self.keys))

    def _draw_key(self, key: FooterKey) -> Content:
        drawn = Content.assemble(
            (f" {key.display} ", self.get_visual_style(_KEY_CLASS)),
            (f"{key.binding.description} ", self.get_visual_style(_DESCRIPTION_CLASS)),
        )
        if key == self.hovered:
            background = self.get_visual_style(_HOVERED_CLASS).background
            drawn = drawn.stylize(Style(background=background))
        return drawn if key.is_enabled else drawn.stylize(Style(dim=True))

    def key_at(self, x: int) -> FooterKey | None:
        return next((each for each in self.keys if each.start <= x < each.start + each.width), None)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        key = self.key_at(event.x)
        if key is not None and key.is_enabled:
            self.app.simulate_key(key.binding.key)
        elif key is not None:
            self.app.bell()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.hovered = self.key_at(event.x)

    def on_leave(self) -> None:
        self.hovered = None

    def watch_hovered(self, hovered: FooterKey | None) -> None:
        self.tooltip = hovered.tooltip if hovered and hovered.tooltip else None


WARNING_RATIO: Final = 0.80  # from which a live session is counted as a warning


class FeedState(Enum):
    """Whether the screen follows what is written; shown as a word, not by color alone."""

    LIVE = "live"
    PAUSED = "paused"
    STOPPED = "stopped"


_FEED_STATE_STYLES: Final = {
    FeedState.LIVE: "$level-calm",
    FeedState.PAUSED: "bold $foreground",
    FeedState.STOPPED: "bold $level-emergency",
}


class FleetStatus(msgspec.Struct, frozen=True):
    source: str = "ctxtop"
    state: FeedState = FeedState.LIVE
    sessions: int | None = None
    live: int = 0
    working: int = 0
    waiting: int = 0
    lag_s: float | None = None
    scan: str = ""  # the progress of a scan; empty if none runs
    notes: str = ""  # filter and marks
    warnings: int = 0
    # The plan's limits from long to short, each as texts with their styles; empty if unknown.
    limits: Sequence[Sequence[tuple[str, str]]] = ()


class StatusLine(Widget):
    @dataclass
    class CountClicked(Message):
        words: str  # the filter that finds what was counted; empty for all sessions

    status: reactive[FleetStatus] = reactive(FleetStatus())

    def on_mouse_move(self, event: events.MouseMove) -> None:
        is_count = _FILTER in event.style.meta
        self.tooltip = "click to show these sessions" if is_count else None
        if event.style.meta.get(_LIMITS):
            self.tooltip = "click to show the plan's limits"

    def render(self) -> Content:
        width = self.size.width
        right = _right_text(self.status)
        left = left_text(self.status, width - right.cell_length - 2)
        room = width - left.cell_length - right.cell_length - 1
        return left + Content(" " * room) + right + " " if room >= 1 else left.truncate(width)

    async def on_click(self, event: events.Click) -> None:
        """Go to a session that waits, or ask for the sessions of another count."""
        words = event.style.meta.get(_FILTER)
        if event.style.meta.get(_WAITING):
            await self.run_action("app.next_waiting")
        elif event.style.meta.get(_LIMITS):
            await self.run_action("app.go('limits')")
        elif isinstance(words, str):
            self.post_message(self.CountClicked(words))


def left_text(status: FleetStatus, room: int) -> Content:
    """Write the state and the counts that fit `room` cells, the most important ones first."""
    text = Content.assemble(
        (f" {status.source} ", "bold $accent"),
        (status.state.value, _FEED_STATE_STYLES[status.state]),
    )
    left = room - text.cell_length
    shown: list[tuple[int, Content]] = []
    for place, choices in _status_counts(status):
        count = next((each for each in choices if each and each.cell_length + 3 <= left), None)
        if count:
            left -= count.cell_length + 3
            shown.append((place, count))
    shown.sort(key=lambda each: each[0])
    return Content.styled(" · ", "$quiet").join([text, *(count for _, count in shown)])


def _status_counts(status: FleetStatus) -> Iterator[tuple[int, Sequence[Content]]]:
    """Yield the most important counts first, each with its place and from long to short."""
    yield 0, (Content.styled(status.scan, "$accent"),)
    if status.sessions is not None:
        yield 1, (_link(plural(status.sessions, "session"), "$foreground", ""),)
    yield 2, (Content.styled(status.notes, "$accent"),)
    yield 5, [*map(_limits_text, status.limits)]
    if status.live:
        yield 3, (_link(f"{status.live} live", "$foreground", "live:"),)
    if status.working:
        yield 4, (_link(f"{status.working} working", "$foreground", "is:working"),)
    if status.lag_s is not None and not status.scan:
        yield 6, (Content.styled(f"lag {max(0.0, status.lag_s):.1f} s", "$quiet"),)


def _limits_text(limits: Sequence[tuple[str, str]]) -> Content:
    parts = (Content.styled(text, style) for text, style in limits)
    return Content.styled(" · ", "$quiet").join(parts).stylize(Style.from_meta({_LIMITS: True}))


def _link(text: str, style: str, words: str) -> Content:
    """Write a count; a click on it shows the sessions that it counts, by their filter."""
    return Content.styled(text, style).stylize(Style.from_meta({_FILTER: words}))


def _right_text(status: FleetStatus) -> Content:
    parts: list[Content] = []
    if status.waiting:
        verb = "waits" if status.waiting == 1 else "wait"
        waiting = Content.styled(f"▲ {status.waiting} {verb} for you", "bold $waiting")
        parts.append(waiting.stylize(Style.from_meta({_WAITING: True})))
    if status.warnings:
        words = f"live: >={WARNING_RATIO:.0%}"
        parts.append(_link(plural(status.warnings, "warning"), "bold $level-warning", words))
    return Content("   ").join(parts)


class ProblemLine(Static):
    """Shows the newest problem until it is resolved."""

    def __init__(self) -> None:
        super().__init__(id="trouble", markup=False)
        self._problems: dict[str, Problem] = {}
        self.display = False

    def show_problem(self, problem: Problem) -> None:
        self._problems.pop(problem.where, None)
        self._problems[problem.where] = problem
        self._draw()

    def resolve(self, place: str) -> None:
        if self._problems.pop(place, None):
            self._draw()

    def _draw(self) -> None:
        newest = next(reversed(self._problems.values()), None)
        self.display = newest is not None
        others = len(self._problems) - 1
        more = f" (and {others} more)" if others > 0 else ""
        self.update(Content(one_line(f"✗ {newest}{more}")))


TAB_GAP: Final = "  "


class TabBar(Widget):
    """The names of tabs; the open one is underlined."""

    DEFAULT_CSS = """
    TabBar { height: 1; padding: 0 1; text-wrap: nowrap; }
    """

    @dataclass
    class Chosen(Message):
        place: int

    def __init__(self, keys: Sequence[str] = (), *, id: str) -> None:  # noqa: A002 -- Textual's
        """`keys` are written before the names."""
        super().__init__(id=id)
        self._keys: Final = tuple(f"{key} " for key in keys)
        self._shown: tuple[int, tuple[tuple[str, ...], ...], str] = (0, (), "")

    def show(self, active: int, *names: Sequence[str], note: str = "") -> None:
        """Show the first of these names that fit, and a note at the right."""
        shown = (active, tuple(map(tuple, names)), note)
        if shown != self._shown:
            self._shown = shown
            self.refresh()

    def render(self) -> Content:
        _, choices, note = self._shown
        tabs, width = Content(""), self.size.width
        for names in choices:
            tabs = self._draw_tabs(names)
            if tabs.cell_length <= width:
                break
        room = max(0, width - tabs.cell_length - len(TAB_GAP))
        right = Content.styled(note, "$quiet").truncate(room)
        return tabs + " " * (width - tabs.cell_length - right.cell_length) + right

    def _draw_tabs(self, names: Sequence[str]) -> Content:
        active = self._shown[0]
        keys = self._keys or ("",) * len(names)
        return Content(TAB_GAP).join(
            Content.assemble(
                (key, "$accent" if place == active else "$quiet"),
                (name, "bold underline $foreground" if place == active else "$quiet"),
            ).stylize(Style.from_meta({_PLACE: place}))
            for place, (key, name) in enumerate(zip(keys, names, strict=True))
        )

    def on_click(self, event: events.Click) -> None:
        place = event.style.meta.get(_PLACE)
        if isinstance(place, int):
            self.post_message(self.Chosen(place))
