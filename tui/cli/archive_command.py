"""`ctxtop archive`: keep sessions that Claude Code is about to delete, and bring them back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from ...collectors.claude_code.archive_job import SKIPPED_FIX, SessionArchiver, prune_archive
from ...core.archive.archive_index import (
    ArchivedSession,
    NotArchivedError,
    SkippedFile,
    TranscriptArchive,
    sessions_to_prune,
)
from ...core.archive.archive_mode import ArchiveMode
from ...core.archive.archive_policy import read_archive_settings
from ...core.archive.restoring import NotRestoredError, RestoreConflictError, restore_session
from ...core.files.blob_store import remove_unreferenced_chunks
from ...core.measure.retention import cleanup_days, deletion_time
from ...core.store.database import state_folder
from ...core.store.queries import archive_queries, config_queries
from ...core.transcript.sanitize import one_line
from ..base.command_errors import DONE, FAILED, UNSAFE, RefusedError, print_error
from ..text.formats import format_bytes, iso_time, plural
from ..text.tables import Column, TextColumn
from .command_options import (
    dry_run_option,
    options_of,
    registry,
    store_options,
)
from .command_store import StoreSnapshot, open_snapshot
from .printing import draw_table, print_result

if TYPE_CHECKING:
    from ...core.model.session import Session
    from ...core.store.queries.archive_queries import ArchivableRow

KEEP: Final = "keep"  # the command that `ctxtop archive SESSION…` stands for


class _ArchiveGroup(click.Group):
    """A group in which a word that is no command begins the sessions to archive."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = [KEEP, *args]
        return super().resolve_command(ctx, args)


@registry.group(cls=_ArchiveGroup, invoke_without_command=True, subcommand_metavar="[SESSION]...")
@store_options
@dry_run_option
@click.option("--prune", is_flag=True, help="Only remove what is beyond the limits.")
@click.pass_context
def archive(context: click.Context, *, dry_run: bool, prune: bool) -> int:
    """Archive the sessions that Claude Code is about to delete.

    With ids or their starts, archives these sessions, whatever archive.mode says. `archive list`
    lists the archive, `archive restore SESSION` brings a session back.
    """
    if context.invoked_subcommand is not None:
        return DONE
    return _prune(context, dry_run=dry_run) if prune else _archive(context, (), dry_run=dry_run)


@archive.command(KEEP, hidden=True)
@store_options
@dry_run_option
@click.argument("sessions", nargs=-1)
@click.pass_context
def keep(context: click.Context, *, sessions: tuple[str, ...], dry_run: bool) -> int:
    """Archive these sessions."""
    group = context.parent.params if context.parent else {}
    return _archive(context, sessions, dry_run=dry_run or bool(group.get("dry_run")))


class _Outcome(msgspec.Struct):
    rows: list[ArchivableRow] = []
    failures: dict[str, str] = {}  # what went wrong, by session id
    skipped: dict[str, tuple[SkippedFile, ...]] = {}  # files that no copy has, by session id


def _archive(context: click.Context, starts: Sequence[str], *, dry_run: bool) -> int:
    with open_snapshot(options_of(context)) as snapshot:
        settings = read_archive_settings(snapshot.policies.common)
        mode = ArchiveMode.ALL if starts and settings.mode is ArchiveMode.OFF else settings.mode
        if mode is ArchiveMode.OFF:
            raise RefusedError(
                "archive.mode is off: name sessions, or turn it on with"
                " `ctxtop settings set archive.mode all`"
            )
        kept = TranscriptArchive(state_folder(snapshot.places.store))
        archiver = SessionArchiver(
            kept, snapshot.places.folder.projects, snapshot.db, snapshot.now_ms
        )
        outcome = _Outcome(
            [
                row
                for row in _chosen_rows(snapshot, archiver, starts)
                if not archiver.is_up_to_date(row, mode)
            ]
        )
        if not dry_run:
            for row in outcome.rows:
                _archive_one(archiver, row, mode, outcome)
            prune_archive(kept, settings.limits, snapshot.now_ms)
        record = _archive_record(snapshot, kept, mode, outcome, dry_run=dry_run)
        code = print_result(context, record, lambda: list(_archive_lines(snapshot, record)))
    for session_id, why in outcome.failures.items():
        print_error(f"{session_id} was not archived: {why}")
    for each in itertools.chain.from_iterable(outcome.skipped.values()):
        print_error(f"{each.path} was not archived: {each.why}; {SKIPPED_FIX}")
    return FAILED if outcome.failures or outcome.skipped else code


