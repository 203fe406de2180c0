"""What the tool calls did: files touched, calls that failed, and jobs still running."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from ..transcript.conversation import Entry, MessagePart, PartKind
from .artifacts import EDIT_TOOLS, READ_TOOLS, WRITE_TOOLS, parse_tool_input
from .decision_patterns import quote_line
from .mentions import split_path
from .summary_facts import replace_angle_brackets

COMMAND_CHARS: Final = 120  # of a command that is shown: what it runs and on what
SHELL_TOOLS: Final = frozenset({"Bash", "PowerShell"})

CREATED_PREFIX: Final = "File created successfully"
"""How a Write's result begins where there was no such file (client 1.0 to 2.1.329)."""

_COMMAND_SEPARATOR: Final = re.compile(r"&&|\|\||[;\n|]")
_REMOVERS: Final = frozenset({"rm", "unlink", "del", "Remove-Item"})
_DESCRIBED: Final = re.compile(r"(read|edited|written) (\d+)×|(created|deleted)")
_LAST_COMMAND: Final = "; last command: "


class FileActivity(msgspec.Struct, frozen=True):
    """What was done to one file by calls that did not fail."""

    path: str
    reads: int = 0
    edits: int = 0
    writes: int = 0
    created: bool = False
    deleted: bool = False
    command: str = ""  # the last one that named it, one line; empty where there was none
    line: int = 0  # of the last touch, from 1

    @property
    def is_changed(self) -> bool:
        """It is not as it was."""
        return bool(self.edits or self.writes or self.created or self.deleted)


def list_file_activity(
    entries: Iterable[Entry], earlier: Iterable[FileActivity] = ()
) -> tuple[FileActivity, ...]:
    """List the files that were touched, changed ones first, then the newest.

    A call counts when its result says no failure, or when its result is not there (it was cut
    off). A file is deleted by a shell's `rm` that names it, until it is written again.
    Source: compaction.md 4.2, Q7.
    """
    files = {each.path: each for each in earlier}
    calls: dict[str, tuple[MessagePart, int]] = {}
    for entry in entries:
        for piece in entry.parts:
            if piece.kind is PartKind.TOOL_INPUT:
                calls[piece.tool_use_id or f"line {entry.line}"] = piece, entry.line
            elif piece.kind is PartKind.TOOL_RESULT:
                asked = calls.pop(piece.tool_use_id or "", None)
                if asked and not piece.failed:
                    _apply_file_call(files, *asked, piece.text)
    for call, line in calls.values():
        _apply_file_call(files, call, line, "")
    return tuple(sorted(files.values(), key=lambda use: (not use.is_changed, -use.line, use.path)))


def describe_file(state: FileActivity) -> str:
    """Describe what was done to a file, in a form that `parse_file_description` reads."""
    flags = (("created", state.created), ("deleted", state.deleted))
    done = [word for word, is_so in flags if is_so]
    counted = (("edited", state.edits), ("written", state.writes), ("read", state.reads))
    done += [f"{word} {count}×" for word, count in counted if count]
    ran = f"{_LAST_COMMAND}{state.command}" if state.command else ""
    return f"{state.path} ({', '.join(done) or 'named'}){ran}"


def parse_file_description(text: str, line: int = 0) -> FileActivity | None:
    """Read what `say` said; None for other words."""
    said, _, command = text.partition(_LAST_COMMAND)
    path, bracket, done = said.rpartition(" (")
    if not bracket or not done.endswith(")"):
        return None
    counts: dict[str, int] = {}
    flags: set[str] = set()
    for word, count, flag in _DESCRIBED.findall(done):
        flags |= {flag} if flag else set()
        counts |= {word: int(count)} if word else {}
    return FileActivity(
        path=path,
        reads=counts.get("read", 0),
        edits=counts.get("edited", 0),
        writes=counts.get("written", 0),
        created="created" in flags,
        deleted="deleted" in flags,
        command=command,
        line=line,
    )


def _apply_file_call(
    files: dict[str, FileActivity], call: MessagePart, line: int, result: str
) -> None:
    if call.name in SHELL_TOOLS:
        _apply_shell_command(files, str(parse_tool_input(call).get("command") or ""), line)
    elif call.path and call.name in READ_TOOLS | EDIT_TOOLS | WRITE_TOOLS:
        known = files.get(call.path, FileActivity(call.path))
        wrote = call.name in WRITE_TOOLS
        files[call.path] = replace(
            known,
            reads=known.reads + (call.name in READ_TOOLS),
            edits=known.edits + (call.name in EDIT_TOOLS),
            writes=known.writes + wrote,
            created=known.created or (wrote and result.startswith(CREATED_PREFIX)),
            deleted=known.deleted and call.name in READ_TOOLS,
            line=line,
        )


