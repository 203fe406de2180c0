"""Write the demo's config folder, claude-memory's saves, and what happened before."""

import json
import os
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from ...core.files.file_operations import make_private_folder, write_file_atomically
from ...core.model.transcript_records import LogKind
from ...core.saves.save_status import SaveState
from ...core.store import automation_records
from ...core.store.writer import Writer
from ..claude_code.own_files import own_log_folder
from ..claude_code.registry import linux_stat_field
from .conversation_writer import text_block
from .demo_data import CLIENT, CURRENT_VERSION, FILES, MODELS, RAW, DemoJson, client_text, shape
from .demo_transcript import (
    DemoClock,
    DemoSession,
    FileBuffer,
    IdGenerator,
    LineOrigin,
    SessionBuilder,
    TranscriptChain,
    encode_json,
    format_time,
    set_time,
    to_millis,
    write_file,
)
from .status_lines import write_status_lines
from .stories import STORIES, open_session, write_story


@dataclass(frozen=True)
class DemoFolder:
    """A whole config folder and the truth about every session in it."""

    root: Path
    sessions: tuple[DemoSession, ...]


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
    builders: dict[str, SessionBuilder] = {}
    sessions: list[DemoSession] = []
    for story in STORIES:
        builder = open_session(story, root, now, rng)
        sessions.append(write_story(story, builder, builders))
        builders[story.title] = builder
    for builder in builders.values():
        for file in (builder.chain.sink, *builder.agent_files):
            file.save()
    _write_registry(root / "sessions", list(builders.values()), pid, proc_start)
    for name, content in (FILES | {"settings.json": json.dumps(SETTINGS, indent=1)}).items():
        write_file(root / name, content.encode())
        set_time(root / name, now)
    return DemoFolder(root, tuple(sessions))


START_TIME_FIELD: Final = 22  # of /proc/PID/stat: in the kernel's ticks


def _write_registry(
    folder: Path, builders: list[SessionBuilder], pid: int | None, proc_start: str | None
) -> None:
    if pid is None:
        pid = os.getpid()
        proc_start = linux_stat_field(pid, START_TIME_FIELD)
    live = [builder for builder in builders if builder.story.status is not None]
    for number, builder in enumerate(live, start=1):
        path = folder / f"{pid}-{number}.json"
        write_file(path, encode_json(_registry_entry(builder, number, pid, proc_start)))
        set_time(path, builder.chain.clock.at)


def _registry_entry(
    builder: SessionBuilder, number: int, pid: int, proc_start: str | None
) -> DemoJson:
    origin = builder.chain.origin
    first = next(line["timestamp"] for line in builder.chain.sink.lines if "timestamp" in line)
    entry = shape(
        "registry entry",
        pid=pid,
        origin=origin,
        started=to_millis(datetime.fromisoformat(first)),
        proc_start=proc_start,
        tmux=f"work:@{number}.%{number}",
        name=f"{origin.cwd.rpartition('/')[2]}-{origin.session_id[:2]}",
    )
    if proc_start is None:
        del entry["procStart"]
    return entry | _status_fields(builder.story.status, builder.chain.clock.at)


def _status_fields(status: str | None, at: datetime) -> DemoJson:
    moment = to_millis(at)
    fields: DemoJson = {"status": status, "updatedAt": moment, "statusUpdatedAt": moment}
    return fields | {"waitingFor": "permission prompt"} if status == "waiting" else fields


def find_entry(root: Path, session_id: str) -> Path | None:
    for path in sorted((root / "sessions").glob("*.json")):
        if json.loads(path.read_bytes()).get("sessionId") == session_id:
            return path
    return None


def set_status(path: Path, status: str, now: datetime) -> None:
    """Set a live session's status in its registry file, unless it is already set."""
    entry: DemoJson = json.loads(path.read_bytes())
    if entry["status"] != status:
        entry.pop("waitingFor", None)
        write_file_atomically(path, encode_json(entry | _status_fields(status, now)))


