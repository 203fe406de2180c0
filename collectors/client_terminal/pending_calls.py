"""The tool calls of a session that have no result yet, and which one a permission prompt shows."""

import re
from collections.abc import Callable, Iterable, Mapping
from os.path import relpath
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ...core.transcript.conversation import RESULT_KINDS, Entry, PartKind, decode_tool_input
from ...core.transcript.sanitize import sanitize_text
from ..claude_code.transcripts.transcript_ends import read_recent_entries
from .permission_prompt import PermissionPrompt, PromptRefusedError

MAX_AGENT_FILES: Final = 50  # of a session, the newest ones: an agent that asks has just written


class PendingCall(msgspec.Struct, frozen=True):
    tool_use_id: str
    tool: str
    input: Mapping[str, Any]

    def text(self, name: str) -> str:
        value = self.input.get(name)
        return value if isinstance(value, str) else ""


def read_pending_calls(path: Path) -> list[PendingCall]:
    """List the calls after the last prompt that have no result; raises OSError."""
    pending: dict[str, PendingCall] = {}
    for entry in read_recent_entries(path):
        _apply(entry, pending)
    return list(pending.values())


def _apply(entry: Entry, pending: dict[str, PendingCall]) -> None:
    for part in entry.parts:
        if part.kind is PartKind.PROMPT:
            # Calls before it were never answered: their client was stopped.
            pending.clear()
        elif part.kind in RESULT_KINDS:
            pending.pop(part.tool_use_id or "", None)
        elif part.kind is PartKind.TOOL_INPUT and part.tool_use_id:
            given = decode_tool_input(part.text)
            if given is not None:
                pending[part.tool_use_id] = PendingCall(part.tool_use_id, part.name, given)


def find_shown_call(prompt: PermissionPrompt, transcript: Path, cwd: str) -> PendingCall:
    """Find the one pending call that a prompt shows in full; raises PromptRefusedError, OSError.

    `transcript` is the session's; `cwd` is where its client works.
    """
    check = _CHECKS.get(prompt.title)
    if check is None:
        raise PromptRefusedError(f"ctxtop cannot verify this kind of prompt: {prompt.title}")
    paths = _agent_files(transcript) if prompt.agent else [transcript]
    calls = [call for path in paths for call in read_pending_calls(path)]
    shown = [call for call in calls if check(prompt, call, cwd)]
    if not shown:
        raise PromptRefusedError(
            "its prompt does not match the tool call that is pending in the transcript"
        )
    if len(shown) > 1:
        raise PromptRefusedError(f"{len(shown)} of its pending tool calls match its prompt")
    if not _is_printable(shown[0]):
        raise PromptRefusedError("the tool call contains characters that a terminal does not show")
    return shown[0]


def _agent_files(transcript: Path) -> list[Path]:
    paths = (transcript.with_suffix("") / "subagents").glob("agent-*.jsonl")
    return sorted(paths, key=lambda path: -path.lstat().st_mtime)[:MAX_AGENT_FILES]


def _is_printable(call: PendingCall) -> bool:
    """Whether what ctxtop shows of a call is all that is in it."""
    texts = [value for value in call.input.values() if isinstance(value, str)]
    return all(sanitize_text(text) == text for text in texts)


# What a prompt of each kind shows of its call. Where a row is wrapped the screen has one blank more
# or less, so texts are compared without blanks: those that are shown to a person are the call's.
_Check = Callable[[PermissionPrompt, PendingCall, str], bool]

PROCEED: Final = "Do you want to proceed?"
_NO_DESCRIPTION: Final = "Run shell command"


def _without_blanks(text: str) -> str:
    return "".join(text.split())


def _is_same(shown: str, *texts: str) -> bool:
    return _without_blanks(shown) in {_without_blanks(text) for text in texts}


def _path_names(path: str, cwd: str) -> tuple[str, ...]:
    """Return how the client may write a path: as it was given, or from where it works."""
    names = [path]
    if PurePath(path).is_absolute() and PurePath(cwd).is_absolute():
        names.append(relpath(path, cwd))
    return tuple(names)


def _check_bash(prompt: PermissionPrompt, call: PendingCall, _cwd: str) -> bool:
    description = call.text("description") or _NO_DESCRIPTION
    return (
        call.tool == "Bash"
        and bool(call.text("command").strip())
        and _is_same(prompt.body, call.text("command"))
        and _is_same(prompt.subject, description)
        and prompt.question == PROCEED
    )


def _check_fetch(prompt: PermissionPrompt, call: PendingCall, _cwd: str) -> bool:
    url = call.text("url")
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return (
        call.tool == "WebFetch"
        and bool(host)
        and _is_same(prompt.body, f"url: {url} prompt: {call.text('prompt')}")
        and _is_same(prompt.subject, f"Claude wants to fetch content from {host}")
        and prompt.question == "Do you want to allow Claude to fetch this content?"
    )


def _check_read(prompt: PermissionPrompt, call: PendingCall, cwd: str) -> bool:
    path = call.text("file_path")
    shown = (f"Read({name})" for name in _path_names(path, cwd))
    return (
        call.tool == "Read"
        and bool(path)
        and _is_same(prompt.body, *shown)
        and not prompt.subject
        and prompt.question == PROCEED
    )


def _check_create(prompt: PermissionPrompt, call: PendingCall, cwd: str) -> bool:
    path, lines = call.text("file_path"), call.text("content").removesuffix("\n").split("\n")
    numbered = "\n".join(f"{number} {line}" for number, line in enumerate(lines, 1))
    return (
        call.tool == "Write"
        and _is_same(prompt.subject, *_path_names(path, cwd))
        and _is_same(prompt.body, numbered)
        and _is_same(prompt.question, f"Do you want to create {PurePath(path).name}?")
    )


_DIFF_ROW: Final = re.compile(r" *\d+ (?P<sign>[-+ ])(?P<text>.*)")


def _check_edit(prompt: PermissionPrompt, call: PendingCall, cwd: str) -> bool:
    """Compare the sides of the difference that the prompt shows with those of the call."""
    path = call.text("file_path")
    before, after = _diff_sides(prompt.body.split("\n"))
    return (
        call.tool == "Edit"
        and call.text("old_string") != call.text("new_string")
        and _without_blanks(call.text("old_string")) in _without_blanks(before)
        and _without_blanks(call.text("new_string")) in _without_blanks(after)
        and _is_same(prompt.subject, *_path_names(path, cwd))
        and _is_same(prompt.question, f"Do you want to make this edit to {PurePath(path).name}?")
    )


def _diff_sides(rows: Iterable[str]) -> tuple[str, str]:
    """Return the text before and after a difference; a wrapped row belongs to the one above."""
    before, after, sign = "", "", " "
    for row in rows:
        found = _DIFF_ROW.fullmatch(row)
        text = found["text"] if found else row
        sign = found["sign"] if found else sign
        before += text if sign != "+" else ""
        after += text if sign != "-" else ""
    return before, after


_CHECKS: Final[Mapping[str, _Check]] = {
    "Bash command": _check_bash,
    "Fetch": _check_fetch,
    "Read file": _check_read,
    "Create file": _check_create,
    "Edit file": _check_edit,
}
