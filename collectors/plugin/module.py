"""What register.js runs to write a file: `python -I -m ctxtop.collectors.plugin.module STORE VERB`.

The module inside the client cannot append, rename or lock (2.1.329), so it hands over what
it has on stdin, one JSON object a line, and this process keeps the discipline of the files:

    record          lines {"event", "given"}: one record each in the plugin's log
    hello           the client's module runs: the parent of this process is the client
    take SESSION    claim a request to this session; prints it, or {} where there is none
    result          {"session_id", "request", "state", ...}: how a request ended
"""

from __future__ import annotations

import json
import os
import sys

from . import exchange
from .log import PLUGIN, TEXT_CHARS, log_path, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

STDIN_BYTES: Final = 1024 * 1024
"""At the most: 64 records are waiting then, each of a kilobyte."""

STATES: Final = frozenset({"done", "refused", "failed"})


def main(words: list[str]) -> int:
    """Carry out one verb; the code is 0 unless nothing could be done."""
    try:
        store, verb, *more = words
        if verb == "record":
            return keep(store, sys.stdin.buffer.read(STDIN_BYTES))
        if verb == "hello":
            say_hello(store, os.getppid())
        elif verb == "take":
            print(json.dumps(take(store, more[0])))
        elif verb == "result":
            finish(store, json.loads(sys.stdin.buffer.read(exchange.LARGEST)))
        else:
            return 2
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        print(f"ctxtop: {error}", file=sys.stderr)
        return 1
    return 0


def keep(store: str, lines: bytes) -> int:
    """Append a record for each line; 1 where one could not be written."""
    path = log_path(store, PLUGIN)
    faults = [record(path, _event_of(line), _given(line)) for line in lines.splitlines() if line]
    return 1 if any(faults) else 0


def say_hello(store: str, client: int) -> None:
    """Note that this client has the module."""
    exchange.make_folders(store)
    folder = exchange.kept_folder(store)
    _forget_dead(folder)
    about = {"pid": client, "at": exchange.now_ms()}
    exchange.write(f"{folder}/{client}.{exchange.ALIVE}", about)


def _forget_dead(folder: str) -> None:
    """Remove the words of clients that have ended: nobody else does where nothing is asked."""
    for name in os.listdir(folder):
        pid, _, kind = name.partition(".")
        if kind == exchange.ALIVE and pid.isdecimal() and not _runs(int(pid)):
            os.unlink(f"{folder}/{name}")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def take(store: str, session_id: str) -> dict[str, Any]:
    """Claim the oldest request that is still good; what is not is ended with its reason."""
    exchange.check_folders(store)
    if not exchange.is_session(session_id):
        raise ValueError("no id of a session")
    folder = exchange.asking_folder(store)
    for name in sorted(os.listdir(folder)):
        parts = exchange.split_name(name)
        if parts is None or parts[0] != session_id or parts[2] != exchange.ASK:
            continue
        taken = f"{folder}/{exchange.file_name(session_id, parts[1], exchange.TAKEN)}"
        try:
            os.rename(f"{folder}/{name}", taken)
        except FileNotFoundError:
            # Withdrawn, or another client has this session open too.
            continue
        found, wrong = _check(taken, session_id, parts[1])
        if wrong is None:
            return found
        ended = {"session_id": session_id, "request": parts[1], "state": "refused", "why": wrong}
        finish(store, ended)
    return {}


def finish(store: str, outcome: dict[str, Any]) -> None:
    """Keep how a request ended; raises ValueError where that is not said."""
    exchange.check_folders(store)
    session_id, request = str(outcome["session_id"]), str(outcome["request"])
    if outcome.get("state") not in STATES:
        raise ValueError("no state of a request")
    result = {
        "session_id": session_id,
        "request": request,
        "at": exchange.now_ms(),
        "via": "plugin",
        "state": outcome["state"],
        "why": str(outcome.get("why") or "")[:TEXT_CHARS] or None,
        "boundary_uuid": None,
        "pre_tokens": _count(outcome.get("pre_tokens")),
        "post_tokens": _count(outcome.get("post_tokens")),
    }
    name = exchange.file_name(session_id, request, exchange.RESULT)
    exchange.write(f"{exchange.kept_folder(store)}/{name}", result)
    taken = exchange.file_name(session_id, request, exchange.TAKEN)
    try:
        os.unlink(f"{exchange.asking_folder(store)}/{taken}")
    except FileNotFoundError:
        return


def _check(path: str, session_id: str, request: str) -> tuple[dict[str, Any], str | None]:
    """Read a claimed request: what the module is told, and why not where it is not good."""
    try:
        asked = exchange.read(path)
    except (OSError, ValueError) as error:
        return {}, f"the request cannot be read: {error}"
    text, expires_at = asked.get("text"), asked.get("expires_at")
    if (asked.get("session_id"), asked.get("request")) != (session_id, request):
        return {}, "the request is another's"
    if not isinstance(text, str) or not isinstance(expires_at, int):
        return {}, "the request is none of ctxtop's"
    if expires_at < exchange.now_ms():
        return {}, "the request has expired"
    told = {"session_id": session_id, "request": request, "text": text}
    return told, exchange.unfit(text)


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _event_of(line: bytes) -> str:
    value = _decode(line)
    return str(value.get("event") or "") if value else ""


def _given(line: bytes) -> bytes:
    value = _decode(line)
    given = value.get("given") if value else None
    return json.dumps(given).encode() if isinstance(given, dict) else line


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
