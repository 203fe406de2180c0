"""Definitions of agents and skills, read again when they change."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ...core.store.surroundings_queries import Seen, files_seen
from ...core.store.surroundings_writer import DEFINITIONS, mark_gone, save_definitions
from .changed import read_changed
from .definitions import MOST, find_definitions, read_definition

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ...core.store.writer import Writer
    from .contained import Found
    from .definitions import Home
    from .tell import Tell


class FollowedDefinitions:
    """The definitions that the store knows, by folder."""

    def __init__(self, writer: Writer, tell: Tell) -> None:
        self._writer: Final = writer
        self._problems: Final = tell
        self._known: Final = files_seen(writer.connection, DEFINITIONS)

    def follow(self, home: Home, top: Found | None, root: Path) -> None:
        """Bring the store up to date with one folder, or with that it is not there.

        Raises OSError where it cannot be looked into.
        """
        known = self._known.get(str(home.folder), {})
        if top is None and not known:
            return
        present = self._present(home, top, root)
        changed = read_changed(
            present, known, lambda found: read_definition(found, home), self._problems
        )
        gone = known.keys() - present.keys()
        if changed or gone:
            with self._writer.transaction():
                save_definitions(self._writer, changed)
                mark_gone(self._writer, DEFINITIONS, gone)
            known = {path: seen for path, seen in known.items() if path not in gone}
            known |= {fact.path: Seen(fact.mark, fact.problem) for fact in changed}
            self._known[str(home.folder)] = known

    def forget_below(self, places: Iterable[Path]) -> None:
        """Note that folders are gone with all that they held."""
        for place in places:
            for folder in [str(place / "agents"), str(place / "skills")]:
                mark_gone(self._writer, DEFINITIONS, self._known.pop(folder, {}))

    def _present(self, home: Home, top: Found | None, root: Path) -> dict[str, Found]:
        place = str(home.folder)
        if top is None:
            self._problems.resolve(place)
            return {}
        found = list(islice(find_definitions(home.kind, top, root), MOST + 1))
        too_many = f"holds more than {MOST} definitions" if len(found) > MOST else None
        self._problems.report_or_resolve(
            place, top.problem or too_many, "the rest of it is left alone"
        )
        return {str(each.path): each for each in found[:MOST]}
