"""Searches a transcript for words, block by block, the newest lines first."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from ....core.files.transcript_file import open_transcript
from ....core.measure.conversation_steps import entry_steps, part_text
from ....core.model.conversation import Entry
from ....core.transcript.entry_decoder import decode_entry
from ....core.transcript.raw_lines import MAX_LINE_BYTES
from .transcript_pages import ConversationFile, complete_end, line_start

SEARCH_BYTES: Final = 4 * 1024 * 1024  # of one call; other work of the thread waits for it
MAX_BLOCK_HITS: Final = 2_000  # of one call: of lines that all match, the newest count


class TextMatch(msgspec.Struct, frozen=True, order=True):
    """Where a matching text is: its line and its part, as in the key of a step."""

    offset: int
    part: int


class SearchBlock(msgspec.Struct, frozen=True):
    """The hits between two bytes, newest first."""

    start: int
    hits: tuple[TextMatch, ...]


class Words:
    """Words to search for, without regard to case."""

    def __init__(self, words: str) -> None:
        self.pattern: Final = re.compile(re.escape(words), re.IGNORECASE)
        runs = _PLAIN_RUN.findall(words)
        self._needle: Final = max(runs, key=len, default="").lower().encode()

    def candidates(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the start and the end of each line that may match, last one first."""
        # Only one copy is searched; a line without ASCII words to look for is always decoded.
        lower, end = data.lower(), len(data)
        while end > 0:
            found = lower.rfind(self._needle, 0, end) if self._needle else end - 1
            if found < 0:
                return
            start = data.rfind(b"\n", 0, found) + 1
            stop = data.find(b"\n", found) + 1 or len(data)
            yield start, stop
            end = start


_PLAIN_RUN: Final = re.compile(r"[ !#-.0-\[\]-~]+")
"""Characters that JSON writes as they are: printable ASCII but quotes, `/` and backslashes."""


def search_earlier(
    source: ConversationFile, words: Words, end: int | None, stop: int = 0
) -> SearchBlock:
    """Search up to `SEARCH_BYTES` before a line's start or the file's end; raises OSError.

    Nothing before `stop` is searched. Continue with the block's `start`, until that is `stop`.
    """
    with open_transcript(source.path) as file:
        size = file.seek(0, 2)
        until = complete_end(file, size) if end is None or end > size else end
        start = max(stop, line_start(file, max(stop, until - SEARCH_BYTES)))
        if until - start > MAX_LINE_BYTES + SEARCH_BYTES:
            return SearchBlock(start, ())
        file.seek(start)
        data = file.read(until - start)
    hits: list[TextMatch] = []
    for begin, close in words.candidates(data):
        entry = decode_entry(start + begin, data[begin:close], {})
        if entry is not None and source.holds(entry):
            hits += reversed([*_line_hits(entry, words)])
        if len(hits) >= MAX_BLOCK_HITS:
            break
    return SearchBlock(start, tuple(hits))


def _line_hits(entry: Entry, words: Words) -> Iterator[TextMatch]:
    for step in entry_steps(entry):
        if step.part < 0:
            continue
        part = entry.parts[step.part]
        if words.pattern.search(part_text(part)) or words.pattern.search(step.title):
            yield TextMatch(*step.key)
