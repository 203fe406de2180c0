"""Follows claude-memory's logs, installations and files, and changes none of them."""

from collections.abc import Iterable, Iterator
from itertools import accumulate, compress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ....core.model.config_records import (
    MemoryPluginRecord,
    SaveEventRecord,
    SaveLogFile,
    StagingLocation,
)
from ....core.model.problem import ProblemReporter
from ....core.model.transcript_records import TailState
from ....core.store import config_writer
from ....core.store.queries import config_queries as queries
from ....core.store.writer import GONE_SIZE, StaleTailError, Writer
from ....core.transcript.sanitize import sanitize_title
from ..tail import TailChange, read_tail, split_lines
from . import save_files
from .config_files import (
    MAX_FOLDER_ENTRIES,
    ConfigPath,
    FileFollower,
    FileTooLargeError,
    InvalidJsonError,
    as_float,
    as_ms,
    as_title,
    decode_object,
    encode_bounded,
    find_child,
    find_unlinked_folder,
    list_children,
    read_config_file,
    read_problem,
)

MAX_LOG_FILES: Final = 500  # of one project; claude-memory keeps 14 days of five categories
MAX_LOG_BYTES: Final = 64 * 1024 * 1024  # of one project; a busy day writes some 100 kB
_BAD_LINE_EVENT: Final = "bad line"


def find_save_logs(top: ConfigPath, root: Path) -> Iterator[tuple[str, ConfigPath]]:
    left = MAX_FOLDER_ENTRIES
    for category in list_children(top, root, left):
        if category.is_folder:
            inside = list_children(category, root, left)
            left -= len(inside)
            for found in inside:
                if found.path.suffix == ".jsonl":
                    yield category.path.name, found


def read_save_log(
    writer: Writer, log: SaveLogFile, found: ConfigPath, before: TailState
) -> TailState:
    """Store what was appended to a log; raises StaleTailError after another ctxtop, or OSError."""
    while True:
        read = read_tail(found.real, before)
        if read.change is TailChange.REWRITTEN:
            config_writer.restart_save_log(writer, log, before)
            before = TailState()
            continue
        events = [_to_save_event(*line) for line in split_lines(read.block)]
        events += [
            SaveEventRecord(bad.offset, _BAD_LINE_EVENT, problem=bad.reason)
            for bad in read.bad_lines
        ]
        config_writer.append_save_log(writer, log, before, read.after, events)
        before = read.after
        if not read.has_more:
            return before


def _to_save_event(offset: int, line: bytes) -> SaveEventRecord:
    try:
        fields = decode_object(line)
    except InvalidJsonError as error:
        return SaveEventRecord(offset, _BAD_LINE_EVENT, problem=str(error))
    kept = {name: encode_bounded(fields[name]) for name in ("data", "error") if fields.get(name)}
    return SaveEventRecord(
        offset=offset,
        event=as_title(fields.get("event_type")) or "unknown",
        at=as_ms(fields.get("timestamp")),
        duration_ms=as_float(fields.get("duration_ms")),
        problem="contains more data than ctxtop keeps" if None in kept.values() else None,
        **kept,
    )


MEMORY_PLUGIN_NAME: Final = "claude-memory"  # in plugin ids, from any marketplace
MAX_PLUGIN_FILE_BYTES: Final = 512 * 1024  # bytes; the largest of these files has about 70 KB
_PLUGIN_FILES: Final = (
    ("skills", "memory-management", "SKILL.md"),
    ("hooks", "scripts", "memory_triage.py"),
    ("hooks", "scripts", "memory_orchestrate.py"),
)


def is_memory_plugin(plugin_id: str) -> bool:
    return plugin_id.partition("@")[0].lower() == MEMORY_PLUGIN_NAME


class MemoryPluginFollower:
    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer
        plugins = queries.memory_plugins(writer.connection)
        self._known: Final = {plugin.install_path: plugin for plugin in plugins}

    def follow(
        self,
        plugin_id: str,
        version: str | None,
        place: Path,
        folder: ConfigPath | None,
        root: Path,
    ) -> None:
        path = str(place)
        known = self._known.get(path)
        files = [_find_below(folder, parts, root) for parts in _PLUGIN_FILES]
        skill, triage, orchestrate = files
        marks = [found.mark if found else None for found in files]
        mark = " ".join(f"{m.size}:{m.mtime_ns}:{m.inode}" if m else "-" for m in marks)
        mark = f"{version or ''} {mark}"
        if known and known.mark == mark and known.plugin_id == plugin_id:
            return
        record = MemoryPluginRecord(
            install_path=path,
            plugin_id=plugin_id,
            version=version,
            mark=mark,
            skill_takes_file=_mentions_triage_file(skill),
            triage_writes_file=_mentions_triage_file(triage),
            has_orchestrator=orchestrate is not None,
        )
        config_writer.save_records(self._writer, config_writer.MEMORY_PLUGINS_TABLE, [record])
        self._known[path] = record

    def keep_only(self, places: Iterable[str]) -> None:
        removed = self._known.keys() - set(places)
        if removed:
            config_writer.delete_memory_plugins(self._writer, removed)
            for place in removed:
                del self._known[place]


def _find_below(folder: ConfigPath | None, parts: tuple[str, ...], root: Path) -> ConfigPath | None:
    found = folder
    for name in parts:
        found = find_child(found, name, root)
    return found if found and read_problem(found) is None else None


