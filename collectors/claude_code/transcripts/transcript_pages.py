"""Reads a transcript in pages of some lines: what is shown, and nothing else of a large file."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from ....core.files.transcript_file import open_transcript, transcript_status
from ....core.measure.conversation_steps import Step, entry_steps
from ....core.model.conversation import Entry
from ....core.transcript.entry_decoder import NamedToolCall, decode_entry
from ....core.transcript.raw_lines import MAX_LINE_BYTES, complete_line_length

PAGE_BYTES: Final = 64 * 1024  # decoded in a millisecond, and about a screen of folded calls
MIN_PAGE_STEPS: Final = 40  # of a read: about a screen of folded calls
MAX_READ_BYTES: Final = 6 * 1024 * 1024  # of a read, where few lines are of the conversation
MAX_WINDOW_STEPS: Final = 1_000  # kept while the user scrolls; many screens even if all are folded
SCAN_BYTES: Final = 1 << 20  # read at once to find where a long line begins or ends
ANCHOR_BYTES: Final = 256  # before a window's end: a rewritten file has others there


class PagesOutdatedError(Exception):
    """The file is no longer the one that a window was read from."""


class ConversationFile(msgspec.Struct, frozen=True):
    """The transcript of a session, or of one of its agents."""

    path: Path
    agent_id: str | None = None

    def holds(self, entry: Entry) -> bool:
        """Whether a line is of this conversation: old clients wrote agents' lines beside it."""
        return self.agent_id is not None or not entry.sidechain


class FileState(msgspec.Struct, frozen=True):
    device: int
    inode: int
    size: int  # bytes
    mtime_ns: int


class TranscriptPage(msgspec.Struct, frozen=True):
    """The steps of the lines from byte `start` to before byte `end`."""

    start: int
    end: int
    steps: tuple[Step, ...]


class TranscriptWindow(msgspec.Struct, frozen=True):
    """Pages that follow each other, and the file as it was when they were read."""

    pages: tuple[TranscriptPage, ...]
    file: FileState
    complete_size: int  # bytes of the file's whole lines: half a line is read once it is complete
    anchor: bytes  # the bytes before `end`

    @property
    def start(self) -> int:
        return self.pages[0].start

    @property
    def end(self) -> int:
        return self.pages[-1].end

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for page in self.pages for step in page.steps)

    @property
    def has_earlier(self) -> bool:
        return self.start > 0

    @property
    def has_later(self) -> bool:
        return self.end < self.complete_size


def open_window(source: ConversationFile, offset: int | None = None) -> TranscriptWindow:
    """Read around the line that holds byte `offset`, or at the end; raises OSError.

    The page before that line is read as well: it usually holds the prompt of the line's turn.
    """
    with open_transcript(source.path) as file:
        state = _file_state(file)
        size = complete_end(file, state.size)
        place = size
        later: tuple[TranscriptPage, ...] = ()
        if offset is not None and offset < size:
            place = line_start(file, max(0, offset))
            later = _read_later(file, source, place, size)
        pages = (*_read_earlier(file, source, place), *later)
        return _new_window(file, state, size, pages or (TranscriptPage(place, place, ()),))


def extend_earlier(source: ConversationFile, window: TranscriptWindow) -> TranscriptWindow:
    """Read before a window; raises OSError and PagesOutdatedError."""
    with open_transcript(source.path) as file:
        state = _check(file, window)
        earlier = _read_earlier(file, source, window.start)
        pages = _first_pages((*earlier, *window.pages))
        return _new_window(file, state, complete_end(file, state.size), pages)


def extend_later(source: ConversationFile, window: TranscriptWindow) -> TranscriptWindow:
    """Read after a window, also what was appended; raises OSError and PagesOutdatedError."""
    with open_transcript(source.path) as file:
        state = _check(file, window)
        size = complete_end(file, state.size)
        later = _read_later(file, source, window.end, size)
        pages = _first_pages((*window.pages, *later)[::-1])[::-1]
        return _new_window(file, state, size, pages)


def _first_pages(pages: tuple[TranscriptPage, ...]) -> tuple[TranscriptPage, ...]:
    """Return the first pages, until they have `MAX_WINDOW_STEPS`."""
    count = 0
    for number, page in enumerate(pages, 1):
        count += len(page.steps)
        if count >= MAX_WINDOW_STEPS:
            return pages[:number]
    return pages


