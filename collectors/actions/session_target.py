"""The session that an action changes: its reader, its clients, and where it resumes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.compaction.compaction_target import CompactionTarget
from ...core.transcript.entry_decoder import read_entries
from ..claude_code.own_files import state_folder
from ..claude_code.registry import read_session_registry
from ..claude_code.transcripts.session_links import find_launch_folder
from ..claude_code.transcripts.transcript_ends import last_version
from ..client_compact.client_run import find_repository

if TYPE_CHECKING:
    from ...core.model.session import Session
    from ..claude_code.discover import ClaudeFolder


__all__ = [
    "compaction_target",
    "resume_folder",
    "run_folder",
    "state_folder",
    "summary_cache_folder",
]


def summary_cache_folder(store: Path) -> Path:
    """Name the folder of summaries that a model wrote: they are paid for once."""
    return state_folder(store) / "summaries"


def resume_folder(session: Session) -> str | None:
    """Return the folder in which the client finds a session again; None where nobody knows.

    The client keeps a transcript under the name of the folder that the session works in: a
    worktree, or where /cd went. Once that is gone, the session resumes where it began (seen with
    2.1.329: "the worktree … no longer exists; continuing in the current directory").
    """
    named = session.path.partition("/")[0]
    works_in = find_launch_folder(session.cwd, named) if session.cwd else None
    folders = [folder for folder in (works_in, session.project_root, session.cwd) if folder]
    return next((folder for folder in folders if Path(folder).is_dir()), next(iter(folders), None))


def run_folder(session: Session) -> str | None:
    """Return the folder in which ctxtop may start the client for a session, if it is trusted.

    That is where the session began, or a worktree of the same repository that it moved into: the
    client finds it only there. None where nobody knows where it began.
    """
    began, resumed = session.project_root, resume_folder(session)
    if began is None or resumed is None or resumed == began:
        return began
    own = find_repository(Path(os.path.realpath(began)))
    is_worktree = own is not None and find_repository(Path(os.path.realpath(resumed))) == own
    return resumed if is_worktree else began


def compaction_target(
    folder: ClaudeFolder,
    store: Path,
    session_id: str,
    transcript: Path,
    cwd: str | None,
    *,
    automatic: str | None = None,
) -> CompactionTarget:
    """Look after a session; `automatic` says why nobody was asked, None where a person did it."""

    def held_by(asked: str) -> str | None:
        live = (
            each
            for each in read_session_registry(folder).clients
            if each.session_id == asked.lower()
        )
        return next((f"process {each.pid}" for each in live), None)

    def is_closed(asked: str) -> bool:
        path = transcript.with_name(f"{asked}.jsonl")
        return read_session_registry(folder).is_closed(asked.lower(), last_version(path))

    return CompactionTarget(
        session_id=session_id,
        transcript=transcript,
        cwd=cwd,
        state_folder=state_folder(store),
        read_entries=read_entries,
        find_holder=held_by,
        is_known_closed=is_closed,
        automatic_reason=automatic,
    )
