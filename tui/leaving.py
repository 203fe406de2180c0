"""Leaving when the system says so: also where the terminal is gone and blocks the way out."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from .app import CtxtopApp

GRACE_S: Final = 2.0
"""After a signal: Textual writes a last time, which a terminal that is gone blocks for ever."""


def leave_when_told(app: CtxtopApp, tidy: Callable[[], None]) -> None:
    """Leave at SIGTERM and SIGHUP; `tidy` is called where the app cannot end by itself.

    Else the terminal stays as we set it, and the demo's folder stays where it is.
    """
    if sys.platform == "win32":
        return
    loop = asyncio.get_running_loop()
    for told in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(told, _leave, app, tidy, 128 + told)


def _leave(app: CtxtopApp, tidy: Callable[[], None], code: int) -> None:
    last = threading.Timer(GRACE_S, _leave_at_once, [tidy, code])
    last.daemon = True
    last.start()
    app.exit(return_code=code)


def _leave_at_once(tidy: Callable[[], None], code: int) -> None:
    tidy()
    os._exit(code)