def _chosen_rows(
    snapshot: StoreSnapshot, archiver: SessionArchiver, starts: Sequence[str]
) -> list[ArchivableRow]:
    if not starts:
        return archiver.due()
    rows = {row.session_id: row for row in archive_queries.archivable_sessions(snapshot.db)}
    chosen = [snapshot.session_id(start) for start in starts]
    missing = [each for each in chosen if each not in rows]
    if missing:
        raise RefusedError(f"{missing[0]} has no transcript that could be archived")
    return [rows[each] for each in dict.fromkeys(chosen)]


def _archive_one(
    archiver: SessionArchiver, row: ArchivableRow, mode: ArchiveMode, outcome: _Outcome
) -> None:
    steps = archiver.archive(row, mode)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        if end.value.skipped:
            outcome.skipped[row.session_id] = end.value.skipped
    except (NotArchivedError, OSError) as error:
        outcome.failures[row.session_id] = getattr(error, "strerror", None) or str(error)


def _archive_record(
    snapshot: StoreSnapshot,
    kept: TranscriptArchive,
    mode: ArchiveMode,
    outcome: _Outcome,
    *,
    dry_run: bool,
) -> dict[str, Any]:
    days = cleanup_days(config_queries.settings_files(snapshot.db))
    return {
        "dry_run": dry_run,
        "mode": mode.value,
        "cleanup_days": days,
        "sessions": [
            {
                "session_id": row.session_id,
                "size_bytes": row.size,
                "deleted_at": iso_time(deletion_time(row.mtime_ns, days)),
                "error": outcome.failures.get(row.session_id),
                "skipped": _skipped_records(outcome.skipped.get(row.session_id, ())),
            }
            for row in outcome.rows
        ],
        "archive_bytes": kept.total_bytes(),
    }


def _skipped_records(skipped: Sequence[SkippedFile]) -> list[dict[str, str]]:
    return [{"path": each.path, "reason": each.why} for each in skipped]


def _archive_lines(snapshot: StoreSnapshot, record: dict[str, Any]) -> Iterator[str]:
    listed = [each for each in record["sessions"] if each["error"] is None]
    if listed:
        found = {each.session_id: each for each in snapshot.sessions()}
        columns: list[TextColumn[dict[str, Any]]] = [
            Column("session", lambda each: snapshot.short_ids()[each["session_id"]]),
            Column("title", lambda each: one_line(found[each["session_id"]].title)),
            Column("size", lambda each: format_bytes(each["size_bytes"])),
            Column("deleted", lambda each: (each["deleted_at"] or "")[:10]),
        ]
        yield from draw_table(columns, listed)
    what = "would be archived" if record["dry_run"] else "archived"
    size = format_bytes(record["archive_bytes"])
    yield f"{plural(len(listed), 'session')} {what} ({record['mode']}); the archive takes {size}"


def _prune(context: click.Context, *, dry_run: bool) -> int:
    with open_snapshot(options_of(context)) as snapshot:
        limits = read_archive_settings(snapshot.policies.common).limits
        kept = TranscriptArchive(state_folder(snapshot.places.store))
        if dry_run:
            pruned = sessions_to_prune(kept, limits, snapshot.now_ms)
        else:
            pruned = prune_archive(kept, limits, snapshot.now_ms)
            remove_unreferenced_chunks(state_folder(snapshot.places.store), snapshot.now_ms)
        record = {
            "dry_run": dry_run,
            "removed": [each.session_id for each in pruned],
            "archive_bytes": kept.total_bytes(),
        }
        what = "would be removed" if dry_run else "removed"
        return print_result(
            context,
            record,
            lambda: [f"{plural(len(pruned), 'session')} {what} from the archive"],
        )


