"""Write the demo's whole config folder, and the log and store records of what happened before."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from ...core.store.automation_records import (
    AutomaticRunRecord,
    begin_automatic_run,
    end_automatic_run,
)
from ...core.store.log_records import LogKind
from ...core.store.writer import Writer
from ..claude_code.own_files import own_log_folder
from . import demo_texts, scenarios
from .demo_transcript import (
    DemoFolder,
    DemoSession,
    encode_line,
    make_folder,
    set_time,
    to_millis,
    write_file,
)
from .scenarios import FORK_PARENT, DemoScenario
from .session_builder import SessionBuilder, open_session, write_registry
from .stories import forked_session

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from .demo_transcript import DemoSession


def make_demo(
    root: Path,
    now: datetime,
    seed: int = 7,
    *,
    pid: int | None = None,
    proc_start: str | None = None,
) -> DemoFolder:
    """Write a config folder as of `now` and return the truth about it; no `pid` is this process."""
    rng = Random(seed)  # noqa: S311 - the demo must be the same every time, not secret
    stages: list[SessionBuilder] = []
    sessions: list[DemoSession] = []
    make_folder(root)
    for scenario in scenarios.SCENARIOS:
        stage = open_session(scenario.spec, root, now, rng)
        sessions.append(stage.to_session(scenario.story(stage)))
        stages.append(stage)
        if scenario is FORK_PARENT:
            fork = _write_fork(stage, root, now, rng)
            stages.append(fork[0])
            sessions.append(fork[1])
    for stage in stages:
        _save_files(stage)
    write_registry(root / "sessions", stages, pid, proc_start)
    _write_config(root, now)
    return DemoFolder(root, tuple(sessions))


def _write_fork(
    parent: SessionBuilder, root: Path, now: datetime, rng: Random
) -> tuple[SessionBuilder, DemoSession]:
    story = forked_session(parent, scenarios.FORK_PROMPT, scenarios.FORK_TOKENS)
    scenario = DemoScenario(scenarios.FORK, story)
    stage = open_session(scenario.spec, root, now, rng)
    return stage, stage.to_session(scenario.story(stage))


def _save_files(stage: SessionBuilder) -> None:
    for sheet in (stage.buffer, *stage.agent_buffers):
        sheet.save()


def _write_config(root: Path, now: datetime) -> None:
    files = demo_texts.AGENT_FILES | demo_texts.SKILL_FILES
    files["settings.json"] = json.dumps(demo_texts.SETTINGS, indent=1)
    for name, content in files.items():
        path = root / name
        write_file(path, content.encode())
        set_time(path, now)


TORN_LINE: Final = b'{"type":"user","message":{"role":"user","content":"half of a li\n'
UNKNOWN_TYPE_LINE: Final = {"type": "weather-report", "weather": "fine"}
"""A type that no version of the client writes."""

_HOOK_EVENTS: Final = (
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


def make_demo_history(folder: DemoFolder, store: Path, now: datetime) -> None:
    """Create a past for the demo: bad lines, hook calls, automatic runs and a set-aside store."""
    sessions = {each.title: each for each in folder.sessions}
    for title, lines in (
        (
            "Ledger rounding, cent by cent",
            (TORN_LINE, encode_line(UNKNOWN_TYPE_LINE), encode_line(UNKNOWN_TYPE_LINE)),
        ),
        ("Show [/foo] and [bold red] as they are", (b"\x1b[31m[bold]no JSON at all[/bold]\n",)),
    ):
        _append_lines(sessions[title].transcript, lines)
    make_folder(store.parent)
    _write_hooks(store, sessions["Fix the flaky checkout tests"], now)
    _store_automatic_runs(store, sessions, now)
    # An empty store that was set aside by an earlier version.
    at = now - timedelta(days=9, hours=2)
    write_file(store.with_name(f"{store.name}.aside-{at:%Y%m%d-%H%M%S}"), b"")


def _append_lines(path: Path, lines: tuple[bytes, ...]) -> None:
    status = path.stat()
    with path.open("ab") as file:
        file.writelines(lines)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _write_hooks(store: Path, session: DemoSession, now: datetime) -> None:
    lines = []
    for event, minutes in _HOOK_EVENTS:
        at = to_millis(now - timedelta(minutes=minutes))
        given = {"hook_event_name": event, "session_id": session.session_id}
        said = {"v": 1, "at": at, "pid": 4711, "event": event, "given": given}
        lines.append(b"\n" + json.dumps(said).encode() + b"\n")
    path = own_log_folder(store) / LogKind.HOOKS
    write_file(path, b"".join(lines))
    set_time(path, now - timedelta(minutes=_HOOK_EVENTS[-1][1]))


def _store_automatic_runs(store: Path, sessions: dict[str, DemoSession], now: datetime) -> None:
    began = to_millis(now - timedelta(minutes=49))
    done = AutomaticRunRecord(
        session_id=sessions["Staging cluster to Terraform"].session_id,
        at=began,
        reason="it rests at 86 % of its window, past the policy's 80 %",
        outcome="compacted: ≈ 171,900 to 82,400 tokens",
        ended_at=began + 3_200,
        left_tokens=82_400,
    )
    later = to_millis(now - timedelta(hours=25))
    refused = AutomaticRunRecord(
        session_id=sessions["Explain the invoice run"].session_id,
        at=later,
        reason="it ended in prompt_too_long",
        outcome="held: a process has the transcript open to write",
        ended_at=later + 900,
    )
    writer = Writer(store)
    try:
        for run in (refused, done):
            begin_automatic_run(writer.connection, run, 0)
            end_automatic_run(writer.connection, run)
    finally:
        writer.close()
