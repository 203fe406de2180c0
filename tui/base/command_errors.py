"""How a command is called and ends: exit codes, one line on stderr for each expected failure."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
LIVE: Final = 3  # refused: the session is at work, or open where it would not see the change
UNSAFE: Final = 4  # refused: not provably harmless
INTERRUPTED: Final = 130  # 128 + SIGINT, as in a shell

COMPLETION_VARIABLE: Final = "_CTXTOP_COMPLETE"
"""Shells set it where they ask for completions, and call `ctxtop` without arguments then."""


class RefusedError(Exception):
    """A request that cannot be carried out; the message says why and what to do."""


def run_guarded(run: Callable[[], int]) -> int:
    """Run a command; an expected failure becomes one line on stderr."""
    _open_closed_streams()
    # A file's name may not be UTF-8, nor a terminal.
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="backslashreplace")
    try:
        code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `| head` has read enough: nothing is wrong.
        _silence_stdout()
        return DONE
    except expected_errors() as error:
        print_error(error_text(error))
        if isinstance(error, OSError):
            _silence_stdout()
        return FAILED
    return code


def print_error(message: str) -> None:
    from ...core.transcript.sanitize import sanitize_text

    print("ctxtop:", " ".join(sanitize_text(message).split()), file=sys.stderr)


def print_errors(messages: Iterable[object]) -> None:
    for message in messages:
        print_error(str(message))


def error_text(error: Exception) -> str:
    import sqlite3

    from ...core.store.database import explain_error

    if isinstance(error, sqlite3.Error):
        what, remedy = explain_error(error)
        return f"store: {what}; {remedy}"
    if isinstance(error, UnicodeEncodeError):
        return f"the name {error.object!a} is not UTF-8 and cannot be stored: rename it"
    if isinstance(error, OSError):
        return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)
    return str(error)


def expected_errors() -> tuple[type[Exception], ...]:
    # Called only when something was raised, so that no run without an error imports these.
    import sqlite3

    from ...collectors.locations.places import PlaceError
    from ...core.store.database import StoreError

    return (RefusedError, PlaceError, StoreError, sqlite3.Error, OSError, UnicodeEncodeError)


def _open_closed_streams() -> None:
    # After `>&-` Python has no stream; the store must not get its file descriptor.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            null = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- until the exit
            setattr(sys, name, null)


def _silence_stdout() -> None:
    # Python flushes stdout once more at its exit, and would complain.
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