def read_line(source: ConversationFile, offset: int) -> Entry | None:
    """Read the whole line that begins at a byte offset; raises OSError."""
    with open_transcript(source.path) as file:
        file.seek(offset)
        data = b"".join(_line_blocks(file))
    return decode_entry(offset, data, {})


def _line_blocks(file: BinaryIO) -> Iterator[bytes]:
    room = MAX_LINE_BYTES
    while room > 0 and (block := file.read(min(SCAN_BYTES, room))):
        line, ended, _ = block.partition(b"\n")
        yield line
        if ended:
            return
        room -= len(block)


# One read: pages until there is enough to show.


def _read_earlier(file: BinaryIO, source: ConversationFile, end: int) -> tuple[TranscriptPage, ...]:
    pages: list[TranscriptPage] = []
    place, stop = end, max(0, end - MAX_READ_BYTES)
    while place > stop and sum(len(page.steps) for page in pages) < MIN_PAGE_STEPS:
        start = line_start(file, max(0, place - PAGE_BYTES))
        pages.append(_read_page(file, source, start, place))
        place = start
    return tuple(reversed(pages))


def _read_later(
    file: BinaryIO, source: ConversationFile, start: int, until: int
) -> tuple[TranscriptPage, ...]:
    pages: list[TranscriptPage] = []
    place, stop = start, min(until, start + MAX_READ_BYTES)
    while place < stop and sum(len(page.steps) for page in pages) < MIN_PAGE_STEPS:
        end = min(_line_end(file, place + PAGE_BYTES), until)
        pages.append(_read_page(file, source, place, end))
        place = end
    return tuple(pages)


def _read_page(file: BinaryIO, source: ConversationFile, start: int, end: int) -> TranscriptPage:
    """Decode whole lines; a line that is too long to be held is left out."""
    if end - start > MAX_LINE_BYTES + PAGE_BYTES:
        return TranscriptPage(start, end, ())
    file.seek(start)
    data = file.read(end - start)
    calls: dict[str, NamedToolCall] = {}
    steps: list[Step] = []
    offset = start
    for line in io.BytesIO(data):  # unlike splitlines, a carriage return ends none
        entry = decode_entry(offset, line, calls)
        if entry is not None and source.holds(entry):
            steps += entry_steps(entry)
        offset += len(line)
    return TranscriptPage(start, end, tuple(steps))


# Where lines begin and end.


def line_start(file: BinaryIO, offset: int) -> int:
    """Return where the line that holds byte `offset` begins."""
    end = offset
    while end > 0:
        start = max(0, end - SCAN_BYTES)
        file.seek(start)
        place = file.read(end - start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        end = start
    return 0


def _line_end(file: BinaryIO, offset: int) -> int:
    """Return where the line after the one that holds byte `offset` begins, or the file's end."""
    place = offset
    file.seek(place)
    while block := file.read(SCAN_BYTES if place > offset else PAGE_BYTES):
        found = block.find(b"\n")
        if found >= 0:
            return place + found + 1
        place += len(block)
    return place


def complete_end(file: BinaryIO, size: int) -> int:
    """Return the end of the last whole line; half a line is read once it is complete."""
    start = line_start(file, size)
    if start == size or size - start > MAX_LINE_BYTES:
        return start
    file.seek(start)
    return size if complete_line_length(file.read(size - start)) else start


# Whether it is still the same file.


def _file_state(file: BinaryIO) -> FileState:
    status = transcript_status(file)
    return FileState(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _new_window(
    file: BinaryIO, state: FileState, size: int, pages: tuple[TranscriptPage, ...]
) -> TranscriptWindow:
    anchor = _read_anchor(file, pages[-1].end)
    return TranscriptWindow(pages, state, size, anchor)


def _read_anchor(file: BinaryIO, end: int) -> bytes:
    start = max(0, end - ANCHOR_BYTES)
    file.seek(start)
    return file.read(end - start)


def _check(file: BinaryIO, window: TranscriptWindow) -> FileState:
    """Return the file as it is now; raises PagesOutdatedError."""
    state, before = _file_state(file), window.file
    is_other = (state.device, state.inode) != (before.device, before.inode)
    is_edited = state.size == before.size and state.mtime_ns != before.mtime_ns
    if is_other or is_edited or state.size < before.size:
        raise PagesOutdatedError
    if _read_anchor(file, window.end) != window.anchor:
        raise PagesOutdatedError
    return state