def _apply_shell_command(files: dict[str, FileActivity], command: str, line: int) -> None:
    removed = _removed_paths(command)
    for path, known in files.items():
        parts = split_path(path)
        if not parts or parts[-1] not in command:
            continue
        files[path] = replace(
            known,
            command=quote_line(replace_angle_brackets(command), COMMAND_CHARS),
            deleted=known.deleted or _is_path_end(removed, parts),
            line=line,
        )
    for word in removed:
        if word.startswith("/") and word not in files and "*" not in word:
            shown = quote_line(replace_angle_brackets(command), COMMAND_CHARS)
            files[word] = FileActivity(word, deleted=True, command=shown, line=line)


def _is_path_end(words: set[str], parts: list[str]) -> bool:
    """Whether a word is the end of a path, compared part by part."""
    return any((own := split_path(word)) and parts[-len(own) :] == own for word in words)


def _removed_paths(command: str) -> set[str]:
    removed: set[str] = set()
    for one in _COMMAND_SEPARATOR.split(command):
        try:
            words = shlex.split(one)
        except ValueError:
            continue
        words = words[1:] if words[:1] == ["sudo"] else words
        words = words[1:] if words[:2] == ["git", "rm"] else words
        if words and words[0] in _REMOVERS:
            removed |= {word for word in words[1:] if not word.startswith("-")}
    return removed


ERROR_LINE_CHARS: Final = 160  # of the line that says what failed: two lines of a terminal
CALL_CHARS: Final = 80  # of what was called
RESULT_TAIL_CHARS: Final = 20_000  # characters of a result's end: what failed is summed up there
MAX_CHANGED_FILES: Final = 3  # files that are named as changed in between: the newest
_ERROR_WORD: Final = re.compile(
    r"\b\w*(?:Error|Exception|Panic)\b|\b(?:error|failed|fatal|cannot|not found|denied)\b"
    r"|오류|실패",
    re.IGNORECASE,
)


class FailedCall(msgspec.Struct, frozen=True):
    """A call that failed, and how it ended."""

    call: str  # the tool and what it was called with, one line
    error_line: str  # the line of its result that says what failed
    line: int  # of the result, from 1
    resolved_line: int | None = None  # where the same went well; None where it did not since
    changed_files: tuple[str, ...] = ()  # files that were changed in between


def list_failed_calls(entries: Iterable[Entry]) -> tuple[FailedCall, ...]:
    """List what failed, each signature once (its last time), in the order of the lines.

    It is fixed when the same call, or a call of the same tool on the same file or with the
    same command's beginning, went well later.
    """
    asked: dict[str | None, MessagePart] = {}
    found: dict[tuple[str, str], FailedCall] = {}
    subjects: dict[tuple[str, str], set[str]] = {}
    changes: list[tuple[int, str]] = []
    for entry in entries:
        for piece in entry.parts:
            if piece.kind is PartKind.TOOL_INPUT:
                asked[piece.tool_use_id] = piece
            elif piece.kind is PartKind.TOOL_RESULT:
                call = asked.get(piece.tool_use_id, piece)
                about = _call_keys(call)
                if piece.failed:
                    what = quote_line(replace_angle_brackets(_call_text(call)), CALL_CHARS)
                    key = what, find_error_line(piece.text)
                    found.pop(key, None)
                    found[key] = FailedCall(*key, entry.line)
                    subjects[key] = about
                    continue
                if call.name in EDIT_TOOLS | WRITE_TOOLS and call.path:
                    changes.append((entry.line, call.path))
                for key in [key for key, own in subjects.items() if own & about]:
                    failed = found[key]
                    since = {path: None for at, path in changes if at > failed.line}
                    last = tuple(since)[-MAX_CHANGED_FILES:]
                    found[key] = msgspec.structs.replace(
                        failed, resolved_line=entry.line, changed_files=last
                    )
                    del subjects[key]
    return tuple(found.values())


def find_error_line(text: str) -> str:
    """Return the last line with an error word, else the last line."""
    lines = [line.strip() for line in text[-RESULT_TAIL_CHARS:].splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if _ERROR_WORD.search(line)), None)
    return quote_line(
        replace_angle_brackets(said or (lines[-1] if lines else "failed")), ERROR_LINE_CHARS
    )


