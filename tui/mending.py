"""Mending a session that ended because its prompt was too long: the command and the screen."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

import msgspec

from ..collectors.asking.client_run import named_folder
from ..collectors.policy_files import PolicyFiles
from ..collectors.recovering import NothingToMendError, plan_recovery, recover, wanted_of
from ..collectors.resuming import Place, go_on, prompt_to_send
from ..collectors.subjects import resume_folder, run_folder, subject_of
from ..core.compaction.recovery.attempt import NotNowError
from ..core.compaction.recovery.settings import recovery_settings
from ..core.compaction.refused import NotAppliedError
from ..core.sessions import Status
from ..core.store.database import StoreError, explain, open_reader
from ..core.store.estimating import read_estimator
from ..core.store.recovery_rows import clean_runs
from ..core.store.writer import Writer
from .applying import NotDone

if TYPE_CHECKING:
    from ..collectors.recovering import Recovery, Wanted
    from ..collectors.resuming import Resumed
    from ..core.compaction.recovery.settings import Step
    from ..core.policy.policy import Policy
    from ..core.sessions import Session
    from .places import Places

AT_WORK: Final = frozenset({Status.BUSY, Status.WAITING, Status.ACTIVE})


class BusyError(Exception):
    """Somebody is at work in the session."""


class Patient(msgspec.Struct, frozen=True):
    """The session that is to be mended, and what that takes."""

    db: sqlite3.Connection
    """The estimator reads from the store as long as it is used."""
    places: Places
    session: Session
    policy: Policy
    confirmed: frozenset[Step] = frozenset()


def plan_mending(request: Patient) -> Recovery:
    """Say what would be done; nothing is written. Raises what `plan_recovery` does, BusyError."""
    return plan_recovery(_wanted(request), request.db)


def mend(request: Patient) -> tuple[Recovery, Resumed | None]:
    """Mend it in a fork, and ask again there where the policy says so (T-11).

    Raises what `recover` does, BusyError.
    """
    wanted = _wanted(request)
    with closing(Writer(request.places.store)) as writer:
        clean_runs(writer.connection, time.time_ns() // 1_000_000)
        done = recover(wanted, writer.connection)
    return done, _go_on(done, wanted, request) if done.receipt else None


def _wanted(request: Patient) -> Wanted:
    session, policy = request.session, request.policy
    if session.status in AT_WORK:
        raise BusyError(f"it is {session.status}: wait until it is idle")
    folder = request.places.folder
    transcript = folder.projects / session.path
    resumed_in = resume_folder(session)
    subject = subject_of(folder, request.places.store, session.session_id, transcript, resumed_in)
    counter_of = read_estimator(request.db).for_model
    settings = recovery_settings(policy)
    return wanted_of(subject, session, policy, counter_of, settings, request.confirmed)


def _go_on(recovery: Recovery, options: Wanted, request: Patient) -> Resumed | None:
    subject, step, receipt = options.target, recovery.choice.chosen, recovery.receipt
    resume = request.policy.text("recovery.resume")
    prompt = prompt_to_send(resume, subject.transcript, step.prompt if step else None)
    if prompt is None or receipt is None:
        return None
    folder = named_folder(request.places.folder.root)
    place = Place(run_folder(request.session), folder, request.places.store)
    return go_on(prompt, receipt, place, options.settings.retry)


def plan_or_why(
    db: sqlite3.Connection, places: Places, session: Session, confirmed: frozenset[Step]
) -> Recovery | NotDone:
    """Say what would be done, or why nothing can be."""
    try:
        return plan_mending(_patient(db, places, session, confirmed))
    except _SAID as error:
        return NotDone((_why(error),))


def mend_or_why(
    places: Places, session: Session, confirmed: frozenset[Step]
) -> tuple[Recovery, Resumed | None] | NotDone:
    """Mend it, or say why it was not."""
    try:
        with closing(open_reader(places.store)) as db:
            done = mend(_patient(db, places, session, confirmed))
    except _SAID as error:
        return NotDone((_why(error),))
    if done[0].receipt is None:
        return NotDone(tuple(each.why for each in done[0].choice.refusals) or ("no step suffices",))
    return done


_SAID: Final = (
    NothingToMendError,
    NotNowError,
    NotAppliedError,
    BusyError,
    OSError,
    StoreError,
    sqlite3.Error,
)
"""Ends that are to be expected."""


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}: nothing was changed"
    if isinstance(error, sqlite3.Error):
        return "; ".join(explain(error))
    return str(error)


def _patient(
    db: sqlite3.Connection, places: Places, session: Session, confirmed: frozenset[Step]
) -> Patient:
    files = PolicyFiles(places.policy)
    root = session.project_root
    files.refresh([root] if root else [])
    return Patient(db, places, session, files.policies.acting.for_project(root), confirmed)
