"""What is wrong and lasts, in sight until it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from ..formats import one_line

if TYPE_CHECKING:
    from ...collectors.folder import Trouble


class TroubleLine(Static):
    """Shows the newest trouble in lines of its own: a path alone can be longer than one."""

    def __init__(self) -> None:
        super().__init__(id="trouble", markup=False)
        self._troubles: dict[str, Trouble] = {}
        self.display = False

    def show_problem(self, trouble: Trouble) -> None:
        """Show a trouble."""
        self._troubles.pop(trouble.where, None)
        self._troubles[trouble.where] = trouble
        self._draw()

    def resolve(self, place: str) -> None:
        """Forget a trouble."""
        if self._troubles.pop(place, None):
            self._draw()

    def _draw(self) -> None:
        newest = next(reversed(self._troubles.values()), None)
        self.display = newest is not None
        others = len(self._troubles) - 1
        more = f" (and {others} more)" if others > 0 else ""
        self.update(Content(one_line(f"✗ {newest}{more}")))
