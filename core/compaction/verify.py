"""Checks that a written file is what its plan says, line by line and as a whole."""

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ..files.file_operations import open_regular_file
from ..files.json_spans import find_span, read_value, replace_spans
from ..model.conversation import Entry
from ..transcript.client_messages import is_agent_message
from ..transcript.entry_decoder import MEDIA_BLOCKS, THINKING_BLOCKS
from ..transcript.visible_messages import visible_entries
from .plan import Operation, Refusal, Severity, severity_of_edits
from .rewritten_lines import RewrittenLine, apply_replacements
from .verify_messages import MESSAGE_CHECKS, TranscriptComparison

JsonObject = dict[str, Any]

_IDENTITY: Final = (
    "type", "subtype", "uuid", "sessionId", "timestamp", "requestId", "isSidechain",
    "logicalParentUuid", "sourceToolAssistantUUID", "isCompactSummary", "compactMetadata",
)  # fmt: skip
_MESSAGE_IDENTITY: Final = ("id", "role", "type", "model")
_BLOCK_IDENTITY: Final = ("id", "tool_use_id", "name", "is_error")
_REPLACEMENT_TYPES: Final = frozenset({"text", *MEDIA_BLOCKS})  # for an image


def check_identity(before: JsonObject, after: JsonObject, _level: Severity) -> str | None:
    """V4: a line's ids, and which calls and results it holds, stay."""
    for name in _IDENTITY:
        if before.get(name) != after.get(name):
            return f"{name} changed"
    old, new = _message(before), _message(after)
    for name in _MESSAGE_IDENTITY:
        if old.get(name) != new.get(name):
            return f"message.{name} changed"
    if [*_call_identities(before)] != [*_call_identities(after)]:
        return "a call or a result was replaced"
    return None


def check_types(before: JsonObject, after: JsonObject, _level: Severity) -> str | None:
    """V9: content keeps its JSON type, in results too, and a call's input stays an object."""
    if type(_content(before)) is not type(_content(after)):
        return "message.content has another JSON type"
    old, new = _result_contents(before), _result_contents(after)
    for name, content in old.items():
        if name in new and type(content) is not type(new[name]):
            return f"the content of result {name} has another JSON type"
    if type(before.get("toolUseResult")) is not type(after.get("toolUseResult")):
        return "toolUseResult has another JSON type"
    inputs = {block.get("id"): block.get("input") for block in _blocks(before)}
    for block in _blocks(after):
        if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
            return "a call's input is not an object"
    for block in _blocks(after):
        old_input, new_input = inputs.get(block.get("id")), block.get("input")
        if isinstance(old_input, dict) and isinstance(new_input, dict):
            lost = old_input.keys() - new_input.keys()
            if lost:
                return f"call {block.get('id')} lost {', '.join(sorted(lost))}"
    return None


def check_not_empty(before: JsonObject, after: JsonObject, _level: Severity) -> str | None:
    """V9: nothing becomes empty that the API wants filled."""
    if _is_empty(after) and not _is_empty(before):
        return "a message or a text is left empty"
    return None


def check_thinking(before: JsonObject, after: JsonObject, _level: Severity) -> str | None:
    """V10: thinking is removed as a whole or stays as it is."""
    known = [block for block in _blocks(before) if block.get("type") in THINKING_BLOCKS]
    for block in _blocks(after):
        if block.get("type") in THINKING_BLOCKS and block not in known:
            return "a thinking block was altered"
    return None


def check_prompt(before: JsonObject, after: JsonObject, level: Severity) -> str | None:
    """V14: a person's words stay, unless the plan's level includes prose.

    An agent's message, which the client sends in their role, may be shortened from level 3 on.
    """
    if level >= Severity.PROSE or before.get("type") != "user":
        return None
    old, new = [*_texts(before)], [*_texts(after)]
    if not any(map(_is_not_blank, old)):
        # There were no words: recovery fills in a placeholder.
        return None
    changed = [
        was
        for was, now in zip(old, new, strict=False)
        if was != now and _is_not_blank(was) and not (level >= Severity.MASKED and _is_agents(was))
    ]
    return "text written by a person changed" if changed or len(old) != len(new) else None


def _is_agents(text: object) -> bool:
    return isinstance(text, str) and is_agent_message(text)


