"""Write the demo's config folder, claude-memory's saves, and what happened before."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from ...core.saves.save_status import SaveState
from ...core.store.automation_records import (
    AutomaticRunRecord,
    begin_automatic_run,
    end_automatic_run,
)
from ...core.store.config_records import StagingLocation
from ...core.store.log_records import LogKind
from ...core.store.writer import Writer
from ..claude_code.own_files import own_log_folder
from .demo_data import CLIENT, CURRENT_MODEL, CURRENT_VERSION, FILES, RAW, shape
from .demo_transcript import (
    DemoClock,
    DemoFolder,
    DemoJson,
    DemoSession,
    FileBuffer,
    IdGenerator,
    LineOrigin,
    TranscriptChain,
    encode_line,
    format_time,
    make_folder,
    project_slug,
    set_time,
    to_millis,
    write_file,
)
from .session_builder import SessionBuilder, open_session, write_registry
from .stories import STORIES


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
    for story in STORIES:
        stage = open_session(story, root, now, rng)
        sessions.append(story.write(stage, {each.spec.title: each for each in stages}))
        stages.append(stage)
    for stage in stages:
        _save_files(stage)
    write_registry(root / "sessions", stages, pid, proc_start)
    _write_config(root, now)
    return DemoFolder(root, tuple(sessions))


def _save_files(stage: SessionBuilder) -> None:
    for sheet in (stage.buffer, *stage.agent_buffers):
        sheet.save()


SETTINGS: Final = {
    "hooks": {
        event: [{"hooks": [{"type": "command", "command": "/home/dev/bin/ctx-hook"}]}]
        for event in CLIENT.hooks
    },
    "model": "opus",
}


def _write_config(root: Path, now: datetime) -> None:
    files = FILES | {"settings.json": json.dumps(SETTINGS, indent=1)}
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


class DemoRun(msgspec.Struct, frozen=True):
    """What was done to a session that nobody asked for by hand."""

    session: str
    minutes_ago: int
    took_ms: int
    reason: str
    outcome: str
    left_tokens: int | None = None


def _store_automatic_runs(store: Path, sessions: dict[str, DemoSession], now: datetime) -> None:
    writer = Writer(store)
    try:
        for each in msgspec.convert(RAW["automatic_runs"], tuple[DemoRun, ...]):
            began = to_millis(now - timedelta(minutes=each.minutes_ago))
            run = AutomaticRunRecord(
                session_id=sessions[each.session].session_id,
                at=began,
                reason=each.reason,
                outcome=each.outcome,
                ended_at=began + each.took_ms,
                left_tokens=each.left_tokens,
            )
            begin_automatic_run(writer.connection, run, 0)
            end_automatic_run(writer.connection, run)
    finally:
        writer.close()


RESULT_FILE, TRIAGE_FILE = "last-save-result.json", "triage-data.json"
PENDING_FILE: Final = ".triage-pending.json"

_RESULT_DELAY: Final = timedelta(seconds=2)  # between the save's files and what was staged for it
_STEP: Final = timedelta(milliseconds=10)


class SaveStory(msgspec.Struct, frozen=True):
    """One project: what lies in its staging folder, and how its last save went."""

    name: str
    state: SaveState
    ago: dict[str, int]  # in the words of timedelta
    files: dict[str, DemoJson | str]
    location: StagingLocation = StagingLocation.PROJECT
    is_inline: bool = False  # the triage stands inline, and the session itself saves
    refires: int = 0
    has_reply: bool = True  # a person said something after it


SAVE_STORIES = msgspec.convert(RAW["saves"], tuple[SaveStory, ...])


@dataclass(frozen=True)
class DemoSave:
    """What ctxtop must find out by itself of one project."""

    project: Path
    state: SaveState


def make_demo_saves(
    root: Path, work: Path, now: datetime, bases: Mapping[StagingLocation, Path] | None = None
) -> tuple[DemoSave, ...]:
    """Write a session and the staged files of each story; return the truth about them.

    `root` is Claude Code's folder, `work` a folder for the projects. Staging folders outside of
    a project are made only below the `bases` that are given, else inside it.
    """
    rng = Random("saves")  # noqa: S311 - the same every time, not secret
    made = []
    for story in SAVE_STORIES:
        project = work / story.name
        make_folder(project)
        _write_session(story, root, project, now, rng)
        _write_staging_files(story, root, project, now, bases or {})
        made.append(DemoSave(project, story.state))
    return tuple(made)


def _write_staging_files(
    story: SaveStory,
    root: Path,
    project: Path,
    now: datetime,
    bases: Mapping[StagingLocation, Path],
) -> None:
    place = _staging_folder(story.location, root, project, bases)
    at = now - timedelta(**story.ago)
    for number, (name, said) in enumerate(story.files.items()):
        content = said
        if name == RESULT_FILE and isinstance(content, dict):
            content = {"saved_at": format_time(at), "project": str(project)} | content
        text = content if isinstance(content, str) else json.dumps(content)
        make_folder(place)
        write_file(place / name, text.encode())
        # The result is written after what was staged for it.
        set_time(
            place / name,
            at if name in {RESULT_FILE, PENDING_FILE} else at - _RESULT_DELAY + number * _STEP,
        )


def _staging_folder(
    generation: StagingLocation, root: Path, project: Path, bases: Mapping[StagingLocation, Path]
) -> Path:
    if generation is StagingLocation.GLOBAL:
        return root
    if generation not in bases:
        return project / ".claude" / "memory" / ".staging"
    seed = os.path.realpath(project)
    if generation is not StagingLocation.TMP:
        seed = f"{os.geteuid()}:{seed}"
    mark = hashlib.sha256(seed.encode()).hexdigest()[:12]
    return bases[generation] / f".claude-memory-staging-{mark}"


@dataclass
class _SaveTranscript:
    """Writes the session of one project, line by line."""

    chain: TranscriptChain
    tokens: int = 21_000
    calls: list[str] = field(default_factory=list)

    def user(self, content: str | list[DemoJson], after: DemoJson | None = None) -> None:
        self.chain.clock.advance()
        self.chain.add(shape("prompt", content=content), after)

    def answer(self, block: DemoJson, grown: int) -> None:
        self.tokens += grown
        self.chain.clock.advance()
        line = shape(
            "save answer",
            id=self.chain.ids.message(),
            model=CURRENT_MODEL.id,
            block=block,
            written=grown,
            read=self.tokens - grown - 4,
        )
        self.chain.add(line)

    def say(self, words: str, grown: int) -> None:
        self.answer({"type": "text", "text": words}, grown)

    def call(self, name: str, asked: DemoJson, output: str, grown: int) -> None:
        call_id = self.chain.ids.tool_use()
        self.answer({"type": "tool_use", "id": call_id, "name": name, "input": asked}, grown)
        block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        self.user([block], {"toolUseResult": {"stdout": output}})


def _write_session(story: SaveStory, root: Path, project: Path, now: datetime, rng: Random) -> None:
    ids = IdGenerator(rng)
    origin = LineOrigin(
        ids.uuid(), str(project), CURRENT_VERSION, "cli", "main", "calm-saving-heron"
    )
    end = now - timedelta(**story.ago)
    clock = DemoClock(end - timedelta(minutes=4), timedelta(seconds=4), end)
    sheet = FileBuffer(
        root / "projects" / project_slug(str(project)) / f"{origin.session_id}.jsonl"
    )
    teller = _SaveTranscript(TranscriptChain(origin, ids, clock, sheet))
    teller.user(f"Tidy up {story.name} before the release.")
    teller.say("Done: the release notes are in CHANGELOG.md.", 600)
    for _ in range(story.refires + 1):
        teller.user(_feedback(story), {"isMeta": True})
        (_write_inline_save if story.is_inline else _write_agent_save)(teller, story)
    if story.has_reply:
        clock.at = clock.end = end + timedelta(seconds=15)
        teller.user("Thanks, that is all.")
    sheet.save()


def _feedback(story: SaveStory) -> str:
    names = ("decision", "runbook")
    lines = [
        "Stop hook feedback:",
        "The following items should be saved as memories before stopping:",
    ]
    lines += [f"- [{name.upper()}] score 0.72" for name in names]
    if story.is_inline:
        categories = [{"category": name, "score": 0.7} for name in names]
        data = json.dumps({"categories": categories}, indent=2)
        tag = f"<triage_data>\n{data}\n</triage_data>"
    else:
        path = f".claude/memory/.staging/{TRIAGE_FILE}"
        tag = f"<triage_data_file>{path}</triage_data_file>"
    return "\n".join([*lines, "", tag])


def _write_agent_save(teller: _SaveTranscript, story: SaveStory) -> None:
    asked = {"subagent_type": "memory-drafter", "description": "Save memories", "prompt": "Save."}
    teller.call("Agent", asked, "Saved 2 memories.", 900)
    if story.state is SaveState.SAVED:
        teller.say("Saved: decision (create), runbook (update)", 300)


def _write_inline_save(teller: _SaveTranscript, story: SaveStory) -> None:
    for script in ("candidate", "draft", "write", "write", "enforce"):
        command = {"command": f"python3 memory_{script}.py --category decision"}
        teller.call("Bash", command, "\n".join(f"step {n}" for n in range(9)), 1_400)
    teller.say(f"All memories of {story.name} are saved.", 400)
