"""The lines around a page: breadcrumbs and tabs above, keys, state and problems below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from ...core.transcript.sanitize import one_line
from ..text.formats import shorten_middle

if TYPE_CHECKING:
    from ...core.model.problem import Problem


SEPARATOR: Final = " › "

MIN_CRUMB_CELLS: Final = 6  # cells of a crumb: less names nothing
_CRUMB_META: Final = "crumb"


class Crumbs(Widget):
    """One line; a click at a crumb asks for its page."""

    path: reactive[tuple[str, ...]] = reactive(())

    @dataclass
    class Chosen(Message):
        place: int  # of the crumb, from 0

    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(classes="crumbs")
        self.set_reactive(Crumbs.path, path)

    def render(self) -> RenderResult:
        """Write them in the room that there is; the last one, where one is, stands out."""
        crumbs = shorten_crumbs(self.path, self.size.width - 2)
        last = len(crumbs) - 1
        parts = [
            Content.styled(
                crumb,
                Style.parse("bold $foreground" if place == last else "$quiet")
                + Style.from_meta({_CRUMB_META: place}),
            )
            for place, crumb in enumerate(crumbs)
        ]
        return Content(" ") + Content.styled(SEPARATOR, "$quiet").join(parts)

    def on_click(self, event: events.Click) -> None:
        place = event.style.meta.get(_CRUMB_META)
        if isinstance(place, int) and place < len(self.path) - 1:
            self.post_message(self.Chosen(place))


def shorten_crumbs(path: Sequence[str], cells: int) -> list[str]:
    """Cut the longest crumbs until all fit; what none can spare is cut at the end."""
    crumbs = [one_line(crumb) for crumb in path]
    room = cells - cell_len(SEPARATOR) * (len(crumbs) - 1)
    widths = [cell_len(crumb) for crumb in crumbs]
    while sum(widths) > room and max(widths) > MIN_CRUMB_CELLS:
        widest = max(widths)
        rest = max([width for width in widths if width < widest], default=MIN_CRUMB_CELLS)
        count = widths.count(widest)
        # All of the widest at once, down to the next: a title may have a million characters.
        least = max(rest, MIN_CRUMB_CELLS, widest - -(-(sum(widths) - room) // count))
        widths = [least if width == widest else width for width in widths]
    return [shorten_middle(crumb, width) for crumb, width in zip(crumbs, widths, strict=True)]


_KEY_CLASS: Final = "key-line--key"
_DESCRIPTION_CLASS: Final = "key-line--words"
_HOVERED_CLASS: Final = "key-line--hovered"


@dataclass(frozen=True, slots=True)
class FooterKey:
    """One key of the line, and where it stands."""

    key: str
    display: str
    description: str
    action: str
    tooltip: str
    is_enabled: bool
    start: int  # cells before it

    @property
    def key_text(self) -> str:
        """The key itself, with the blanks around it."""
        return f" {self.display} "

    @property
    def width(self) -> int:
        return Content(f"{self.key_text}{self.description} ").cell_length


class KeyLine(Widget):
    """The keys that can be pressed now, as one text: a click presses one.

    Textual's footer has a widget for each. All are mounted, styled and laid out anew, and the
    whole screen drawn, whenever the focus moves: half of what Tab took.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {_KEY_CLASS, _DESCRIPTION_CLASS, _HOVERED_CLASS}

    keys: reactive[tuple[FooterKey, ...]] = reactive(())
    hovered: reactive[FooterKey | None] = reactive(None)

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self.take_keys)

    def take_keys(self, screen: Screen[object]) -> None:
        """Show the keys that a screen has, but not those of a terminal that was left."""
        if not screen.app.app_focus or screen is not self.screen:
            return
        found: dict[str, FooterKey] = {}
        start = 0
        for _, binding, enabled, tooltip in screen.active_bindings.values():
            if not binding.show or binding.action in found:
                continue
            shown = FooterKey(
                binding.key,
                self.app.get_key_display(binding),
                binding.description,
                binding.action,
                tooltip,
                enabled,
                start,
            )
            found[binding.action] = shown
            start += shown.width
        self.keys = tuple(found.values())

    def render(self) -> Content:
        return Content("").join(map(self._drawn, self.keys))

    def _drawn(self, shown: FooterKey) -> Content:
        drawn = Content.assemble(
            (shown.key_text, self.get_visual_style(_KEY_CLASS)),
            (f"{shown.description} ", self.get_visual_style(_DESCRIPTION_CLASS)),
        )
        if shown == self.hovered:
            drawn = drawn.stylize(
                Style(background=self.get_visual_style(_HOVERED_CLASS).background)
            )
        return drawn if shown.is_enabled else drawn.stylize(Style(dim=True))

    def key_at(self, x: int) -> FooterKey | None:
        """Return the key at a cell, None if there is none."""
        found = (each for each in self.keys if each.start <= x < each.start + each.width)
        return next(found, None)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        shown = self.key_at(event.x)
        if shown is None:
            return
        if shown.is_enabled:
            self.app.simulate_key(shown.key)
        else:
            self.app.bell()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.hovered = self.key_at(event.x)

    def on_leave(self) -> None:
        self.hovered = None

    def watch_hovered(self, hovered: FooterKey | None) -> None:
        self.tooltip = hovered.tooltip if hovered and hovered.tooltip else None


class FeedState(Enum):
    """Whether the screen follows what is written; the words, never the colour alone, tell."""

    LIVE = "live"
    PAUSED = "paused"
    STOPPED = "stopped"


