"""Plan and run the recovery of a session, for `ctxtop recover` and for the recover page."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

import msgspec

from ..collectors.actions.session_resume import RunLocation, resume_fork, resume_prompt
from ..collectors.actions.session_target import compaction_target, resume_folder, run_folder
from ..collectors.client_compact.client_run import explicit_config_dir
from ..collectors.policy_files import PolicyFiles
from ..core.actions.session_recovery import (
    NothingToRecoverError,
    plan_recovery,
    recover,
    recovery_options,
)
from ..core.compaction.plan import CompactionRefusedError
from ..core.compaction.recovery.recovery_run import AttemptRefusedError
from ..core.compaction.recovery.recovery_settings import read_recovery_settings
from ..core.model.session import SessionStatus
from ..core.store.automation_records import clean_up_runs
from ..core.store.database import StoreError, explain_error, open_reader
from ..core.store.token_samples import read_estimator
from ..core.store.writer import Writer
from .compaction_actions import ActionFailure

if TYPE_CHECKING:
    from ..collectors.actions.session_resume import ResumeResult
    from ..collectors.places import Places
    from ..core.actions.session_recovery import Recovery, RecoveryOptions
    from ..core.compaction.recovery.recovery_settings import RecoveryStep
    from ..core.model.session import Session
    from ..core.policy.policy import Policy


BUSY_STATUSES: Final = frozenset({SessionStatus.BUSY, SessionStatus.WAITING, SessionStatus.ACTIVE})


class SessionBusyError(Exception):
    """Somebody is at work in the session."""


class RecoveryRequest(msgspec.Struct, frozen=True):
    """The session that is to be mended, and what that takes."""

    db: sqlite3.Connection
    """The estimator reads from the store as long as it is used."""
    places: Places
    session: Session
    policy: Policy
    confirmed: frozenset[RecoveryStep] = frozenset()


def preview_recovery(request: RecoveryRequest) -> Recovery:
    """Return what a recovery would do, without writing anything.

    Raises what `plan_recovery` raises, and SessionBusyError.
    """
    return plan_recovery(_options(request), request.db)


def run_recovery(request: RecoveryRequest) -> tuple[Recovery, ResumeResult | None]:
    """Mend it in a fork, and ask again there where the policy says so (T-11).

    Raises what `recover` does, BusyError.
    """
    wanted = _options(request)
    with closing(Writer(request.places.store)) as writer:
        clean_up_runs(writer.connection, time.time_ns() // 1_000_000)
        done = recover(wanted, writer.connection)
    return done, _resume(done, wanted, request) if done.receipt else None


def _options(request: RecoveryRequest) -> RecoveryOptions:
    session, policy = request.session, request.policy
    if session.status in BUSY_STATUSES:
        raise SessionBusyError(f"it is {session.status}: wait until it is idle")
    folder = request.places.folder
    transcript = folder.projects / session.path
    resumed_in = resume_folder(session)
    subject = compaction_target(
        folder, request.places.store, session.session_id, transcript, resumed_in
    )
    counter_of = read_estimator(request.db).for_model
    settings = read_recovery_settings(policy)
    return recovery_options(subject, session, policy, counter_of, settings, request.confirmed)


def _resume(
    recovery: Recovery, options: RecoveryOptions, request: RecoveryRequest
) -> ResumeResult | None:
    subject, step, receipt = options.target, recovery.choice.chosen, recovery.receipt
    resume = request.policy.text("recovery.resume")
    prompt = resume_prompt(resume, subject.transcript, step.prompt if step else None)
    if prompt is None or receipt is None:
        return None
    folder = explicit_config_dir(request.places.folder.root)
    place = RunLocation(run_folder(request.session), folder, request.places.store)
    return resume_fork(prompt, receipt, place, options.settings.retry)


def try_preview_recovery(
    db: sqlite3.Connection, places: Places, session: Session, confirmed: frozenset[RecoveryStep]
) -> Recovery | ActionFailure:
    """Preview a recovery; expected errors are returned as an ActionFailure."""
    try:
        return preview_recovery(_recovery_request(db, places, session, confirmed))
    except _EXPECTED_ERRORS as error:
        return ActionFailure((_error_text(error),))


def try_run_recovery(
    places: Places, session: Session, confirmed: frozenset[RecoveryStep]
) -> tuple[Recovery, ResumeResult | None] | ActionFailure:
    """Mend it, or say why it was not."""
    try:
        with closing(open_reader(places.store)) as db:
            done = run_recovery(_recovery_request(db, places, session, confirmed))
    except _EXPECTED_ERRORS as error:
        return ActionFailure((_error_text(error),))
    if done[0].receipt is None:
        return ActionFailure(
            tuple(each.why for each in done[0].choice.refusals) or ("no step suffices",)
        )
    return done


_EXPECTED_ERRORS: Final = (
    NothingToRecoverError,
    AttemptRefusedError,
    CompactionRefusedError,
    SessionBusyError,
    OSError,
    StoreError,
    sqlite3.Error,
)
"""Ends that are to be expected."""


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}: nothing was changed"
    if isinstance(error, sqlite3.Error):
        return "; ".join(explain_error(error))
    return str(error)


def _recovery_request(
    db: sqlite3.Connection, places: Places, session: Session, confirmed: frozenset[RecoveryStep]
) -> RecoveryRequest:
    files = PolicyFiles(places.policy)
    root = session.project_root
    files.refresh([root] if root else [])
    return RecoveryRequest(db, places, session, files.policies.acting.for_project(root), confirmed)
