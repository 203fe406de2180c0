"""Ask the client to compact a session by the best way there is, and wait until it has."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.actions.session_access import (
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    Via,
)
from ...core.compaction.compaction_target import SESSION_LOCK_KIND
from ...core.files.file_operations import LockHeldError, user_lock
from ...core.store.transcript_records import LiveSession
from ...core.transcript.sanitize import sanitize_title
from ..claude_code.registry import SessionRegistry, newest_by_session, read_session_registry
from ..claude_code.transcripts.transcript_ends import last_version
from ..plugin import compact_requests
from . import via_tmux
from .client_run import ClientRunError, FolderNotTrustedError, prepare_run
from .request_receipts import (
    COMPACT_TIMEOUT_S,
    BoundaryWatch,
    CompactRequest,
    NewBoundary,
    remove_old_files,
    wait_for,
)
from .via_tmux import find_pane

if TYPE_CHECKING:
    from ..claude_code.discover import ClaudeFolder


PICKUP_TIMEOUT_S: Final = 4.0
"""The module looks every second, and a process of its own takes the request; a client that
is at work may be slower."""

RESULT_GRACE_S: Final = 5.0
"""The boundary is in the transcript before the client says that it is done."""

REQUEST_TTL_MS: Final = 30_000
"""No module carries out a request that is older: whoever asked has gone."""

_BUSY_MESSAGE: Final = "turn is running"
_NOTHING_MESSAGE: Final = "not enough messages"
"""Words of 2.1.329 (seen): in a turn, and where there is nothing to summarise."""


def is_plugin_alive(store: Path, live: LiveSession) -> bool:
    """Whether the plugin's module in this very client process has reported that it runs."""
    path = (
        f"{compact_requests.request_history_folder(str(store))}/{live.pid}.{compact_requests.ALIVE}"
    )
    try:
        compact_requests.check_request_folders(str(store))
        said = compact_requests.read_request_file(path)
    except (OSError, ValueError):
        return False
    at = said.get("at")
    # A process that began later has only inherited the number.
    return isinstance(at, int) and (live.started_at is None or at >= live.started_at)


def ask_via_plugin(request: CompactRequest, watch: BoundaryWatch) -> NewBoundary | None:
    """Leave a request and wait for the boundary; None where nobody takes it.

    Raises NotCompactedError where the client refuses or fails.
    """
    request.begin(Via.PLUGIN)
    path = request.file_path(compact_requests.ASK)
    expires = {"text": request.text, "expires_at": compact_requests.now_ms() + REQUEST_TTL_MS}
    compact_requests.write_request_file(str(path), request.with_ids(expires))
    if not wait_for(
        lambda: None if os.path.lexists(path) else True, PICKUP_TIMEOUT_S
    ) and _withdraw(path):
        return None

    def look() -> tuple[NewBoundary | None, dict[str, object] | None] | None:
        found = watch.poll(), request.read_result()
        return found if any(found) else None

    boundary, result = wait_for(look, COMPACT_TIMEOUT_S) or (None, None)
    if boundary:
        # Its result is on the way, and ours must come after it.
        wait_for(request.read_result, RESULT_GRACE_S)
        return boundary
    if result is None:
        raise NotCompactedError(
            CompactFailure.FAILED,
            f"no compaction after {COMPACT_TIMEOUT_S:.0f} s: look at the session",
        )
    return _interpret_result(result, watch)


