"""Copies of transcripts as they were: by content, compressed, in our own folder.

Source of the limits: compaction 7.5 ("backups").
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .contents import Contents
from .files import first_bytes, reading, sha256_of
from .receipts import Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from .receipts import Receipt

PER_SESSION: Final = 5
"""The newest of a session stay, whatever their age."""

KEPT_MS: Final = 30 * 24 * 3600 * 1000
"""Milliseconds for which every copy stays."""

ROOM_BYTES: Final = 2 << 30
"""Of all copies together, compressed: above it old ones go, and no new transcript is replaced."""


class Backups(Contents):
    """The folder of the copies. Its methods raise OSError where it cannot be used."""

    def __init__(self, state_folder: Path) -> None:
        super().__init__(state_folder / "backups")

    def back_up(self, path: Path, size: int) -> str:
        """Copy a transcript's first bytes, and give the copy's name."""
        with reading(path) as file:
            return self.put(first_bytes(file, size), path.stem)

    @contextmanager
    def open_lines(self, name: str) -> Iterator[Iterator[bytes]]:
        """Give a copy's lines, checked first. Raises ContentError."""
        with self.open_blocks(name) as blocks:
            yield _lines(blocks)

    def remove_old(
        self, receipts: Sequence[Receipt], needed_now: Collection[str], now_ms: int
    ) -> None:
        """Remove copies beyond the limits, never one that a change still needs to be undone.

        Such are the copies of what was changed in place and not taken back whole, and of a
        fork whose origin is gone or is no longer what it was; while there is room those of all
        forks, for the client deletes old sessions. `receipts` are all there are.
        """
        kept = set(needed_now) | {each.backup for each in receipts if is_only_way_back(each)}
        if self.total_bytes() <= ROOM_BYTES:
            kept |= {each.backup for each in receipts if each.needs_backup}
            for session in {each.session_id for each in receipts}:
                own = [each for each in receipts if each.session_id == session]
                newest = sorted(own, key=lambda each: -each.at)[:PER_SESSION]
                kept |= {each.backup for each in newest}
        kept |= {each.backup for each in receipts if now_ms - each.at <= KEPT_MS}
        named = {each.backup for each in receipts if each.backup is not None}
        self.remove(named - kept)
        self.remove_unreferenced(named | set(needed_now), now_ms)


def is_only_way_back(receipt: Receipt) -> bool:
    """Say whether a receipt cannot be taken back without its copy.

    A fork's can: from the session that it came from, while that still begins as it did.
    """
    if not receipt.needs_backup:
        return False
    if receipt.mode is not Mode.FORK:
        return True
    plan = receipt.plan
    try:
        return sha256_of(Path(receipt.transcript), plan.base_bytes)[0] != plan.base_sha256
    except OSError:
        return True


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
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
