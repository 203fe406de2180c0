"""Receipts of applied plans and the backups that undo them, in the private state folder."""

from __future__ import annotations

import hashlib
import secrets
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import asdict

from ..files.file_operations import (
    TEMPORARY_SUFFIX,
    hash_file,
    make_private_folder,
    open_regular_file,
    read_blocks,
    remove_if_present,
    sync_folder,
    write_file_atomically,
    write_temporary,
)
from .plan import CompactionPlan

COMPRESSION_LEVEL: Final = 3  # of zlib: transcripts shrink to a fifth at 100 MB/s
ORPHAN_AGE_MS: Final = 24 * 3600 * 1000
"""Milliseconds after which what no receipt names is one of a change that never came about."""


class BlobError(OSError):
    """A content that is not there, or that is not what its name says."""


class BlobStore:
    """A folder of contents. Its methods raise OSError where it cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def put(self, blocks: Iterable[bytes], session_id: str) -> str:
        """Keep a content, read back what was kept, and give its name.

        `session_id` is of the session whose lock is held: what is left of a process that ended
        is cleared up by its name.
        """
        make_private_folder(self.folder)
        digest = hashlib.sha256()
        temporary = write_temporary(self.folder / session_id, _compressed(blocks, digest))
        name = digest.hexdigest()
        try:
            if _hash_of_blob(temporary) != name:
                raise BlobError(0, "the copy does not hold what was copied", str(temporary))
            temporary.replace(self.path(name))
        except BaseException:
            remove_if_present(temporary)
            raise
        sync_folder(self.folder)
        return name

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.z"

    def is_intact(self, name: str) -> bool:
        """Whether a blob exists and its content matches its name."""
        try:
            return _hash_of_blob(self.path(name)) == name
        except OSError:
            return False

    @contextmanager
    def open_blocks(self, name: str) -> Iterator[Iterator[bytes]]:
        """Read a blob's content after checking its hash. Raises BlobError."""
        if not self.is_intact(name):
            raise BlobError(0, "the copy is gone or damaged", str(self.path(name)))
        with open_regular_file(self.path(name)) as file:
            yield _decompressed(read_blocks(file))

    def total_bytes(self) -> int:
        """Return what all of them take on the disk."""
        return sum(each.lstat().st_size for each in self._files())

    def remove(self, names: Iterable[str]) -> None:
        """Remove contents, as far as they are there."""
        for name in sorted(names):
            remove_if_present(self.path(name))

    def remove_unreferenced(self, referenced: Collection[str], now_ms: int) -> None:
        """Remove what nothing names and no process is about to name; `now` in ms since 1970."""
        for path in self._files():
            age = now_ms - path.lstat().st_mtime_ns // 1_000_000
            if path.name.removesuffix(".z") not in referenced and age > ORPHAN_AGE_MS:
                remove_if_present(path)

    def _files(self) -> Iterator[Path]:
        return self.folder.glob("*.z")


def remove_leftovers(folder: Path, session_id: str) -> None:
    """Remove what a process left of a session that ended while it wrote; its lock must be held."""
    for path in folder.glob(f".{session_id}.*{TEMPORARY_SUFFIX}"):
        remove_if_present(path)


