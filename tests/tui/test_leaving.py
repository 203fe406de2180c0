"""A dashboard whose terminal does not read, or is gone, still ends when it should."""

from __future__ import annotations

import os
import pty
import select
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.transcripts import PROJECT, SESSION, assistant, user, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_S: Final = 60.0

ENDS_S: Final = 2.0

# A marker is made when a frame finds the queue of the terminal's writer full: from there on
# the screen's thread is blocked.
_RUN: Final = """
import os
import sys
from pathlib import Path
if sys.argv.pop(1) == "True":
    os.login_tty(0)
from textual.drivers._writer_thread import WriterThread
marker, sys.argv = Path(sys.argv[1]), ["ctxtop", *sys.argv[2:]]
write = WriterThread.write
def marked(self, text):
    if self._queue.full():
        marker.touch()
    write(self, text)
WriterThread.write = marked
from ctxtop.tui.cli import main
main()
"""


@dataclass
class Blocked:
    """A dashboard that waits for a terminal which nobody reads."""

    process: subprocess.Popen[bytes]
    terminal: int
    store: Path
    started_s: float  # how long this machine takes to start it at this time

    def ends(self, how: Callable[[], object]) -> int:
        """Do something to it, and give its code; fail where it has not ended in time."""
        began = time.monotonic()
        how()
        code = self.process.wait(ENDS_S + self.started_s)
        print(f"ended with {code} after {time.monotonic() - began:.2f} s")
        return code


@pytest.fixture
def has_controlling_terminal() -> bool:
    """Whether the kernel sends SIGHUP to the dashboard when its terminal closes."""
    return True


@pytest.fixture
def blocked(tmp_path: Path, *, has_controlling_terminal: bool) -> Iterator[Blocked]:
    write(tmp_path / "claude/projects" / PROJECT / f"{SESSION}.jsonl", [user(), assistant()])
    marker, store = tmp_path / "blocked", tmp_path / "state" / "s.db"
    terminal, theirs = pty.openpty()
    # A terminal of 200 by 60: a frame is larger than what a pseudo-terminal holds.
    env = {**os.environ, "HOME": str(tmp_path), "COLUMNS": "200", "LINES": "60"}
    env |= {"TERM": "xterm-256color", "CTXTOP_POLICY_UI__WELCOME": "false"}
    words = ["--config-dir", str(tmp_path / "claude"), "--db", str(store)]
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _RUN, str(has_controlling_terminal), str(marker), *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        start_new_session=not has_controlling_terminal,
    )
    os.close(theirs)
    began = time.monotonic()
    try:
        _read_until(terminal, b"1 session", process)
        found = Blocked(process, terminal, store, time.monotonic() - began)
        end = time.monotonic() + PATIENCE_S
        while not marker.exists():
            assert time.monotonic() < end, "the screen's thread was never blocked"
            # Each opens or closes the help, which draws everything.
            os.write(terminal, b"?\x1b[27u")
            time.sleep(0.1)
        time.sleep(0.2)
        assert process.poll() is None
        yield found
    finally:
        process.kill()
        process.wait()
        with suppress(OSError):
            os.close(terminal)


def _read_until(terminal: int, words: bytes, process: subprocess.Popen[bytes]) -> None:
    seen = b""
    end = time.monotonic() + PATIENCE_S
    while words not in seen:
        assert time.monotonic() < end, seen[-2000:]
        assert process.poll() is None, seen[-2000:]
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            seen += os.read(terminal, 1 << 16)


def require_whole(store: Path) -> None:
    with closing(sqlite3.connect(store)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) > 0 FROM file").fetchone() == (1,)


@pytest.mark.parametrize("has_controlling_terminal", [True, False])
def test_it_ends_when_its_terminal_vanishes(blocked: Blocked) -> None:
    assert blocked.ends(lambda: os.close(blocked.terminal)) == 128 + signal.SIGHUP
    require_whole(blocked.store)


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGHUP])
def test_it_ends_at_a_signal_while_its_terminal_does_not_read(
    blocked: Blocked, told: signal.Signals
) -> None:
    assert blocked.ends(lambda: blocked.process.send_signal(told)) == 128 + told
    require_whole(blocked.store)