SETTINGS: Final = {
    "hooks": {
        event: [{"hooks": [{"type": "command", "command": "/home/dev/bin/ctx-hook"}]}]
        for event in CLIENT.hooks
    },
    "model": "opus",
}


TORN_LINE: Final = b'{"type":"user","message":{"role":"user","content":"half of a li\n'
UNKNOWN_TYPE_LINE: Final = b'{"type":"weather-report","weather":"fine"}\n'

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
"""Events and how many minutes ago they were; no client knows MoonRise."""


def make_demo_history(folder: DemoFolder, store: Path, now: datetime) -> None:
    """Create a past for the demo: bad lines, hook calls, automatic runs and a set-aside store."""
    sessions = {session.title: session for session in folder.sessions}
    for title, lines in (
        ("Ledger rounding, cent by cent", TORN_LINE + UNKNOWN_TYPE_LINE * 2),
        ("Show [/foo] and [bold red] as they are", b"\x1b[31m[bold]no JSON at all[/bold]\n"),
    ):
        path = sessions[title].transcript
        status = path.stat()
        with path.open("ab") as file:
            file.write(lines)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    make_private_folder(store.parent)
    _write_hooks(store, sessions["Fix the flaky checkout tests"].session_id, now)
    write_status_lines(folder.sessions, own_log_folder(store) / LogKind.STATUS_LINE, now)
    _store_automatic_runs(store, sessions, now)
    # An empty store that was set aside by an earlier version.
    at = now - timedelta(days=9, hours=2)
    write_file(store.with_name(f"{store.name}.aside-{at:%Y%m%d-%H%M%S}"), b"")


def _write_hooks(store: Path, session_id: str, now: datetime) -> None:
    lines = []
    for event, minutes in _HOOK_EVENTS:
        at = to_millis(now - timedelta(minutes=minutes))
        given = {"hook_event_name": event, "session_id": session_id}
        record = {"v": 1, "at": at, "pid": 4711, "event": event, "given": given}
        lines.append(f"\n{json.dumps(record)}\n")
    path = own_log_folder(store) / LogKind.HOOKS
    write_file(path, "".join(lines).encode())
    set_time(path, now - timedelta(minutes=_HOOK_EVENTS[-1][1]))


def _store_automatic_runs(store: Path, sessions: dict[str, DemoSession], now: datetime) -> None:
    with closing(Writer(store)) as writer:
        for run in RAW["automatic_runs"]:
            began = to_millis(now - timedelta(minutes=run["minutes_ago"]))
            record = automation_records.AutomaticRunRecord(
                session_id=sessions[run["session"]].session_id,
                at=began,
                reason=run["reason"],
                outcome=run["outcome"],
                ended_at=began + run["took_ms"],
                left_tokens=run.get("left_tokens"),
            )
            automation_records.begin_automatic_run(writer.connection, record, 0)
            automation_records.end_automatic_run(writer.connection, record)


RESULT_FILE: Final = "last-save-result.json"
PENDING_FILE: Final = ".triage-pending.json"

_RESULT_DELAY: Final = timedelta(seconds=2)  # between the save's files and what was staged for it
_STEP: Final = timedelta(milliseconds=10)


class SaveStory(msgspec.Struct, frozen=True):
    """One project: what lies in its staging folder, and how its last save went."""

    name: str
    state: SaveState
    ago: dict[str, int]  # as timedelta's arguments
    files: dict[str, DemoJson | str]
    is_global: bool = False  # staged beside the settings, as by the first versions
    is_inline: bool = False  # the triage data is in the transcript, and the session itself saves
    refires: int = 0
    has_reply: bool = True  # a person said something after it


SAVE_STORIES = msgspec.convert(RAW["saves"], tuple[SaveStory, ...])


@dataclass(frozen=True)
class DemoSave:
    """What ctxtop must find out by itself about one project."""

    project: Path
    state: SaveState


