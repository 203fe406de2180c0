"""Plans of one session, made in a background thread; only the newest request is answered."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ....core.actions.session_access import NotPlannedError
from ....core.actions.session_compaction import PlanContext, draft_compaction, plan_compaction
from ....core.compaction.plan import CompactionPlan, Operation, PlanOptions
from ....core.compaction.transcript_planning import PlanDraft
from ....core.compaction.transcript_reading import EntryReader
from ....core.compaction.transcript_view import TranscriptView
from ....core.model.session import Session
from ....core.transcript.conversation import Entry
from ....core.transcript.entry_decoder import iter_entries
from ...background_queries import WorkerThread

if TYPE_CHECKING:
    from ....core.model.problem import Problem
    from ...dashboard import Dashboard
    from ...text.plan_text import OperationChange


PROGRESS_INTERVAL_S: Final = 0.1  # between two words of how far the reading has come
FIRST_PASS_SHARE: Final = 0.3  # share of the work: all lines are read, then what is sent is counted
PROMPT_CHARS: Final = 80  # of a prompt, by which a person knows it
OperationKey = tuple[str, int | None, str]
"""By which an operation is known again in another plan: strategy, line, and place in the line."""


def operation_key(operation: Operation) -> OperationKey:
    """Return the key that identifies an operation across plans."""
    first = operation.edits[0] if operation.edits else None
    return operation.strategy, operation.line, getattr(first, "pointer", "")


@dataclass(frozen=True, slots=True)
class PromptChoice:
    """A prompt that can be gone back to."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is to be planned."""

    session: Session
    options: PlanOptions
    left_out: frozenset[OperationKey] = frozenset()


@dataclass(frozen=True, slots=True)
class PlannedCompaction:
    """A plan, and what may be left out of it."""

    request: PlanRequest
    plan: CompactionPlan
    offered: tuple[Operation, ...]
    """Each can be switched; what else the plan holds follows from them."""
    prompts: tuple[PromptChoice, ...]
    """Those that can be gone back to, oldest first; empty where nobody looked."""
    size: int  # bytes of the transcript that it was made for
    seconds: float  # that it took


class _SupersededError(Exception):
    """Somebody wishes for something else by now."""


