"""Finds prompts and answers in the index, and reads their texts from the transcripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from sqlite3 import Connection
from typing import Final

import msgspec

from ...core.files.safe_open import open_regular
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

MAX_READ_TURNS: Final = 5_000
"""Turns to read for one search: a phrase of frequent words may be in none of them."""

READ_BUFFER: Final = 1 << 14  # bytes; few turns are longer


class SearchHit(msgspec.Struct, frozen=True):
    """A prompt or answer that matches, with an excerpt around its first match."""

    session_id: str
    agent_id: str | None
    role: TurnRole
    at: int | None  # ms since 1970
    path: str  # below projects/
    offset: int  # of its line, in bytes
    uuid: str | None
    excerpt: Excerpt


class SearchResults(msgspec.Struct, frozen=True):
    query: TurnQuery
    hits: tuple[SearchHit, ...]
    is_cut: bool  # there may be more
    progress: SearchProgress


def search_turns(
    db: Connection,
    projects: Path,
    query: TurnQuery,
    project_names: Mapping[str, str],
    limit: int,
) -> SearchResults:
    """Find the newest turns that match; `project_names` names the project of each session.

    Each hit is read from its file, so a text that is gone or was rewritten is not found.
    """
    search = _TurnSearch(projects, query)
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
    is_cut = len(hits) > limit or search.is_exhausted
    return SearchResults(query, tuple(hits[:limit]), is_cut, search_progress(db))


def _allowed_sessions(query: TurnQuery, project_names: Mapping[str, str]) -> list[str] | None:
    if not (query.projects or query.sessions):
        return None
    return [
        session_id
        for session_id, project in project_names.items()
        if (not query.projects or any(each in project.casefold() for each in query.projects))
        and (not query.sessions or session_id.startswith(query.sessions))
    ]


class _TurnSearch:
    def __init__(self, projects: Path, query: TurnQuery) -> None:
        self._projects: Final = projects
        self._query: Final = query
        self._turns_left = MAX_READ_TURNS

    @property
    def is_exhausted(self) -> bool:
        """Whether it has read as many turns as it may."""
        return self._turns_left <= 0

    def newest_first(self, blocks: Iterator[BlockRow]) -> Iterator[SearchHit]:
        """Yield the hits of blocks in order of time; the blocks are in that of their last turns.

        Of a line that a fork copied, the original comes first.
        """
        waiting: list[tuple[int, int, int, SearchHit]] = []
        numbers = count()
        for block in blocks:
            while waiting and -waiting[0][0] > block.at:
                yield heappop(waiting)[-1]
            if self.is_exhausted:
                break
            for hit in self._hits(block):
                heappush(waiting, (-(hit.at or 0), block.is_fork, next(numbers), hit))
        while waiting:
            yield heappop(waiting)[-1]

    def _hits(self, block: BlockRow) -> Iterator[SearchHit]:
        try:
            with open_regular(self._projects / block.path, READ_BUFFER) as file:
                for place in self._wanted_places(block):
                    file.seek(place.offset)
                    hit = self._match(block, place, file.readline(MAX_LINE_BYTES))
                    if hit is not None:
                        yield hit
        except OSError:
            # Deleted since it was indexed; the next scan removes its turns.
            return

    def _wanted_places(self, block: BlockRow) -> Iterator[TurnPlace]:
        since, roles = self._query.since or 0, self._query.roles
        # From the end: of turns with the same time, the last one is the newest.
        for place in reversed([*decode_places(block.turns)]):
            if place.at >= since and (not roles or place.role in roles):
                self._turns_left -= 1
                yield place

    def _match(self, block: BlockRow, place: TurnPlace, line: bytes) -> SearchHit | None:
        query = self._query
        entry = decode_entry(place.offset, line, {}) if query.may_match(line) else None
        if entry is None or not query.has_terms(unredacted_text(entry)):
            return None
        text = searched_text(entry)
        if not text or not query.matches(text):
            return None
        return SearchHit(
            session_id=block.session_id,
            agent_id=block.agent_id,
            role=place.role,
            at=entry.at or place.at or None,
            path=block.path,
            offset=place.offset,
            uuid=entry.uuid,
            excerpt=make_excerpt(text, query),
        )