def _compressed(blocks: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    packer = zlib.compressobj(COMPRESSION_LEVEL)
    for block in blocks:
        digest.update(block)
        yield packer.compress(block)
    yield packer.flush()


def _decompressed(blocks: Iterable[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj()
    try:
        for block in blocks:
            yield unpacker.decompress(block)
    except zlib.error as error:
        raise BlobError(0, f"the copy is damaged: {error}") from error
    yield unpacker.flush()


def _hash_of_blob(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular_file(path) as file:
        for block in _decompressed(read_blocks(file)):
            digest.update(block)
    return digest.hexdigest()


RECEIPT_ID_BYTES: Final = 4  # a receipt's id has twice as many characters


class ApplyMode(StrEnum):
    """Where a plan is carried out."""

    FORK = "fork"  # in a new session beside the old one, which stays as it is
    IN_PLACE = "in_place"
    APPEND = "append"  # at the end of the session itself; nothing of it is rewritten


class ReceiptState(StrEnum):
    OPEN = "open"
    """A process ended in the middle of it; the next one that takes the lock recovers it."""
    DONE = "done"
    PARTLY_UNDONE = "partly_undone"
    UNDONE = "undone"


class MtimeHandling(StrEnum):
    """Whether a written file keeps its modification time."""

    KEPT = "kept"  # as the transcript's own: lists of sessions keep their order
    NEW = "new"


class WrittenVersion(msgspec.Struct, frozen=True):
    """What of a file is ours: its first bytes, after the operations that are not undone."""

    sha256: str
    size: int  # bytes
    undone: tuple[int, ...] = ()  # numbers of operations, counted from 0
    mixed: bool = False
    """Somebody else changed these bytes too: they are no image of the plan's operations."""


class _ReceiptFields(msgspec.Struct, frozen=True, kw_only=True):
    """What is no text of a transcript's; times in ms since 1970."""

    receipt_id: str
    session_id: str
    new_session_id: str | None  # of the fork
    mode: ApplyMode
    at: int
    transcript: str  # the session that the plan is for
    target: str  # the file that was written: the fork's, or the transcript itself
    backup: str | None
    """Name of the copy of the transcript as it was; None where nothing was rewritten."""
    verified: tuple[str, ...]  # checks that were passed, before and after
    resume_command: str
    mtime: MtimeHandling  # when the written file says that it was written last
    now: WrittenVersion | None  # none while nothing was written
    pending: WrittenVersion | None = None  # what is about to be written
    automatic: str | None = None  # why ctxtop did it by itself; None where a person asked
    title: str | None = None  # of the fork, where it was given one


class _StoredReceipt(_ReceiptFields, frozen=True, kw_only=True):
    """A receipt as its file holds it."""

    plan: str  # name of the plan's JSON among the plans


class CompactionReceipt(_ReceiptFields, frozen=True, kw_only=True):
    """One plan that was carried out."""

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
        """Whether it cannot be undone without its backup."""
        return self.backup is not None and self.state is not ReceiptState.UNDONE


class LastChange(NamedTuple):
    """The last receipt that changed or made a session, and of which nothing was undone."""

    receipt_id: str
    at: int  # in ms since 1970
    resume_command: str


class ReceiptStore:
    """The folder of the receipts. Its methods raise OSError where it cannot be used."""

    def __init__(self, state_folder: Path) -> None:
        self.folder: Final = state_folder / "receipts"
        self.plan_blobs: Final = BlobStore(state_folder / "plans")

    def all(self) -> list[CompactionReceipt]:
        """List them, newest first; what cannot be read is left out."""
        found = [self._read(path) for path in self.folder.glob("*.json")]
        return sorted((each for each in found if each), key=lambda each: -each.at)

    def unreadable(self) -> list[Path]:
        """List those that cannot be read, or whose plan cannot."""
        return [path for path in sorted(self.folder.glob("*.json")) if self._read(path) is None]

    def find_by_prefix(self, prefix: str) -> list[CompactionReceipt]:
        """List those whose id begins with `prefix`."""
        return [each for each in self.all() if each.receipt_id.startswith(prefix)]

    def for_session(self, session_id: str) -> list[CompactionReceipt]:
        """List what changed or made a session, newest first."""
        return [each for each in self.all() if session_id in {each.session_id, each.new_session_id}]

    def last_changes(self) -> dict[str, LastChange]:
        """Return the last change that was not undone of each session, by session id."""
        found: dict[str, LastChange] = {}
        kept = [each for path in self.folder.glob("*.json") if (each := self._read_stored(path))]
        for each in sorted(kept, key=lambda one: one.at):
            if each.now is not None and each.pending is None and not each.now.undone:
                changed = each.new_session_id or each.session_id
                found[changed] = LastChange(each.receipt_id, each.at, each.resume_command)
        return found

    def write(self, receipt: CompactionReceipt) -> None:
        """Keep a receipt as it stands now, after its plan."""
        plan = msgspec.json.encode(receipt.plan)
        name = hashlib.sha256(plan).hexdigest()
        if not (self._path(receipt).exists() and self.plan_blobs.is_intact(name)):
            self.plan_blobs.put([plan], receipt.session_id)
        fields = asdict(receipt)
        fields["plan"] = name
        kept = msgspec.json.encode(_StoredReceipt(**fields))
        write_file_atomically(self._path(receipt), kept, receipt.session_id)

    def remove(self, receipt: CompactionReceipt) -> None:
        """Remove a receipt of which nothing came; its plan goes with what nothing names."""
        remove_if_present(self._path(receipt))

    def remove_unreferenced_plans(self, now: int) -> None:
        """Remove plans of which nothing came about; `now` in ms since 1970."""
        kept = [self._read_stored(path) for path in self.folder.glob("*.json")]
        self.plan_blobs.remove_unreferenced({each.plan for each in kept if each}, now)

    def _path(self, receipt: CompactionReceipt) -> Path:
        return self.folder / f"{receipt.receipt_id}.json"

    def _read(self, path: Path) -> CompactionReceipt | None:
        kept = self._read_stored(path)
        if kept is None:
            return None
        try:
            with self.plan_blobs.open_blocks(kept.plan) as blocks:
                plan = msgspec.json.decode(b"".join(blocks), type=CompactionPlan)
        except (OSError, msgspec.DecodeError):
            return None
        fields = asdict(kept)
        fields["plan"] = plan
        return CompactionReceipt(**fields)

    def _read_stored(self, path: Path) -> _StoredReceipt | None:
        try:
            with open_regular_file(path) as file:
                return msgspec.json.decode(file.read(), type=_StoredReceipt)
        except (OSError, msgspec.DecodeError):
            return None


def new_receipt_id() -> str:
    return secrets.token_hex(RECEIPT_ID_BYTES)


def receipt_to_dict(receipt: CompactionReceipt) -> dict[str, Any]:
    """Convert a receipt to JSON types (commands.md, `ctxtop receipts`).

    It holds none of the session's text.
    """
    undone = receipt.now.undone if receipt.now else ()
    operations = [
        {
            "op": number,
            "strategy": each.strategy,
            "level": each.level.value,
            "line": each.line,
            "kind": each.kind,
            "undone": number - 1 in undone,
        }
        for number, each in enumerate(receipt.plan.operations, 1)
    ]
    return {
        "receipt_id": receipt.receipt_id,
        "session_id": receipt.session_id,
        "new_session_id": receipt.new_session_id,
        "mode": receipt.mode.value,
        "state": receipt.state.value,
        "automatic": receipt.automatic,
        "at": receipt.at,
        "backup": receipt.backup,
        "verified": list(receipt.verified),
        "mtime": receipt.mtime.value,
        "resume_command": receipt.resume_command,
        "plan_id": receipt.plan.plan_id,
        "operations": operations,
    }


BACKUPS_PER_SESSION: Final = 5  # the newest of a session stay, whatever their age
BACKUP_RETENTION_MS: Final = 30 * 24 * 3600 * 1000  # milliseconds for which every copy stays
MAX_BACKUP_BYTES: Final = 2 << 30
"""Of all copies together, compressed: above it old ones go, and no new transcript is replaced."""


class BackupStore(BlobStore):
    """The folder of the copies. Its methods raise OSError where it cannot be used."""

    def __init__(self, state_folder: Path) -> None:
        super().__init__(state_folder / "backups")

    def back_up(self, path: Path, size: int) -> str:
        """Copy a transcript's first bytes, and give the copy's name."""
        with open_regular_file(path) as file:
            return self.put(read_blocks(file, size), path.stem)

    @contextmanager
    def open_lines(self, name: str) -> Iterator[Iterator[bytes]]:
        """Read a backup's lines after checking its hash. Raises BlobError."""
        with self.open_blocks(name) as blocks:
            yield _split_lines(blocks)

    def remove_old(
        self, receipts: Sequence[CompactionReceipt], needed_now: Collection[str], now_ms: int
    ) -> None:
        """Remove copies beyond the limits, never one that a change still needs to be undone.

        Such are the copies of what was changed in place and not taken back whole, and of a
        fork whose origin is gone or is no longer what it was; while there is room those of all
        forks, for the client deletes old sessions. `receipts` are all there are.
        """
        kept = set(needed_now) | {each.backup for each in receipts if is_irreplaceable(each)}
        if self.total_bytes() <= MAX_BACKUP_BYTES:
            kept |= {each.backup for each in receipts if each.needs_backup}
            for session in {each.session_id for each in receipts}:
                own = [each for each in receipts if each.session_id == session]
                newest = sorted(own, key=lambda each: -each.at)[:BACKUPS_PER_SESSION]
                kept |= {each.backup for each in newest}
        kept |= {each.backup for each in receipts if now_ms - each.at <= BACKUP_RETENTION_MS}
        named = {each.backup for each in receipts if each.backup is not None}
        self.remove(named - kept)
        self.remove_unreferenced(named | set(needed_now), now_ms)


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
        return hash_file(Path(receipt.transcript), plan.base_bytes)[0] != plan.base_sha256
    except OSError:
        return True


def _split_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest: list[bytes] = []
    for block in blocks:
        *whole, last = block.split(b"\n")
        for line in whole:
            rest.append(line)
            yield b"".join((*rest, b"\n"))
            rest = []
        rest.append(last)
    if any(rest):
        yield b"".join(rest)
