"""Where a session began, and what the beginning and the end of a transcript say.

For callers that cannot wait for the whole file.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Raw, UnsetType

from ....core.files.transcript_file import open_transcript, transcript_status
from ....core.model.conversation import Entry, PartKind, Role, without_sidechains
from ....core.transcript.entry_decoder import NamedToolCall, decode_entry, iter_entries
from ....core.transcript.lenient_json import NotJsonError, UnexpectedShapeError
from ....core.transcript.line_decoder import TranscriptLine
from ....core.transcript.line_types import LineGlance, glance
from ....core.transcript.raw_lines import complete_line_length

_QUOTE: Final = b'"'


def _is_named(parent: str | Raw | UnsetType | None) -> bool:
    # As a whole line is read: without what is no text.
    return bytes(memoryview(parent)[:1]) == _QUOTE if type(parent) is Raw else type(parent) is str


def starts_session(line: TranscriptLine | LineGlance) -> bool:
    """Whether a file's first line was written where the person started the client.

    A file can also begin at a compaction or with a handoff: such a line names what it continues,
    and its folder is wherever that session had moved to.
    """
    fork = line.forked_from
    is_handoff = fork is not None and fork.message_uuid not in {None, line.uuid}
    return not (_is_named(line.parent_uuid) or _is_named(line.logical_parent_uuid) or is_handoff)


HEAD_BYTES: Final = 64 * 1024  # an agent's first prompt is in the first line
TAIL_BYTES: Final = 512 * 1024  # the client (2.1.329) writes 100 kB after the last answer


def read_head_lines(path: Path) -> list[bytes]:
    with open_transcript(path) as file:
        return _complete_lines(file.read(HEAD_BYTES))


def read_tail_lines(path: Path, size: int = TAIL_BYTES) -> list[bytes]:
    with open_transcript(path) as file:
        start = max(0, transcript_status(file).st_size - size)
        file.seek(start)
        lines = _complete_lines(file.read(size))
    # The first one may be half a line.
    return lines[1 if start else 0 :]


def _complete_lines(data: bytes) -> list[bytes]:
    *lines, last = data.split(b"\n")
    return [*lines, last] if complete_line_length(last) else lines


def last_version(path: Path) -> str | None:
    """Return the client's version in the last line with one, None without one; raises OSError."""
    for line in reversed(read_tail_lines(path)):
        try:
            version = glance(line).version
        except (NotJsonError, UnexpectedShapeError):
            continue
        if version:
            return version
    return None


def _decode_entries(lines: Iterable[bytes]) -> list[Entry]:
    calls: dict[str, NamedToolCall] = {}
    read = (decode_entry(0, line, calls, number) for number, line in enumerate(lines, 1))
    return [entry for entry in read if entry is not None]


def answer_texts(lines: Iterable[bytes]) -> list[tuple[str, int | None]]:
    """Return the texts of all answers with any, and their times in ms, in their order (R000-06)."""
    answers: dict[str | int, list[Entry]] = {}
    for entry in _decode_entries(line for line in lines if b'"assistant"' in line):
        if entry.role is Role.ASSISTANT and not entry.hidden and _texts(entry, PartKind.TEXT):
            name = len(answers) if entry.message_id is None else entry.message_id
            answers[name] = [*answers.pop(name, ()), entry]
    return [
        ("\n".join(_texts(entry, PartKind.TEXT) for entry in same), same[-1].at)
        for same in answers.values()
    ]


def first_prompt_text(lines: Iterable[bytes]) -> str:
    return next(_prompt_texts(_decode_entries(line for line in lines if b'"user"' in line)), "")


def last_prompt_text(lines: Iterable[bytes]) -> str:
    entries = _decode_entries(line for line in lines if b'"user"' in line)
    return next(_prompt_texts(entry for entry in reversed(entries) if not entry.sidechain), "")


def _prompt_texts(entries: Iterable[Entry]) -> Iterator[str]:
    return filter(None, (_texts(entry, PartKind.PROMPT) for entry in entries))


def _texts(entry: Entry, kind: PartKind) -> str:
    texts = [part.text for part in entry.parts if part.kind is kind]
    return "\n".join(text for text in texts if text.strip())


RECENT_BYTES: Final = 6 * 1024 * 1024  # read in 0.2 s; recorded segments have up to 4 MB


def read_recent_entries(path: Path) -> list[Entry]:
    """Read a context's entries from the end of its file; raises OSError.

    A session's file is read without its agents' entries. Lines count from where reading begins.
    """
    entries = iter_entries(path, find_recent_start(path, RECENT_BYTES))
    return [*(entries if path.parent.name == "subagents" else without_sidechains(entries))]


def find_recent_start(path: Path, most: int, end: int | None = None) -> int:
    """Find the first line in the `most` bytes before `end` or the end; raises OSError."""
    with open_transcript(path) as file:
        start = max(0, (file.seek(0, 2) if end is None else end) - most)
        file.seek(start)
        while start and (block := file.read(1 << 20)):
            place = block.find(b"\n")
            if place >= 0:
                return start + place + 1
            start += len(block)
        return start
