"""What Claude Code runs at an event: one record, and the answers of the features that are named.

Run as `python -I -m ctxtop.collectors.plugin.hook STORE EVENT [FEATURE …]`, or faster by
run.py. Whatever goes wrong is noted beside the log, and the client sees nothing of it.
"""

from __future__ import annotations

import os
import sys

from .log import HOOKS, log_path, note_fault, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

GIVEN_BYTES: Final = 64 * 1024 * 1024
"""Of stdin is looked at at the most: the client's largest tool outputs are 50 MB."""

_PIECE: Final = 1024 * 1024


def main(words: Sequence[str]) -> None:
    """Record the event whose fields stand on stdin, and answer it."""
    if len(words) < 2:
        return
    store, event, *features = words
    try:
        hold_standard_streams()
        given = read_stdin()
    except Exception as error:  # noqa: BLE001 -- whatever it is, the client must not fail by it
        note_fault(log_path(store, HOOKS), f"{event}: {type(error).__name__}: {error}")
        return
    record(log_path(store, HOOKS), event, given)
    if features:
        from .answer import answer

        answer(store, event, given, features)


def hold_standard_streams() -> None:
    """Open what the client closed: a file that took its number would get what we print."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def read_stdin() -> bytes:
    """Read all of stdin, keep GIVEN_BYTES of it; the client waits until it is taken."""
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(0, _PIECE):
        if size < GIVEN_BYTES:
            pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def print_out(data: bytes) -> None:
    """Write to stdout; raises OSError where nobody takes it."""
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    main(sys.argv[1:])
