"""File systems that do not tell of changes are polled."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors import store_update
from ctxtop.collectors.locations import discover
from ctxtop.collectors.locations.discover import file_system_type, needs_polling

if TYPE_CHECKING:
    from ctxtop.collectors.collector_thread import Collector

    from ..recorder import Recorder

TABLE = r"""
22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:30 / /home rw shared:7 - nfs4 server:/home rw,vers=4.2
31 30 0:31 / /home/me/local rw - xfs /dev/vdb1 rw
32 22 0:32 / /mnt/my\040share rw - cifs //server/share rw
33 22 0:33 / /mnt/ssh rw - fuse.sshfs me@host:/ rw
34 22 0:34 / /mnt/usb rw - fuseblk /dev/sdb1 rw
35 22 0:35 / /over rw - tmpfs tmpfs rw
36 22 0:36 / /over rw - 9p share rw
not a line
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(TABLE)
    monkeypatch.setattr(discover, "MOUNT_TABLE", path)
    return path


@pytest.mark.parametrize(
    ("place", "kind", "silent"),
    [
        ("/var/x", "ext4", False),
        ("/homes/x", "ext4", False),
        ("/home", "nfs4", True),
        ("/home/me/.claude/projects", "nfs4", True),
        ("/home/me/local/.claude", "xfs", False),
        ("/mnt/my share/claude", "cifs", True),
        ("/mnt/ssh/.claude", "fuse.sshfs", True),
        ("/mnt/usb/.claude", "fuseblk", False),
        ("/over/x", "9p", True),
    ],
)
@pytest.mark.usefixtures("table")
def test_the_innermost_mount_decides(place: str, kind: str, *, silent: bool) -> None:
    assert file_system_type(Path(place)) == kind
    assert needs_polling(Path(place)) is silent


def test_without_a_table_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "MOUNT_TABLE", tmp_path / "none")

    assert file_system_type(tmp_path) is None
    assert not needs_polling(tmp_path)


@pytest.mark.parametrize("silent", [True, False])
def test_a_silent_folder_is_polled(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, *, silent: bool
) -> None:
    monkeypatch.setattr(
        store_update, "needs_polling", lambda place: silent and place.name == "projects"
    )

    assert store_update._FolderWatch(collector, Event(), None).polling is silent


def test_a_mount_that_fails_while_it_is_polled_is_looked_at_again(
    collector: Collector, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Event()

    def fail(*_: object) -> None:
        if recorder.scans == 2:
            stop.set()
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(store_update, "RETRY_S", 0.01)
    monkeypatch.setattr(store_update, "needs_polling", lambda _: True)
    watching = store_update._FolderWatch(collector, stop, None)
    monkeypatch.setattr(watching, "_changes", fail)
    watching.run()

    assert recorder.scans == 3
    assert [trouble.what for trouble in recorder.troubles] == [
        "cannot be polled ([Errno 116] Stale file handle)"
    ]
