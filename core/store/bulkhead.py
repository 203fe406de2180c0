"""Keeps a fault of ours within the file, job, session or row where it was met."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from ..model.problem import Problem
from ..transcript.faults import fault_problem

Item = TypeVar("Item")
Result = TypeVar("Result")

NOT_READ: Final = "not read"
NOT_SHOWN: Final = "not shown"
FAILED: Final = "failed"

MAX_WAITING: Final = 200  # faults that are not stored yet: a bug may be met in every row
_waiting: Final[deque[Problem]] = deque(maxlen=MAX_WAITING)


@contextmanager
def bulkhead(
    where: str,
    outcome: str,
    store: Path | None = None,
    report: Callable[[Problem], object] = _waiting.append,
    expected: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Report an error with its traceback instead of raising it, unless it is one `expected`.

    `outcome` says what became of the file, job or row. Without `report` the problem waits for
    `take_faults`. Name the store if the work reads or writes it. An error of the store itself
    is raised: it concerns everything.
    """
    try:
        yield
    except Exception as error:
        from .database import is_store_error  # only where something failed

        if isinstance(error, expected) or is_store_error(error, store):
            raise
        report(fault_problem(where, outcome, error))


def take_faults() -> Iterator[Problem]:
    """Yield the faults of this process that are not stored yet, each once."""
    while _waiting:
        yield _waiting.popleft()


def place_of(row: object) -> str:
    """Name a row as the place of a problem, by its session if it has one."""
    of = getattr(row, "session", row)
    session_id = getattr(of, "session_id", None)
    return f"session {session_id}" if session_id else f"a row of {type(row).__name__}"


def leave_out_faulty(
    items: Sequence[Item],
    attempt: Callable[[Sequence[Item]], object],
    place: Callable[[Item], str],
    outcome: str,
    instead: Callable[[Item, Problem], Item] | None = None,
) -> Sequence[Item]:
    """Return the items with which `attempt` succeeds: all of them, or those that remain."""

    def try_some(some: Sequence[Item]) -> Sequence[Item]:
        attempt(some)
        return some

    return work_apart(items, try_some, place, outcome, None, instead)


def work_apart(
    items: Sequence[Item],
    work: Callable[[Sequence[Item]], Sequence[Result]],
    place: Callable[[Item], str],
    outcome: str,
    store: Path | None = None,
    instead: Callable[[Item, Problem], Result] | None = None,
) -> list[Result]:
    """Work on all items at once; if that fails, on fewer, until only those that fail are left.

    `place` names an item in its problem; `instead` makes the result of an item that failed.
    """
    if not items:
        return list(work(items))
    failed: list[Problem] = []
    with bulkhead(place(items[0]), outcome, store, failed.append):
        return list(work(items))
    if len(items) == 1:
        _waiting.extend(failed)
        with bulkhead(place(items[0]), outcome, store):
            return [instead(items[0], each) for each in failed] if instead else []
        return []
    half = len(items) // 2
    parts = (items[:half], items[half:])
    return [
        result
        for part in parts
        for result in work_apart(part, work, place, outcome, store, instead)
    ]
