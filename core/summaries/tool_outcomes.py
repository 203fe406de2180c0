"""What the tool calls did: files touched, calls that failed, and jobs still running."""

import re
import shlex
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.conversation import Entry, MessagePart, PartKind
from ..transcript.client_messages import TASK_NOTIFICATION
from . import artifacts
from .decision_patterns import quote_line
from .mentions import split_path
from .summary_facts import replace_angle_brackets

COMMAND_CHARS: Final = 120  # of a command that is shown: what it runs and on what
SHELL_TOOLS: Final = frozenset({"Bash", "PowerShell"})

READ_AGAIN: Final = "Read again before editing."
"""Said of a file whose text is left out: an Edit needs what it replaces word for word."""

CREATED_PREFIX: Final = "File created successfully"
"""How a Write's result begins if there was no such file (client 1.0 to 2.1.329)."""

_COMMAND_SEPARATOR: Final = re.compile(r"&&|\|\||[;\n|]")
_REMOVERS: Final = frozenset({"rm", "unlink", "del", "Remove-Item"})
_DESCRIBED: Final = re.compile(r"(read|edited|written) (\d+)×|(created|deleted)")
_LAST_COMMAND: Final = "; last command: "


class FileActivity(artifacts.FileUse, frozen=True):
    """What was done to one file by calls that did not fail."""

    created: bool = False
    deleted: bool = False
    command: str = ""  # the last one that named it, one line; empty if there was none

    @property
    def is_changed(self) -> bool:
        return bool(self.edits or self.writes or self.created or self.deleted)


def list_file_activity(
    entries: Iterable[Entry], earlier: Iterable[FileActivity] = ()
) -> tuple[FileActivity, ...]:
    """List the files that were touched, changed ones first, then the newest.

    A call counts if its result is no failure or is missing (it was cut off). A file is
    deleted by a shell's `rm` that names it, until it is written again.
    Source: compaction.md 4.2, Q7.
    """
    files = {file.path: file for file in earlier}
    calls: dict[str, tuple[MessagePart, int]] = {}
    for entry in entries:
        for part in entry.parts:
            if part.kind is PartKind.TOOL_INPUT:
                calls[part.tool_use_id or f"line {entry.line}"] = part, entry.line
            elif part.kind is PartKind.TOOL_RESULT:
                call = calls.pop(part.tool_use_id or "", None)
                if call and not part.failed:
                    _apply_file_call(files, *call, part.text)
    for part, line in calls.values():
        _apply_file_call(files, part, line, "")
    return tuple(sorted(files.values(), key=lambda use: (not use.is_changed, -use.line, use.path)))


def describe_file(file: FileActivity) -> str:
    """Describe what was done to a file, in a form that `parse_file_description` reads."""
    done = [word for word in ("created", "deleted") if getattr(file, word)]
    counts = (("edited", file.edits), ("written", file.writes), ("read", file.reads))
    done += [f"{word} {count}×" for word, count in counts if count]
    command = f"{_LAST_COMMAND}{file.command}" if file.command else ""
    return f"{file.path} ({', '.join(done) or 'named'}){command}"


def describe_files(entries: Iterable[Entry]) -> list[str]:
    """Describe what was done to each file, changed ones first, then the newest."""
    return [describe_file(replace(file, command="")) for file in list_file_activity(entries)]


def parse_file_description(text: str, line: int = 0) -> FileActivity | None:
    """Parse what `describe_file` wrote; None for other text."""
    description, _, command = text.partition(_LAST_COMMAND)
    path, bracket, done = description.rpartition(" (")
    if not bracket or not done.endswith(")"):
        return None
    found = _DESCRIBED.findall(done)
    counts = {word: int(count) for word, count, _ in found if word}
    flags = {flag for _, _, flag in found}
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
        _apply_shell_command(files, _field(call, "command"), line)
    elif (
        call.path
        and call.name in artifacts.READ_TOOLS | artifacts.EDIT_TOOLS | artifacts.WRITE_TOOLS
    ):
        known = files.get(call.path, FileActivity(call.path))
        wrote = call.name in artifacts.WRITE_TOOLS
        files[call.path] = replace(
            known,
            reads=known.reads + (call.name in artifacts.READ_TOOLS),
            edits=known.edits + (call.name in artifacts.EDIT_TOOLS),
            writes=known.writes + wrote,
            created=known.created or (wrote and result.startswith(CREATED_PREFIX)),
            deleted=known.deleted and call.name in artifacts.READ_TOOLS,
            line=line,
        )


