"""Settings files, read again when they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.store.surroundings_queries import Seen, files_seen
from ...core.store.surroundings_writer import SETTINGS, mark_gone, save_settings
from .settings import read_settings

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.store.surroundings_facts import Scope
    from ...core.store.writer import Writer
    from .contained import Found
    from .tell import Tell


class FollowedSettings:
    """The settings files that the store knows."""

    def __init__(self, writer: Writer, tell: Tell) -> None:
        self._writer: Final = writer
        self._problems: Final = tell
        self._known: Final = files_seen(writer.connection, SETTINGS)

    def known_names(self, folder: Path) -> set[str]:
        """Name the files of a folder that were there the last time."""
        known = self._known.get(str(folder), {})
        return {path.rpartition("/")[2] for path in known}

    def follow(self, path: Path, found: Found | None, scope: Scope, project: str | None) -> None:
        """Bring the store up to date with one file, or with that it is not there."""
        known = self._known.setdefault(str(path.parent), {})
        place = str(path)
        seen = known.get(place)
        if found is None:
            if seen:
                mark_gone(self._writer, SETTINGS, [place])
                del known[place]
                self._problems.resolve(place)
            return
        if seen is None or seen.mark != found.mark:
            try:
                fact = read_settings(found, scope, project)
            except FileNotFoundError:
                return
            except OSError as error:
                self._problems.report_unreadable(place, error)
                return
            save_settings(self._writer, fact)
            seen = known[place] = Seen(fact.mark, fact.problem)
        self._problems.report_or_resolve(
            place, seen.problem, "Claude Code ignores the file whole: correct it"
        )