_FEED_STATE_STYLES: Final = {
    FeedState.LIVE: "$level-calm",
    FeedState.PAUSED: "bold $level-warning",
    FeedState.STOPPED: "bold $level-emergency",
}


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """What the line says."""

    source: str = "ctxtop"
    state: FeedState = FeedState.LIVE
    sessions: int | None = None
    live: int = 0
    working: int = 0
    waiting: int = 0
    lag_s: float | None = None
    scan: str = ""  # how far a scan has come; empty when none runs
    notes: str = ""  # filter, marks
    warnings: int = 0


class StatusLine(Widget):
    status: reactive[FleetStatus] = reactive(FleetStatus())

    def render(self) -> RenderResult:
        """Write what matters most first; who waits and what is full go to the right."""
        width = self.size.width
        right = _right_text(self.status)
        left = left_text(self.status, width - right.cell_length - 2)
        room = width - left.cell_length - right.cell_length - 1
        if room < 1:
            return left.truncate(width)
        return left + Content(" " * room) + right + " "


def left_text(standing: FleetStatus, room: int) -> Content:
    """Write how things stand in so many cells; what matters least is left out first."""
    parts: list[tuple[str, str]] = [
        (f" {standing.source} ", "bold $accent"),
        (standing.state.value, _FEED_STATE_STYLES[standing.state]),
    ]
    told = sum(len(words) for words, _ in parts)
    for words, style in _status_counts(standing):
        if words and told + len(words) + 3 <= room:
            parts.append((f" · {words}", style))
            told += len(words) + 3
    return Content.assemble(*parts)


def _status_counts(standing: FleetStatus) -> list[tuple[str, str]]:
    sessions = standing.sessions
    lag = standing.lag_s
    return [
        (standing.scan, "$level-notice"),
        ("" if sessions is None else _count(sessions, "session"), "$foreground"),
        (standing.notes, "$level-notice"),
        (f"{standing.live} live" if standing.live else "", "$foreground"),
        (f"{standing.working} working" if standing.working else "", "$foreground"),
        ("" if lag is None or standing.scan else f"lag {max(0.0, lag):.1f} s", "$quiet"),
    ]


def _right_text(standing: FleetStatus) -> Content:
    waiting, warnings = standing.waiting, standing.warnings
    parts: list[tuple[str, str]] = []
    if waiting:
        verb = "waits" if waiting == 1 else "wait"
        parts.append((f"▲ {waiting} {verb} for you", "bold $level-warning"))
    if warnings:
        gap = "   " if parts else ""
        parts.append((f"{gap}{_count(warnings, 'warning')}", "bold $level-high"))
    return Content.assemble(*parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


class ProblemLine(Static):
    """Shows the newest trouble in lines of its own: a path alone can be longer than one."""

    def __init__(self) -> None:
        super().__init__(id="trouble", markup=False)
        self._troubles: dict[str, Problem] = {}
        self.display = False

    def show_problem(self, trouble: Problem) -> None:
        self._troubles.pop(trouble.where, None)
        self._troubles[trouble.where] = trouble
        self._draw()

    def resolve(self, place: str) -> None:
        if self._troubles.pop(place, None):
            self._draw()

    def _draw(self) -> None:
        newest = next(reversed(self._troubles.values()), None)
        self.display = newest is not None
        others = len(self._troubles) - 1
        more = f" (and {others} more)" if others > 0 else ""
        self.update(Content(one_line(f"✗ {newest}{more}")))


TAB_GAP: Final = "  "

_TAB_META: Final = "tab"


class TabBar(Widget):
    """Names the tabs; the one that is shown stands out, not by colour alone."""

    DEFAULT_CSS = """
    TabBar { height: 1; padding: 0 1; text-wrap: nowrap; }
    """

    @dataclass
    class Chosen(Message):
        place: int

    def __init__(self, keys: Sequence[str] = (), *, id: str) -> None:  # noqa: A002 -- Textual's
        """`keys` are written before the names, where these do not name them."""
        super().__init__(id=id)
        self._keys: Final = tuple(f"{key} " for key in keys)
        self._shown: tuple[int, tuple[tuple[str, ...], ...], str] = (0, (), "")

    def show(self, active: int, *names: Sequence[str], note: str = "") -> None:
        """Show the first of these names for which there is room, and a note at the right."""
        shown = (active, tuple(map(tuple, names)), note)
        if shown != self._shown:
            self._shown = shown
            self.refresh()

    def render(self) -> Content:
        _, names, note = self._shown
        tabs, width = Content(""), self.size.width
        for each in names:
            tabs = self._draw_tabs(each)
            if tabs.cell_length <= width:
                break
        room = max(0, width - tabs.cell_length - len(TAB_GAP))
        said = Content.styled(note, "$quiet").truncate(room)
        return tabs + " " * (width - tabs.cell_length - said.cell_length) + said

    def _draw_tabs(self, names: Sequence[str]) -> Content:
        active = self._shown[0]
        keys = self._keys or ("",) * len(names)
        return Content(TAB_GAP).join(
            Content.assemble(
                (key, "$accent" if place == active else "$quiet"),
                (name, "bold underline $foreground" if place == active else "$quiet"),
            ).stylize(Style.from_meta({_TAB_META: place}))
            for place, (key, name) in enumerate(zip(keys, names, strict=True))
        )

    def on_click(self, event: events.Click) -> None:
        place = event.style.meta.get(_TAB_META)
        if isinstance(place, int):
            self.post_message(self.Chosen(place))