def _apply_shell_command(files: dict[str, FileActivity], command: str, line: int) -> None:
    removed = _removed_paths(command)
    shown = _shorten(command, COMMAND_CHARS)
    for path, known in files.items():
        parts = split_path(path)
        if parts and parts[-1] in command:
            ends = filter(None, map(split_path, removed))
            deleted = known.deleted or any(parts[-len(end) :] == end for end in ends)
            files[path] = replace(known, command=shown, deleted=deleted, line=line)
    for word in removed:
        if word.startswith("/") and word not in files and "*" not in word:
            files[word] = FileActivity(word, deleted=True, command=shown, line=line)


def _removed_paths(script: str) -> set[str]:
    removed: set[str] = set()
    for command in _COMMAND_SEPARATOR.split(script):
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        words = words[1:] if words[:1] == ["sudo"] else words
        words = words[1:] if words[:2] == ["git", "rm"] else words
        if words and words[0] in _REMOVERS:
            removed |= {word for word in words[1:] if not word.startswith("-")}
    return removed


def _field(call: MessagePart, name: str) -> str:
    return str(artifacts.parse_tool_input(call).get(name) or "")


def _shorten(text: str, chars: int) -> str:
    return quote_line(replace_angle_brackets(text), chars)


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
    call: str  # the tool and what it was called with, one line
    error_line: str  # the line of its result that says what failed
    line: int  # of the result, from 1
    resolved_line: int | None = None  # where the same call succeeded; None if it has not since
    changed_files: tuple[str, ...] = ()  # files that were changed in between


def list_failed_calls(entries: Iterable[Entry]) -> tuple[FailedCall, ...]:
    """List what failed, each signature once (its last time), in the order of the lines.

    It is fixed when the same call, or a call of the same tool on the same file or with the
    same command's beginning, succeeded later.
    """
    failures: dict[tuple[str, str], FailedCall] = {}
    open_keys: dict[tuple[str, str], set[str]] = {}
    changes: list[tuple[int, str]] = []
    for call, result, line in artifacts.tool_results(entries):
        call_keys = _call_keys(call)
        if result.failed:
            text = f"{call.name} {call.path or _field(call, 'command') or call.text}"
            signature = _shorten(text, CALL_CHARS), find_error_line(result.text)
            failures.pop(signature, None)
            failures[signature] = FailedCall(*signature, line)
            open_keys[signature] = call_keys
            continue
        if call.name in artifacts.EDIT_TOOLS | artifacts.WRITE_TOOLS and call.path:
            changes.append((line, call.path))
        for signature in [name for name, keys in open_keys.items() if keys & call_keys]:
            failure = failures[signature]
            changed = dict.fromkeys(path for at, path in changes if at > failure.line)
            failures[signature] = replace(
                failure, resolved_line=line, changed_files=tuple(changed)[-MAX_CHANGED_FILES:]
            )
            del open_keys[signature]
    return tuple(failures.values())


def find_error_line(text: str) -> str:
    """Return the last line with an error word, else the last line."""
    lines = [line.strip() for line in text[-RESULT_TAIL_CHARS:].splitlines() if line.strip()]
    error = next((line for line in reversed(lines) if _ERROR_WORD.search(line)), None)
    return _shorten(error or (lines[-1] if lines else "failed"), ERROR_LINE_CHARS)


MAX_COUNTS: Final = 4  # of a check's last line: passed, failed, skipped, warnings
_COUNTED: Final = re.compile(
    r"\b(?:\d[\d,]{0,8}|no) (?:[a-z]{1,12} )?"
    r"(?:passed|passing|failed|failing|skipped|tests?|specs?|errors?|issues?|problems?|warnings?)\b",
    re.IGNORECASE,
)
_COUNTED_PASSES: Final = re.compile(r"\b[1-9][\d,]* (?:passed|passing|tests?)\b", re.IGNORECASE)
_COUNTED_FAILURES: Final = re.compile(r"\b[1-9][\d,]* (?:failed|failing|errors?)\b", re.IGNORECASE)
_OTHER_END: Final = re.compile(r"[|;\n]")


def describe_check(command: str, result: MessagePart) -> str:
    """Describe how a check's command ended, with its counts if it has any: `went well: 8 passed`.

    Where the end is another command's (`pytest | tail`, `pytest; ls`), what was counted decides.
    """
    lines = result.text[-RESULT_TAIL_CHARS:].splitlines()
    counted = [line for line in lines if _COUNTED.search(line)]
    passes = [line for line in counted if _COUNTED_PASSES.search(line)]
    line = (passes or counted or [""])[-1]
    is_failed = result.failed
    is_failed |= bool(_OTHER_END.search(command) and _COUNTED_FAILURES.search(line))
    outcome = "failed" if is_failed else "went well"
    # `ruff --fix` counts what it fixed.
    counts = [
        each for each in _COUNTED.findall(line) if is_failed or not _COUNTED_FAILURES.search(each)
    ]
    return f"{outcome}: {', '.join(counts[:MAX_COUNTS])}" if counts else outcome


