"""What fills a session, as a pane asks for it: an answer or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ..collectors.folder import Trouble
    from ..core.composition import Composition


def compose(db: sqlite3.Connection, projects: Path, session_id: str) -> Composition | Trouble:
    """Take a session's context apart; it reads the transcript."""
    from ..collectors.composing import NothingToComposeError, read_composition
    from ..collectors.folder import Trouble

    try:
        return read_composition(db, projects, session_id)
    except NothingToComposeError as error:
        return Trouble(session_id, str(error), "")
