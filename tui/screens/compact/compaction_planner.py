"""Plans of one session, made in a background thread; only the newest request is answered."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ....core.actions.session_access import NotPlannedError
from ....core.actions.session_compaction import PlanContext, draft_compaction, plan_compaction
from ....core.compaction.plan import CompactionPlan, Operation, PlanOptions
from ....core.compaction.transcript_planning import PlanDraft
from ....core.compaction.transcript_reading import EntryReader
from ....core.compaction.transcript_view import TranscriptView
from ....core.model.conversation import Entry
from ....core.model.problem import Problem
from ....core.model.session import Session
from ....core.store.database import StoreError, explain_error, open_reader
from ....core.transcript.entry_decoder import iter_entries
from ....core.transcript.sanitize import one_line
from ...base.background_queries import WorkerThread
from ...text.formats import shorten
from ...text.plan_text import OperationChange, read_edit_changes

if TYPE_CHECKING:
    from ...app_state.dashboard import Dashboard


PROGRESS_INTERVAL_S: Final = 0.1  # between two reports of progress
FIRST_PASS_SHARE: Final = 0.3  # of the work: all lines are read, then what is sent is counted
PROMPT_CHARS: Final = 80  # of a prompt, by which a person recognizes it

OperationKey = tuple[str, int | None, str]
"""Identifies an operation across plans: its strategy, its line, and its place in the line."""


def operation_key(operation: Operation) -> OperationKey:
    first = operation.edits[0] if operation.edits else None
    return operation.strategy, operation.line, getattr(first, "pointer", "")


@dataclass(frozen=True, slots=True)
class PromptChoice:
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class PlanRequest:
    session: Session
    options: PlanOptions
    left_out: frozenset[OperationKey] = frozenset()


@dataclass(frozen=True, slots=True)
class PlannedCompaction:
    """A plan, and what may be left out of it."""

    request: PlanRequest
    plan: CompactionPlan
    offered: tuple[Operation, ...]  # can be switched; what else the plan holds follows from them
    prompts: tuple[PromptChoice, ...]  # to go back to, oldest first; empty if nobody looked


class _SupersededError(Exception):
    """There is a newer request."""


@dataclass
class _OpenDraft:
    """A draft that can be planned again, and what it was made for."""

    made_for: tuple[object, ...]  # path, options, and the state of the file before it was read
    draft: PlanDraft
    close: ExitStack


class CompactionPlanner:
    """Reads a transcript as often as it must; nothing is written."""

    def __init__(self, app: Dashboard) -> None:
        self._app: Final = app
        self._places: Final = app.places
        self._worker: Final = WorkerThread("ctxtop planner", app)
        self._newest: PlanRequest | None = None
        self._open_draft: _OpenDraft | None = None
        self._db: sqlite3.Connection | None = None
        self._progress_at = 0.0

    def plan(
        self,
        request: PlanRequest,
        on_plan: Callable[[PlannedCompaction | Problem], None],
        on_progress: Callable[[float], None],
    ) -> None:
        """Plan; `on_plan` receives only the newest request's plan, `on_progress` a share."""
        self._newest = request

        def take_newest(found: PlannedCompaction | Problem | None) -> None:
            if found is not None and request is self._newest:
                on_plan(found)

        def report_newest(share: float) -> None:
            if request is self._newest:
                on_progress(share)

        self._worker.submit(lambda: self._plan(request, report_newest), take_newest)

    def read_changes(
        self,
        session: Session,
        operations: Iterable[Operation],
        max_changes: int,
        on_changes: Callable[[list[OperationChange] | Problem], None],
    ) -> None:
        """Read what operations change in the transcript, up to a number of changes."""
        chosen = list(operations)
        self._worker.submit(lambda: self._changes(session, chosen, max_changes), on_changes)

    def stop(self) -> None:
        """Close the transcript and stop the worker; returns at once."""
        self._newest = None
        self._worker.submit(self._close_draft, lambda _: None)
        self._worker.stop()

    # In the thread.

    def _plan(
        self, request: PlanRequest, on_progress: Callable[[float], None]
    ) -> PlannedCompaction | Problem | None:
        if request is not self._newest:
            return None
        try:
            return self._make_plan(request, on_progress)
        except _SupersededError:
            self._close_draft()
            return None
        except (NotPlannedError, OSError, sqlite3.Error, StoreError) as error:
            self._close_draft()
            return self._problem(error, request)

    def _problem(self, error: Exception, request: PlanRequest) -> Problem:
        if isinstance(error, NotPlannedError):
            return Problem("no plan", str(error), "Esc cancels")
        if isinstance(error, OSError):
            why = f"{error.filename or request.session.path}: {error.strerror or error}"
            return Problem("no plan", why, "check that file, then change a slider")
        if isinstance(error, sqlite3.Error):
            return Problem(str(self._places.store), *explain_error(error))
        return Problem("store", str(error), "then open this page again")

    def _make_plan(
        self, request: PlanRequest, on_progress: Callable[[float], None]
    ) -> PlannedCompaction:
        if not request.options.whole_strategy:
            draft = self._draft(request, on_progress)
            left_out = frozenset(
                number
                for number, operation in enumerate(draft.offered_operations)
                if operation_key(operation) in request.left_out
            )
            return PlannedCompaction(request, draft.plan(left_out), draft.offered_operations, ())
        self._close_draft()
        size = self._transcript(request.session).stat().st_size
        prompts: list[PromptChoice] = []
        context = self._plan_context(
            request, size, on_progress, lambda view: prompts.extend(_prompt_choices(view))
        )
        plan = plan_compaction(context, request.options)
        return PlannedCompaction(request, plan, (), tuple(prompts))

    def _draft(self, request: PlanRequest, on_progress: Callable[[float], None]) -> PlanDraft:
        now = self._transcript(request.session).stat()
        # The inode too: an open file does not notice that another one took its place.
        state = now.st_ino, now.st_size, now.st_mtime_ns
        made_for = request.session.path, request.options, state
        if self._open_draft and self._open_draft.made_for == made_for:
            return self._open_draft.draft
        self._close_draft()
        close = ExitStack()
        context = self._plan_context(request, now.st_size, on_progress)
        draft = close.enter_context(draft_compaction(context, request.options))
        self._open_draft = _OpenDraft(made_for, draft, close)
        return draft

    def _plan_context(
        self,
        request: PlanRequest,
        size: int,
        on_progress: Callable[[float], None],
        on_view: Callable[[TranscriptView], None] = lambda _: None,
    ) -> PlanContext:
        from ....collectors.session_target import open_session_at

        if self._db is None:
            self._db = open_reader(self._places.store)
        return PlanContext(
            access=open_session_at(self._places, request.session),
            db=self._db,
            on_view=on_view,
            read_entries=self._read_with_progress(request, size, on_progress),
        )

    def _read_with_progress(
        self, request: PlanRequest, size: int, on_progress: Callable[[float], None]
    ) -> EntryReader:
        """Read entries, report progress from 0 to 1, and stop once `request` is superseded."""
        passes = 0

        def read(path: Path, start: int = 0, /) -> Iterable[Entry]:
            nonlocal passes
            passes += 1
            begin, share = (
                (0.0, FIRST_PASS_SHARE) if passes == 1 else (FIRST_PASS_SHARE, 1 - FIRST_PASS_SHARE)
            )
            for entry in iter_entries(path, start):
                if request is not self._newest:
                    raise _SupersededError
                now = time.monotonic()
                if now - self._progress_at > PROGRESS_INTERVAL_S:
                    self._progress_at = now
                    done = min(1.0, begin + share * entry.offset / max(1, size))
                    self._app.call_later(on_progress, done)
                yield entry

        return read

    def _changes(
        self, session: Session, operations: list[Operation], max_changes: int
    ) -> list[OperationChange] | Problem:
        edits = [edit for each in operations for edit in each.edits][:max_changes]
        try:
            return read_edit_changes(edits, self._transcript(session))
        except OSError as error:
            why = f"{error.filename or session.path}: {error.strerror or error}"
            return Problem("not shown", why, "it may have been moved")

    def _transcript(self, session: Session) -> Path:
        return self._places.folder.projects / session.path

    def _close_draft(self) -> None:
        if self._open_draft is not None:
            draft, self._open_draft = self._open_draft, None
            draft.close.close()
        if self._db is not None:
            with closing(self._db):
                self._db = None


def _prompt_choices(view: TranscriptView) -> list[PromptChoice]:
    from ....core.compaction.strategies.summary_and_cut import sent_prompts

    return [
        PromptChoice(each.line, shorten(one_line(each.part.text), PROMPT_CHARS))
        for each in sent_prompts(view)
    ]