def _mentions_triage_file(found: ConfigPath | None) -> bool | None:
    if found is None:
        return None
    try:
        return b"triage_data_file" in read_config_file(found, MAX_PLUGIN_FILE_BYTES)
    except (FileNotFoundError, FileTooLargeError):
        # Gone meanwhile, or not one of the plugin's files.
        return None


MAX_STAGING_FILES: Final = 100  # of one folder: one a kind, one context a category


class SaveFollower:
    def __init__(
        self, writer: Writer, machine: save_files.SystemFolders, problems: ProblemReporter
    ) -> None:
        self._writer: Final = writer
        self._folders: Final = machine
        self._problems: Final = problems
        self._files: Final = FileFollower(
            writer, problems, config_writer.SAVE_FILES_TABLE, config_writer.save_files
        )
        folders = queries.staging_folders(writer.connection)
        self._places: Final = {folder.path: folder for folder in folders}
        self._logs = queries.save_log_files(writer.connection)
        self._staging: Final[dict[tuple[str, Path], list[save_files.StagingFolder]]] = {}
        self._owners: Final[dict[Path, str]] = {}

    def follow_global(self, folder: ConfigPath, root: Path) -> None:
        """Follow the result file that the first versions wrote for all projects (004-44)."""
        found = find_child(folder, save_files.RESULT_FILE, root)
        staging = save_files.StagingFolder(folder.path, StagingLocation.GLOBAL, None)
        self._follow_files(staging, [found] if found else [])

    def follow_project(self, cwd: str, root: Path, claude: ConfigPath | None) -> None:
        """Follow a project's files; `root` is its folder without links. Raises OSError."""
        memory = find_child(claude, "memory", root)
        path = Path(cwd, ".claude", "memory", ".staging")
        inside = save_files.StagingFolder(path, StagingLocation.PROJECT, cwd)
        found = find_child(memory, ".staging", root)
        files = self._list_files(inside, found, root)
        for folder, name in ((claude, save_files.STOP_FLAG_FILE), (memory, save_files.CONFIG_FILE)):
            if folder and (outside := find_child(folder, name, root)):
                files.append(outside)
        self._follow_files(inside, files)
        for staging in self._staging_of(cwd, root):
            found = find_unlinked_folder(staging.path)
            self._follow_files(staging, self._list_files(staging, found, staging.path))
        self._follow_logs(cwd, find_child(memory, "logs", root), root)

    def _staging_of(self, cwd: str, root: Path) -> list[save_files.StagingFolder]:
        key = cwd, root
        if key not in self._staging:
            self._staging[key] = save_files.list_staging_folders(self._folders, cwd, root)
        # A link to a project has the same folders: they are followed for one of the two only.
        return [
            staging
            for staging in self._staging[key]
            if self._owners.setdefault(staging.path, cwd) == cwd
        ]

    def _list_files(
        self, staging: save_files.StagingFolder, found: ConfigPath | None, root: Path
    ) -> list[ConfigPath]:
        place = str(staging.path)
        known = self._places.get(place)
        if found is None:
            if known:
                config_writer.mark_gone(self._writer, config_writer.STAGING_FOLDERS_TABLE, [place])
                del self._places[place]
                self._problems.resolve(place)
            return []
        record = save_files.check_staging_folder(found, staging, self._folders.user_id)
        if record != known:
            config_writer.save_records(self._writer, config_writer.STAGING_FOLDERS_TABLE, [record])
            self._places[place] = record
        self._problems.report_or_resolve(
            place, record.problem, "it is skipped; check who created it"
        )
        if record.problem:
            return []
        files = [
            child
            for child in list_children(found, root)
            if save_files.save_file_kind(child.path.name)
        ]
        return files[:MAX_STAGING_FILES]

    def _follow_files(self, staging: save_files.StagingFolder, present: list[ConfigPath]) -> None:
        user_id = self._folders.user_id
        self._files.follow_folder(
            staging.path, present, lambda found: save_files.read_save_file(found, staging, user_id)
        )

    def _follow_logs(self, cwd: str, top: ConfigPath | None, root: Path) -> None:
        folder = str(Path(cwd, ".claude", "memory", "logs"))
        present = set()
        if top:
            # If there are too many, the newest days of all categories are read.
            logs = sorted(find_save_logs(top, root), key=lambda log: -log[1].status.st_mtime_ns)
            newest = logs[:MAX_LOG_FILES]
            sizes = accumulate(found.status.st_size for _, found in newest)
            fits = [size <= MAX_LOG_BYTES for size in sizes]
            too_much = None if all(fits) else f"contains more than {MAX_LOG_BYTES >> 20} MiB"
            self._problems.report_or_resolve(folder, too_much, "only the newest logs are read")
            for category, found in reversed(list(compress(newest, fits))):
                path = str(found.path)
                present.add(path)
                self._follow_log(SaveLogFile(path, folder, cwd, sanitize_title(category)), found)
        gone = [
            path
            for path, (log, tail) in self._logs.items()
            if log.folder == folder and path not in present and tail.size != GONE_SIZE
        ]
        if gone:
            config_writer.mark_gone(self._writer, config_writer.SAVE_LOGS_TABLE, gone)
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
            # Another ctxtop was faster and stored the same.
            self._logs = queries.save_log_files(self._writer.connection)
        else:
            self._problems.resolve(log.path)
