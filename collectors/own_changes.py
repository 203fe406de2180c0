"""What ctxtop itself changed in sessions, as its receipts say: followed for the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from ..core.store.writer import Writer


def state_folder(store: Path) -> Path:
    """Name the folder of copies, receipts and locks: beside the store, outside of the client's."""
    return store.with_name(f"{store.name}.compaction")


class OwnChanges:
    """Keeps the store's copy of when sessions were changed last; it belongs to one thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer: Final = writer
        self._state: Final = state_folder(writer.path)
        self._known = writer.read_changed_sessions()
        self._written_at: int | None = None
        """When the folder of receipts was written last, in nanoseconds."""

    def read(self) -> set[str]:
        """Read the receipts where there are other ones; return the sessions that they concern."""
        folder = self._state / "receipts"
        try:
            written_at = folder.stat().st_mtime_ns
        except OSError:
            written_at = None
        if written_at is None and not self._known:
            return set()
        if written_at is not None and written_at == self._written_at:
            return set()
        from ..core.compaction.receipts import Receipts  # most people have changed nothing yet

        self._written_at = written_at
        found = {name: each.at for name, each in Receipts(self._state).last_changes().items()}
        touched = {name for name, _ in found.items() ^ self._known.items()}
        if touched:
            self._writer.save_changed_sessions(found)
            self._known = found
        return touched