def make_demo_saves(root: Path, work: Path, now: datetime) -> tuple[DemoSave, ...]:
    """Write a session and the staged files of each story; return the truth about them.

    `root` is Claude Code's folder, `work` a folder for the projects.
    """
    ids = IdGenerator(Random("saves"))  # noqa: S311 - the same every time, not secret
    made = []
    for story in SAVE_STORIES:
        project, at = work / story.name, now - timedelta(**story.ago)
        make_private_folder(project)
        _write_save_session(story, root, project, at, ids)
        folder = root if story.is_global else project / ".claude" / "memory" / ".staging"
        _write_staged_files(story, folder, project, at)
        made.append(DemoSave(project, story.state))
    return tuple(made)


def _write_staged_files(story: SaveStory, folder: Path, project: Path, at: datetime) -> None:
    for number, (name, content) in enumerate(story.files.items()):
        if name == RESULT_FILE and isinstance(content, dict):
            content = {"saved_at": format_time(at), "project": str(project)} | content  # noqa: PLW2901
        text = content if isinstance(content, str) else json.dumps(content)
        write_file(folder / name, text.encode())
        # The result is written after what was staged for it.
        is_last = name in {RESULT_FILE, PENDING_FILE}
        set_time(folder / name, at if is_last else at - _RESULT_DELAY + number * _STEP)


def _write_save_session(
    story: SaveStory, root: Path, project: Path, end: datetime, ids: IdGenerator
) -> None:
    origin = LineOrigin(
        ids.uuid(), str(project), CURRENT_VERSION, "cli", "main", "calm-saving-heron"
    )
    clock = DemoClock(end - timedelta(minutes=4), timedelta(seconds=4), end)
    sink = FileBuffer(origin.transcript(root))
    talk = _SaveConversation(TranscriptChain(origin, ids, clock, sink))
    talk.user(f"Tidy up {story.name} before the release.")
    talk.say("Done: the release notes are in CHANGELOG.md.", 600)
    for _ in range(story.refires + 1):
        feedback = "inline_save_feedback" if story.is_inline else "save_feedback"
        talk.user(client_text(feedback), {"isMeta": True})
        if story.is_inline:
            talk.save_inline(story.name)
        else:
            talk.save_by_agent(is_saved=story.state is SaveState.SAVED)
    if story.has_reply:
        clock.at = clock.end = end + timedelta(seconds=15)
        talk.user("Thanks, that is all.")
    sink.save()


@dataclass
class _SaveConversation:
    chain: TranscriptChain
    tokens: int = 21_000

    def user(self, content: str | list[DemoJson], after: DemoJson | None = None) -> None:
        self.chain.clock.advance()
        self.chain.add(shape("prompt", content=content), after)

    def say(self, text: str, added_tokens: int) -> None:
        self._answer(text_block(text), added_tokens)

    def save_by_agent(self, *, is_saved: bool) -> None:
        arguments = {"subagent_type": "memory-drafter", "description": "Save memories"}
        self._call("Agent", arguments | {"prompt": "Save."}, "Saved 2 memories.", 900)
        if is_saved:
            self.say("Saved: decision (create), runbook (update)", 300)

    def save_inline(self, project: str) -> None:
        output = "\n".join(f"step {number}" for number in range(9))
        for script in ("candidate", "draft", "write", "write", "enforce"):
            command = {"command": f"python3 memory_{script}.py --category decision"}
            self._call("Bash", command, output, 1_400)
        self.say(f"All memories of {project} are saved.", 400)

    def _answer(self, block: DemoJson, added_tokens: int) -> None:
        before = self.tokens
        self.tokens += added_tokens
        self.chain.clock.advance()
        line = shape(
            "save answer",
            id=self.chain.ids.message(),
            model=MODELS["haiku_200k"].id,
            block=block,
            written=added_tokens,
            read=before - 4,
        )
        self.chain.add(line)

    def _call(self, name: str, arguments: DemoJson, output: str, added_tokens: int) -> None:
        call_id = self.chain.ids.tool_use()
        block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        self._answer(block, added_tokens)
        result = {"type": "tool_result", "tool_use_id": call_id, "content": output}
        self.user([result], {"toolUseResult": {"stdout": output}})
