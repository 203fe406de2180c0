"""How much of each session's title the fleet shows at 80, 120 and 200 columns.

Usage: python -m tests.bench.fleet_titles CONFIG_DIR. Reads the folder into a store of its own.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ctxtop.core.model.session import Session
from ctxtop.tui.screens.fleet.session_table import (
    SessionLine,
    SessionTableLayout,
    lay_out_columns,
    measure_needs,
    session_line,
)

WIDTHS: Final = (80, 120, 200)  # columns of the terminal
FRAME_CELLS: Final = 5  # of the pane: its border, padding and scroll bar
ENOUGH_CELLS: Final = 40  # a title that is cut at its end tells sessions apart from here on
ELLIPSIS: Final = "…"

BOILERPLATE: Final = re.compile(
    r"Implement the following plan|^#+\s|<command-|^/(?:clear|model|plan)\b|^\W*(?:\w|hi|ok"
    r"|continue|resume please)\W*$|^\s*(?:at \S+ \(|Traceback|\[?\d{4}-\d\d-\d\d[T ]\d\d:)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TitleFigures:
    width: int
    cells: int  # of the title's column
    whole: int
    cut_at_end: int  # with at least ENOUGH_CELLS cells
    distinct: int
    boilerplate: int
    sessions: int

    @property
    def row(self) -> str:
        legible = (self.whole + self.cut_at_end) / max(1, self.sessions)
        return (
            f"{self.width:>5} {self.cells:>6} {self.whole:>6} {self.cut_at_end:>11}"
            f" {legible:>9.0%} {self.distinct:>9} {self.boilerplate:>12} {self.sessions:>9}"
        )


HEADER: Final = "width  cells  whole  cut at end   legible  distinct  boilerplate  sessions"


def shown_title(session: Session, layout: SessionTableLayout, now_ms: int) -> str:
    """Return the text in the title's column as the fleet draws it."""
    start = 0
    for column in layout.columns:
        if column.name == "title":
            line = session_line(SessionLine(session, now_ms), layout)
            return line.plain[start : start + column.cells].rstrip()
        start += column.cells + 1
    return ""


def measure(sessions: Sequence[Session], width: int, now_ms: int) -> TitleFigures:
    layout = lay_out_columns(width - FRAME_CELLS, measure_needs(sessions, now_ms))
    cells = next(column.cells for column in layout.columns if column.name == "title")
    shown = [(each.title, shown_title(each, layout, now_ms)) for each in sessions]
    cut = [text for title, text in shown if text != title]
    return TitleFigures(
        width=width,
        cells=cells,
        whole=len(shown) - len(cut),
        cut_at_end=sum(text.endswith(ELLIPSIS) and cells >= ENOUGH_CELLS for text in cut),
        distinct=len({text for _, text in shown}),
        boilerplate=sum(bool(BOILERPLATE.search(title)) for title, _ in shown),
        sessions=len(shown),
    )


def read(config_dir: Path) -> tuple[list[Session], int]:
    from ctxtop.collectors.locations.places import Places
    from ctxtop.collectors.store_update import update_store
    from ctxtop.core.readers.fleet_reader import read_sessions
    from ctxtop.core.store.database import open_reader

    with tempfile.TemporaryDirectory() as folder:
        places = Places(config_dir, Path(folder) / "titles.db")
        update_store(places)
        with closing(open_reader(places.store)) as db:
            sessions = read_sessions(db, 0)
    newest = max((each.last_activity_at or 0 for each in sessions), default=0)
    return sessions, newest


def main() -> None:
    sessions, now_ms = read(Path(sys.argv[1]))
    print(HEADER)
    for width in WIDTHS:
        print(measure(sessions, width, now_ms).row)
    if "--titles" in sys.argv:
        print(*sorted({each.title for each in sessions}), sep="\n")


if __name__ == "__main__":
    main()
