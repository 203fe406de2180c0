"""Carrying out what a person asked for on the screen; what says no becomes lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.compaction.receipts import Mode
from ..core.compaction.refused import NotAppliedError

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..collectors.asking.outcome import Outcome
    from ..core.compaction.plan import Plan, Refusal
    from ..core.compaction.receipts import Receipt
    from ..core.compaction.stage import Tell
    from ..core.compaction.subject import Subject
    from ..core.compaction.undo import Undone
    from ..core.sessions import Session
    from .places import Places


@dataclass(frozen=True, slots=True)
class NotDone:
    """Nothing was changed."""

    why: tuple[str, ...]
    """One line each: what said no, and what to do."""


def apply(
    places: Places, session: Session, plan: Plan, mode: Mode, on_stage: Tell
) -> Receipt | NotDone:
    """Carry a plan out; `tell` hears each stage as it begins."""
    from ..core.compaction.apply import apply_plan
    from .file_words import unchanged

    subject = subject_for(places, session)
    try:
        return apply_plan(plan, mode, subject, on_stage)
    except NotAppliedError as error:
        return NotDone(_lines(error))
    except OSError as error:
        return NotDone((unchanged(error, subject.transcript),))


def mode_in_place(plan: Plan) -> Mode:
    """Say how a plan is carried out in the session itself."""
    return Mode.APPEND if plan.only_appends else Mode.IN_PLACE


def why_not_in_place(places: Places, session: Session) -> Refusal | None:
    """Say why a session is not to be changed itself now; None where it may be. Raises OSError."""
    from ..core.compaction.subject import require_idle

    subject = subject_for(places, session)
    try:
        require_idle(subject, subject.transcript, session.session_id)
    except NotAppliedError as error:
        return error.refusals[0]
    return None


def take_back(
    places: Places, receipt: Receipt, numbers: Collection[int] | None
) -> Undone | NotDone:
    """Take a receipt back, or some operations of it, numbered from 0."""
    from ..collectors.subjects import subject_of
    from ..core.compaction.undo import undo
    from .file_words import unchanged

    written = receipt.new_session_id or receipt.session_id
    target = Path(receipt.target)
    subject = subject_of(places.folder, places.store, written, target, None)
    try:
        return undo(receipt.receipt_id, numbers, subject)
    except NotAppliedError as error:
        return NotDone(_lines(error))
    except OSError as error:
        return NotDone((unchanged(error, target),))


def ask_client(places: Places, session: Session, instructions: str) -> Outcome | NotDone:
    """Let the client compact a session, and wait until it has."""
    from ..collectors.asking.ask import Subject, ask_to_compact
    from ..collectors.asking.client_run import named_folder
    from ..collectors.asking.outcome import NotCompactedError, Via
    from ..collectors.plugin.exchange import is_session, unfit
    from ..collectors.subjects import run_folder
    from .file_words import unchanged

    wrong = unfit(instructions)
    if wrong:
        return NotDone((wrong,))
    if not is_session(session.session_id):
        return NotDone((f"{session.session_id} is no id that the client resumes",))
    transcript = places.folder.projects / session.path
    subject = Subject(
        session_id=session.session_id,
        transcript=transcript,
        project_root=run_folder(session),
        folder=places.folder,
        store=places.store,
        config_dir=named_folder(places.folder.root),
    )
    try:
        return ask_to_compact(subject, Via.AUTO, instructions)
    except NotCompactedError as error:
        return NotDone((str(error),))
    except OSError as error:
        return NotDone((unchanged(error, transcript),))


def subject_for(places: Places, session: Session) -> Subject:
    """Look after a session: its transcript is read, and the client's registry is asked."""
    from ..collectors.subjects import resume_folder, subject_of

    transcript = places.folder.projects / session.path
    resumed_in = resume_folder(session)
    return subject_of(places.folder, places.store, session.session_id, transcript, resumed_in)


def _lines(error: NotAppliedError) -> tuple[str, ...]:
    return tuple(f"{each.check}: {each.why}: {each.what_to_do}" for each in error.refusals)
