"""The client's history of typed prompts: it keeps those of sessions whose transcript is gone."""

import re
from collections.abc import Iterator
from pathlib import Path
from sqlite3 import Connection
from typing import Final

import msgspec

from ...core.files.safe_open import open_regular
from ...core.measure.session_building import project_name
from ...core.transcript.lenient_json import NotJsonError, UnexpectedShapeError, decode_readable
from ...core.transcript.redaction import redact
from ...core.transcript.sanitize import sanitize_text, sanitize_title
from ...core.transcript.turn_search import TurnQuery, TurnRole
from ..locations.discover import ClaudeFolder
from ..plugin_files.plugin_log import MAX_TIME_S

HISTORY_NAME: Final = "history.jsonl"
MAX_HISTORY_BYTES: Final = 8 * 1024 * 1024
"""Of the newest prompts, about 20,000 of them: they are read at each search."""

_SESSION_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class _HistoryLine(msgspec.Struct, rename="camel"):
    display: str
    session_id: str  # missing in what clients before about 2.0 wrote
    timestamp: float | None = None  # ms since 1970
    project: str | None = None


class LostPrompt(msgspec.Struct, frozen=True):
    """A prompt of a session that has no transcript: it was deleted, or never saved."""

    session_id: str
    text: str  # sanitized and redacted, as every text that is searched
    at: int | None  # ms since 1970
    project: str  # its folder's name
    offset: int  # of its line, in bytes


def find_lost_prompts(
    db: Connection, folder: ClaudeFolder, query: TurnQuery
) -> Iterator[LostPrompt]:
    """Yield the prompts that match, newest first; none if the history cannot be read."""
    if TurnRole.PROMPT not in query.roles:
        return
    for offset, line in _newest_lines(folder.root / HISTORY_NAME):
        if not query.may_match(line):
            continue
        prompt = _read_prompt(offset, line)
        if (
            prompt is not None
            and (prompt.at or 0) >= (query.since or 0)
            and query.allows_session(prompt.session_id, prompt.project)
            and query.matches(prompt.text)
            and not _has_transcript(db, prompt.session_id)
        ):
            yield prompt


def _newest_lines(history: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with open_regular(history) as file:
            start = max(0, file.seek(0, 2) - MAX_HISTORY_BYTES)
            file.seek(start)
            data = file.read(MAX_HISTORY_BYTES)
    except OSError:
        return
    end = len(data)
    while end > 0:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        # The first one may be half a line.
        if begin or not start:
            yield start + begin, data[begin:end].strip()
        end = begin


def _read_prompt(offset: int, line: bytes) -> LostPrompt | None:
    try:
        found = decode_readable(line, _HistoryLine)
    except (NotJsonError, UnexpectedShapeError):
        return None
    session_id, text = found.session_id.lower(), redact(sanitize_text(found.display)).strip()
    if not text or not _SESSION_ID.fullmatch(session_id):
        return None
    at = found.timestamp
    is_time = at is not None and 0 < at <= MAX_TIME_S * 1000
    return LostPrompt(
        session_id,
        text,
        round(at) if at is not None and is_time else None,
        sanitize_title(project_name(found.project, "")),
        offset,
    )


def _has_transcript(db: Connection, session_id: str) -> bool:
    sql = """SELECT 1 FROM file WHERE session_id = ? AND kind = 'session'
        AND (gone = 0 OR archived <> '') LIMIT 1"""
    return db.execute(sql, [session_id]).fetchone() is not None


def list_folders_without_transcript(folder: ClaudeFolder) -> list[Path]:
    """List the folders of sessions whose transcript is not beside them."""
    return sorted(
        session
        for project in _subfolders(folder.projects)
        for session in _subfolders(project)
        if _SESSION_ID.fullmatch(session.name)
        and not session.with_name(f"{session.name}.jsonl").exists()
    )


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
