"""Plans of one session, worked out in a thread of their own; the newest wish wins."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from .aiming import Aims, Prompt
from .planning import Ground, NotPlannedError, draft_for, plan_whole_for
from .worker import Worker

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from textual.message import Message

    from ..collectors.folder import Trouble
    from ..core.compaction.plan import Operation, Plan
    from ..core.compaction.planning import Draft, Read
    from ..core.compaction.view import View
    from ..core.conversation import Entry
    from ..core.sessions import Session
    from .operation_changes import Change
    from .places import Places

TOLD_S: Final = 0.1
"""Between two words of how far the reading has come."""

FIRST_PASS: Final = 0.3
"""Share of the work: all lines are read, then what is sent is counted."""

PROMPT_CHARS: Final = 80
"""Of a prompt, by which a person knows it."""

Mark = tuple[str, int | None, str]
"""By which an operation is known again in another plan: strategy, line, and place in the line."""


def mark_of(operation: Operation) -> Mark:
    """Give the mark of an operation."""
    first = operation.edits[0] if operation.edits else None
    return operation.strategy, operation.line, getattr(first, "pointer", "")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be planned."""

    session: Session
    aims: Aims
    left_out: frozenset[Mark] = frozenset()


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what may be left out of it."""

    wish: Wish
    plan: Plan
    offered: tuple[Operation, ...]
    """Each can be switched; what else the plan holds follows from them."""
    prompts: tuple[Prompt, ...]
    """Those that can be gone back to, oldest first; empty where nobody looked."""
    size: int
    """Bytes of the transcript that it was made for."""
    seconds: float
    """That it took."""


class _SupersededError(Exception):
    """Somebody wishes for something else by now."""


@dataclass
class _Held:
    """A draft that can be asked again, and for what it was made."""

    path: str
    aims: Aims
    state: tuple[int, int, int]
    """Of the file when the reading began."""
    draft: Draft
    close: ExitStack


class Planner:
    """Reads a transcript as often as it must; nothing is written."""

    def __init__(self, places: Places, post: Callable[[Message], object]) -> None:
        self._places: Final = places
        self._worker: Final = Worker("ctxtop planner", post)
        self._newest: Wish | None = None
        self._held: _Held | None = None
        self._db: sqlite3.Connection | None = None
        self._told = 0.0

    def plan(
        self,
        wish: Wish,
        take: Callable[[Planned | Trouble], None],
        tell: Callable[[float], None],
    ) -> None:
        """Plan; `take` gets the plan of the newest wish alone, `tell` how much is read, 0..1."""
        self._newest = wish

        def take_newest(found: Planned | Trouble | None) -> None:
            if found is not None and wish is self._newest:
                take(found)

        def tell_newest(share: float) -> None:
            if wish is self._newest:
                tell(share)

        self._worker.do(lambda: self._plan(wish, tell_newest), take_newest)

    def look(
        self,
        session: Session,
        operations: Iterable[Operation],
        most: int,
        take: Callable[[list[Change] | Trouble], None],
    ) -> None:
        """Read what operations change in the transcript, at most so many changes."""
        chosen = list(operations)
        self._worker.do(lambda: self._changes(session, chosen, most), take)

    def stop(self) -> None:
        """Let go of the transcript and end; returns at once."""
        self._newest = None
        self._worker.do(self._let_go, lambda _: None)
        self._worker.stop()

    # In the thread.

    def _plan(self, wish: Wish, tell: Callable[[float], None]) -> Planned | Trouble | None:
        import sqlite3

        from ..collectors.folder import Trouble
        from ..core.store.database import StoreError, explain

        if wish is not self._newest:
            return None
        began = time.monotonic()
        try:
            found = self._planned(wish, tell)
        except _SupersededError:
            self._let_go()
            return None
        except NotPlannedError as error:
            self._let_go()
            return Trouble("no plan", str(error), "Esc leaves it alone")
        except OSError as error:
            self._let_go()
            why = f"{error.filename or wish.session.path}: {error.strerror or error}"
            return Trouble("no plan", why, "see to that file, then change something here")
        except sqlite3.Error as error:
            self._let_go()
            return Trouble(str(self._places.store), *explain(error))
        except StoreError as error:
            self._let_go()
            return Trouble("store", str(error), "then open this again")
        return replace(found, seconds=time.monotonic() - began)

    def _planned(self, wish: Wish, tell: Callable[[float], None]) -> Planned:
        path = self._path(wish.session)
        size = path.stat().st_size
        prompts: list[Prompt] = []
        asked = wish.aims.asked()
        if asked.whole:
            self._let_go()
            ground = self._ground(wish, size, tell)
            plan = plan_whole_for(ground, asked, lambda view: prompts.extend(_prompts(view)))
            again = wish.aims.asked(prompts)
            if again != asked:
                plan = plan_whole_for(ground, again, lambda _: None)
            return Planned(wish, plan, (), tuple(prompts), size, 0.0)
        draft = self._draft(wish, tell)
        plan = draft.plan(_numbers(draft, wish.left_out))
        return Planned(wish, plan, draft.offered, (), size, 0.0)

    def _draft(self, wish: Wish, tell: Callable[[float], None]) -> Draft:
        held, now = self._held, self._path(wish.session).stat()
        # Also where another file took its place, which an open one does not notice.
        state = now.st_ino, now.st_size, now.st_mtime_ns
        if held and (held.path, held.aims, held.state) == (wish.session.path, wish.aims, state):
            return held.draft
        self._let_go()
        close = ExitStack()
        ground = self._ground(wish, now.st_size, tell)
        draft = close.enter_context(draft_for(ground, wish.aims.asked()))
        self._held = _Held(wish.session.path, wish.aims, state, draft, close)
        return draft

    def _ground(self, wish: Wish, size: int, tell: Callable[[float], None]) -> Ground:
        from ..collectors.policy_files import PolicyFiles
        from ..collectors.subjects import summary_cache
        from ..collectors.transcripts.conversation import entries_from

        policies = PolicyFiles(self._places.policy)
        root = wish.session.project_root
        policies.look([root] if root else [])
        return Ground(
            db=self._store(),
            transcript=self._path(wish.session),
            session=wish.session,
            policy=policies.policies.acting.of(root),
            cache=summary_cache(self._places.store),
            read=self._told_read(entries_from, wish, size, tell),
            tell=lambda _: None,
        )

    def _told_read(self, read: Read, wish: Wish, size: int, tell: Callable[[float], None]) -> Read:
        """Tell how far the reading has come, and end it where nobody waits for it any more."""
        passes = 0

        def told(path: Path, start: int = 0, /) -> Iterable[Entry]:
            nonlocal passes
            passes += 1
            first = passes == 1
            for entry in read(path, start):
                if wish is not self._newest:
                    raise _SupersededError
                now = time.monotonic()
                if now - self._told > TOLD_S:
                    self._told = now
                    share = entry.offset / max(1, size)
                    share *= FIRST_PASS if first else 1 - FIRST_PASS
                    done = min(1.0, share if first else FIRST_PASS + share)
                    self._worker.tell(lambda: tell(done))  # noqa: B023 -- its own each time
                yield entry

        return told

    def _changes(
        self, session: Session, operations: list[Operation], most: int
    ) -> list[Change] | Trouble:
        from ..collectors.folder import Trouble
        from .operation_changes import changes_of

        edits = [edit for each in operations for edit in each.edits][:most]
        try:
            return changes_of(edits, self._path(session))
        except OSError as error:
            why = f"{error.filename or session.path}: {error.strerror or error}"
            return Trouble("not shown", why, "it may have been moved")

    def _store(self) -> sqlite3.Connection:
        from ..core.store.database import open_reader

        if self._db is None:
            self._db = open_reader(self._places.store)
        return self._db

    def _path(self, session: Session) -> Path:
        return self._places.folder.projects / session.path

    def _let_go(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            held.close.close()
        if self._db is not None:
            with closing(self._db):
                self._db = None


def _numbers(draft: Draft, left_out: frozenset[Mark]) -> frozenset[int]:
    return frozenset(n for n, each in enumerate(draft.offered) if mark_of(each) in left_out)


def _prompts(view: View) -> list[Prompt]:
    from .formats import middle, one_line
    from .whole_makers import prompts_of

    return [
        Prompt(each.line, middle(one_line(each.piece.text), PROMPT_CHARS))
        for each in prompts_of(view)
    ]
