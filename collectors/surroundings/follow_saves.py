"""The save flow of claude-memory, followed in every place; nothing of it is ever changed."""

from __future__ import annotations

from itertools import accumulate, compress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ...core.store import surroundings_queries as queries
from ...core.store.facts import TailState
from ...core.store.surroundings_facts import Generation, SaveKind, SaveLog
from ...core.store.surroundings_writer import (
    SAVE_FILES,
    SAVE_LOGS,
    SAVE_PLACES,
    mark_gone,
    save_files,
    save_place,
)
from ...core.store.writer import GONE, StaleTailError
from ..clean import clean_title
from .changed import read_changed
from .contained import child, children, unlinked
from .save_flow import (
    RESULT,
    STOP_FLAG,
    Staging,
    check_place,
    kind_of,
    read_save_file,
    staging_places,
)
from .save_log import MOST, MOST_BYTES, find_logs, follow_log

if TYPE_CHECKING:
    from ...core.store.surroundings_facts import SaveFileFact
    from ...core.store.writer import Writer
    from .contained import Found
    from .machine import Machine
    from .tell import Tell

MOST_FILES: Final = 100
"""Followed files of one staging folder: one each, and a context file for each category."""

Present = dict[str, tuple["Found", SaveKind]]
"""What stands in a place now, by path."""


class FollowedSaves:
    """The files of the save flow that the store knows, by staging folder."""

    def __init__(self, writer: Writer, machine: Machine, tell: Tell) -> None:
        self._writer: Final = writer
        self._folders: Final = machine
        self._problems: Final = tell
        self._known: Final = queries.files_seen(writer.connection, SAVE_FILES)
        self._places: Final = {each.path: each for each in queries.save_places(writer.connection)}
        self._logs = queries.save_logs(writer.connection)
        self._staging: Final[dict[tuple[str, Path], list[Staging]]] = {}
        self._owners: Final[dict[Path, str]] = {}

    def follow_global(self, folder: Found, root: Path) -> None:
        """Look at the result that the first versions wrote for all projects (004-44)."""
        found = child(folder, RESULT, root)
        staging = Staging(folder.path, Generation.GLOBAL, None)
        self._follow_files(staging, {str(found.path): (found, SaveKind.RESULT)} if found else {})

    def follow_project(self, cwd: str, root: Path, claude: Found | None) -> None:
        """Look at one project's files; `root` is its folder without links, `claude` its .claude.

        Raises OSError where they cannot be looked at.
        """
        memory = child(claude, "memory", root) if claude else None
        inside = Staging(Path(cwd, ".claude", "memory", ".staging"), Generation.PROJECT, cwd)
        present = self._present(inside, child(memory, ".staging", root) if memory else None, root)
        if claude and (flag := child(claude, STOP_FLAG, root)):
            present[str(flag.path)] = flag, SaveKind.STOP_FLAG
        self._follow_files(inside, present)
        for staging in self._staging_of(cwd, root):
            found = unlinked(staging.path)
            self._follow_files(staging, self._present(staging, found, staging.path))
        self._follow_logs(cwd, child(memory, "logs", root) if memory else None, root)

    def _staging_of(self, cwd: str, root: Path) -> list[Staging]:
        key = cwd, root
        if key not in self._staging:
            self._staging[key] = staging_places(self._folders, cwd, root)
        # A link to a project has the same folders: they are followed for one of the two.
        return [
            staging
            for staging in self._staging[key]
            if self._owners.setdefault(staging.path, cwd) == cwd
        ]

    def _present(self, staging: Staging, found: Found | None, root: Path) -> Present:
        """List what is followed in a folder; nothing where it is not there or is refused."""
        place = str(staging.path)
        known = self._places.get(place)
        if found is None:
            if known:
                mark_gone(self._writer, SAVE_PLACES, [place])
                del self._places[place]
                self._problems.resolve(place)
            return {}
        fact = check_place(found, staging, self._folders.user_id)
        if fact != known:
            save_place(self._writer, fact)
            self._places[place] = fact
        self._problems.report_or_resolve(place, fact.problem, "it is left alone; see who made it")
        if fact.problem:
            return {}
        files = [
            (each, kind) for each in children(found, root) if (kind := kind_of(each.path.name))
        ]
        return {str(each.path): (each, kind) for each, kind in files[:MOST_FILES]}

    def _follow_files(self, staging: Staging, present: Present) -> None:
        known = self._known.get(str(staging.path), {})
        if not present and not known:
            return

        def read(found: Found) -> SaveFileFact:
            kind = present[str(found.path)][1]
            return read_save_file(found, kind, staging, self._folders.user_id)

        files = {path: found for path, (found, _) in present.items()}
        changed = read_changed(files, known, read, self._problems)
        gone = known.keys() - present.keys()
        if changed or gone:
            with self._writer.transaction():
                save_files(self._writer, changed)
                mark_gone(self._writer, SAVE_FILES, gone)
            known = {path: seen for path, seen in known.items() if path not in gone}
            known |= {fact.path: queries.Seen(fact.mark, fact.problem) for fact in changed}
            self._known[str(staging.path)] = known

    def _follow_logs(self, cwd: str, top: Found | None, root: Path) -> None:
        folder = str(Path(cwd, ".claude", "memory", "logs"))
        present = set()
        if top:
            # The newest days of all categories, should there be too many.
            found = sorted(find_logs(top, root), key=lambda each: -each[1].status.st_mtime_ns)
            newest = found[:MOST]
            sizes = accumulate(each.status.st_size for _, each in newest)
            fits = [size <= MOST_BYTES for size in sizes]
            too_much = None if all(fits) else f"holds more than {MOST_BYTES >> 20} MiB"
            self._problems.report_or_resolve(folder, too_much, "only the newest logs are read")
            for category, each in reversed(list(compress(newest, fits))):
                present.add(str(each.path))
                self._follow_log(SaveLog(str(each.path), folder, cwd, clean_title(category)), each)
        gone = [
            path
            for path, (log, tail) in self._logs.items()
            if log.folder == folder and path not in present and tail.size != GONE
        ]
        if gone:
            mark_gone(self._writer, SAVE_LOGS, gone)
            for path in gone:
                log, tail = self._logs[path]
                self._logs[path] = log, replace(tail, size=GONE)

    def _follow_log(self, log: SaveLog, found: Found) -> None:
        _, before = self._logs.get(log.path, (log, TailState()))
        status = found.status
        if (before.size, before.mtime_ns, before.inode) == (
            status.st_size,
            status.st_mtime_ns,
            status.st_ino,
        ):
            return
        try:
            self._logs[log.path] = log, follow_log(self._writer, log, found, before)
        except FileNotFoundError:
            return
        except OSError as error:
            self._problems.report_unreadable(log.path, error)
        except StaleTailError:
            # Another ctxtop was faster: what it stored is what we would have.
            self._logs = queries.save_logs(self._writer.connection)
        else:
            self._problems.resolve(log.path)
