"""The demo told once: its folder and its store are put back before each test, at one place."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ctxtop.collectors.demo import DemoFolder
from ctxtop.collectors.locations.places import Places
from ctxtop.collectors.store_update import update_store

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.demo import DemoSession


@dataclass(frozen=True, slots=True)
class Told:
    """Where it stands, and as what it is kept."""

    places: Places
    sessions: tuple[DemoSession, ...]
    kept: Path

    def restore(self) -> None:
        """Put everything back; what a test left beside it goes."""
        top = self.places.config_dir.parent
        for path in top.iterdir():
            if path != self.kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.kept, top, symlinks=True, dirs_exist_ok=True)
        with closing(sqlite3.connect(self.places.store)) as db:
            self._recognize(db)
            db.commit()

    def _recognize(self, db: sqlite3.Connection) -> None:
        """Name the copies' inodes and changes: the store would read new files again."""
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        for name in names:
            columns = {row[1] for row in db.execute(f"PRAGMA table_info({name})")}
            if not {"path", "inode"} <= columns:
                continue
            for (path,) in db.execute(f"SELECT DISTINCT path FROM {name}").fetchall():
                file = self.places.folder.projects / path
                if file.exists():
                    status = file.stat()
                    db.execute(f"UPDATE {name} SET inode = ? WHERE path = ?", [status.st_ino, path])
                    if "ctime_ns" in columns:
                        changed = [status.st_ctime_ns, path]
                        db.execute(f"UPDATE {name} SET ctime_ns = ? WHERE path = ?", changed)


def copy_demo(folder: DemoFolder, root: Path) -> DemoFolder:
    """Copy the demo's files to another folder, with their times."""
    shutil.copytree(folder.root, root, symlinks=True, dirs_exist_ok=True)
    moved = (
        replace(session, transcript=root / session.transcript.relative_to(folder.root))
        for session in folder.sessions
    )
    return DemoFolder(root, tuple(moved))


def tell(top: Path, folder: DemoFolder) -> Told:
    """Copy the demo below a folder, and read it once."""
    places = Places(top / "claude", top / "state" / "store.db")
    sessions = copy_demo(folder, places.config_dir).sessions
    update_store(places)
    kept = top / "kept"
    for name in ("claude", "state"):
        shutil.copytree(top / name, kept / name, symlinks=True)
    return Told(places, sessions, kept)
