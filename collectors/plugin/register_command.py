"""The command that register.js runs to append records and to handle compaction requests.

`python -I -m ctxtop.collectors.plugin.register_command STORE VERB`. The module inside the client
cannot append, rename or lock (2.1.329), so it passes what it has on stdin, one JSON object a line:

    record          lines {"event", "given"}: one record each in the plugin's log
    hello           the client's module runs: the parent of this process is the client
    take SESSION    claim a request to this session; prints it, or {} if there is none
    result          {"session_id", "request", "state", ...}: how a request ended
"""

from __future__ import annotations

import json
import os
import sys

from . import compact_requests
from .plugin_log import PLUGIN_LOG, TEXT_CHARS, append_record, log_path

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any, Final


MAX_STDIN_BYTES: Final = 1024 * 1024  # at the most: 64 records are waiting then, each of a kilobyte
END_STATES: Final = frozenset({"done", "refused", "failed"})


def main(words: list[str]) -> int:
    """Carry out one verb; the code is 0 unless nothing could be done."""
    try:
        store, verb, *more = words
        if verb == "record":
            return append_records(store, sys.stdin.buffer.read(MAX_STDIN_BYTES))
        if verb == "hello":
            note_client(store, os.getppid())
        elif verb == "take":
            print(json.dumps(take_request(store, more[0])))
        elif verb == "result":
            finish_request(
                store, json.loads(sys.stdin.buffer.read(compact_requests.MAX_REQUEST_BYTES))
            )
        else:
            return 2
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        print(f"ctxtop: {error}", file=sys.stderr)
        return 1
    return 0


def append_records(store: str, lines: bytes) -> int:
    """Append a record for each line; 1 where one could not be written."""
    path = log_path(store, PLUGIN_LOG)
    faults = [
        append_record(path, _event_of(line), _fields_of(line))
        for line in lines.splitlines()
        if line
    ]
    return 1 if any(faults) else 0


def note_client(store: str, client: int) -> None:
    """Note that this client has the module."""
    compact_requests.make_request_folders(store)
    folder = compact_requests.request_history_folder(store)
    _remove_ended_clients(folder)
    about = {"pid": client, "at": compact_requests.now_ms()}
    compact_requests.write_request_file(f"{folder}/{client}.{compact_requests.ALIVE}", about)


def _remove_ended_clients(folder: str) -> None:
    """Remove the words of clients that have ended: nobody else does where nothing is asked."""
    for name in os.listdir(folder):
        pid, _, kind = name.partition(".")
        if kind == compact_requests.ALIVE and pid.isdecimal() and not _is_running(int(pid)):
            os.unlink(f"{folder}/{name}")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def take_request(store: str, session_id: str) -> dict[str, Any]:
    """Claim the oldest request that is still good; what is not is ended with its reason."""
    compact_requests.check_request_folders(store)
    if not compact_requests.is_session_id(session_id):
        raise ValueError("no id of a session")
    folder = compact_requests.request_folder(store)
    for name in sorted(os.listdir(folder)):
        parts = compact_requests.parse_request_file_name(name)
        if parts is None or parts[0] != session_id or parts[2] != compact_requests.ASK:
            continue
        file_name = compact_requests.request_file_name(session_id, parts[1], compact_requests.TAKEN)
        taken = f"{folder}/{file_name}"
        try:
            os.rename(f"{folder}/{name}", taken)
        except FileNotFoundError:
            # Withdrawn, or another client has this session open too.
            continue
        found, wrong = _read_taken_request(taken, session_id, parts[1])
        if wrong is None:
            return found
        ended = {"session_id": session_id, "request": parts[1], "state": "refused", "why": wrong}
        finish_request(store, ended)
    return {}


def finish_request(store: str, outcome: dict[str, Any]) -> None:
    """Keep how a request ended; raises ValueError where that is not said."""
    compact_requests.check_request_folders(store)
    session_id, request = str(outcome["session_id"]), str(outcome["request"])
    if outcome.get("state") not in END_STATES:
        raise ValueError("no state of a request")
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
    name = compact_requests.request_file_name(session_id, request, compact_requests.RESULT)
    compact_requests.write_request_file(
        f"{compact_requests.request_history_folder(store)}/{name}", result
    )
    taken = compact_requests.request_file_name(session_id, request, compact_requests.TAKEN)
    try:
        os.unlink(f"{compact_requests.request_folder(store)}/{taken}")
    except FileNotFoundError:
        return


def _read_taken_request(
    path: str, session_id: str, request: str
) -> tuple[dict[str, Any], str | None]:
    """Read a claimed request: what the module is told, and why not where it is not good."""
    try:
        asked = compact_requests.read_request_file(path)
    except (OSError, ValueError) as error:
        return {}, f"the request cannot be read: {error}"
    text, expires_at = asked.get("text"), asked.get("expires_at")
    if (asked.get("session_id"), asked.get("request")) != (session_id, request):
        return {}, "the request is another's"
    if not isinstance(text, str) or not isinstance(expires_at, int):
        return {}, "the request is none of ctxtop's"
    if expires_at < compact_requests.now_ms():
        return {}, "the request has expired"
    told = {"session_id": session_id, "request": request, "text": text}
    return told, compact_requests.instruction_problem(text)


def _token_count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _event_of(line: bytes) -> str:
    value = _decode_object(line)
    return str(value.get("event") or "") if value else ""


def _fields_of(line: bytes) -> bytes:
    value = _decode_object(line)
    given = value.get("given") if value else None
    return json.dumps(given).encode() if isinstance(given, dict) else line


def _decode_object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
