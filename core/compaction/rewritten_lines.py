"""A transcript's lines after some operations or under a new id, and the files beside a fork."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from ..files import file_operations as files
from ..files.json_spans import (
    JsonPointerError,
    JsonSpan,
    find_span,
    member_spans,
    replace_spans,
    replace_value,
)
from ..model.conversation import Entry, PartKind
from ..summaries.turn_digest import restore_command
from ..transcript import lenient_json, line_decoder
from ..transcript.authorship import DIGEST_MARKER
from ..transcript.line_decoder import TranscriptLine
from ..transcript.raw_lines import ms_to_timestamp
from .plan import AppendLine, Operation, RemoveLine, ReplaceValue, edits_of


class EditMismatchError(ValueError):
    """The line is not the one that the edit was made for, or two edits overlap."""


class RewrittenLine(msgspec.Struct, frozen=True):
    """A line of the file as it will be, and the one that it comes from; with their line ends."""

    before: bytes | None  # None for a line that is added
    after: bytes | None  # None for a line that is removed
    replacements: tuple[ReplaceValue, ...] = ()


class LineTransform(msgspec.Struct, frozen=True):
    """How lines are written: as they are, or under a fork's id."""

    transform_existing: Callable[[bytes], bytes] = lambda line: line
    transform_added: Callable[[bytes], bytes] = lambda line: line
    trailing_lines: tuple[bytes, ...] = ()  # behind all others, with their line ends


NO_TRANSFORM: Final = LineTransform()


def rewrite_lines(
    lines: Iterable[bytes], operations: Sequence[Operation], transform: LineTransform = NO_TRANSFORM
) -> Iterator[RewrittenLine]:
    r"""Yield every line before and after the operations. Raises EditMismatchError.

    Only b"\n" ends a line.
    """
    edits: dict[int, list[ReplaceValue | RemoveLine]] = {}
    added: list[AppendLine] = []
    for edit in edits_of(operations):
        if isinstance(edit, AppendLine):
            added.append(edit)
        else:
            edits.setdefault(edit.line, []).append(edit)
    is_ended = True
    for number, line in enumerate(lines, 1):
        rewritten = _rewrite_line(line, edits.pop(number, ()), transform.transform_existing)
        # A last line that is removed leaves the line end of the one before it.
        is_ended = rewritten.after is None or rewritten.after.endswith(b"\n")
        yield rewritten
    if edits:
        raise EditMismatchError(f"line {min(edits)} is not there")
    appended = (transform.transform_added(appended_line(edit)) for edit in added)
    for line in (*appended, *transform.trailing_lines):
        # A torn last line stays as it is, and the next one begins behind it.
        yield RewrittenLine(None, line if is_ended else b"\n" + line)
        is_ended = True


def lines_after(lines: Iterable[RewrittenLine]) -> Iterator[bytes]:
    return (line.after for line in lines if line.after is not None)


def appended_line(edit: AppendLine) -> bytes:
    """Encode a line with its line end. Raises EditMismatchError if it is no one-line object."""
    try:
        line = edit.text.encode()
        is_valid = isinstance(json.loads(line), dict) and b"\n" not in line
    except ValueError as error:
        raise EditMismatchError(f"the line to add is not JSON: {error}") from error
    if not is_valid:
        raise EditMismatchError("the line to add is not a JSON object on one line")
    return line + b"\n"


def date_appended_lines(
    operations: Iterable[Operation], at_ms: int, trigger: str
) -> tuple[Operation, ...]:
    """Change the time of the compactions that operations append, and who asked for them.

    A new session's first message is not dated: it would look as if the session were at work.
    """
    values = {"/timestamp": ms_to_timestamp(at_ms), "/compactMetadata/trigger": trigger}
    return tuple(_date_operation(each, values) for each in operations)


def _date_operation(operation: Operation, values: Mapping[str, str]) -> Operation:
    edits, saved = list(operation.edits), operation.bytes_saved
    for number, edit in enumerate(edits):
        if isinstance(edit, AppendLine):
            edits[number] = dated = _date_line(edit, values)
            saved -= len(dated.text.encode()) - len(edit.text.encode())
    return replace(operation, edits=tuple(edits), bytes_saved=saved)


def _date_line(edit: AppendLine, values: Mapping[str, str]) -> AppendLine:
    line = edit.text.encode()
    with suppress(JsonPointerError):
        members = member_spans(line).keys()
        for pointer, value in values.items():
            if members & _COMPACTION_MEMBERS and pointer.split("/")[1] in members:
                line = replace_value(line, pointer, json.dumps(value).encode())
    return AppendLine(line.decode())


