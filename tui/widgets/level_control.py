"""The control of the warning levels: marks on a bar like the fleet's."""

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.content import Content
from textual.style import Style

from ...core.model.levels import Threshold
from ...core.policy.threshold_values import movable_thresholds, move_threshold
from ..base.keymap import bind
from ..text.gauge import LEVEL_MARK, LEVEL_STYLES
from .controls import KNOB, LEFT
from .draggable import Draggable
from .setting_controls import LABEL_CELLS, PART, SettingControl

MAX_BAR_CELLS: Final = 100
MIN_BAR_CELLS: Final = 20
END_CELLS: Final = 28  # for the origin, at the right of the bar


class LevelControl(SettingControl, Draggable):
    """All levels as marks on one bar; ← → move the chosen one, space chooses the next."""

    DEFAULT_CSS = """
    LevelControl { height: 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("space", "next_level", "Next", "choose the next level", "next_level")
    ]

    place = 0  # of the chosen level among those that can be moved

    @property
    def levels(self) -> tuple[Threshold, ...]:
        return movable_thresholds(self.draft)

    @property
    def level(self) -> Threshold | None:
        """The chosen level; None if none is a share of the window."""
        levels = self.levels
        return levels[min(self.place, len(levels) - 1)] if levels else None

    def step(self, steps: int) -> None:
        if self.level is not None:
            self._move(self.level.at + steps / 100)

    def _move(self, at: float) -> None:
        place = min(self.place, len(self.levels) - 1)
        self.set_draft(move_threshold(self.draft, place, at))

    def action_next_level(self) -> None:
        if self.levels:
            self.choose_part((self.place + 1) % len(self.levels))

    def choose_part(self, place: int) -> None:
        self.place = place
        self.refresh()
        self.post_message(self.Changed(self))

    @property
    def _end(self) -> float:
        """The share at the end of the bar."""
        return max(1.0, *(each.at for each in self.levels), 0)

    @property
    def _bar_cells(self) -> int:
        return min(MAX_BAR_CELLS, max(MIN_BAR_CELLS, self.size.width - LABEL_CELLS - END_CELLS))

    def _cell(self, at: float) -> int:
        return min(round(at / self._end * self._bar_cells), self._bar_cells - 1)

    def draw_control(self, cells: int) -> Content:
        del cells  # the bar has room for the longest text at its right
        parts: list[tuple[str, str]] = []
        start = 0
        style = LEVEL_STYLES[None]
        for each in self.levels:
            cell = max(self._cell(each.at), start)
            parts.append((LEFT * (cell - start), style))
            style = LEVEL_STYLES[each.level]
            is_chosen = each is self.level
            mark_style = f"bold {style}" if is_chosen and "bold" not in style else style
            parts.append((KNOB if is_chosen else LEVEL_MARK, mark_style))
            start = cell + 1
        parts.append((LEFT * (self._bar_cells - start), style))
        return Content.assemble(*parts)

    def draw_below(self) -> Sequence[Content]:
        named = [self._draw_level(place) for place in range(len(self.levels))]
        indent, width = Content(" " * LABEL_CELLS), self.size.width
        lines = (indent + Content(gap).join(named) for gap in ("  ", " "))
        line = min(lines, key=lambda each: each.cell_length > width)
        return [line.truncate(width, ellipsis=True)]

    def _draw_level(self, place: int) -> Content:
        each = self.levels[place]
        style = LEVEL_STYLES[each.level]
        if each is self.level:
            style = f"{style.removeprefix('bold ')} bold underline"
        drawn = Content.styled(f"{each.level} {each.at * 100:.4g}%", style)
        return drawn.stylize(Style.from_meta({PART: place}))

    def grab(self, x: int, y: int) -> bool:
        """Choose the nearest mark."""
        cell = x - LABEL_CELLS
        is_on_bar = y == 0 and bool(self.levels) and 0 <= cell < self._bar_cells
        if is_on_bar:
            distances = [abs(self._cell(each.at) - cell) for each in self.levels]
            self.choose_part(distances.index(min(distances)))
        return is_on_bar

    def drag(self, x: int) -> None:
        cell = min(max(x - LABEL_CELLS, 0), self._bar_cells)
        self._move(cell * self._end / self._bar_cells)
