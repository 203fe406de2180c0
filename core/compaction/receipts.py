"""Receipts of applied plans and the backups that undo them, in the private state folder."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import asdict

from ..files import file_operations as files
from ..files.blob_store import (
    BACKUPS_FOLDER,
    BlobStore,
    ChunkedBlobStore,
    chunk_store,
    remove_unreferenced_chunks,
)
from ..policy.policy import Policy
from .plan import CompactionPlan


def remove_leftovers(folder: Path, session_id: str) -> None:
    """Remove the temporary files of a session whose process ended; its lock must be held."""
    for path in folder.glob(f".{session_id}.*{files.TEMPORARY_SUFFIX}"):
        files.remove_if_present(path)


class ApplyMode(StrEnum):
    FORK = "fork"  # in a new session beside the old one, which stays as it is
    IN_PLACE = "in_place"
    APPEND = "append"  # at the end of the session itself; nothing of it is rewritten


class ReceiptState(StrEnum):
    OPEN = "open"  # interrupted; the next process that takes the lock recovers it
    DONE = "done"
    PARTLY_UNDONE = "partly_undone"
    UNDONE = "undone"


class MtimeHandling(StrEnum):
    KEPT = "kept"  # the transcript's own: lists of sessions keep their order
    NEW = "new"


class WrittenVersion(msgspec.Struct, frozen=True):
    """What of a file is ours: its first bytes, after the operations that are not undone."""

    sha256: str
    size: int  # bytes
    undone: tuple[int, ...] = ()  # numbers of operations, counted from 0
    mixed: bool = False
    """Others changed these bytes too: the plan's operations alone do not produce them."""
    whole: tuple[str, int] | None = None
    """Hash and size of the whole file when it was written, if later lines were behind ours."""

    @property
    def file(self) -> tuple[str, int]:
        return self.whole or (self.sha256, self.size)


class _ReceiptFields(msgspec.Struct, frozen=True, kw_only=True):
    """All but the plan, which holds text of the transcript; times in ms since 1970."""

    receipt_id: str
    session_id: str
    new_session_id: str | None  # of the fork
    mode: ApplyMode
    at: int
    transcript: str  # the session that the plan is for
    target: str  # the file that was written: the fork's, or the transcript itself
    backup: str | None  # name of the transcript's backup; None if nothing was rewritten
    verified: tuple[str, ...]  # checks that were passed, before and after
    resume_command: str
    mtime: MtimeHandling
    now: WrittenVersion | None  # None until something is written
    pending: WrittenVersion | None = None  # what is about to be written
    automatic: str | None = None  # why ctxtop did it by itself; None if a person asked
    title: str | None = None  # of the fork, if it was given one
    strategy: str | None = None  # that made the fork, if it was not by levels


class _StoredReceipt(_ReceiptFields, frozen=True, kw_only=True):
    plan: str  # name of the plan's JSON among the plans


class CompactionReceipt(_ReceiptFields, frozen=True, kw_only=True):
    plan: CompactionPlan

    @property
    def state(self) -> ReceiptState:
        if self.pending is not None or self.now is None:
            return ReceiptState.OPEN
        if not self.now.undone:
            return ReceiptState.DONE
        whole = len(self.now.undone) == len(self.plan.operations)
        return ReceiptState.UNDONE if whole else ReceiptState.PARTLY_UNDONE

    @property
    def needs_backup(self) -> bool:
        return self.backup is not None and self.state is not ReceiptState.UNDONE


class LastChange(NamedTuple):
    """The last receipt that changed or made a session, or a fork of it, and was not undone."""

    receipt_id: str
    at: int  # in ms since 1970
    resume_command: str
    fork_id: str | None = None  # the session that was made of it; None if it was changed itself


BY_LEVELS: Final = "levels"


class OwnFork(NamedTuple):
    session_id: str
    kind: str  # the strategy that made it, or BY_LEVELS
    is_undone: bool


MAX_PLAN_BYTES: Final = 256 << 20  # of one plan; an operation has some 200


