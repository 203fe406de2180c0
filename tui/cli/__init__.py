"""The command line: what other programs may rely on."""

import os
import sys
from typing import NoReturn

from ..base.command_errors import COMPLETION_VARIABLE, run_guarded
from ..base.garbage import rare_collections


def main() -> NoReturn:
    with rare_collections():
        code = run_guarded(lambda: _run(sys.argv[1:]))
    sys.exit(code)


def _run(words: list[str]) -> int:
    # Without arguments only the dashboard is imported: the commands and what they read with
    # would delay its first paint.
    if words or os.environ.get(COMPLETION_VARIABLE):
        from .commands import run

        return run(words)
    from ..launch import open_dashboard

    return open_dashboard(None, None)
