"""`ctxtop search`: find prompts and answers of all sessions."""

import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import click

from ...collectors.claude_code.turn_finder import SearchHit, SearchResults, search_turns
from ...collectors.collector_thread import Collector
from ...collectors.locations.discover import ClaudeFolder
from ...core.model.session import Session
from ...core.readers import fleet_reader
from ...core.store.queries.search_queries import SearchProgress
from ...core.transcript.sanitize import has_usual_signs, one_line
from ...core.transcript.turn_search import TurnQuery, parse_turn_query
from ..base.command_errors import print_error
from ..text.formats import date_time, fit_left, text_cells
from ..text.session_text import marked_title
from .command_options import options_of, store_command
from .command_store import StoreSnapshot, open_snapshot
from .json_records import Record, record_of
from .printing import COLUMN_GAP, paint, print_result, terminal_width

DEFAULT_LIMIT: Final = 50
PROGRESS_AFTER_S: Final = 1.0


@store_command()
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=DEFAULT_LIMIT,
    show_default=True,
    help="Show at most this many.",
)
def search(context: click.Context, *, words: tuple[str, ...], limit: int) -> int:
    """Search the prompts and answers of all sessions and agents. Newest first.

    All WORDS must match: words, '"a phrase"', '!not'; the inner quotes keep a phrase together. The
    last word may be incomplete. Filters: project:NAME, since:7d, role:prompt, role:answer,
    role:agent, session:ID, and '!role:agent' for all others. Of a deleted session, the prompts in
    Claude Code's history are found.
    """
    typed = " ".join(words)
    query = parse_turn_query(typed, time.time_ns() // 1_000_000)
    if query.problems or query.is_empty:
        problem = " ".join(query.problems) or "the query contains no words"
        raise click.UsageError(problem, context)
    options = options_of(context)
    scan = partial(Collector.scan_and_index_turns, report=_ProgressLine().show)
    with open_snapshot(options, scan) as snapshot:
        found = search_turns(
            snapshot.db,
            snapshot.places.folder,
            query,
            _project_names(snapshot, query),
            limit,
        )
        _report_incomplete(found, limit)
        sessions = _hit_sessions(snapshot, found.hits)
        return print_result(
            context,
            lambda: _hit_records(snapshot, found.hits, sessions),
            lambda: _hit_lines(snapshot, found.hits, sessions),
            f"nothing matches {typed!r} in {snapshot.places.config_dir}",
        )


class _ProgressLine:
    """One line of a terminal, if indexing takes long enough to wonder."""

    def __init__(self) -> None:
        self._began: float | None = None

    def show(self, progress: SearchProgress) -> None:
        now = time.monotonic()
        self._began = self._began or now
        if now - self._began < PROGRESS_AFTER_S or not sys.stderr.isatty():
            return
        end = "\r\x1b[K" if progress.is_complete else ""
        print(f"\rindexing {progress}{end}", end="", file=sys.stderr, flush=True)


def _project_names(snapshot: StoreSnapshot, query: TurnQuery) -> dict[str, str]:
    if not query.chooses_sessions:
        return {}
    return {each.session_id: each.project for each in snapshot.listed_sessions()}


def _report_incomplete(found: SearchResults, limit: int) -> None:
    if not found.progress.is_complete:
        print_error(f"only {found.progress} transcripts are indexed; omit --no-scan to index all")
    if found.is_cut:
        print_error(f"the newest {limit:,}; --limit shows more")


def _hit_records(
    snapshot: StoreSnapshot, hits: Sequence[SearchHit], sessions: Mapping[str, Session]
) -> list[Record]:
    folder = snapshot.places.folder
    return [_hit_record(folder, hit, sessions.get(hit.session_id)) for hit in hits]


def _hit_record(folder: ClaudeFolder, hit: SearchHit, session: Session | None) -> Record:
    path = folder.root / hit.path if hit.is_lost else folder.projects / hit.path
    return {
        **record_of(hit, "session_id agent_id role at"),
        "transcript_path": str(path),
        "deleted": hit.is_lost,
        **record_of(hit, "byte_offset=offset uuid snippet=excerpt.text matches=excerpt.matches"),
        "forked_from": session and session.forked_from,
        "fork_kind": session and session.fork_kind,
    }


_TIME_CELLS: Final = 16
_ROLE_CELLS: Final = 6
_MIN_TITLE_CELLS: Final = 10
_MAX_TITLE_CELLS: Final = 32
_MIN_SNIPPET_CELLS: Final = 48


LOST_SESSION: Final = "deleted session"  # all that is known of it are its prompts


def _hit_lines(
    snapshot: StoreSnapshot, hits: Sequence[SearchHit], sessions: Mapping[str, Session]
) -> list[str]:
    if not hits:
        return []
    short_ids = snapshot.short_ids()
    titles = {name: one_line(marked_title(each)) for name, each in sessions.items()}
    id_cells = max(text_cells(short_ids.get(hit.session_id, hit.session_id)) for hit in hits)
    other = _TIME_CELLS + _ROLE_CELLS + id_cells + 4 * len(COLUMN_GAP)
    room = terminal_width() - other
    title_cells = min(max(room - _MIN_SNIPPET_CELLS, _MIN_TITLE_CELLS), _MAX_TITLE_CELLS)
    snippet_cells = max(room - title_cells, _MIN_TITLE_CELLS)

    def line(time_text: str, role: str, title: str, session_id: str) -> str:
        cells = (
            fit_left(time_text, _TIME_CELLS),
            fit_left(role, _ROLE_CELLS),
            fit_left(title, title_cells),
            fit_left(session_id, id_cells),
        )
        return COLUMN_GAP.join(cells) + COLUMN_GAP

    lines = [paint(f"{line('TIME', 'ROLE', 'SESSION', 'ID')}SNIPPET", "quiet")]
    for hit in hits:
        session_id = short_ids.get(hit.session_id, hit.session_id)
        title = LOST_SESSION if hit.is_lost else titles.get(hit.session_id, "")
        head = line(date_time(hit.at), hit.role.value, title, session_id)
        lines.append(head + _snippet(hit, snippet_cells))
    return lines


def _hit_sessions(snapshot: StoreSnapshot, hits: Sequence[SearchHit]) -> dict[str, Session]:
    sessions: list[Session] = fleet_reader.read_sessions_without_forecast(
        snapshot.db, snapshot.now_ms, {hit.session_id for hit in hits}, snapshot.policies
    )
    return {each.session_id: each for each in sessions}


def _crop(text: str, cells: int) -> str:
    if has_usual_signs(text):
        return text[:cells]
    from rich.cells import set_cell_size  # with tables of all signs

    return set_cell_size(text, cells)


def _snippet(hit: SearchHit, cells: int) -> str:
    """Cut the excerpt at its end, with its matches in bold where a terminal shows that."""
    text = hit.excerpt.text
    if text_cells(text) > cells:
        text = f"{_crop(text, cells - 1).rstrip()}…"
    parts, place = [], 0
    for begin, end in hit.excerpt.matches:
        if begin >= len(text):
            break
        parts += [text[place:begin], paint(text[begin:end], "bold")]
        place = end
    return "".join([*parts, text[place:]])
