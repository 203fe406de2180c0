"""Follows claude-memory's log, installation and files, and changes none of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, compress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ....core.store.config_records import (
    MEMORY_PLUGINS_TABLE,
    SAVE_FILES_TABLE,
    SAVE_LOGS_TABLE,
    STAGING_FOLDERS_TABLE,
    MemoryPluginRecord,
    SaveEventRecord,
    SaveFileKind,
    SaveFileRecord,
    SaveLogFile,
    StagingLocation,
    append_save_log,
    delete_memory_plugins,
    mark_gone,
    restart_save_log,
    save_files,
    save_records,
)
from ....core.store.queries import config_queries as queries
from ....core.store.transcript_records import BadLine, TailState
from ....core.store.writer import GONE_SIZE, StaleTailError, Writer
from ....core.transcript.sanitize import sanitize_title
from ..tail import RawLine, TailChange, read_tail, split_lines
from .config_files import (
    MAX_FOLDER_ENTRIES,
    ConfigPath,
    FileTooLargeError,
    InvalidJsonError,
    as_float,
    as_ms,
    as_title,
    decode_json,
    encode_bounded,
    find_child,
    find_unlinked_folder,
    list_children,
    read_changed_files,
    read_config_file,
    read_problem,
)
from .save_files import (
    RESULT_FILE,
    STOP_FLAG_FILE,
    StagingFolder,
    SystemFolders,
    check_staging_folder,
    list_staging_folders,
    read_save_file,
    save_file_kind,
)

if TYPE_CHECKING:
    from ....core.model.problem import ProblemReporter


MAX_LOG_FILES: Final = 500
"""Files of one project; claude-memory keeps 14 days of about five categories."""

MAX_LOG_BYTES: Final = 64 * 1024 * 1024
"""Of one project's logs; a busy day writes some hundred kilobytes, and each line is a row."""

_LOG_SUFFIX: Final = ".jsonl"
_BAD_LINE_EVENT: Final = "bad line"  # event of a line that is none


def find_save_logs(top: ConfigPath, root: Path) -> Iterator[tuple[str, ConfigPath]]:
    """List a project's logs with their category; raises OSError where that is not possible."""
    left = MAX_FOLDER_ENTRIES
    for category in list_children(top, root, left):
        if category.is_folder:
            inside = list_children(category, root, left)
            left -= len(inside)
            for found in inside:
                if found.path.suffix == _LOG_SUFFIX:
                    yield category.path.name, found


def read_save_log(
    writer: Writer, log: SaveLogFile, found: ConfigPath, before: TailState
) -> TailState:
    """Store the events that were added to a log, each once; say how far it is read now.

    Raises StaleTailError where another ctxtop read it first, OSError where it cannot be read.
    """
    while True:
        read = read_tail(found.real, before)
        if read.change is TailChange.REWRITTEN:
            restart_save_log(writer, log, before)
            before = TailState()
            continue
        events = [_to_save_event(line) for line in split_lines(read.block)] + [
            _to_bad_event(bad) for bad in read.bad_lines
        ]
        append_save_log(writer, log, before, read.after, events)
        before = read.after
        if not read.has_more:
            return before


def _to_save_event(line: RawLine) -> SaveEventRecord:
    offset, data = line
    try:
        said = decode_json(data)
    except InvalidJsonError as error:
        return SaveEventRecord(offset, _BAD_LINE_EVENT, problem=str(error))
    if not isinstance(said, dict):
        return SaveEventRecord(offset, _BAD_LINE_EVENT, problem="is not a JSON object")
    kept = {name: encode_bounded(said[name]) for name in ("data", "error") if said.get(name)}
    too_long = None in kept.values()
    return SaveEventRecord(
        offset=offset,
        event=as_title(said.get("event_type")) or "unknown",
        at=as_ms(said.get("timestamp")),
        level=as_title(said.get("level")),
        hook=as_title(said.get("hook")),
        script=as_title(said.get("script")),
        session_id=as_title(said.get("session_id")),
        duration_ms=as_float(said.get("duration_ms")),
        data=kept.get("data"),
        error=kept.get("error"),
        problem="holds more than is kept of its data" if too_long else None,
    )


def _to_bad_event(bad: BadLine) -> SaveEventRecord:
    return SaveEventRecord(bad.offset, _BAD_LINE_EVENT, problem=bad.reason)


MEMORY_PLUGIN_NAME: Final = "claude-memory"
"""In the plugin's id, whatever marketplace it comes from."""

