"""What was carried out, on what, and how it is taken back; one file a receipt, for us alone."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .files import make_folder, reading, unlink, write_file
from .plan import Plan  # noqa: TC001 -- msgspec reads it

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


class Version(msgspec.Struct, frozen=True):
    """What of a file is ours: its first bytes, after the operations that are not undone."""

    sha256: str
    size: int
    """Bytes."""
    undone: tuple[int, ...] = ()
    """Numbers of operations, counted from 0."""
    replaced: int | None = None
    """Bytes of the file whose place it takes; None where it takes none."""
    mixed: bool = False
    """Somebody else changed these bytes too: they are no image of the plan's operations."""


class Receipt(msgspec.Struct, frozen=True):
    """One plan that was carried out; times in ms since 1970."""

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
    plan: Plan
    now: Version | None
    """None while nothing was written."""
    pending: Version | None = None
    """What is about to be written."""
    title: str | None = None
    """Of the fork, where it was given one."""

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


class Receipts:
    """The folder of the receipts. Its methods raise OSError where it cannot be used."""

    def __init__(self, state: Path) -> None:
        self.folder: Final = state / "receipts"

    def all(self) -> list[Receipt]:
        """List them, newest first; what cannot be read is left out."""
        if not self.folder.is_dir():
            return []
        found = [self._read(path) for path in self.folder.glob("*.json")]
        return sorted((each for each in found if each), key=lambda each: -each.at)

    def find(self, start: str) -> list[Receipt]:
        """List those whose id begins so."""
        return [each for each in self.all() if each.receipt_id.startswith(start)]

    def write(self, receipt: Receipt) -> None:
        """Keep a receipt as it stands now."""
        make_folder(self.folder)
        write_file(self._path(receipt), msgspec.json.encode(receipt))

    def remove(self, receipt: Receipt) -> None:
        """Forget a receipt of which nothing came about."""
        unlink(self._path(receipt))

    def _path(self, receipt: Receipt) -> Path:
        return self.folder / f"{receipt.receipt_id}.json"

    def _read(self, path: Path) -> Receipt | None:
        try:
            with reading(path) as file:
                return msgspec.json.decode(file.read(), type=Receipt)
        except (OSError, msgspec.DecodeError):
            return None


def new_id() -> str:
    """Make a receipt's id."""
    return secrets.token_hex(ID_BYTES)


def as_record(receipt: Receipt) -> dict[str, Any]:
    """Say a receipt for programs (commands.md, `ctxtop receipts`)."""
    undone = receipt.now.undone if receipt.now else ()
    operations = [
        {
            "op": number,
            "strategy": each.strategy,
            "level": each.level.value,
            "line": each.line,
            "kind": each.kind,
            "what": each.what,
            "undone": number in undone,
        }
        for number, each in enumerate(receipt.plan.operations)
    ]
    return {
        "receipt_id": receipt.receipt_id,
        "session_id": receipt.session_id,
        "new_session_id": receipt.new_session_id,
        "mode": receipt.mode.value,
        "state": receipt.state.value,
        "at": receipt.at,
        "backup": receipt.backup,
        "verified": list(receipt.verified),
        "resume_command": receipt.resume_command,
        "plan_id": receipt.plan.plan_id,
        "operations": operations,
    }