class ReceiptStore:
    """The folder of the receipts. Its methods raise OSError if it cannot be used."""

    def __init__(self, state_folder: Path) -> None:
        self.folder: Final = state_folder / "receipts"
        self.plan_blobs: Final = BlobStore(state_folder / "plans", MAX_PLAN_BYTES)

    def all(self) -> list[CompactionReceipt]:
        """List the readable receipts, newest first."""
        receipts = [self._read(path) for path in self.folder.glob("*.json")]
        return sorted((each for each in receipts if each), key=lambda receipt: -receipt.at)

    def unreadable(self) -> list[Path]:
        """List the receipts that cannot be read, or whose plan cannot."""
        return [path for path in sorted(self.folder.glob("*.json")) if self._read(path) is None]

    def find_by_prefix(self, prefix: str) -> list[CompactionReceipt]:
        return [each for each in self.all() if each.receipt_id.startswith(prefix)]

    def for_session(self, session_id: str) -> list[CompactionReceipt]:
        """List the receipts that changed or made a session, newest first."""
        return [each for each in self.all() if session_id in {each.session_id, each.new_session_id}]

    def last_changes(self) -> dict[str, LastChange]:
        """Return the last change of each session that was not undone, by session id."""
        changes: dict[str, LastChange] = {}
        for each in sorted(self._stored(), key=lambda receipt: receipt.at):
            if each.now is not None and each.pending is None and not each.now.undone:
                change = LastChange(each.receipt_id, each.at, each.resume_command)
                changes[each.session_id] = change._replace(fork_id=each.new_session_id)
                changes[each.new_session_id or each.session_id] = change._replace(fork_id=None)
        return changes

    def forks(self) -> set[OwnFork]:
        """Return the sessions that were made as forks, also those that were undone."""
        return {
            OwnFork(each.new_session_id, each.strategy or BY_LEVELS, self._is_undone(each))
            for each in self._stored()
            if each.new_session_id and each.now is not None and each.pending is None
        }

    def _is_undone(self, stored: _StoredReceipt) -> bool:
        if stored.now is None or not stored.now.undone:
            return False
        receipt = self._read(self.folder / f"{stored.receipt_id}.json")
        return receipt is None or receipt.state is ReceiptState.UNDONE

    def wrote_last(self, path: Path) -> bool:
        """Whether a file is, byte for byte, what a change or an undo of ours left.

        Then nothing else has written to it since, however recent that write is. Raises OSError.
        """
        own = (each.now for each in self._stored() if each.target == str(path))
        left = {version.file for version in own if version is not None}
        size = path.stat().st_size
        return any(each == size for _, each in left) and files.hash_file(path) in left

    def write(self, receipt: CompactionReceipt) -> None:
        """Store a receipt, after its plan."""
        plan = msgspec.json.encode(receipt.plan)
        name = hashlib.sha256(plan).hexdigest()
        if not (self._path(receipt).exists() and self.plan_blobs.is_intact(name)):
            self.plan_blobs.put([plan], receipt.session_id)
        fields: dict[str, Any] = asdict(receipt) | {"plan": name}
        stored = _StoredReceipt(**fields)
        data = msgspec.json.encode(stored)
        files.write_file_atomically(self._path(receipt), data, receipt.session_id)

    def remove(self, receipt: CompactionReceipt) -> None:
        """Remove a receipt whose change never came about; its plan is removed when it is old."""
        files.remove_if_present(self._path(receipt))

    def remove_unreferenced_plans(self, now_ms: int) -> None:
        self.plan_blobs.remove_unreferenced({receipt.plan for receipt in self._stored()}, now_ms)

    def _path(self, receipt: CompactionReceipt) -> Path:
        return self.folder / f"{receipt.receipt_id}.json"

    def _stored(self) -> list[_StoredReceipt]:
        stored = map(self._read_stored, self.folder.glob("*.json"))
        return [each for each in stored if each]

    def _read(self, path: Path) -> CompactionReceipt | None:
        stored = self._read_stored(path)
        if stored is None:
            return None
        try:
            with self.plan_blobs.open_blocks(stored.plan) as blocks:
                plan = msgspec.json.decode(b"".join(blocks), type=CompactionPlan)
        except (OSError, msgspec.DecodeError):
            return None
        fields: dict[str, Any] = asdict(stored) | {"plan": plan}
        return CompactionReceipt(**fields)

    def _read_stored(self, path: Path) -> _StoredReceipt | None:
        try:
            with files.open_regular_file(path) as file:
                return msgspec.json.decode(file.read(), type=_StoredReceipt)
        except (OSError, msgspec.DecodeError):
            return None


