"""What was carried out, on what, and how it is taken back; one file a receipt, for us alone.

A receipt's file says nothing of what a transcript says: the plan stands elsewhere, by its hash.
"""

from __future__ import annotations

import hashlib
import secrets
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from .contents import Contents
from .files import reading, unlink, write_file
from .plan import Plan

if TYPE_CHECKING:
    from pathlib import Path

ID_BYTES: Final = 4
"""A receipt's id has twice as many characters."""


class Mode(StrEnum):
    """Where a plan is carried out."""

    FORK = "fork"
    """In a new session beside the old one, which stays as it is."""
    IN_PLACE = "in_place"
    APPEND = "append"
    """At the end of the session itself; nothing of it is rewritten."""


class State(StrEnum):
    """How a receipt stands."""

    OPEN = "open"
    """A process ended in the middle of it; the next one that takes the lock settles it."""
    DONE = "done"
    PARTLY_UNDONE = "partly_undone"
    UNDONE = "undone"


class Mtime(StrEnum):
    """What becomes of a file's time of its last change."""

    KEPT = "kept"
    """As the transcript's own: lists of sessions keep their order."""
    NEW = "new"


class Version(msgspec.Struct, frozen=True):
    """What of a file is ours: its first bytes, after the operations that are not undone."""

    sha256: str
    size: int
    """Bytes."""
    undone: tuple[int, ...] = ()
    """Numbers of operations, counted from 0."""
    mixed: bool = False
    """Somebody else changed these bytes too: they are no image of the plan's operations."""


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is no text of a transcript's; times in ms since 1970."""

    receipt_id: str
    session_id: str
    new_session_id: str | None
    """Of the fork."""
    mode: Mode
    at: int
    transcript: str
    """The session that the plan is for."""
    target: str
    """The file that was written: the fork's, or the transcript itself."""
    backup: str | None
    """Name of the copy of the transcript as it was; None where nothing was rewritten."""
    verified: tuple[str, ...]
    """Checks that were passed, before and after."""
    resume_command: str
    mtime: Mtime
    """When the written file says that it was written last."""
    now: Version | None
    """None while nothing was written."""
    pending: Version | None = None
    """What is about to be written."""
    automatic: str | None = None
    """Why ctxtop did it by itself; None where a person asked."""
    title: str | None = None
    """Of the fork, where it was given one."""


class _Kept(_Facts, frozen=True, kw_only=True):
    """A receipt as its file holds it."""

    plan: str
    """Name of the plan's JSON among the plans."""


class Receipt(_Facts, frozen=True, kw_only=True):
    """One plan that was carried out."""

    plan: Plan

    @property
    def state(self) -> State:
        """Say how it stands."""
        if self.pending is not None or self.now is None:
            return State.OPEN
        if not self.now.undone:
            return State.DONE
        whole = len(self.now.undone) == len(self.plan.operations)
        return State.UNDONE if whole else State.PARTLY_UNDONE

    @property
    def needs_backup(self) -> bool:
        """Say whether it cannot be taken back without its copy."""
        return self.backup is not None and self.state is not State.UNDONE


class Change(NamedTuple):
    """The last receipt that changed or made a session, and of which nothing was undone."""

    receipt_id: str
    at: int
    """In ms since 1970."""
    resume_command: str


class Receipts:
    """The folder of the receipts. Its methods raise OSError where it cannot be used."""

    def __init__(self, state_folder: Path) -> None:
        self.folder: Final = state_folder / "receipts"
        self.plan_blobs: Final = Contents(state_folder / "plans")

    def all(self) -> list[Receipt]:
        """List them, newest first; what cannot be read is left out."""
        found = [self._read(path) for path in self.folder.glob("*.json")]
        return sorted((each for each in found if each), key=lambda each: -each.at)

    def unreadable(self) -> list[Path]:
        """List those that cannot be read, or whose plan cannot."""
        return [path for path in sorted(self.folder.glob("*.json")) if self._read(path) is None]

    def find_by_prefix(self, prefix: str) -> list[Receipt]:
        """List those whose id begins so."""
        return [each for each in self.all() if each.receipt_id.startswith(prefix)]

    def for_session(self, session_id: str) -> list[Receipt]:
        """List what changed or made a session, newest first."""
        return [each for each in self.all() if session_id in {each.session_id, each.new_session_id}]

    def last_changes(self) -> dict[str, Change]:
        """Name the last change of each session that stands whole, by the session that it is in."""
        found: dict[str, Change] = {}
        kept = [each for path in self.folder.glob("*.json") if (each := self._read_stored(path))]
        for each in sorted(kept, key=lambda one: one.at):
            if each.now is not None and each.pending is None and not each.now.undone:
                changed = each.new_session_id or each.session_id
                found[changed] = Change(each.receipt_id, each.at, each.resume_command)
        return found

    def write(self, receipt: Receipt) -> None:
        """Keep a receipt as it stands now, after its plan."""
        plan = msgspec.json.encode(receipt.plan)
        name = hashlib.sha256(plan).hexdigest()
        if not (self._path(receipt).exists() and self.plan_blobs.is_intact(name)):
            self.plan_blobs.put([plan], receipt.session_id)
        facts = {each: getattr(receipt, each) for each in _Facts.__struct_fields__}
        kept = msgspec.json.encode(_Kept(plan=name, **facts))
        write_file(self._path(receipt), kept, receipt.session_id)

    def remove(self, receipt: Receipt) -> None:
        """Forget a receipt of which nothing came about; its plan goes with what nothing names."""
        unlink(self._path(receipt))

    def remove_unreferenced_plans(self, now: int) -> None:
        """Remove plans of which nothing came about; `now` in ms since 1970."""
        kept = [self._read_stored(path) for path in self.folder.glob("*.json")]
        self.plan_blobs.remove_unreferenced({each.plan for each in kept if each}, now)

    def _path(self, receipt: Receipt) -> Path:
        return self.folder / f"{receipt.receipt_id}.json"

    def _read(self, path: Path) -> Receipt | None:
        kept = self._read_stored(path)
        if kept is None:
            return None
        try:
            with self.plan_blobs.open_blocks(kept.plan) as blocks:
                plan = msgspec.json.decode(b"".join(blocks), type=Plan)
        except (OSError, msgspec.DecodeError):
            return None
        facts = {each: getattr(kept, each) for each in _Facts.__struct_fields__}
        return Receipt(plan=plan, **facts)

    def _read_stored(self, path: Path) -> _Kept | None:
        try:
            with reading(path) as file:
                return msgspec.json.decode(file.read(), type=_Kept)
        except (OSError, msgspec.DecodeError):
            return None


def new_id() -> str:
    """Make a receipt's id."""
    return secrets.token_hex(ID_BYTES)


def as_record(receipt: Receipt) -> dict[str, Any]:
    """Say a receipt for programs (commands.md, `ctxtop receipts`): nothing that a session says."""
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
