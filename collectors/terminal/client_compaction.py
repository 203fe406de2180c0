"""Ask the client to compact a session in the best way there is, and wait until it has."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from ...core.actions.session_access import (
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    Via,
)
from ...core.compaction.compaction_target import SESSION_LOCK_KIND
from ...core.files.file_operations import LockHeldError, user_lock
from ...core.model.transcript_records import LiveSession
from ...core.transcript.sanitize import sanitize_title
from ..claude_code.registry import SessionRegistry, list_open_sessions, read_session_registry
from ..claude_code.transcripts.left_context import CompactedFile, estimate_left
from ..claude_code.transcripts.transcript_ends import last_version
from ..locations.discover import ClaudeFolder
from ..plugin_files import compact_requests
from ..terminal import client_run, tmux_panes, via_tmux
from .request_receipts import (
    COMPACT_TIMEOUT_S,
    BoundaryWatch,
    CompactRequest,
    NewBoundary,
    has_empty_summary,
    remove_old_files,
    wait_for,
)

PICKUP_TIMEOUT_S: Final = 4.0
"""The module looks every second, and a process of its own takes the request; a client that
is at work may be slower."""

RESULT_GRACE_S: Final = 5.0  # the boundary is written before the client reports that it is done
REQUEST_TTL_MS: Final = 30_000  # no module carries out an older request: the requester is gone
RECENT_WRITE_S: Final = 5.0  # a transcript written this recently may have an unregistered client

# The client's words (seen in 2.1.329): in a turn, and where there is nothing to summarize.
_BUSY_MESSAGE: Final = "turn is running"
_NOTHING_MESSAGE: Final = "not enough messages"

_EMPTY_SUMMARY: Final = (
    "Claude Code wrote an empty summary, so the model no longer knows what came before: resume"
    " an earlier point with /rewind, or tell it what matters"
)


def is_plugin_alive(store: Path, live: LiveSession) -> bool:
    """Whether the plugin's module in this very client process has reported that it runs."""
    folder = compact_requests.request_history_folder(str(store))
    try:
        compact_requests.check_request_folders(str(store))
        report = compact_requests.read_request_file(f"{folder}/{live.pid}.{compact_requests.ALIVE}")
    except (OSError, ValueError):
        return False
    at = report.get("at")
    # A process that began later has only inherited the number.
    return isinstance(at, int) and (live.started_at is None or at >= live.started_at)


def ask_via_plugin(request: CompactRequest, watch: BoundaryWatch) -> NewBoundary | None:
    """Leave a request and wait for the boundary; None if nobody takes the request.

    Raises NotCompactedError if the client refuses or fails.
    """
    request.begin(Via.PLUGIN)
    expires_at = compact_requests.now_ms() + REQUEST_TTL_MS
    request.write(compact_requests.ASK, {"text": request.text, "expires_at": expires_at})
    path = Path(request.path(compact_requests.ASK))

    def is_taken() -> bool | None:
        return None if os.path.lexists(path) else True

    if not wait_for(is_taken, PICKUP_TIMEOUT_S) and _withdraw(path):
        return None

    def poll() -> tuple[NewBoundary | None, dict[str, object] | None] | None:
        found = watch.poll(), request.read_result()
        return found if any(found) else None

    boundary, result = wait_for(poll, COMPACT_TIMEOUT_S) or (None, None)
    if boundary:
        # Its result is on the way, and ours must come after it.
        wait_for(request.read_result, RESULT_GRACE_S)
        return boundary
    if result is None:
        why = f"no compaction within {COMPACT_TIMEOUT_S:.0f} s: check the session"
        raise NotCompactedError(CompactFailure.FAILED, why)
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
    why = sanitize_title(str(result.get("why") or "no reason given"))
    if result.get("state") == "done":
        if boundary := wait_for(watch.poll, RESULT_GRACE_S):
            return boundary
        why = "Claude Code reports success, but the transcript shows no compaction"
        raise NotCompactedError(CompactFailure.FAILED, why)
    if _BUSY_MESSAGE in why:
        raise NotCompactedError(CompactFailure.LIVE, f"it is busy: {why}")
    if _NOTHING_MESSAGE in why.lower():
        raise NotCompactedError(CompactFailure.NOTHING, f"nothing to compact: {why}")
    raise NotCompactedError(CompactFailure.FAILED, f"Claude Code did not compact: {why}")


class ClientCompactTarget(msgspec.Struct, frozen=True):
    session_id: str
    transcript: Path
    project_root: str | None  # where the session began; the client is started only there
    folder: ClaudeFolder
    store: Path
    config_dir: Path | None = None  # None for the client's own default
    before_run: Callable[[], None] = lambda: None  # raises NotRunError to prevent the start
    automatic: str | None = None  # the reason of an automatic request; None if a person asks


def ask_via_cli(
    request: CompactRequest, watch: BoundaryWatch, target: ClientCompactTarget
) -> NewBoundary:
    """Run the client to the end; raises NotCompactedError if there is no new boundary."""
    prompt = f"/compact {request.text}".strip()
    try:
        run = client_run.prepare_run(target.project_root, target.config_dir)
        target.before_run()
        request.command = run.command(prompt, request.session_id)
        request.folder = str(run.folder)
        request.begin(Via.CLI)
        finished = run.run(prompt, request.session_id, COMPACT_TIMEOUT_S)
    except client_run.FolderNotTrustedError as error:
        raise NotCompactedError(CompactFailure.UNTRUSTED, str(error)) from error
    except client_run.ClientRunError as error:
        raise NotCompactedError(CompactFailure.FAILED, str(error)) from error
    request.command, request.folder = finished.command, finished.folder
    if boundary := watch.poll():
        return boundary
    raise NotCompactedError(
        CompactFailure.FAILED, f"Claude Code did not compact: {finished.output}"
    )