def describe_failure(failure: FailedCall) -> str:
    text = f"{failure.call}: {failure.error_line}"
    if failure.resolved_line is None:
        return f"{text} → still open"
    by = f" after changes to {', '.join(failure.changed_files)}" if failure.changed_files else ""
    return f"{text} → went well at line {failure.resolved_line}{by}"


def _call_keys(call: MessagePart) -> set[str]:
    """Return what identifies a call: all of it, its file, the first words of its command."""
    keys = {f"{call.name} = {call.text}"}
    if call.path:
        keys.add(f"{call.name} on {call.path}")
    if call.name in SHELL_TOOLS:
        keys.add(f"{call.name} of {' '.join(_field(call, 'command').split()[:3])}")
    return keys


JOB_TASK_CHARS: Final = 120  # of a command or a task that is shown
_SHELL_STARTED: Final = re.compile(r"running in background with ID: (\w+)")
_AGENT_STARTED: Final = re.compile(r"\A\s*Async agent launched.*?agentId: (\w+)", re.DOTALL)
_TASK_ID: Final = re.compile(r"<(?:task-id|task_id)>(\w+)</")
_ENDED_STATUS: Final = re.compile(r"<status>(?:completed|failed|killed|stopped|cancelled)</status>")
"""How the client reports an end (2.1.329): in a notification, or when the output is asked for."""

_NOTIFICATION_KINDS: Final = frozenset({PartKind.AGENT_RETURN, PartKind.META})
"""Notifications of agents, and those of shells, monitors and workflows."""

_STOP_TOOLS: Final = frozenset({"KillShell", "KillBash", "TaskStop"})
OUTPUT_TOOLS: Final = frozenset({"BashOutput", "TaskOutput", "AgentOutput"})
"""Tools that return a running task's output, and say whether it ended."""
_ID_FIELDS: Final = ("task_id", "shell_id", "bash_id", "agentId", "agent_id")


class BackgroundJob(msgspec.Struct, frozen=True):
    job_id: str
    kind: str  # `shell`, or an agent's type
    task: str  # its command or its task, one line
    line: int  # where it was started, from 1


def list_running_jobs(entries: Iterable[Entry]) -> tuple[BackgroundJob, ...]:
    """List what is running at the end of the entries, in the order in which it was started."""
    calls: dict[str | None, MessagePart] = {}
    jobs: dict[str, BackgroundJob] = {}
    for entry in entries:
        for part in entry.parts:
            if part.kind is PartKind.TOOL_INPUT:
                calls[part.tool_use_id] = part
            elif part.kind in _NOTIFICATION_KINDS and part.tool_use_id is None:
                if TASK_NOTIFICATION in part.text and _ENDED_STATUS.search(part.text):
                    for job_id in _TASK_ID.findall(part.text):
                        jobs.pop(job_id, None)
            elif part.kind in {PartKind.TOOL_RESULT, PartKind.AGENT_RETURN}:
                _apply_job_result(jobs, calls.get(part.tool_use_id, part), part, entry.line)
    return tuple(jobs.values())


def find_started_agent(result: str) -> str | None:
    """Return the id of the agent that a result says was started in the background."""
    started = _AGENT_STARTED.search(result)
    return started[1] if started else None


def _apply_job_result(
    jobs: dict[str, BackgroundJob], call: MessagePart, result: MessagePart, line: int
) -> None:
    if call.name in _STOP_TOOLS or (
        call.name in OUTPUT_TOOLS and _ENDED_STATUS.search(result.text)
    ):
        for name in _ID_FIELDS:
            jobs.pop(_field(call, name), None)
    elif result.kind is PartKind.AGENT_RETURN and (agent_id := find_started_agent(result.text)):
        kind = quote_line(_field(call, "subagent_type") or "agent", JOB_TASK_CHARS)
        task = _shorten(_field(call, "description"), JOB_TASK_CHARS)
        jobs[agent_id] = BackgroundJob(agent_id, kind, task, line)
    elif _field(call, "run_in_background") and (started := _SHELL_STARTED.search(result.text)):
        task = _shorten(_field(call, "command"), JOB_TASK_CHARS)
        jobs[started[1]] = BackgroundJob(started[1], "shell", task, line)
