"""Resume a session in its folder: as a command to copy, in a new tmux window, or right here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from ...core.actions.session_access import archived_reason
from ...core.compaction.compaction_target import resume_command
from ...core.files.project_folder import find_launch_folder
from ...core.host import client_environment, find_program
from ...core.model.session import Session
from ...core.transcript.sanitize import sanitize_path
from ...core.transcript.stored_paths import find_folder, shell_word
from ..claude_code.registry import read_session_registry
from ..plugin_files.compact_requests import is_session_id
from .client_run import CLIENT_PROGRAM, explicit_config_dir
from .tmux_panes import PaneError, escape_argument, own_pane, run_tmux

if TYPE_CHECKING:
    from ..locations.discover import ClaudeFolder

CONFIG_VARIABLE: Final = "CLAUDE_CONFIG_DIR"
_ADDRESS: Final = "#{session_name}:#{window_index}.#{pane_index}"


class ResumePlace(StrEnum):
    WINDOW = "window"
    SPLIT = "split"


class ResumeFailure(StrEnum):
    LIVE = "live"  # a client has it open
    NOTHING = "nothing"  # there is nothing to resume
    FAILED = "failed"


class NotResumedError(Exception):
    """The session cannot be resumed; the message says why and what to do."""

    def __init__(self, failure: ResumeFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class ResumePlan(msgspec.Struct, frozen=True):
    session_id: str
    folder: str
    config_dir: Path | None  # None for the client's default

    @property
    def command(self) -> str:
        """Return the command for a shell."""
        command = resume_command(self.session_id)
        if self.config_dir is not None:
            command = f"{CONFIG_VARIABLE}={shell_word(str(self.config_dir))} {command}"
        return f"cd {shell_word(self.folder)} && {command}"

    @property
    def words(self) -> tuple[str, ...]:
        """Return the client's command line; raises NotResumedError if there is no client."""
        program = find_program(CLIENT_PROGRAM)
        if program is None:
            why = f"`{CLIENT_PROGRAM}` is not on the PATH"
            raise NotResumedError(ResumeFailure.FAILED, why)
        return program, "--resume", self.session_id


def plan_resume(folder: ClaudeFolder, session: Session) -> ResumePlan:
    """Check that a session can be resumed now; raises NotResumedError."""
    return _plan_resume(folder, session, _open_clients(folder))


def find_resumable(
    folder: ClaudeFolder, sessions: Iterable[Session]
) -> Iterator[tuple[Session, ResumePlan]]:
    """Find the sessions that can be resumed now, in their order."""
    clients = _open_clients(folder)
    for session in sessions:
        try:
            yield session, _plan_resume(folder, session, clients)
        except NotResumedError:
            continue


def _open_clients(folder: ClaudeFolder) -> dict[str, int]:
    """Return the process that has a session open, by the session's id."""
    return {live.session_id: live.pid for live in read_session_registry(folder).clients}


def _plan_resume(folder: ClaudeFolder, session: Session, clients: Mapping[str, int]) -> ResumePlan:
    if (pid := clients.get(session.session_id)) is not None:
        why = f"it is open in process {pid}: go to its terminal"
        raise NotResumedError(ResumeFailure.LIVE, why)
    if session.live:
        why = "Claude Code wrote to it just now: wait until that process has ended"
        raise NotResumedError(ResumeFailure.LIVE, why)
    if archived := archived_reason(session):
        raise NotResumedError(ResumeFailure.NOTHING, archived)
    if not session.path or not is_session_id(session.session_id):
        why = "it has no transcript that Claude Code can resume"
        raise NotResumedError(ResumeFailure.NOTHING, why)
    where = resume_folder(session)
    if where is None or not Path(where).is_absolute():
        why = "the folder that it started in is unknown: run `claude --resume` there"
        raise NotResumedError(ResumeFailure.FAILED, why)
    if not Path(where).is_dir():
        why = (
            f"its folder {sanitize_path(where)} no longer exists, and "
            "Claude Code can resume it only there"
        )
        raise NotResumedError(ResumeFailure.FAILED, why)
    return ResumePlan(session.session_id, where, explicit_config_dir(folder.root))


def resume_in_tmux(
    plan: ResumePlan, place: ResumePlace, environ: Mapping[str, str] = os.environ
) -> str:
    """Open the client in a new window, or beside this pane; return the new pane's address.

    Raises NotResumedError.
    """
    own = own_pane(environ)
    if own is None:
        why = f"ctxtop is not running in tmux: run {plan.command} yourself"
        raise NotResumedError(ResumeFailure.NOTHING, why)
    action = ("new-window",) if place is ResumePlace.WINDOW else ("split-window", "-h")
    variables = () if plan.config_dir is None else ("-e", f"{CONFIG_VARIABLE}={plan.config_dir}")
    words = (*action, "-t", _target(own.session_id(), own.pane_id, place), *variables)
    arguments = map(escape_argument, (*words, "-P", "-F", _ADDRESS, *plan.words))
    try:
        # tmux takes the folder of its command. `-c FOLDER` would expand `#(command)` in its name.
        return run_tmux(own.socket, [*arguments], plan.folder).strip()
    except PaneError as error:
        raise NotResumedError(ResumeFailure.FAILED, str(error)) from error


def _target(session: str, pane: str, place: ResumePlace) -> str:
    return f"{session}:" if place is ResumePlace.WINDOW else pane


def resume_here(plan: ResumePlan) -> NoReturn:
    """Replace this process by the client; raises NotResumedError, OSError."""
    words = plan.words
    environment = client_environment(os.environ)
    if plan.config_dir is not None:
        environment[CONFIG_VARIABLE] = str(plan.config_dir)
    os.chdir(plan.folder)
    os.execve(words[0], words, environment)  # noqa: S606 -- no shell


def resume_folder(session: Session) -> str | None:
    """Return the folder in which the client finds a session again; None if that is not certain.

    The client names a transcript's folder after the session's working folder: a worktree, or
    where /cd went. Once that is gone, the session resumes where it began (seen with 2.1.329:
    "the worktree … no longer exists; continuing in the current directory").
    """
    project = session.path.partition("/")[0]
    stored = [folder for folder in (session.project_root, session.cwd) if folder]
    folders = [found for folder in stored if (found := find_folder(folder))]
    if len(folders) < len(stored):
        return None
    works_in = find_launch_folder(folders[-1], project) if session.cwd else None
    folders = [works_in, *folders] if works_in else folders
    return next((folder for folder in folders if Path(folder).is_dir()), next(iter(folders), None))
