"""The status line that Claude Code runs: record its snapshot, and print one line.

Run through run.py: `… statusline STORE [-- COMMAND]`. COMMAND is a shell command, the status line
that was configured before: it gets the same stdin, and its output stands above our line.

The budget is 60 ms, and importing the forecast alone takes longer: the reader works it out after
each update and writes one small file per session, which the status line only reads.
"""

from __future__ import annotations

import os
import sys

from .plugin_log import (
    ANSWER_FAULTS,
    STATUS_LINE_LOG,
    append_record,
    decode_object,
    log_path,
    note_fault,
    read_stdin,
    reserve_standard_streams,
    write_stdout,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final


STATUS_FILE_VERSION: Final = 1  # of the file: a status line reads no other's
MAX_STATUS_FILE_BYTES: Final = 16 * 1024  # bytes; ours have about 400
_STATUS_FILE_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def status_folder(store: str) -> str:
    """Name the folder of a store's files for the status line."""
    return f"{store}.line"


def status_path(store: str, session_id: str) -> str | None:
    """Name a session's file; None where the client's word for it is no file name."""
    plain = session_id.replace("-", "")
    if not (plain.isascii() and plain.isalnum()):
        return None
    return f"{status_folder(store)}/{session_id.lower()}.json"


def read_status_file(store: str, session_id: str) -> dict[str, Any]:
    """Read what is kept of a session; empty where nothing is, or nothing that can be used."""
    path = status_path(store, session_id)
    if path is None:
        return {}
    try:
        descriptor = os.open(path, os.O_RDONLY | _STATUS_FILE_FLAGS)
    except OSError:
        return {}
    try:
        text = os.read(descriptor, MAX_STATUS_FILE_BYTES)
    except OSError:
        return {}
    finally:
        os.close(descriptor)
    kept = decode_object(text.decode("utf-8", "replace").strip())
    return kept if kept and kept.get("v") == STATUS_FILE_VERSION else {}


THOUSAND: Final = 1_000
MILLION: Final = 1_000_000
TENTHS_LIMIT: Final = 10 * MILLION

_INPUT_FIELDS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_LARGE_WINDOW_SUFFIX: Final = "[1m]"


def render_status_line(snapshot: Mapping[str, Any], saved: Mapping[str, Any]) -> str:
    """Render the status line from the client's `snapshot` and what the reader `saved`.

    The client's own numbers are the newest, so they win. The saved trigger and forecast apply
    only to the model and context window they were computed for, and the forecast is reduced by
    the tokens added since.
    """
    told = _fields(snapshot, "context_window")
    window = _count(told.get("context_window_size"))
    if saved.get("window_source") == "policy" or window is None:
        window = _count(saved.get("window_tokens")) or window
    used = _used_tokens(_fields(told, "current_usage"))
    sign = ""
    if used is None and saved.get("context_state") == "estimated":
        # After a compaction the client says nothing until the next answer.
        used, sign = _count(saved.get("context_tokens")), "≈"
    parts = [_context_text(used, window, sign)]
    if _matches_model(saved, _fields(snapshot, "model").get("id"), window):
        parts.append(_trigger_text(used, saved))
    parts.append(_agents_text(_count(saved.get("agents_noncompliant"))))
    return " · ".join(part for part in parts if part)


def format_tokens(tokens: int) -> str:
    """Write a number of tokens in at most five signs: 950, 12k, 168k, 1M, 1.2M."""
    if tokens < THOUSAND:
        return str(tokens)
    if tokens < MILLION - THOUSAND // 2:
        return f"{round(tokens / THOUSAND)}k"
    shown = f"{tokens / MILLION:.1f}" if tokens < TENTHS_LIMIT else f"{tokens / MILLION:.0f}"
    return f"{shown.removesuffix('.0')}M"


def _context_text(used: int | None, window: int | None, sign: str) -> str:
    if used is None:
        return f"context –/{format_tokens(window)}" if window else ""
    if not window:
        return f"context {sign}{format_tokens(used)}"
    return (
        f"context {sign}{round(100 * used / window)}%"
        f" {sign}{format_tokens(used)}/{format_tokens(window)}"
    )


def _trigger_text(used: int | None, kept: Mapping[str, Any]) -> str:
    trigger = _count(kept.get("trigger_tokens"))
    if not trigger:
        return ""
    turns = _turns_text(used, trigger, kept)
    return f"compacts at {format_tokens(trigger)}" + (f", {turns}" if turns else "")


def _turns_text(used: int | None, trigger: int, kept: Mapping[str, Any]) -> str:
    """Bring the forecast up to now: as many turns fewer as less is left until the trigger."""
    turns = _fields(kept, "turns_left")
    p50, p80 = _count(turns.get("p50")), _count(turns.get("p80"))
    counter, then = _count(kept.get("counter_tokens")), _count(kept.get("context_tokens"))
    if used is None or p50 is None or p80 is None or counter is None or then is None:
        return ""
    added = used - then
    left = trigger - counter
    if added < 0:
        # Compacted since: another forecast, which nobody has made yet.
        return ""
    if added and left > 0:
        rest = max(0, left - added) / left
        p50, p80 = round(p50 * rest), round(p80 * rest)
    return f"≈{p50} turns" if p50 == p80 else f"≈{p50}-{p80} turns"


def _agents_text(noncompliant: int | None) -> str:
    if not noncompliant:
        return ""
    return f"{noncompliant} agent{'' if noncompliant == 1 else 's'} not compliant"


def _matches_model(kept: Mapping[str, Any], model: object, window: int | None) -> bool:
    if not isinstance(model, str) or kept.get("window_tokens") != window:
        return False
    return kept.get("model") == model.removesuffix(_LARGE_WINDOW_SUFFIX)


def _used_tokens(usage: Mapping[str, Any]) -> int | None:
    counts = [_count(usage.get(name)) for name in _INPUT_FIELDS]
    total = sum(count for count in counts if count is not None)
    return total or None


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _fields(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


WRAP_SEPARATOR: Final = "--"

STATUS_EVENT: Final = "StatusLine"


def main(words: Sequence[str]) -> None:
    """Record the snapshot that stands on stdin, and print the line. Never raises."""
    if not words:
        return
    store = words[0]
    try:
        reserve_standard_streams()
        given = read_stdin()
        append_record(log_path(store, STATUS_LINE_LOG), STATUS_EVENT, given)
        theirs = b""
        if len(words) == 3 and words[1] == WRAP_SEPARATOR:
            from .wrapped_status_line import run_wrapped_command

            theirs = run_wrapped_command(words[2], given)
        ours = _own_line(store, given)
        write_stdout(b"\n".join(part for part in (theirs.rstrip(b"\n"), ours) if part))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the client must not fail by it
        note_fault(log_path(store, ANSWER_FAULTS), f"status line: {type(error).__name__}: {error}")


def _own_line(store: str, given: bytes) -> bytes:
    status = decode_object(given.decode("utf-8", "replace").strip())
    if status is None:
        return b""
    session_id = status.get("session_id")
    kept = read_status_file(store, session_id) if isinstance(session_id, str) else {}
    return render_status_line(status, kept).encode("utf-8", "replace")


if __name__ == "__main__":
    main(sys.argv[1:])
