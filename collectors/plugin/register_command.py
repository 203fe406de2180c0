"""The command that register.js runs to append records and to handle compaction requests.

`python -I -m ctxtop.collectors.plugin.register_command STORE VERB`. The module inside the client
cannot append, rename or lock (2.1.329), so it passes its data on stdin, one JSON object a line:

    record          lines {"event", "given"}: one record each in the plugin's log
    hello           the client's module runs: the parent of this process is the client
    take SESSION    claim a request to this session; prints it, or {} if there is none
    result          {"session_id", "request", "state", ...}: how a request ended
"""

from __future__ import annotations

import json
import os
import sys

from ..plugin_files import compact_requests
from ..plugin_files.plugin_log import MAX_TOKENS, PLUGIN_LOG, TEXT_CHARS, append_record, log_path

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Final


MAX_STDIN_BYTES: Final = 1024 * 1024  # at most 64 records wait, each of about a kilobyte
END_STATES: Final = frozenset({"done", "refused", "failed"})


def main(words: list[str]) -> int:
    """Carry out one verb; the exit code is 0 unless it failed."""
    try:
        store, verb, *more = words
        if verb == "record":
            return append_records(store, sys.stdin.buffer.read(MAX_STDIN_BYTES))
        if verb == "hello":
            note_client(store, os.getppid())
        elif verb == "take":
            print(json.dumps(take_request(store, more[0])))
        elif verb == "result":
            data = sys.stdin.buffer.read(compact_requests.MAX_REQUEST_BYTES)
            finish_request(store, json.loads(data))
        else:
            return 2
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        print(f"ctxtop: {error}", file=sys.stderr)
        return 1
    return 0


def append_records(store: str, lines: bytes) -> int:
    """Append a record for each line; return 1 if one could not be written."""
    path = log_path(store, PLUGIN_LOG)
    faults = [append_record(path, *_split_record(line)) for line in lines.splitlines() if line]
    return 1 if any(faults) else 0


def _split_record(line: bytes) -> tuple[str, bytes]:
    """Return the event and the fields of a line; the whole line where it names no fields."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return "", line
    given = value.get("given")
    fields = json.dumps(given).encode() if isinstance(given, dict) else line
    return str(value.get("event") or ""), fields


def note_client(store: str, client: int) -> None:
    """Note that this client has the module, and forget clients that have ended."""
    compact_requests.make_request_folders(store)
    folder = compact_requests.request_history_folder(store)
    for name in os.listdir(folder):
        pid, _, kind = name.partition(".")
        if kind == compact_requests.ALIVE and pid.isdecimal() and not _is_running(int(pid)):
            os.unlink(f"{folder}/{name}")
    about = {"pid": client, "at": compact_requests.now_ms()}
    compact_requests.write_request_file(f"{folder}/{client}.{compact_requests.ALIVE}", about)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def take_request(store: str, session_id: str) -> dict[str, Any]:
    """Claim the oldest valid request; an invalid one is ended with its reason."""
    compact_requests.check_request_folders(store)
    if not compact_requests.is_session_id(session_id):
        raise ValueError("not a session id")
    for ids in compact_requests.list_requests(store, compact_requests.ASK, session_id):
        taken = compact_requests.request_path(store, *ids, compact_requests.TAKEN)
        try:
            os.rename(compact_requests.request_path(store, *ids, compact_requests.ASK), taken)
        except FileNotFoundError:
            # Withdrawn, or another client has this session open too.
            continue
        text, problem = _read_taken_request(taken, ids)
        named = dict(zip(("session_id", "request"), ids, strict=True))
        if problem is None:
            return named | {"text": text}
        finish_request(store, named | {"state": "refused", "why": problem})
    return {}


def finish_request(store: str, outcome: dict[str, Any]) -> None:
    """Record how a request ended; raises ValueError for an unknown end."""
    compact_requests.check_request_folders(store)
    session_id, request = str(outcome["session_id"]), str(outcome["request"])
    if outcome.get("state") not in END_STATES:
        raise ValueError("not a valid request state")
    result = {
        "session_id": session_id,
        "request": request,
        "at": compact_requests.now_ms(),
        "via": "plugin",
        "state": outcome["state"],
        "why": str(outcome.get("why") or "")[:TEXT_CHARS] or None,
        "boundary_uuid": None,
        "pre_tokens": _token_count(outcome.get("pre_tokens")),
        "post_tokens": _token_count(outcome.get("post_tokens")),
    }
    path = compact_requests.request_path(store, session_id, request, compact_requests.RESULT)
    compact_requests.write_request_file(path, result)
    try:
        os.unlink(compact_requests.request_path(store, session_id, request, compact_requests.TAKEN))
    except FileNotFoundError:
        return


def _read_taken_request(path: str, ids: tuple[str, str]) -> tuple[str, str | None]:
    """Read a claimed request: its text, and why it is invalid, if it is."""
    try:
        asked = compact_requests.read_request_file(path)
    except (OSError, ValueError) as error:
        return "", f"the request cannot be read: {error}"
    text, expires_at = asked.get("text"), asked.get("expires_at")
    if (asked.get("session_id"), asked.get("request")) != ids:
        return "", "the request belongs to another session"
    if not isinstance(text, str) or not isinstance(expires_at, int):
        return "", "the request was not made by ctxtop"
    if expires_at < compact_requests.now_ms():
        return "", "the request has expired"
    return text, compact_requests.instruction_problem(text)


def _token_count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
