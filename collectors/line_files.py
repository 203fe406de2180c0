"""Keeping for the status line what it has no time to work out: one small file a session."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.store.log_queries import shown_sessions
from .folder import Trouble
from .plugin.line_file import FORM, line_folder, line_path
from .plugin.log import FOLDER_MODE
from .plugin.whole import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.forecast import Forecast
    from ..core.sessions import Session
    from ..core.store.writer import Writer
    from .policy_files import PolicyFiles
    from .surroundings.tell import Tell

SHOWN_MS: Final = 24 * 3600 * 1000
"""A session whose status line was not asked for so long has nobody who looks at it."""


class LineFiles:
    """Writes the files; it belongs to the collector's thread."""

    def __init__(self, writer: Writer, files: PolicyFiles, tell: Tell) -> None:
        self._writer: Final = writer
        self._files: Final = files
        self._problems: Final = tell
        self._written: dict[str, bytes] = {}
        self._store: Final = str(writer.path)

    def update(self, session_ids: Iterable[str] | None = None) -> None:
        """Keep what is known now of sessions whose status line is shown, or of those named."""
        now_ms = time.time_ns() // 1_000_000
        shown = shown_sessions(self._writer.connection, now_ms - SHOWN_MS, session_ids)
        folder = line_folder(self._store)
        try:
            if session_ids is None:
                self._remove_others(Path(folder), shown)
            if shown:
                self._write(sorted(shown), now_ms)
        except OSError as error:
            what = f"cannot be written ({error.strerror})"
            self._problems.report(Trouble(folder, what, "the status line shows no forecast"))
            return
        self._problems.resolve(folder)

    def _write(self, sessions: list[str], now_ms: int) -> None:
        from ..core import fleet  # with all that it needs, only where there is work

        db, policies = self._writer.connection, self._files.policies
        for session in fleet.read_sessions(db, now_ms, sessions, policies):
            path = line_path(self._store, session.session_id)
            said = msgspec.json.encode(line_of(session))
            if path and self._written.get(path) != said:
                _replace(path, said)
                self._written[path] = said

    def _remove_others(self, folder: Path, shown: set[str]) -> None:
        try:
            found = [Path(entry.path) for entry in os.scandir(folder) if entry.is_file()]
        except FileNotFoundError:
            return
        for path in found:
            if path.name.partition(".")[0] not in shown:
                path.unlink(missing_ok=True)


def line_of(session: Session) -> dict[str, object]:
    """Say what the status line needs of a session, in the words of `ctxtop sessions --json`."""
    context = session.context
    return {
        "v": FORM,
        "model": session.model,
        "context_tokens": context.tokens,
        "context_state": context.state.value,
        "counter_tokens": context.token_counts.counter,
        "window_tokens": context.window.tokens,
        "window_source": context.window.source.value,
        "trigger_tokens": context.trigger.tokens if context.trigger else None,
        "turns_left": _turns(session.outlook.end),
        "agents_noncompliant": session.agents_noncompliant,
    }


def _turns(forecast: Forecast | None) -> dict[str, int] | None:
    if forecast is None:
        return None
    return {"p50": int(forecast.turns.p50), "p80": int(forecast.turns.p80)}


def _replace(path: str, said: bytes) -> None:
    """Put a file in place whole: the status line may read it at any moment."""
    try:
        write_whole(path, said)
    except FileNotFoundError:
        Path(path).parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        write_whole(path, said)
