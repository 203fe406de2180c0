"""Asking the client to compact a session, by the best way that is there."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.compaction.subject import SESSION_LOCK
from ...core.user_lock import HeldError, user_lock
from ..registry import open_sessions, read_clients
from ..transcripts.ends import last_version
from . import by_cli, by_plugin, by_tmux
from .boundary import BoundaryWatch
from .lock import locked
from .outcome import NotCompactedError, Outcome, Via, Why
from .pane import find_pane
from .receipts import Asking, clean_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ...core.store.facts import LiveSession
    from ..folder import ClaudeFolder
    from ..registry import Registry
    from .boundary import NewBoundary

QUIET_S: Final = 5.0
"""A transcript that grew this recently may have a client that the registry does not name."""

_STATES: Final = frozenset({"idle", "busy", "waiting"})


def _nothing() -> None:
    """Ask nobody: a person has typed the command."""


class Subject(msgspec.Struct, frozen=True):
    """The session that is asked, and where things are."""

    session_id: str
    transcript: Path
    project_root: str | None
    """Where the session began, and the only place where the client is started for it."""
    folder: ClaudeFolder
    store: Path
    config_dir: Path | None = None
    """Where it is not the client's own default."""
    before_run: Callable[[], None] = _nothing
    """Called before the client is started; raises NotRunError where it must not be."""


@contextmanager
def _alone(target: Subject) -> Iterator[None]:
    """Keep out whatever else would change the transcript, of another store too."""
    try:
        with user_lock(SESSION_LOCK, target.transcript.parent, target.session_id):
            yield
    except HeldError:
        why = "another ctxtop changes this session: wait for it"
        raise NotCompactedError(Why.LIVE, why) from None


def ask_to_compact(target: Subject, via: Via, instructions: str) -> Outcome:
    """Ask and wait until the transcript has a new boundary.

    Raises NotCompactedError where it has none, OSError where a file cannot be used.
    """
    began = time.monotonic()
    with locked(target.store, target.session_id), _alone(target):
        clean_up(target.store)
        asking = Asking(target.store, target.session_id, instructions)
        try:
            found = _ask(target, via, asking)
        except NotCompactedError as error:
            asking.fail(error)
            raise
        outcome = Outcome(
            session_id=target.session_id,
            via=asking.via,
            requested_at=asking.requested_at,
            boundary_uuid=found.uuid,
            pre_tokens=found.pre_tokens,
            post_tokens=found.post_tokens,
            seconds=time.monotonic() - began,
            command=asking.command,
            folder=asking.folder,
        )
        asking.finish(outcome)
        return outcome


def _ask(target: Subject, via: Via, request: Asking) -> NewBoundary:
    registry = read_clients(target.folder)
    own = [each for each in registry.clients if each.session_id == target.session_id]
    if not own:
        return _ask_closed(target, via, request, registry)
    if len(own) > 1:
        pids = " and ".join(str(each.pid) for each in own)
        raise NotCompactedError(
            Why.LIVE,
            f"it is open in {len(own)} clients (processes {pids}), and only one would see the"
            " compaction: close the others first",
        )
    (live,) = own
    if via is Via.CLI:
        raise NotCompactedError(
            Why.LIVE, f"it is open in process {live.pid}, which would not see the compaction"
        )
    _require_idle(live)
    watch = BoundaryWatch(target.transcript)
    if via is not Via.TMUX and by_plugin.is_there(target.store, live):
        found = by_plugin.ask(request, watch)
        if found:
            return found
    if via is Via.PLUGIN:
        raise NotCompactedError(
            Why.UNSAFE, "no module of ctxtop's answers in it: `ctxtop hooks status`, or --via tmux"
        )
    pane = find_pane(live.pid)
    if pane is None:
        raise NotCompactedError(
            Why.UNSAFE,
            f"process {live.pid} has no module of ctxtop's and is in no tmux pane of yours:"
            " type /compact there",
        )
    return by_tmux.ask(request, watch, pane, lambda: _live(target))


def _ask_closed(target: Subject, via: Via, request: Asking, registry: Registry) -> NewBoundary:
    if via in {Via.PLUGIN, Via.TMUX}:
        raise NotCompactedError(Why.NOTHING, "nobody has it open: leave --via out")
    watch = BoundaryWatch(target.transcript)
    quiet_s = time.time() - target.transcript.stat().st_mtime
    version = last_version(target.transcript)
    is_closed = registry.is_closed(target.session_id, version)
    if 0 <= quiet_s < QUIET_S and not is_closed:
        raise NotCompactedError(
            Why.UNSAFE, f"it was written to {quiet_s:.0f} s ago, by a client that is not registered"
        )
    return by_cli.ask(request, watch, target)


def _require_idle(live: LiveSession) -> None:
    if live.status == "busy":
        raise NotCompactedError(Why.LIVE, "it is busy: wait until it is idle")
    if live.status == "waiting":
        what = f" ({live.waiting_for})" if live.waiting_for else ""
        raise NotCompactedError(Why.UNSAFE, f"it waits for an answer of yours{what}")
    # Clients before 2.1.270 say no state, and that is read as idle.
    if live.status not in _STATES or live.updated_at is None:
        raise NotCompactedError(Why.UNSAFE, "its state is not known: type /compact there yourself")


def _live(target: Subject) -> LiveSession | None:
    found = open_sessions(read_clients(target.folder))
    return next((each for each in found if each.session_id == target.session_id), None)