_COMPACTION_MEMBERS: Final = frozenset({"compactMetadata", "isCompactSummary"})


def decode_appended_lines(operation: Operation) -> Iterator[TranscriptLine]:
    """Yield the readable lines that an operation appends."""
    for edit in operation.edits:
        if isinstance(edit, AppendLine):
            with suppress(lenient_json.NotJsonError, lenient_json.UnexpectedShapeError):
                yield line_decoder.decode_line(edit.text.encode())


def _rewrite_line(
    line: bytes, edits: Sequence[ReplaceValue | RemoveLine], transform: Callable[[bytes], bytes]
) -> RewrittenLine:
    before = transform(line)
    if not edits:
        return RewrittenLine(before, before)
    body = line.removesuffix(b"\n")
    digest = hashlib.sha256(body).hexdigest()
    if any(edit.sha256 != digest for edit in edits):
        raise EditMismatchError(f"line {edits[0].line} is not the line that the plan was made for")
    replacements = tuple(edit for edit in edits if isinstance(edit, ReplaceValue))
    if len(replacements) < len(edits):
        return RewrittenLine(before, None)
    new = apply_replacements(body, replacements) + line[len(body) :]
    return RewrittenLine(before, transform(new), replacements)


def apply_replacements(body: bytes, edits: Sequence[ReplaceValue]) -> bytes:
    """Put new values into a line. Raises EditMismatchError."""
    try:
        spans = [(find_span(body, edit.pointer), edit) for edit in edits]
    except JsonPointerError as error:
        raise EditMismatchError(f"line {edits[0].line}: {error}") from error
    ordered = sorted((span.start, span.end) for span, _ in spans)
    if any(end > start for (_, end), (start, _) in pairwise(ordered)):
        raise EditMismatchError(f"line {edits[0].line}: two edits overlap")
    return replace_spans(body, [(span, _new_value(edit)) for span, edit in spans])


def _new_value(edit: ReplaceValue) -> bytes:
    try:
        json.loads(edit.value)
        value = edit.value.encode()
    except ValueError as error:
        raise EditMismatchError(f"line {edit.line}: the new value is not JSON: {error}") from error
    if b"\n" in value:
        raise EditMismatchError(f"line {edit.line}: the new value contains a line break")
    return value


MAX_TITLE_CHARS: Final = 100  # of a first prompt that serves as a title (client 2.1.329)
_TITLE_LINE: Final = re.compile(rb'\{"type":\s*"(custom-title|ai-title)"')
_COMPACTED_SUFFIX: Final = re.compile(r" \(compacted(?: (\d+))?\)$")


def fork_title(transcript: Path, entries: Sequence[Entry]) -> str | None:
    """Return a title for a session's fork; None if the session has none. Raises OSError."""
    with files.open_regular_file(transcript) as file:
        title = _recorded_title(file) or _first_prompt(entries)
    if title is None:
        return None
    counted = _COMPACTED_SUFFIX.search(title)
    if counted is None:
        return f"{title} (compacted)"
    return f"{title[: counted.start()]} (compacted {int(counted[1] or 1) + 1})"


def title_lines(title: str | None, session_id: str) -> tuple[bytes, ...]:
    """Write the two lines from which the client reads a title: for its list, and its prompt."""
    if title is None:
        return ()
    lines = (
        {"type": type_, name: title, "sessionId": session_id}
        for type_, name in (("custom-title", "customTitle"), ("agent-name", "agentName"))
    )
    texts = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines)
    return tuple(text.encode("utf-8", "backslashreplace") + b"\n" for text in texts)


def _recorded_title(lines: Iterable[bytes]) -> str | None:
    """Return the last title that a person gave, else the last that the client made."""
    custom = made = None
    for data in lines:
        if _TITLE_LINE.match(data):
            with suppress(lenient_json.NotJsonError, lenient_json.UnexpectedShapeError):
                line = line_decoder.decode_line(data)
                custom = " ".join((line.custom_title or "").split()) or custom
                made = " ".join((line.ai_title or "").split()) or made
    return custom or made


def _first_prompt(entries: Sequence[Entry]) -> str | None:
    prompts = (
        " ".join(part.text.split())
        for entry in entries
        for part in entry.parts
        if part.kind is PartKind.PROMPT and not entry.sidechain
    )
    return next((text[:MAX_TITLE_CHARS].rstrip() for text in prompts if text), None)


AGENTS_FOLDER: Final = "subagents"
RESULTS_FOLDER: Final = "tool-results"
HISTORY_FOLDER: Final = "file-history"
"""Folder of Claude Code's own folder: one folder a session, one file a version."""