def _withdraw(path: Path) -> bool:
    """Withdraw the request; False if it was picked up at the last moment."""
    aside = path.with_suffix(f".{compact_requests.TAKEN}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return False
    aside.unlink(missing_ok=True)
    return True


def _interpret_result(result: dict[str, object], watch: BoundaryWatch) -> NewBoundary:
    why = sanitize_title(str(result.get("why") or "without a reason"))
    if result.get("state") == "done":
        found = wait_for(watch.poll, RESULT_GRACE_S)
        if found is None:
            raise NotCompactedError(
                CompactFailure.FAILED, "the client says that it is done, and there is no boundary"
            )
        return found
    if _BUSY_MESSAGE in why:
        raise NotCompactedError(CompactFailure.LIVE, f"it is busy: {why}")
    if _NOTHING_MESSAGE in why.lower():
        raise NotCompactedError(CompactFailure.NOTHING, f"nothing to compact: {why}")
    raise NotCompactedError(CompactFailure.FAILED, f"the client did not compact: {why}")


def ask_via_cli(
    request: CompactRequest, watch: BoundaryWatch, target: ClientCompactTarget
) -> NewBoundary:
    """Run the client to the end; raises NotCompactedError where there is no new boundary."""
    line = f"/compact {request.text}".strip()
    try:
        prepared = prepare_run(target.project_root, target.config_dir)
        target.before_run()
        request.note_command(prepared.command(line, request.session_id), str(prepared.folder))
        request.begin(Via.CLI)
        ran = prepared.run(line, request.session_id, COMPACT_TIMEOUT_S)
    except FolderNotTrustedError as error:
        raise NotCompactedError(CompactFailure.UNTRUSTED, str(error)) from error
    except ClientRunError as error:
        raise NotCompactedError(CompactFailure.FAILED, str(error)) from error
    request.note_command(ran.command, ran.folder)
    found = watch.poll()
    if found is None:
        raise NotCompactedError(CompactFailure.FAILED, f"the client did not compact: {ran.output}")
    return found


RECENT_WRITE_S: Final = 5.0
"""A transcript that grew this recently may have a client that the registry does not name."""

_KNOWN_STATUSES: Final = frozenset({"idle", "busy", "waiting"})


def _no_check() -> None:
    """Ask nobody: a person has typed the command."""


class ClientCompactTarget(msgspec.Struct, frozen=True):
    """The session that is asked, and where things are."""

    session_id: str
    transcript: Path
    project_root: str | None
    """Where the session began, and the only place where the client is started for it."""
    folder: ClaudeFolder
    store: Path
    config_dir: Path | None = None  # where it is not the client's own default
    before_run: Callable[[], None] = _no_check
    """Called before the client is started; raises NotRunError where it must not be."""
    automatic: str | None = None
    """Why it is asked with nobody at the keyboard; None where a person asks."""


@contextmanager
def _exclusive_session(target: ClientCompactTarget) -> Iterator[None]:
    """Keep out whatever else would change the transcript, of another store too."""
    try:
        with user_lock(SESSION_LOCK_KIND, target.transcript.parent, target.session_id):
            yield
    except LockHeldError:
        why = "another ctxtop changes this session: wait for it"
        raise NotCompactedError(CompactFailure.LIVE, why) from None


def ask_to_compact(target: ClientCompactTarget, via: Via, instructions: str) -> ClientCompactResult:
    """Ask and wait until the transcript has a new boundary.

    Raises NotCompactedError where it has none, OSError where a file cannot be used.
    """
    began = time.monotonic()
    with _exclusive_session(target):
        compact_requests.make_request_folders(str(target.store))
        remove_old_files(target.store)
        asking = CompactRequest(target.store, target.session_id, instructions, target.automatic)
        try:
            found = _ask_by_best_way(target, via, asking)
        except NotCompactedError as error:
            asking.fail(error)
            raise
        outcome = ClientCompactResult(
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


def _ask_by_best_way(target: ClientCompactTarget, via: Via, request: CompactRequest) -> NewBoundary:
    registry = read_session_registry(target.folder)
    own = [each for each in registry.clients if each.session_id == target.session_id]
    if not own:
        return _ask_closed(target, via, request, registry)
    if len(own) > 1:
        pids = " and ".join(str(each.pid) for each in own)
        raise NotCompactedError(
            CompactFailure.LIVE,
            f"it is open in {len(own)} clients (processes {pids}), and only one would see the"
            " compaction: close the others first",
        )
    (live,) = own
    if via is Via.CLI:
        raise NotCompactedError(
            CompactFailure.LIVE,
            f"it is open in process {live.pid}, which would not see the compaction",
        )
    _require_idle(live)
    watch = BoundaryWatch(target.transcript)
    if via is not Via.TMUX and is_plugin_alive(target.store, live):
        found = ask_via_plugin(request, watch)
        if found:
            return found
    if via is Via.PLUGIN:
        raise NotCompactedError(
            CompactFailure.UNSAFE,
            "no module of ctxtop's answers in it: `ctxtop hooks status`, or --via tmux",
        )
    pane = find_pane(live.pid)
    if pane is None:
        raise NotCompactedError(
            CompactFailure.UNSAFE,
            f"process {live.pid} has no module of ctxtop's and is in no tmux pane of yours:"
            " type /compact there",
        )
    return via_tmux.ask_via_tmux(request, watch, pane, lambda: _registered_client(target))


def _ask_closed(
    target: ClientCompactTarget, via: Via, request: CompactRequest, registry: SessionRegistry
) -> NewBoundary:
    if via in {Via.PLUGIN, Via.TMUX}:
        raise NotCompactedError(CompactFailure.NOTHING, "nobody has it open: leave --via out")
    watch = BoundaryWatch(target.transcript)
    quiet_s = time.time() - target.transcript.stat().st_mtime
    version = last_version(target.transcript)
    is_closed = registry.is_closed(target.session_id, version)
    if 0 <= quiet_s < RECENT_WRITE_S and not is_closed:
        raise NotCompactedError(
            CompactFailure.UNSAFE,
            f"it was written to {quiet_s:.0f} s ago, by a client that is not registered",
        )
    return ask_via_cli(request, watch, target)


def _require_idle(live: LiveSession) -> None:
    if live.status == "busy":
        raise NotCompactedError(CompactFailure.LIVE, "it is busy: wait until it is idle")
    if live.status == "waiting":
        what = f" ({live.waiting_for})" if live.waiting_for else ""
        raise NotCompactedError(CompactFailure.UNSAFE, f"it waits for an answer of yours{what}")
    # Clients before 2.1.270 say no state, and that is read as idle.
    if live.status not in _KNOWN_STATUSES or live.updated_at is None:
        raise NotCompactedError(
            CompactFailure.UNSAFE, "its state is not known: type /compact there yourself"
        )


def _registered_client(target: ClientCompactTarget) -> LiveSession | None:
    found = newest_by_session(read_session_registry(target.folder))
    return next((each for each in found if each.session_id == target.session_id), None)