def new_receipt_id() -> str:
    return secrets.token_hex(4)


def operations_to_dicts(receipt: CompactionReceipt) -> list[dict[str, Any]]:
    """Convert a receipt's operations to JSON types, without any of the session's text."""
    undone = receipt.now.undone if receipt.now else ()
    operations = [
        {"op": number}
        | {name: getattr(each, name) for name in ("strategy", "level", "line", "kind")}
        | {"undone": number - 1 in undone}
        for number, each in enumerate(receipt.plan.operations, 1)
    ]
    return list(msgspec.to_builtins(operations))


BACKUPS_PER_SESSION: Final = 5  # the newest of a session stay, whatever their age
DAY_MS: Final = 24 * 3600 * 1000
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BackupRetention:
    """How long backups stay; one that an undo needs always does."""

    keep_ms: int = 30 * DAY_MS  # of every backup, needed or not
    max_bytes: int = 2048 * MIB
    """Compressed; above it old ones go, and no transcript is replaced."""


def backup_retention(policy: Policy) -> BackupRetention:
    """Read it from the policy of all projects: only the person sets it."""
    return BackupRetention(
        keep_ms=policy.count("backup.keep_days") * DAY_MS,
        max_bytes=policy.count("backup.max_mib") * MIB,
    )


class BackupStore(ChunkedBlobStore):
    """The folder of the backups. Its methods raise OSError if it cannot be used."""

    def __init__(self, state_folder: Path) -> None:
        super().__init__(state_folder / BACKUPS_FOLDER, chunk_store(state_folder))
        self._state: Final = state_folder

    def back_up(self, path: Path, size: int) -> str:
        with files.open_regular_file(path) as file:
            return self.put(files.read_blocks(file, size), path.stem)

    @contextmanager
    def open_lines(self, name: str) -> Iterator[Iterator[bytes]]:
        """Read a backup's lines after checking its hash. Raises BlobError."""
        with self.open_blocks(name) as blocks:
            yield _split_lines(blocks)

    def remove_old(
        self,
        receipts: Sequence[CompactionReceipt],
        needed_now: Collection[str],
        now_ms: int,
        retention: BackupRetention = BackupRetention(),
    ) -> None:
        """Remove backups beyond the limits, never one that a change still needs to be undone.

        Those are the backups of what was changed in place and not completely undone, and of a
        fork whose origin is gone or has changed; while there is room those of all forks, because
        the client deletes old sessions. `receipts` are all that exist.
        """
        kept = set(needed_now) | {each.backup for each in receipts if is_irreplaceable(each)}
        if self.total_bytes() <= retention.max_bytes:
            kept |= {each.backup for each in receipts if each.needs_backup}
            for session in {each.session_id for each in receipts}:
                own = [each for each in receipts if each.session_id == session]
                newest = sorted(own, key=lambda receipt: -receipt.at)[:BACKUPS_PER_SESSION]
                kept |= {each.backup for each in newest}
        kept |= {each.backup for each in receipts if now_ms - each.at <= retention.keep_ms}
        named = {each.backup for each in receipts if each.backup is not None}
        self.remove(named - kept)
        self.remove_unreferenced(named | set(needed_now), now_ms)
        if named - kept:
            remove_unreferenced_chunks(self._state, now_ms)


def is_irreplaceable(receipt: CompactionReceipt) -> bool:
    """Whether a receipt cannot be undone without its backup.

    A fork's can: from the session that it was made of, while that still begins as it did.
    """
    if not receipt.needs_backup:
        return False
    if receipt.mode is not ApplyMode.FORK:
        return True
    plan = receipt.plan
    try:
        return files.hash_file(Path(receipt.transcript), plan.base_bytes)[0] != plan.base_sha256
    except OSError:
        return True


def _split_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest: list[bytes] = []
    for block in blocks:
        *lines, last = block.split(b"\n")
        for line in lines:
            yield b"".join((*rest, line, b"\n"))
            rest = []
        rest.append(last)
    if any(rest):
        yield b"".join(rest)
