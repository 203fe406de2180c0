"""The hook that Claude Code runs at each event: record it, and answer if features are named.

Run as `python -I -m ctxtop.collectors.plugin.hook STORE EVENT [FEATURE …]`, or faster through
run.py. A failure is noted beside the log and never reaches the client.
"""

from __future__ import annotations

import sys

from ..plugin_files.plugin_log import (
    HOOKS_LOG,
    append_record,
    log_path,
    note_fault,
    read_stdin,
    reserve_standard_streams,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str]) -> bool:
    """Record an event and answer it; return whether the answer was slow."""
    if len(words) < 2:
        return False
    store, event, *features = words
    try:
        reserve_standard_streams()
        given = read_stdin()
    except Exception as error:  # noqa: BLE001 -- whatever it is, the client must not fail by it
        note_fault(log_path(store, HOOKS_LOG), f"{event}: {type(error).__name__}: {error}")
        return False
    append_record(log_path(store, HOOKS_LOG), event, given)
    if features:
        from .hook_answer import answer_event

        return answer_event(store, event, given, features)
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
