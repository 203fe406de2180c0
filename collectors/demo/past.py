"""What the log of the demo tells: lines that are torn, hooks that spoke, runs of mode auto."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from ...core.store.log_facts import Log
from ...core.store.recovery_rows import AutomaticRun, begin_automatic, end_automatic
from ...core.store.writer import Writer
from ..own_logs.logs import logs_of
from .plumbing import encode, make_folder, millis, set_time, write_file

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from .model import DemoFolder, DemoSession

TORN: Final = b'{"type":"user","message":{"role":"user","content":"half of a li\n'
NEW_TYPE: Final = {"type": "weather-report", "weather": "fine"}
"""A type that no version of the client writes."""

_EVENTS: Final = (
    ("SessionStart", 181),
    ("UserPromptSubmit", 96),
    ("PostToolUse", 64),
    ("PostToolUse", 63),
    ("PreCompact", 52),
    ("SubagentStop", 41),
    ("MoonRise", 20),
    ("Stop", 12),
)
"""Events and how many minutes ago they were; one of them nobody knows."""


def make_past(folder: DemoFolder, store: Path, now: datetime) -> None:
    """Let something have happened before: beside the demo's folder and in its store."""
    sessions = {each.title: each for each in folder.sessions}
    for title, lines in (
        ("Ledger rounding, cent by cent", (TORN, encode(NEW_TYPE), encode(NEW_TYPE))),
        ("Show [/foo] and [bold red] as they are", (b"\x1b[31m[bold]no JSON at all[/bold]\n",)),
    ):
        _append(sessions[title].transcript, lines)
    make_folder(store.parent)
    _write_hooks(store, sessions["Fix the flaky checkout tests"], now)
    _keep_runs(store, sessions, now)
    # An empty store that was set aside by an earlier version.
    at = now - timedelta(days=9, hours=2)
    write_file(store.with_name(f"{store.name}.aside-{at:%Y%m%d-%H%M%S}"), b"")


def _append(path: Path, lines: tuple[bytes, ...]) -> None:
    status = path.stat()
    with path.open("ab") as file:
        file.writelines(lines)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _write_hooks(store: Path, session: DemoSession, now: datetime) -> None:
    lines = []
    for event, minutes in _EVENTS:
        at = millis(now - timedelta(minutes=minutes))
        given = {"hook_event_name": event, "session_id": session.session_id}
        said = {"v": 1, "at": at, "pid": 4711, "event": event, "given": given}
        lines.append(b"\n" + json.dumps(said).encode() + b"\n")
    path = logs_of(store) / Log.HOOKS
    write_file(path, b"".join(lines))
    set_time(path, now - timedelta(minutes=_EVENTS[-1][1]))


def _keep_runs(store: Path, sessions: dict[str, DemoSession], now: datetime) -> None:
    began = millis(now - timedelta(minutes=49))
    done = AutomaticRun(
        session_id=sessions["Staging cluster to Terraform"].session_id,
        at=began,
        reason="it rests at 86 % of its window, past the policy's 80 %",
        outcome="compacted: ≈ 171,900 to 82,400 tokens",
        ended_at=began + 3_200,
        left_tokens=82_400,
    )
    later = millis(now - timedelta(hours=25))
    refused = AutomaticRun(
        session_id=sessions["Explain the invoice run"].session_id,
        at=later,
        reason="it ended in prompt_too_long",
        outcome="held: a process has the transcript open to write",
        ended_at=later + 900,
    )
    writer = Writer(store)
    try:
        for run in (refused, done):
            begin_automatic(writer.connection, run, 0)
            end_automatic(writer.connection, run)
    finally:
        writer.close()
