"""What Claude Code runs as its status line: a snapshot into the log, and one line to show.

Run by run.py: `… statusline STORE [-- COMMAND]`. COMMAND is a shell's, the status line that
was there before: it gets the same stdin, and what it prints stands above our line.
"""

from __future__ import annotations

import sys

from .hook import hold_standard_streams, print_out, read_stdin
from .line_file import read_line
from .line_words import status_line
from .log import ANSWERING, STATUS_LINE, decode, log_path, note_fault, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

WRAP: Final = "--"

EVENT: Final = "StatusLine"


def main(words: Sequence[str]) -> None:
    """Record the snapshot that stands on stdin, and print the line. Never raises."""
    if not words:
        return
    store = words[0]
    try:
        hold_standard_streams()
        given = read_stdin()
        record(log_path(store, STATUS_LINE), EVENT, given)
        theirs = b""
        if len(words) == 3 and words[1] == WRAP:
            from .wrapped import run_wrapped

            theirs = run_wrapped(words[2], given)
        ours = _line(store, given)
        print_out(b"\n".join(part for part in (theirs.rstrip(b"\n"), ours) if part))
    except Exception as error:  # noqa: BLE001 -- whatever it is, the client must not fail by it
        note_fault(log_path(store, ANSWERING), f"status line: {type(error).__name__}: {error}")


def _line(store: str, given: bytes) -> bytes:
    status = decode(given.decode("utf-8", "replace").strip())
    if status is None:
        return b""
    session_id = status.get("session_id")
    kept = read_line(store, session_id) if isinstance(session_id, str) else {}
    return status_line(status, kept).encode("utf-8", "replace")


if __name__ == "__main__":
    main(sys.argv[1:])