def _is_not_blank(text: object) -> bool:
    return bool(str(text or "").strip())


def check_characters(before: JsonObject, after: JsonObject, _level: Severity) -> str | None:
    """V18: no half of a character is left."""
    if _has_surrogate(after) and not _has_surrogate(before):
        return "a text was cut inside a character"
    return None


def check_block_types(before: JsonObject, after: JsonObject, _level: Severity) -> str | None:
    """V19: blocks that stay keep their type; an image may become a text."""
    old = [block.get("type") for block in _blocks(before)]
    new = [block.get("type") for block in _blocks(after)]
    if len(old) != len(new):
        return None
    for was, now in zip(old, new, strict=True):
        is_replaced_image = was in MEDIA_BLOCKS and now in _REPLACEMENT_TYPES
        if was != now and not is_replaced_image and was not in THINKING_BLOCKS:
            return f"a block of {was} became one of {now}"
    return None


LINE_CHECKS: Final[
    tuple[tuple[str, Callable[[JsonObject, JsonObject, Severity], str | None]], ...]
] = (
    ("V4", check_identity),
    ("V9", check_types),
    ("V9", check_not_empty),
    ("V10", check_thinking),
    ("V14", check_prompt),
    ("V18", check_characters),
    ("V19", check_block_types),
)


def _message(line: JsonObject) -> JsonObject:
    message = line.get("message")
    return message if isinstance(message, dict) else {}


def _content(line: JsonObject) -> object:
    return _message(line).get("content")


def _blocks(line: JsonObject) -> list[JsonObject]:
    content = _content(line)
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []


def _call_identities(line: JsonObject) -> Iterator[tuple[object, ...]]:
    for block in _blocks(line):
        if "tool_use_id" in block or "input" in block:
            yield (block.get("type"), *(block.get(name) for name in _BLOCK_IDENTITY))


def _result_contents(line: JsonObject) -> dict[str, object]:
    return {
        str(block["tool_use_id"]): block.get("content")
        for block in _blocks(line)
        if "tool_use_id" in block
    }


def _is_empty(line: JsonObject) -> bool:
    content = _content(line)
    if content in ("", []):
        return True
    return any(
        block.get("type") == "text" and not str(block.get("text") or "").strip()
        for block in _blocks(line)
    )


def _texts(line: JsonObject) -> Iterator[object]:
    content = _content(line)
    if isinstance(content, str):
        yield content
    yield from (block.get("text") for block in _blocks(line) if block.get("type") == "text")


def _has_surrogate(value: object) -> bool:
    if isinstance(value, str):
        return any("\ud800" <= each <= "\udfff" for each in value) if not value.isascii() else False
    if isinstance(value, dict):
        return any(map(_has_surrogate, value.values()))
    return isinstance(value, list) and any(map(_has_surrogate, value))


GROWTH_ALLOWANCE_BYTES: Final = 4096  # that one operation may add (V17)
PASSED_CHECKS: Final = (*(f"V{number}" for number in range(1, 25)),)
"""The checks that a receipt names: all of these were passed. V21 to V24 are about the whole
file: `apply` runs the last three, and `undo` runs V21 once more when it undoes a plan."""

_STATE_LINE: Final = re.compile(
    rb'\{"type":"(permission-mode|mode|last-prompt|ai-title|custom-title|pr-link|worktree-state'
    rb'|relocated)"'
)
"""Lines of which the client reads the last one."""

_SIDECAR_FOLDERS: Final = (b"/tool-results/", b"/subagents/")
_SIDECAR: Final = re.compile(rb"""/[^\s"'<>|\\]*/(?:tool-results|subagents)/[^\s"'<>|\\]+\.\w+""")
"""Paths of files beside a transcript, as a result names them whose text is stored there."""


