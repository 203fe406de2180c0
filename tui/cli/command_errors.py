"""How a command ends: exit codes, and one line on stderr for each expected failure."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TextIO

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
LIVE: Final = 3  # refused: the session is at work, or open where it would not see the change
UNSAFE: Final = 4  # refused: it cannot be proved that it does no harm
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells say it


class RefusedError(Exception):
    """What was asked for cannot be done; the message says why and what to do."""


def run_guarded(run: Callable[[], int]) -> int:
    """Run a command; an expected failure is said in one line on stderr."""
    _open_closed_streams()
    _never_fail_to_encode(sys.stdout)
    try:
        code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `| head` has seen enough: nothing is wrong.
        _close_quietly()
        return DONE
    except _expected_errors() as error:
        print_error(error_text(error))
        if isinstance(error, OSError):
            _close_quietly()
        return FAILED
    return code


def print_error(message: str) -> None:
    """Print a message to stderr as one sanitized line."""
    from ...core.transcript.sanitize import sanitize_text

    print("ctxtop:", " ".join(sanitize_text(message).split()), file=sys.stderr)


def print_errors(messages: Iterable[object]) -> None:
    """Print each message to stderr as one sanitized line."""
    for message in messages:
        print_error(str(message))


def error_text(error: Exception) -> str:
    """Format an expected error as one line."""
    import sqlite3

    from ...core.store.database import explain_error

    if isinstance(error, sqlite3.Error):
        what, remedy = explain_error(error)
        return f"store: {what}; {remedy}"
    if isinstance(error, UnicodeEncodeError):
        return f"the name {error.object!a} is not UTF-8 and cannot be kept: rename it"
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)
    return str(error)


def _expected_errors() -> tuple[type[Exception], ...]:
    # Asked only when something was raised: the imports are not the fast path's.
    import sqlite3

    from ...collectors.places import PlaceError
    from ...core.store.database import StoreError

    return (RefusedError, PlaceError, StoreError, sqlite3.Error, OSError, UnicodeEncodeError)


def _open_closed_streams() -> None:
    # After `>&-` Python has none; the store must not be given their numbers.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- till the end
            setattr(sys, name, nowhere)


def _never_fail_to_encode(stream: TextIO) -> None:
    # A name on disk may be no UTF-8, and a terminal may not be UTF-8 either.
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _close_quietly() -> None:
    # Python flushes stdout once more at its end, and would complain.
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