def fork_transform(session_id: str, new_id: str, title: str | None = None) -> LineTransform:
    """Return how a session's lines are written in its fork; non-objects are copied as they are.

    A last line without a line end gets one: else the client would write its next line into it.
    """
    own, origin_id = json.dumps(new_id).encode(), json.dumps(session_id).encode()

    command, new_command = (restore_command(each).encode() for each in (session_id, new_id))

    def added(line: bytes) -> bytes:
        # A digest begins with the command that reads it: the fork's digest is the fork's own.
        if DIGEST_MARKER.encode() in line:
            line = line.replace(command, new_command, 1)
        return _with_members(line, member_spans(line), {"sessionId": own})

    def existing(line: bytes) -> bytes:
        line = line if line.endswith(b"\n") else line + b"\n"
        try:
            spans = member_spans(line)
        except JsonPointerError:
            return line
        if "sessionId" not in spans:
            return line
        if "uuid" not in spans:
            return _with_members(line, spans, {"sessionId": own})
        uuid = line[spans["uuid"].start : spans["uuid"].end]
        origin = b'{"sessionId":' + origin_id + b',"messageUuid":' + uuid + b"}"
        if "forkedFrom" in spans:
            return _with_members(line, spans, {"sessionId": own, "forkedFrom": origin})
        return _with_members(line, spans, {"sessionId": own + b',"forkedFrom":' + origin})

    return LineTransform(existing, added, title_lines(title, new_id))


def _with_members(line: bytes, spans: dict[str, JsonSpan], new: dict[str, bytes]) -> bytes:
    return replace_spans(line, [(spans[name], new[name]) for name in new.keys() & spans.keys()])


def copy_session_files(transcript: Path, fork_id: str, session_id: str) -> None:
    """Copy a session's agents and large results to its fork's folder.

    The copies are the fork's own: an agent that continues there writes into its own file. Links
    and whatever is not a regular file are left out. Raises OSError.
    """
    source, target = transcript.with_suffix(""), transcript.with_name(fork_id)
    folders = [source / name for name in (AGENTS_FOLDER, RESULTS_FOLDER)]
    if source.is_symlink() or not any(folder.is_dir() for folder in folders):
        return
    target.mkdir(files.FOLDER_MODE)
    rewrite = fork_transform(session_id, fork_id).transform_existing
    for path in (path for folder in folders for path in _regular_files(folder)):
        copy = target / path.relative_to(source)
        files.make_private_folder(copy.parent)
        with files.open_regular_file(path) as file:
            lines = map(rewrite, file) if path.suffix == ".jsonl" else iter(file)
            temporary = files.write_temporary(copy, lines)
            status = os.fstat(file.fileno())
            os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
        temporary.replace(copy)
    files.sync_folder(target.parent)


def link_file_history(transcript: Path, new_id: str) -> None:
    """Link the client's copies of edited files for a fork.

    The client's branch command links them too: a copy has a version in its name, and is never
    written again. A fork without them could not rewind its files. Raises OSError.
    """
    source = file_history_folder(transcript)
    if source is None or source.is_symlink() or not source.is_dir():
        return
    target = source.with_name(new_id)
    target.mkdir(files.FOLDER_MODE)
    for path in _regular_files(source):
        link = target / path.relative_to(source)
        files.make_private_folder(link.parent)
        link.hardlink_to(path)
    files.sync_folder(source.parent)


def file_history_folder(transcript: Path) -> Path | None:
    """Return the folder of a session's file history; None if no such folder can be trusted."""
    projects = transcript.parent.parent
    history = projects.with_name(HISTORY_FOLDER)
    if projects.name != "projects" or history.is_symlink():
        return None
    return history / transcript.stem


def remove_fork_files(fork: Path) -> None:
    """Remove what was copied and linked for a fork that did not come about."""
    for folder in (fork.with_suffix(""), file_history_folder(fork)):
        if folder is None or folder.is_symlink() or not folder.is_dir():
            continue
        for path in _regular_files(folder):
            files.remove_if_present(path)
        folders = sorted((each for each in folder.rglob("*") if each.is_dir()), reverse=True)
        for each in (*folders, folder):
            each.rmdir()


def _regular_files(folder: Path) -> Iterator[Path]:
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in sorted(folder.rglob("*")):
        if any(each.is_symlink() for each in path.parents if each.is_relative_to(folder)):
            continue
        if stat.S_ISREG(path.lstat().st_mode):
            yield path