def ask_to_compact(target: ClientCompactTarget, via: Via, instructions: str) -> ClientCompactResult:
    """Ask and wait until the transcript has a new boundary.

    Raises NotCompactedError if it gets none, OSError if a file cannot be used.
    """
    try:
        # Keeps out whatever else would change the transcript, with another store too.
        with user_lock(SESSION_LOCK_KIND, target.transcript.parent, target.session_id):
            return _ask_once(target, via, instructions)
    except LockHeldError:
        why = "another ctxtop is changing this session: wait until it is done"
        raise NotCompactedError(CompactFailure.LIVE, why) from None


def _ask_once(target: ClientCompactTarget, via: Via, instructions: str) -> ClientCompactResult:
    began = time.monotonic()
    compact_requests.make_request_folders(str(target.store))
    remove_old_files(target.store)
    request = CompactRequest(target.store, target.session_id, instructions, target.automatic)
    try:
        boundary = _ask_by_best_way(target, via, request)
        if has_empty_summary(target.transcript, boundary):
            raise NotCompactedError(CompactFailure.FAILED, _EMPTY_SUMMARY)
    except NotCompactedError as error:
        request.fail(error)
        raise
    outcome = ClientCompactResult(
        session_id=target.session_id,
        via=request.via,
        requested_at=request.requested_at,
        boundary_uuid=boundary.uuid,
        pre_tokens=boundary.pre_tokens,
        post_tokens=boundary.post_tokens,
        seconds=time.monotonic() - began,
        command=request.command,
        folder=request.folder,
        estimated_next_tokens=_estimate_left(target.transcript, boundary),
    )
    request.finish(outcome)
    return outcome


def _estimate_left(transcript: Path, boundary: NewBoundary) -> int | None:
    """Estimate the next request as the list of sessions does; None if it cannot be read."""
    try:
        size = transcript.stat().st_size
        file = CompactedFile(transcript, boundary.start, size, boundary.post_tokens)
        return estimate_left(file)
    except OSError:
        return None


def _ask_by_best_way(target: ClientCompactTarget, via: Via, request: CompactRequest) -> NewBoundary:
    registry = read_session_registry(target.folder)
    clients = [live for live in registry.clients if live.session_id == target.session_id]
    if not clients:
        return _ask_closed(target, via, request, registry)
    if len(clients) > 1:
        pids = " and ".join(str(live.pid) for live in clients)
        why = (
            f"it is open {len(clients)} times (processes {pids}), and only one would see the"
            " compaction: close the others first"
        )
        raise NotCompactedError(CompactFailure.LIVE, why)
    (live,) = clients
    if via is Via.CLI:
        why = f"it is open in process {live.pid}, which would not see the compaction"
        raise NotCompactedError(CompactFailure.LIVE, why)
    _require_idle(live)
    watch = BoundaryWatch(target.transcript)
    if via is not Via.TMUX and is_plugin_alive(target.store, live):
        boundary = ask_via_plugin(request, watch)
        if boundary:
            return boundary
    if via is Via.PLUGIN:
        why = "ctxtop's plugin does not respond there: run `ctxtop hooks status`, or use --via tmux"
        raise NotCompactedError(CompactFailure.UNSAFE, why)
    pane = tmux_panes.find_pane(live.pid)
    if pane is None:
        why = (
            f"process {live.pid} has no ctxtop plugin and is not in one of your tmux panes:"
            " type /compact there"
        )
        raise NotCompactedError(CompactFailure.UNSAFE, why)
    try:
        return via_tmux.ask_via_tmux(request, watch, pane, lambda: _registered_client(target))
    except tmux_panes.PaneError as error:
        raise NotCompactedError(CompactFailure.UNSAFE, str(error)) from error


def _ask_closed(
    target: ClientCompactTarget, via: Via, request: CompactRequest, registry: SessionRegistry
) -> NewBoundary:
    if via in {Via.PLUGIN, Via.TMUX}:
        raise NotCompactedError(CompactFailure.NOTHING, "it is not open in Claude Code: omit --via")
    watch = BoundaryWatch(target.transcript)
    quiet_s = time.time() - target.transcript.stat().st_mtime
    is_closed = registry.is_closed(target.session_id, last_version(target.transcript))
    if 0 <= quiet_s < RECENT_WRITE_S and not is_closed:
        why = f"it was written to {quiet_s:.0f} s ago, by an unregistered Claude Code process"
        raise NotCompactedError(CompactFailure.UNSAFE, why)
    return ask_via_cli(request, watch, target)


def _require_idle(live: LiveSession) -> None:
    if live.status == "busy":
        raise NotCompactedError(CompactFailure.LIVE, "it is busy: wait until it is idle")
    if live.status == "waiting":
        what = f" ({live.waiting_for})" if live.waiting_for else ""
        raise NotCompactedError(CompactFailure.UNSAFE, f"it is waiting for your answer{what}")
    # Clients before 2.1.270 report no status, which is read as idle.
    if live.status != "idle" or live.updated_at is None:
        why = "its state is unknown: type /compact there yourself"
        raise NotCompactedError(CompactFailure.UNSAFE, why)


def _registered_client(target: ClientCompactTarget) -> LiveSession | None:
    clients = list_open_sessions(target.folder)
    return next((live for live in clients if live.session_id == target.session_id), None)
