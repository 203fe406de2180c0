"""Finds prompts and answers in the index, and reads their texts from the transcripts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import count, islice
from pathlib import Path
from sqlite3 import Connection
from typing import BinaryIO, Final

import msgspec

from ...core.files.transcript_file import open_transcript
from ...core.store.queries.search_queries import (
    BlockRow,
    SearchProgress,
    find_blocks,
    search_progress,
)
from ...core.store.search_index import TurnPlace, decode_places
from ...core.transcript.entry_decoder import decode_entry
from ...core.transcript.raw_lines import MAX_LINE_BYTES
from ...core.transcript.turn_search import (
    Excerpt,
    TurnQuery,
    TurnRole,
    make_excerpt,
    searched_text,
    unredacted_text,
)
from ..locations.discover import ClaudeFolder
from .prompt_history import HISTORY_NAME, LostPrompt, find_lost_prompts

FIRST_TURNS: Final = 2_000
"""Turns to read while somebody waits for the first results: a phrase of frequent words may be in
few of the turns that have them."""

READ_BYTES: Final = 4096  # at once; few turns are longer


class SearchHit(msgspec.Struct, frozen=True):
    """A prompt or answer that matches, with an excerpt around its first match."""

    session_id: str
    agent_id: str | None
    role: TurnRole
    at: int | None  # ms since 1970
    path: str  # below projects/, or the history's name
    offset: int  # of its line, in bytes
    uuid: str | None
    excerpt: Excerpt
    is_lost: bool = False  # its session has no transcript: `path` is the client's history
    project: str = ""  # of a lost one


class SearchResults(msgspec.Struct, frozen=True):
    query: TurnQuery
    hits: tuple[SearchHit, ...]
    is_cut: bool  # there are more hits than were asked for
    is_partial: bool  # turns that may match were not read
    progress: SearchProgress


def search_turns(
    db: Connection,
    folder: ClaudeFolder,
    query: TurnQuery,
    project_names: Mapping[str, str],
    limit: int,
    max_turns: int | None = None,
) -> SearchResults:
    """Find the newest turns that match; `project_names` names the project of each session.

    Each hit is read from its file, so a text that is gone or was rewritten is not found; of a
    session without a transcript, the prompts in the client's history are. About `max_turns` turns
    are read, or all.
    """
    search = _TurnSearch(folder.projects, query, max_turns)
    sessions = _allowed_sessions(query, project_names)
    blocks = find_blocks(db, query.fts_match, query.since, sessions)
    hits: list[SearchHit] = []
    seen: set[str] = set()
    for hit in search.newest_first(blocks):
        # A fork copies its history, and a client may append a line again.
        if hit.uuid not in seen:
            hits.append(hit)
        if hit.uuid:
            seen.add(hit.uuid)
        if len(hits) > limit:
            break
    if limit and not query.is_empty:
        lost = islice(find_lost_prompts(db, folder, query), limit + 1)
        hits = sorted([*hits, *(_lost_hit(each, query) for each in lost)], key=_newest_order)
    is_cut = len(hits) > limit
    progress = search_progress(db)
    return SearchResults(query, tuple(hits[:limit]), is_cut, search.is_partial, progress)


def _newest_order(hit: SearchHit) -> int:
    return -(hit.at or 0)


def _lost_hit(prompt: LostPrompt, query: TurnQuery) -> SearchHit:
    return SearchHit(
        session_id=prompt.session_id,
        agent_id=None,
        role=TurnRole.PROMPT,
        at=prompt.at,
        path=HISTORY_NAME,
        offset=prompt.offset,
        uuid=None,
        excerpt=make_excerpt(prompt.text, query),
        is_lost=True,
        project=prompt.project,
    )


def _allowed_sessions(query: TurnQuery, project_names: Mapping[str, str]) -> list[str] | None:
    if not query.chooses_sessions:
        return None
    return [
        session_id
        for session_id, project in project_names.items()
        if query.allows_session(session_id, project)
    ]


class _TurnSearch:
    def __init__(self, projects: Path, query: TurnQuery, max_turns: int | None) -> None:
        self._projects: Final = projects
        self._query: Final = query
        self._turns_left = math.inf if max_turns is None else max_turns
        self.is_partial = False

    def newest_first(self, blocks: Iterator[BlockRow]) -> Iterator[SearchHit]:
        """Yield the hits of blocks in order of time; the blocks are in that of their last turns.

        Of a line that a fork copied, the original comes first.
        """
        waiting: list[tuple[int, int, int, SearchHit]] = []
        numbers = count()
        for block in blocks:
            while waiting and -waiting[0][0] > block.at:
                yield heappop(waiting)[-1]
            if self._turns_left <= 0:
                self.is_partial = True
                break
            for hit in self._hits(block):
                heappush(waiting, (-(hit.at or 0), block.is_fork, next(numbers), hit))
        while waiting:
            yield heappop(waiting)[-1]

    def _hits(self, block: BlockRow) -> Iterator[SearchHit]:
        try:
            with open_transcript(f"{self._projects}/{block.path}") as file:
                for place in self._wanted_places(block):
                    line = _read_line(file, place.offset)
                    hit = self._match(block, place, line) if self._query.may_match(line) else None
                    if hit is not None:
                        yield hit
        except OSError:
            # Deleted since it was indexed; the next scan removes its turns.
            return

    def _wanted_places(self, block: BlockRow) -> list[TurnPlace]:
        roles = self._query.roles
        places = [place for place in decode_places(block.turns) if place.role in roles]
        self._turns_left -= len(places)
        # From the end: of turns with the same time, the last one is the newest.
        return places[::-1]

    def _match(self, block: BlockRow, place: TurnPlace, line: bytes) -> SearchHit | None:
        query = self._query
        entry = decode_entry(place.offset, line, {})
        if entry is None or not query.has_terms(unredacted_text(entry)):
            return None
        at = entry.at or block.at
        if at < (query.since or 0):
            return None
        text = searched_text(entry)
        if not text or not query.matches(text):
            return None
        return SearchHit(
            session_id=block.session_id,
            agent_id=block.agent_id,
            role=place.role,
            at=at or None,
            path=block.path,
            offset=place.offset,
            uuid=entry.uuid,
            excerpt=make_excerpt(text, query),
        )


def _read_line(file: BinaryIO, offset: int) -> bytes:
    """Read a line of an unbuffered file in few system calls, at most MAX_LINE_BYTES of it."""
    file.seek(offset)
    data = part = file.read(READ_BYTES)
    while (end := part.find(b"\n")) < 0 and part and len(data) < MAX_LINE_BYTES:
        part = file.read(len(data))
        data += part
    return data if end < 0 else data[: len(data) - len(part) + end]
