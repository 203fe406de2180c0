"""The command line: what other programs may rely on."""

from __future__ import annotations

import sys
from typing import NoReturn

from .command_errors import run_guarded


def main() -> NoReturn:
    """Run the command that the arguments name, or the dashboard, and exit with its code."""
    words = sys.argv[1:]
    sys.exit(run_guarded(lambda: _run(words)))


def _run(words: list[str]) -> int:
    # Without arguments nothing but the dashboard is imported: the commands and what
    # they read with would come before its first paint.
    if words:
        from .commands import run

        return run(words)
    from .start import open_dashboard

    return open_dashboard(None, None)
