"""The registry of live sessions: one small file each, replaced when the status changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .plumbing import encode, millis, replace_file, set_time, write_file

if TYPE_CHECKING:
    from datetime import datetime

    from .model import Json
    from .stage import Stage

WAITING_FOR = "permission prompt"

START_FIELD = 22 - 3  # of /proc/<pid>/stat, counted after the command's closing bracket


def process_start(pid: int) -> str | None:
    """Return when a process started, in the kernel's ticks; None where there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[START_FIELD]


def entry(stage: Stage, number: int, pid: int, proc_start: str | None) -> Json:
    """Return what the client would say about a live session."""
    started = millis(stage.started_at())
    updated = millis(stage.clock.at)
    line: Json = {
        "pid": pid,
        "sessionId": stage.origin.session_id,
        "cwd": stage.origin.cwd,
        "startedAt": started,
    }
    if proc_start is not None:
        line["procStart"] = proc_start
    tail = f"{stage.spec.project.cwd.rpartition('/')[2]}-{stage.origin.session_id[:2]}"
    return line | {
        "version": stage.origin.version,
        "kind": "interactive",
        "entrypoint": stage.origin.entrypoint,
        "tmux": f"work:@{number}.%{number}",
        "name": tail,
        "nameSource": "derived",
        **_status(stage.spec.status, updated),
    }


def _status(status: str | None, moment: int) -> Json:
    said: Json = {"status": status, "updatedAt": moment, "statusUpdatedAt": moment}
    return said | {"waitingFor": WAITING_FOR} if status == "waiting" else said


def write_registry(
    folder: Path, stages: list[Stage], pid: int | None, proc_start: str | None
) -> None:
    """Write an entry for every session that a process has open."""
    number_of_process = os.getpid() if pid is None else pid
    start = process_start(number_of_process) if pid is None else proc_start
    live = [stage for stage in stages if stage.spec.status is not None]
    for number, stage in enumerate(live, start=1):
        path = folder / f"{number_of_process}-{number}.json"
        content = encode(entry(stage, number, number_of_process, start)).rstrip(b"\n")
        write_file(path, content)
        set_time(path, stage.clock.at)


def find_entry(folder: Path, session_id: str) -> Path | None:
    """Return the entry of a session, if it has one."""
    for path in sorted(folder.glob("*.json")):
        if json.loads(path.read_bytes()).get("sessionId") == session_id:
            return path
    return None


def set_status(path: Path, status: str, now: datetime) -> None:
    """Say what a live session is doing now."""
    content: Json = json.loads(path.read_bytes())
    if content["status"] == status:
        return
    moment = millis(now)
    content.pop("waitingFor", None)
    replace_file(path, encode(content | _status(status, moment)).rstrip(b"\n"))