@dataclass
class _OpenDraft:
    """A draft that can be asked again, and for what it was made."""

    path: str
    options: PlanOptions
    state: tuple[int, int, int]  # of the file when the reading began
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

        def tell_newest(share: float) -> None:
            if request is self._newest:
                on_progress(share)

        self._worker.submit(lambda: self._plan(request, tell_newest), take_newest)

    def read_changes(
        self,
        session: Session,
        operations: Iterable[Operation],
        max_changes: int,
        on_changes: Callable[[list[OperationChange] | Problem], None],
    ) -> None:
        """Read what operations change in the transcript, at most so many changes."""
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
        import sqlite3

        from ....core.model.problem import Problem
        from ....core.store.database import StoreError, explain_error

        if request is not self._newest:
            return None
        began = time.monotonic()
        try:
            found = self._make_plan(request, on_progress)
        except _SupersededError:
            self._close_draft()
            return None
        except NotPlannedError as error:
            self._close_draft()
            return Problem("no plan", str(error), "Esc leaves it alone")
        except OSError as error:
            self._close_draft()
            why = f"{error.filename or request.session.path}: {error.strerror or error}"
            return Problem("no plan", why, "see to that file, then change something here")
        except sqlite3.Error as error:
            self._close_draft()
            return Problem(str(self._places.store), *explain_error(error))
        except StoreError as error:
            self._close_draft()
            return Problem("store", str(error), "then open this again")
        return replace(found, seconds=time.monotonic() - began)

    def _make_plan(
        self, request: PlanRequest, on_progress: Callable[[float], None]
    ) -> PlannedCompaction:
        path = self._transcript(request.session)
        size = path.stat().st_size
        if request.options.whole_strategy:
            self._close_draft()
            prompts: list[PromptChoice] = []

            def note_prompts(view: TranscriptView) -> None:
                prompts.extend(_prompt_choices(view))

            context = self._plan_context(request, size, on_progress, note_prompts)
            plan = plan_compaction(context, request.options)
            return PlannedCompaction(request, plan, (), tuple(prompts), size, 0.0)
        draft = self._draft(request, on_progress)
        plan = draft.plan(_left_out_numbers(draft, request.left_out))
        return PlannedCompaction(request, plan, draft.offered_operations, (), size, 0.0)

    def _draft(self, request: PlanRequest, on_progress: Callable[[float], None]) -> PlanDraft:
        held, now = self._open_draft, self._transcript(request.session).stat()
        # Also where another file took its place, which an open one does not notice.
        state = now.st_ino, now.st_size, now.st_mtime_ns
        if held and (held.path, held.options, held.state) == (
            request.session.path,
            request.options,
            state,
        ):
            return held.draft
        self._close_draft()
        close = ExitStack()
        context = self._plan_context(request, now.st_size, on_progress)
        draft = close.enter_context(draft_compaction(context, request.options))
        self._open_draft = _OpenDraft(request.session.path, request.options, state, draft, close)
        return draft

    def _plan_context(
        self,
        request: PlanRequest,
        size: int,
        on_progress: Callable[[float], None],
        on_view: Callable[[TranscriptView], None] = lambda _: None,
    ) -> PlanContext:
        from ....collectors.session_target import open_session_at

        return PlanContext(
            access=open_session_at(self._places, request.session),
            db=self._open_store(),
            on_view=on_view,
            read_entries=self._read_with_progress(request, size, on_progress),
        )

    def _read_with_progress(
        self, request: PlanRequest, size: int, on_progress: Callable[[float], None]
    ) -> EntryReader:
        """Read entries, report progress from 0 to 1, and stop once `request` is superseded."""
        passes = 0

        def told(path: Path, start: int = 0, /) -> Iterable[Entry]:
            nonlocal passes
            passes += 1
            first = passes == 1
            for entry in iter_entries(path, start):
                if request is not self._newest:
                    raise _SupersededError
                now = time.monotonic()
                if now - self._progress_at > PROGRESS_INTERVAL_S:
                    self._progress_at = now
                    share = entry.offset / max(1, size)
                    share *= FIRST_PASS_SHARE if first else 1 - FIRST_PASS_SHARE
                    done = min(1.0, share if first else FIRST_PASS_SHARE + share)
                    self._app.call_later(on_progress, done)
                yield entry

        return told

    def _changes(
        self, session: Session, operations: list[Operation], max_changes: int
    ) -> list[OperationChange] | Problem:
        from ....core.model.problem import Problem
        from ...text.plan_text import read_edit_changes

        edits = [edit for each in operations for edit in each.edits][:max_changes]
        try:
            return read_edit_changes(edits, self._transcript(session))
        except OSError as error:
            why = f"{error.filename or session.path}: {error.strerror or error}"
            return Problem("not shown", why, "it may have been moved")

    def _open_store(self) -> sqlite3.Connection:
        from ....core.store.database import open_reader

        if self._db is None:
            self._db = open_reader(self._places.store)
        return self._db

    def _transcript(self, session: Session) -> Path:
        return self._places.folder.projects / session.path

    def _close_draft(self) -> None:
        if self._open_draft is not None:
            held, self._open_draft = self._open_draft, None
            held.close.close()
        if self._db is not None:
            with closing(self._db):
                self._db = None


def _left_out_numbers(draft: PlanDraft, left_out: frozenset[OperationKey]) -> frozenset[int]:
    return frozenset(
        n for n, each in enumerate(draft.offered_operations) if operation_key(each) in left_out
    )


def _prompt_choices(view: TranscriptView) -> list[PromptChoice]:
    from ....core.compaction.strategies.summary_and_cut import sent_prompts
    from ....core.transcript.sanitize import one_line
    from ...text.formats import shorten_middle

    return [
        PromptChoice(each.line, shorten_middle(one_line(each.part.text), PROMPT_CHARS))
        for each in sent_prompts(view)
    ]