def describe_failure(mishap: FailedCall) -> str:
    said = f"{mishap.call}: {mishap.error_line}"
    if mishap.resolved_line is None:
        return f"{said} → still open"
    by = f" after changes to {', '.join(mishap.changed_files)}" if mishap.changed_files else ""
    return f"{said} → went well at line {mishap.resolved_line}{by}"


def _call_text(call: MessagePart) -> str:
    return f"{call.name} {call.path or parse_tool_input(call).get('command') or call.text}"


def _call_keys(call: MessagePart) -> set[str]:
    """Name what a call is about: the whole call, its file, the first words of its command."""
    about = {f"{call.name} = {call.text}"}
    if call.path:
        about.add(f"{call.name} on {call.path}")
    if call.name in SHELL_TOOLS:
        about.add(
            f"{call.name} of {' '.join(str(parse_tool_input(call).get('command')).split()[:3])}"
        )
    return about


JOB_TASK_CHARS: Final = 120  # of a command or a task that is shown
_SHELL_STARTED: Final = re.compile(r"running in background with ID: (\w+)")
_AGENT_STARTED: Final = re.compile(r"\A\s*Async agent launched.*?agentId: (\w+)", re.DOTALL)
_NOTIFICATION_TAG: Final = "<task-notification>"
_TASK_ID: Final = re.compile(r"<(?:task-id|task_id)>(\w+)</")
_ENDED_STATUS: Final = re.compile(r"<status>(?:completed|failed|killed|stopped|cancelled)</status>")
"""How the client tells of an end (2.1.329): in a notification, or where the output is asked for."""

_NOTIFICATION_KINDS: Final = frozenset({PartKind.AGENT_RETURN, PartKind.META})
"""Notifications of agents, and those of shells, monitors and workflows."""

_STOP_TOOLS: Final = frozenset({"KillShell", "KillBash", "TaskStop"})
OUTPUT_TOOLS: Final = frozenset({"BashOutput", "TaskOutput", "AgentOutput"})
"""Tools that give a running task's output, and say whether it ended."""
_ID_FIELDS: Final = ("task_id", "shell_id", "bash_id", "agentId", "agent_id")


class BackgroundJob(msgspec.Struct, frozen=True):
    """A shell or an agent that is still at work."""

    job_id: str
    kind: str  # `shell`, or an agent's type
    task: str  # its command or its task, one line
    line: int  # where it was started, from 1


def list_running_jobs(entries: Iterable[Entry]) -> tuple[BackgroundJob, ...]:
    """List what runs by the end of the entries, in the order in which it was started."""
    asked: dict[str | None, MessagePart] = {}
    jobs: dict[str, BackgroundJob] = {}
    for entry in entries:
        for piece in entry.parts:
            if piece.kind is PartKind.TOOL_INPUT:
                asked[piece.tool_use_id] = piece
            elif piece.kind in _NOTIFICATION_KINDS and piece.tool_use_id is None:
                if _NOTIFICATION_TAG in piece.text and _ENDED_STATUS.search(piece.text):
                    for job_id in _TASK_ID.findall(piece.text):
                        jobs.pop(job_id, None)
            elif piece.kind in {PartKind.TOOL_RESULT, PartKind.AGENT_RETURN}:
                _apply_result(jobs, asked.get(piece.tool_use_id, piece), piece, entry.line)
    return tuple(jobs.values())


def _apply_result(
    jobs: dict[str, BackgroundJob], call: MessagePart, result: MessagePart, line: int
) -> None:
    given = parse_tool_input(call)
    if call.name in _STOP_TOOLS or (
        call.name in OUTPUT_TOOLS and _ENDED_STATUS.search(result.text)
    ):
        for name in _ID_FIELDS:
            jobs.pop(str(given.get(name)), None)
    elif result.kind is PartKind.AGENT_RETURN and (found := _AGENT_STARTED.search(result.text)):
        kind = quote_line(str(given.get("subagent_type") or "agent"), JOB_TASK_CHARS)
        task = quote_line(
            replace_angle_brackets(str(given.get("description") or "")), JOB_TASK_CHARS
        )
        jobs[found[1]] = BackgroundJob(found[1], kind, task, line)
    elif given.get("run_in_background") and (found := _SHELL_STARTED.search(result.text)):
        command = quote_line(
            replace_angle_brackets(str(given.get("command") or "")), JOB_TASK_CHARS
        )
        jobs[found[1]] = BackgroundJob(found[1], "shell", command, line)
