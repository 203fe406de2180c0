"""Lines of ctxtop's own logs, as their writer makes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ctxtop.collectors.claude_code.own_files import own_log_folder
from ctxtop.collectors.plugin_files.plugin_log import append_record
from ctxtop.core.model.transcript_records import LogKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def log_file(store: Path, log: LogKind = LogKind.HOOKS) -> Path:
    """Name the file that is written now, and make its folder."""
    path = own_log_folder(store) / log
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    return path


def tell(store: Path, event: str, **given: object) -> None:
    """Write what a hook was told."""
    fault = append_record(
        str(log_file(store)), event, json.dumps(given | {"hook_event_name": event}).encode()
    )
    assert fault is None


def part_name(log: LogKind, number: int) -> str:
    """Name a renamed file."""
    return f"{log}.{number:020}-7"


def line(at: int, **given: object) -> bytes:
    """A record of one moment."""
    return json.dumps({"v": 1, "at": at, "pid": 7, "event": "Stop", "given": given}).encode()


def lines(these: Iterable[bytes]) -> bytes:
    """Records as they stand in a file."""
    return b"".join(b"\n" + each + b"\n" for each in these)
