"""Opens a session for an action: transcript, who has it open, how its client is run (T-11)."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace as with_fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..core.actions import session_access
from ..core.compaction.compaction_target import CompactionTarget
from ..core.compaction.receipts import CompactionReceipt, backup_retention
from ..core.compaction.recovery.recovery_run import RecoveryRetry, retry_delay_ms
from ..core.model.conversation import Role
from ..core.model.session import Session
from ..core.policy.policy import Policy
from ..core.store.automation_records import claim_client_run
from ..core.store.database import StoreError, state_folder
from ..core.store.writer import Writer
from ..core.transcript.entry_decoder import read_entries
from ..core.transcript.stored_paths import find_folder
from .claude_code.registry import read_session_registry
from .claude_code.transcripts.transcript_ends import last_version
from .locations.discover import ClaudeFolder
from .locations.places import Places
from .locations.policy_files import read_acting_policy
from .plugin_files.compact_requests import instruction_problem, is_session_id
from .terminal.client_run import ClientRunError, explicit_config_dir, find_repository, prepare_run
from .terminal.session_resume import resume_folder

if TYPE_CHECKING:
    from .terminal.client_compaction import ClientCompactTarget


def open_session(
    folder: ClaudeFolder,
    store: Path,
    session: Session,
    policy: Policy,
    automatic_reason: str | None = None,
) -> session_access.SessionAccess:
    """Open a session for an action; `automatic_reason` is recorded if no user asked for it."""
    target = session_target(folder, store, session, policy, automatic_reason)
    return session_access.SessionAccess(
        session, policy, store, target, _Client(folder, store, session, automatic_reason)
    )


def open_session_at(places: Places, session: Session) -> session_access.SessionAccess:
    policy = read_acting_policy(places.policy, session.project_root)
    return open_session(places.folder, places.store, session, policy)


def session_target(
    folder: ClaudeFolder,
    store: Path,
    session: Session,
    policy: Policy,
    automatic_reason: str | None = None,
) -> CompactionTarget:
    target = compaction_target(
        folder,
        store,
        session.session_id,
        folder.projects / session.path,
        resume_folder(session),
        automatic=automatic_reason,
    )
    return with_fields(target, retention=backup_retention(policy))


def receipt_target(
    folder: ClaudeFolder, store: Path, receipt: CompactionReceipt
) -> CompactionTarget:
    written = receipt.new_session_id or receipt.session_id
    return compaction_target(folder, store, written, Path(receipt.target), None)


class _Client(msgspec.Struct, frozen=True):
    folder: ClaudeFolder
    store: Path
    session: Session
    automatic_reason: str | None

    def compact(
        self, via: session_access.Via, instructions: str
    ) -> session_access.ClientCompactResult:
        from .terminal import client_compaction

        if problem := instruction_problem(instructions):
            raise session_access.NotCompactedError(session_access.CompactFailure.NOTHING, problem)
        return client_compaction.ask_to_compact(self._target(), via, instructions)

    def compact_closed(self) -> session_access.ClientCompactResult:
        from .terminal import client_compaction

        limited = replace(
            self._target(), before_run=lambda: claim_run(self.store, self.session.session_id)
        )
        return client_compaction.ask_to_compact(limited, session_access.Via.CLI, "")

    def resume(
        self, prompt: str, receipt: CompactionReceipt, retry: RecoveryRetry
    ) -> session_access.ResumeResult:
        config_dir = explicit_config_dir(self.folder.root)
        location = RunLocation(run_folder(self.session), config_dir, self.store)
        return resume_fork(prompt, receipt, location, retry)

    def _target(self) -> ClientCompactTarget:
        from .terminal.client_compaction import ClientCompactTarget

        session_id = self.session.session_id
        if not is_session_id(session_id):
            why = f"{session_id} is not an id that Claude Code can resume"
            raise session_access.NotCompactedError(session_access.CompactFailure.NOTHING, why)
        return ClientCompactTarget(
            session_id=session_id,
            transcript=self.folder.projects / self.session.path,
            project_root=run_folder(self.session),
            folder=self.folder,
            store=self.store,
            config_dir=explicit_config_dir(self.folder.root),
            automatic=self.automatic_reason,
        )


def run_folder(session: Session) -> str | None:
    """Return the folder in which ctxtop may start the client for a session, if it is trusted.

    That is where the session began, or a worktree of the same repository that it moved into: the
    client finds it only there. None if it is unknown where the session began.
    """
    began = find_folder(session.project_root) if session.project_root else None
    resumed = resume_folder(session)
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
    """Return a transcript as a target; `automatic` is why it is compacted without a user."""

    def find_holder(name: str) -> str | None:
        clients = read_session_registry(folder).clients
        pids = (client.pid for client in clients if client.session_id == name.lower())
        return next((f"process {pid}" for pid in pids), None)

    def is_closed(name: str) -> bool:
        path = transcript.with_name(f"{name}.jsonl")
        return read_session_registry(folder).is_closed(name.lower(), last_version(path))

    return CompactionTarget(
        session_id=session_id,
        transcript=transcript,
        cwd=cwd,
        state_folder=state_folder(store),
        read_entries=read_entries,
        find_holder=find_holder,
        is_known_closed=is_closed,
        automatic_reason=automatic,
    )


def claim_run(store: Path, session_id: str) -> None:
    """Record a run before it begins; raises ClientRunError if it may not, or cannot be recorded."""
    try:
        with closing(Writer(store)) as writer:
            why = claim_client_run(writer.connection, session_id, time.time_ns() // 1_000_000)
    except (StoreError, sqlite3.Error) as error:
        raise ClientRunError(f"starting Claude Code cannot be recorded: {error}") from error
    if why is not None:
        raise ClientRunError(f"{why}: resume it yourself, or wait")


TURN_TIMEOUT_S: Final = 600.0  # a turn may run tools; one that takes longer is ended


class RunLocation(msgspec.Struct, frozen=True):
    project_root: str | None  # where the session began
    config_dir: Path | None  # None for the client's default
    store: Path


def resume_fork(
    prompt: str,
    receipt: CompactionReceipt,
    location: RunLocation,
    retry: RecoveryRetry,
    sleep: Callable[[float], None] = time.sleep,
) -> session_access.ResumeResult:
    """Send a prompt to the fork until it is answered, as `claim_run` and `retry` allow (002-98)."""
    result = session_access.ResumeResult(prompt, answered=False, output="", attempts=0)
    if receipt.new_session_id is None:
        return replace(result, output="no fork was made")
    try:
        prepared = prepare_run(location.project_root, location.config_dir)
        for attempt in range(retry.max_attempts):
            sleep(retry_delay_ms(attempt, retry) / 1000)
            claim_run(location.store, receipt.session_id)
            size = Path(receipt.target).stat().st_size
            ran = prepared.run(prompt, receipt.new_session_id, TURN_TIMEOUT_S)
            result = session_access.ResumeResult(
                prompt,
                answered=_is_answered(Path(receipt.target), size),
                output=ran.output,
                attempts=attempt + 1,
                command=ran.command,
                folder=ran.folder,
            )
            if result.answered:
                break
    except ClientRunError as error:
        return replace(result, output=str(error))
    return result


def _is_answered(transcript: Path, size: int) -> bool:
    entries = read_entries(transcript)
    answers = [each for each in entries if each.offset >= size and each.role is Role.ASSISTANT]
    return bool(answers) and not answers[-1].hidden