MAX_PLUGIN_FILE_BYTES: Final = 512 * 1024  # bytes; the largest of these files has about 70 KB
_TRIAGE_FILE_TAG: Final = b"triage_data_file"
_SKILL_PATH: Final = ("skills", "memory-management", "SKILL.md")
_TRIAGE_PATH: Final = ("hooks", "scripts", "memory_triage.py")
_ORCHESTRATOR_PATH: Final = ("hooks", "scripts", "memory_orchestrate.py")


def is_memory_plugin(plugin_id: str) -> bool:
    return plugin_id.partition("@")[0].lower() == MEMORY_PLUGIN_NAME


class MemoryPluginFollower:
    """What the store knows of each installation; read again when a file of it changes."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer
        self._known: Final = {
            each.install_path: each for each in queries.memory_plugins(writer.connection)
        }

    def follow(
        self,
        plugin_id: str,
        version: str | None,
        place: Path,
        folder: ConfigPath | None,
        root: Path,
    ) -> None:
        """Look at an installation; raises OSError where it cannot be looked at."""
        path = str(place)
        known = self._known.get(path)
        found = [
            _find_below(folder, parts, root)
            for parts in (_SKILL_PATH, _TRIAGE_PATH, _ORCHESTRATOR_PATH)
        ]
        skill, triage, orchestrate = found
        mark = f"{version or ''} " + " ".join(_file_mark(each) for each in found)
        if known and known.mark == mark and known.plugin_id == plugin_id:
            return
        fact = MemoryPluginRecord(
            install_path=path,
            plugin_id=plugin_id,
            version=version,
            mark=mark,
            skill_takes_file=_mentions_triage_file(skill),
            triage_writes_file=_mentions_triage_file(triage),
            has_orchestrator=orchestrate is not None,
        )
        save_records(self._writer, MEMORY_PLUGINS_TABLE, [fact])
        self._known[path] = fact

    def keep_only(self, places: Iterable[str]) -> None:
        """Forget installations that are no more."""
        left = self._known.keys() - set(places)
        if left:
            delete_memory_plugins(self._writer, left)
            for place in left:
                del self._known[place]


def _find_below(folder: ConfigPath | None, parts: tuple[str, ...], root: Path) -> ConfigPath | None:
    found = folder
    for name in parts:
        found = find_child(found, name, root) if found else None
    return found if found and read_problem(found) is None else None


def _file_mark(found: ConfigPath | None) -> str:
    if found is None:
        return "-"
    mark = found.mark
    return f"{mark.size}:{mark.mtime_ns}:{mark.inode}"


def _mentions_triage_file(found: ConfigPath | None) -> bool | None:
    if found is None:
        return None
    try:
        return _TRIAGE_FILE_TAG in read_config_file(found, MAX_PLUGIN_FILE_BYTES)
    except (FileNotFoundError, FileTooLargeError):
        # Gone meanwhile, or no file of the plugin's: it says nothing.
        return None


MAX_STAGING_FILES: Final = 100
"""Followed files of one staging folder: one each, and a context file for each category."""

PresentFiles = dict[str, tuple["ConfigPath", SaveFileKind]]  # what stands in a place now, by path


class SaveFollower:
    """The files of the save flow that the store knows, by staging folder."""

    def __init__(self, writer: Writer, machine: SystemFolders, tell: ProblemReporter) -> None:
        self._writer: Final = writer
        self._folders: Final = machine
        self._problems: Final = tell
        self._known: Final = queries.files_seen(writer.connection, SAVE_FILES_TABLE)
        self._places: Final = {
            each.path: each for each in queries.staging_folders(writer.connection)
        }
        self._logs = queries.save_log_files(writer.connection)
        self._staging: Final[dict[tuple[str, Path], list[StagingFolder]]] = {}
        self._owners: Final[dict[Path, str]] = {}

    def follow_global(self, folder: ConfigPath, root: Path) -> None:
        """Look at the result that the first versions wrote for all projects (004-44)."""
        found = find_child(folder, RESULT_FILE, root)
        staging = StagingFolder(folder.path, StagingLocation.GLOBAL, None)
        self._follow_files(
            staging, {str(found.path): (found, SaveFileKind.RESULT)} if found else {}
        )

    def follow_project(self, cwd: str, root: Path, claude: ConfigPath | None) -> None:
        """Look at one project's files; `root` is its folder without links, `claude` its .claude.

        Raises OSError where they cannot be looked at.
        """
        memory = find_child(claude, "memory", root) if claude else None
        inside = StagingFolder(
            Path(cwd, ".claude", "memory", ".staging"), StagingLocation.PROJECT, cwd
        )
        present = self._present(
            inside, find_child(memory, ".staging", root) if memory else None, root
        )
        if claude and (flag := find_child(claude, STOP_FLAG_FILE, root)):
            present[str(flag.path)] = flag, SaveFileKind.STOP_FLAG
        self._follow_files(inside, present)
        for staging in self._staging_of(cwd, root):
            found = find_unlinked_folder(staging.path)
            self._follow_files(staging, self._present(staging, found, staging.path))
        self._follow_logs(cwd, find_child(memory, "logs", root) if memory else None, root)

    def _staging_of(self, cwd: str, root: Path) -> list[StagingFolder]:
        key = cwd, root
        if key not in self._staging:
            self._staging[key] = list_staging_folders(self._folders, cwd, root)
        # A link to a project has the same folders: they are followed for one of the two.
        return [
            staging
            for staging in self._staging[key]
            if self._owners.setdefault(staging.path, cwd) == cwd
        ]

    def _present(
        self, staging: StagingFolder, found: ConfigPath | None, root: Path
    ) -> PresentFiles:
        """List what is followed in a folder; nothing where it is not there or is refused."""
        place = str(staging.path)
        known = self._places.get(place)
        if found is None:
            if known:
                mark_gone(self._writer, STAGING_FOLDERS_TABLE, [place])
                del self._places[place]
                self._problems.resolve(place)
            return {}
        fact = check_staging_folder(found, staging, self._folders.user_id)
        if fact != known:
            save_records(self._writer, STAGING_FOLDERS_TABLE, [fact])
            self._places[place] = fact
        self._problems.report_or_resolve(place, fact.problem, "it is left alone; see who made it")
        if fact.problem:
            return {}
        files = [
            (each, kind)
            for each in list_children(found, root)
            if (kind := save_file_kind(each.path.name))
        ]
        return {str(each.path): (each, kind) for each, kind in files[:MAX_STAGING_FILES]}

    def _follow_files(self, staging: StagingFolder, present: PresentFiles) -> None:
        known = self._known.get(str(staging.path), {})
        if not present and not known:
            return

        def read(found: ConfigPath) -> SaveFileRecord:
            kind = present[str(found.path)][1]
            return read_save_file(found, kind, staging, self._folders.user_id)

        files = {path: found for path, (found, _) in present.items()}
        changed = read_changed_files(files, known, read, self._problems)
        gone = known.keys() - present.keys()
        if changed or gone:
            with self._writer.transaction():
                save_files(self._writer, changed)
                mark_gone(self._writer, SAVE_FILES_TABLE, gone)
            known = {path: seen for path, seen in known.items() if path not in gone}
            known |= {fact.path: queries.SeenFile(fact.mark, fact.problem) for fact in changed}
            self._known[str(staging.path)] = known

    def _follow_logs(self, cwd: str, top: ConfigPath | None, root: Path) -> None:
        folder = str(Path(cwd, ".claude", "memory", "logs"))
        present = set()
        if top:
            # The newest days of all categories, should there be too many.
            found = sorted(find_save_logs(top, root), key=lambda each: -each[1].status.st_mtime_ns)
            newest = found[:MAX_LOG_FILES]
            sizes = accumulate(each.status.st_size for _, each in newest)
            fits = [size <= MAX_LOG_BYTES for size in sizes]
            too_much = None if all(fits) else f"holds more than {MAX_LOG_BYTES >> 20} MiB"
            self._problems.report_or_resolve(folder, too_much, "only the newest logs are read")
            for category, each in reversed(list(compress(newest, fits))):
                present.add(str(each.path))
                self._follow_log(
                    SaveLogFile(str(each.path), folder, cwd, sanitize_title(category)), each
                )
        gone = [
            path
            for path, (log, tail) in self._logs.items()
            if log.folder == folder and path not in present and tail.size != GONE_SIZE
        ]
        if gone:
            mark_gone(self._writer, SAVE_LOGS_TABLE, gone)
            for path in gone:
                log, tail = self._logs[path]
                self._logs[path] = log, replace(tail, size=GONE_SIZE)

    def _follow_log(self, log: SaveLogFile, found: ConfigPath) -> None:
        _, before = self._logs.get(log.path, (log, TailState()))
        status = found.status
        if (before.size, before.mtime_ns, before.inode) == (
            status.st_size,
            status.st_mtime_ns,
            status.st_ino,
        ):
            return
        try:
            self._logs[log.path] = log, read_save_log(self._writer, log, found, before)
        except FileNotFoundError:
            return
        except OSError as error:
            self._problems.report_unreadable(log.path, error)
        except StaleTailError:
            # Another ctxtop was faster: what it stored is what we would have.
            self._logs = queries.save_log_files(self._writer.connection)
        else:
            self._problems.resolve(log.path)