@archive.command("list")
@store_options
@click.pass_context
def list_archive(context: click.Context) -> int:
    """List the archive. Most recently archived first."""
    with open_snapshot(options_of(context)) as snapshot:
        kept = TranscriptArchive(state_folder(snapshot.places.store))
        entries = sorted(kept.sessions().values(), key=lambda each: -each.at)
        for problem in kept.problems:
            print_error(str(problem))
        found = {each.session_id: each for each in snapshot.sessions()}
        settings = read_archive_settings(snapshot.policies.common)
        record = {
            "mode": settings.mode.value,
            "archive_bytes": kept.total_bytes(),
            "max_bytes": settings.limits.max_bytes,
            "sessions": [_entry_record(each, found.get(each.session_id)) for each in entries],
        }
        return print_result(
            context, record, lambda: list(_entry_lines(entries, found, record)), "nothing archived"
        )


def _entry_record(entry: ArchivedSession, session: Session | None) -> dict[str, Any]:
    return {
        "session_id": entry.session_id,
        "title": session.title if session else None,
        "project": session.project if session else None,
        "mode": entry.mode.value,
        "at": iso_time(entry.at),
        "last_written_at": iso_time(entry.last_written_ns // 1_000_000),
        "files": len(entry.parts),
        "size_bytes": entry.size,
        "deleted": bool(session and session.archived),
        "skipped": _skipped_records(entry.skipped),
    }


def _entry_lines(
    entries: Sequence[ArchivedSession], found: dict[str, Session], record: dict[str, Any]
) -> Iterator[str]:
    columns: list[TextColumn[ArchivedSession]] = [
        Column("session", lambda each: each.session_id[:8]),
        Column("title", lambda each: _title(found.get(each.session_id))),
        Column("archived", lambda each: (iso_time(each.at) or "")[:10]),
        Column("kept", lambda each: each.mode.value),
        Column("files", lambda each: f"{len(each.parts):,}"),
        Column("size", lambda each: format_bytes(each.size)),
        Column("transcript", lambda each: _place(found.get(each.session_id))),
    ]
    if not entries:
        return
    yield from draw_table(columns, entries)
    yield f"{plural(len(entries), 'session')} in {format_bytes(record['archive_bytes'])}"


def _title(session: Session | None) -> str:
    return one_line(session.title) if session else ""


def _place(session: Session | None) -> str:
    return "deleted" if session is None or session.archived else "there"


@archive.command("restore")
@store_options
@click.argument("session")
@click.pass_context
def restore(context: click.Context, *, session: str) -> int:
    """Bring a session's files back where they were, byte for byte.

    SESSION is an id or its start. A file that exists and differs is never overwritten. Claude
    Code keeps the session for a whole period from now on.
    """
    with open_snapshot(options_of(context)) as snapshot:
        kept = TranscriptArchive(state_folder(snapshot.places.store))
        session_id = _archived_id(kept, session)
        try:
            restored = restore_session(kept, snapshot.places.folder.projects, session_id)
        except RestoreConflictError as error:
            print_error(str(error))
            return UNSAFE
        except NotRestoredError as error:
            raise RefusedError(str(error)) from error
    skipped = kept.sessions()[session_id].skipped
    for each in skipped:
        print_error(f"{each.path} was never archived: {each.why}")
    record = {
        "session_id": restored.session_id,
        "transcript_path": str(snapshot.places.folder.projects / restored.path),
        "restored": list(restored.restored),
        "unchanged": list(restored.unchanged),
        "skipped": _skipped_records(skipped),
        "size_bytes": restored.size,
    }
    files, size = plural(len(restored.restored), "file"), format_bytes(restored.size)
    text = f"{files} restored, {size}: `ctxtop resume {session_id[:8]}` opens the session"
    return print_result(context, record, lambda: [text])


def _archived_id(kept: TranscriptArchive, start: str) -> str:
    matches = [each for each in kept.sessions() if each.startswith(start.lower())]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        damaged = [
            each for each in kept.problems if Path(each.where).name.startswith(start.lower())
        ]
        if damaged:
            raise RefusedError(str(damaged[0]))
        raise RefusedError(
            f"no session in the archive starts with {start!r}: see `ctxtop archive list`"
        )
    raise RefusedError(f"{len(matches)} sessions start with {start!r}: use more of the id")