def verify_lines(
    path: Path, lines: Iterable[RewrittenLine], operations: Sequence[Operation]
) -> Iterator[Refusal]:
    level = max((each.level for each in operations), default=Severity.FILE_ONLY)
    state_lines: dict[bytes, bytes] = {}
    named: set[bytes] = set()
    size, before, appended = 0, 0, 0
    with open_regular_file(path) as file:
        for line in lines:
            before += len(line.before or b"")
            state = _STATE_LINE.match(line.before or b"")
            if state and line.before:
                state_lines[state[1]] = line.before
            named |= sidecar_paths(line.before)
            if line.after is None:
                continue
            written = file.read(len(line.after))
            if written != line.after:
                yield _failed_check("V3", "a line is not in the file as planned")
                return
            size += len(written)
            if line.before is None or line.replacements:
                yield from _verify_sidecars(sidecar_paths(written) - named)
            if line.before is None:
                appended += len(written)
                continue
            if line.replacements:
                yield from _verify_edit(line, severity_of_edits(operations))
            state = _STATE_LINE.match(written)
            if state and state_lines.get(state[1]) == written:
                del state_lines[state[1]]
        if file.read(1):
            yield _failed_check("V2", "the file has more lines than planned")
    if state_lines and level is not Severity.CUT:
        kind = next(iter(state_lines)).decode()
        yield _failed_check("V12", f"the last line of {kind} is gone or changed")
    if size > before + appended + GROWTH_ALLOWANCE_BYTES * len(operations):
        yield _failed_check("V17", f"the file grew from {before:,} to {size:,} bytes")


def verify_visible_messages(
    before: Sequence[Entry], after: Sequence[Entry], operations: tuple[Operation, ...]
) -> Iterator[Refusal]:
    visible = visible_entries(before), visible_entries(after)
    comparison = TranscriptComparison(before, after, *visible, operations)
    for code, check in MESSAGE_CHECKS:
        failure = check(comparison)
        if failure:
            yield _failed_check(code, failure)


def _verify_edit(line: RewrittenLine, level: Severity) -> Iterator[Refusal]:
    number = line.replacements[0].line
    try:
        old, new = json.loads(line.before or b""), json.loads(line.after or b"")
    except (ValueError, RecursionError) as error:
        yield _failed_check("V1", f"line {number} is not JSON: {error}")
        return
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield _failed_check("V1", f"line {number} is not a JSON object")
        return
    for code, check in LINE_CHECKS:
        failure = check(old, new, level)
        if failure:
            yield _failed_check(code, f"line {number}: {failure}")
    if undo_line_edits(line) != line.before:
        yield _failed_check("V21", f"line {number} cannot be undone byte for byte")
    if repeat_line_edits(line) != line.after:
        yield _failed_check("V22", f"line {number} would change once more")


def _verify_sidecars(paths: Iterable[bytes]) -> Iterator[Refusal]:
    for path in map(os.fsdecode, sorted(paths)):
        if not Path(path).is_file():
            yield _failed_check("V20", f"{path!r} would be referenced but does not exist")


def sidecar_paths(line: bytes | None) -> set[bytes]:
    """Return the paths of files beside a transcript that a line names."""
    if line is None or not any(folder in line for folder in _SIDECAR_FOLDERS):
        return set()
    return set(_SIDECAR.findall(line))


def verify_permissions(path: Path, original_status: os.stat_result) -> Iterator[Refusal]:
    """V23: who may read a written file is who may read the transcript, and nobody else."""
    now = path.stat()
    for what, was, new in (
        ("permissions", stat.S_IMODE(original_status.st_mode), stat.S_IMODE(now.st_mode)),
        ("owner", original_status.st_uid, now.st_uid),
        ("group", original_status.st_gid, now.st_gid),
    ):
        if was != new:
            yield _failed_check("V23", f"the written file's {what} would be {new:o}, not {was:o}")


def undo_line_edits(line: RewrittenLine) -> bytes:
    """Return an edited line with its old values put back. Raises JsonPointerError."""
    before, after = line.before or b"", line.after or b""
    pointers = [edit.pointer for edit in line.replacements]
    return replace_spans(
        after, [(find_span(after, pointer), read_value(before, pointer)) for pointer in pointers]
    )


def repeat_line_edits(line: RewrittenLine) -> bytes:
    """Apply the same edits to an edited line once more. Raises EditMismatchError."""
    after = line.after or b""
    body = after.removesuffix(b"\n")
    return apply_replacements(body, line.replacements) + after[len(body) :]


def _failed_check(code: str, why: str) -> Refusal:
    return Refusal(code, why, "nothing was changed; leave this operation out, and please report it")
