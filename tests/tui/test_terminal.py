"""The whole program in a real terminal, under tmux."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

import psutil
import pytest
from ctxtop.tui.page_kit.dialogs import READING_S

from tests import transcripts as made
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

PATIENCE_S: Final = 60.0
CTXTOP: Final = f"{sys.executable} -m ctxtop"
_numbers: Final = count(1)


@dataclass
class Terminal:
    """A terminal of our own, in which one command runs."""

    socket: str
    env: dict[str, str]

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-f", "/dev/null", "-L", self.socket, *words],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        return done.stdout

    def run(self, command: str, size: tuple[int, int]) -> None:
        """Run a command; what it ends with stands on the screen behind it."""
        told = f"{command}; echo ended with $?; sleep 60"
        where = ("-x", str(size[0]), "-y", str(size[1]))
        self.tmux("new-session", "-d", "-s", "test", *where, f"sh -c '{told}'")

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", "-t", "test", *keys)

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "test")

    def until(self, met: Callable[[str], bool]) -> str:
        """Wait for a screen; the failure shows the last one."""
        end = time.monotonic() + PATIENCE_S
        while not met(shown := self.screen):
            assert time.monotonic() < end, f"not within {PATIENCE_S} s; the screen is\n{shown}"
            time.sleep(0.1)
        return shown


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "tmp").mkdir()
    # Not below tmp_path: a socket's path has a hundred characters at the most.
    sockets = tempfile.mkdtemp(prefix="ctxtop-")
    env = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")} | {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path / "tmp"),
        "TMUX_TMPDIR": sockets,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "LC_ALL": "C.UTF-8",
    }
    opened = Terminal(f"ctxtop-test-{os.getpid()}-{next(_numbers)}", env)
    try:
        yield opened
    finally:
        opened.tmux("kill-server")
        shutil.rmtree(sockets, ignore_errors=True)


def shows_sessions(shown: str) -> bool:
    return "29 sessions" in shown and "Rotate" in shown and "%" in shown


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
def test_the_demo_opens_moves_and_leaves_nothing_behind(
    terminal: Terminal, tmp_path: Path, size: tuple[int, int]
) -> None:
    terminal.run(f"{CTXTOP} demo", size)
    shown = terminal.until(shows_sessions)
    assert "ctxtop demo" in shown
    assert len(shown.rstrip("\n").split("\n")) == size[1]
    made = list((tmp_path / "tmp").glob("ctxtop-demo-*"))
    assert len(made) == 1
    # Somebody is at work in it: a row changes by itself.
    terminal.until(lambda now: now.split("\n")[3:9] != shown.split("\n")[3:9])
    terminal.press("?")
    terminal.until(lambda now: "Help: " in now)
    terminal.press("Escape")
    terminal.until(lambda now: "Help: " not in now)
    terminal.press("q")
    shown = terminal.until(lambda now: "ended with" in now)
    assert "ended with 0" in shown
    assert "Traceback" not in shown
    assert not list((tmp_path / "tmp").glob("ctxtop-demo-*"))


def test_ctrl_c_leaves_too(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run(f"{CTXTOP} demo", (100, 30))
    terminal.until(shows_sessions)
    terminal.press("C-c")
    shown = terminal.until(lambda now: "ended with" in now)
    assert "ended with 0" in shown
    assert not list((tmp_path / "tmp").glob("ctxtop-demo-*"))


def test_without_a_folder_it_says_so_and_shows_the_demo(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run(CTXTOP, (120, 40))
    shown = terminal.until(lambda now: shows_sessions(now) and "no Claude Code folder" in now)
    # The toast wraps over the panes, so only words that stay together are looked for.
    assert all(words in shown for words in ("this is", "name a folder", "--config-dir"))
    terminal.press("q")
    shown = terminal.until(lambda now: "ended with" in now)
    assert f"ctxtop: no Claude Code folder at {tmp_path / '.claude'}" in shown.replace("\n", "")
    assert "ended with 0" in shown


def test_a_folder_with_nothing_in_it(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    terminal.run(CTXTOP, (80, 24))
    terminal.until(lambda now: "Welcome to ctxtop" in now)
    terminal.press("Enter")
    terminal.until(lambda now: "No sessions yet in" in now)
    terminal.press("q")
    assert "ended with 0" in terminal.until(lambda now: "ended with" in now)
    # The second time it goes without a word.
    terminal.tmux("kill-session", "-t", "test")
    terminal.run(CTXTOP, (80, 24))
    terminal.until(lambda now: "No sessions yet in" in now)
    terminal.press("q")
    assert "ended with 0" in terminal.until(lambda now: "ended with" in now)


def test_the_first_run_leads_to_the_demo_and_back(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    terminal.run(CTXTOP, (100, 30))
    terminal.until(lambda now: "Welcome to ctxtop" in now)
    terminal.press("d")
    terminal.until(lambda now: "ctxtop demo" in now and shows_sessions(now))
    terminal.press("q")
    terminal.until(lambda now: "No sessions yet in" in now)
    terminal.press("q")
    assert "ended with 0" in terminal.until(lambda now: "ended with" in now)
    assert not list((tmp_path / "tmp").glob("ctxtop-demo-*"))


def test_a_session_is_found_by_words_and_by_the_palette(terminal: Terminal) -> None:
    terminal.run(f"{CTXTOP} demo", (120, 40))
    terminal.until(shows_sessions)
    terminal.press("/")
    terminal.until(lambda now: "is:waiting" in now)
    terminal.press("flaky")
    terminal.until(lambda now: "1 match" in now)
    terminal.press("Enter")
    terminal.until(lambda now: "Open" in now)
    terminal.press("Enter")
    shown = terminal.until(lambda now: "sessions › Fix the flaky" in now and "tool results" in now)
    assert "82 %" in shown
    terminal.press("?")
    terminal.until(lambda now: "Help: Fix the flaky" in now)
    terminal.press("Escape")
    terminal.press("Escape")
    terminal.until(lambda now: "1 match" in now)
    terminal.press(":")
    terminal.until(lambda now: "A command, or" in now)
    terminal.press("wishlist")
    terminal.until(lambda now: "Go to session in" in now)
    terminal.press("Enter")
    terminal.until(lambda now: "sessions › Ship the wishlist" in now)
    terminal.press("C-c")
    assert "ended with 0" in terminal.until(lambda now: "ended with" in now)


def worked(folder: Path, number: int, prompt: str, reads: int) -> Path:
    """Write a session that has read some files, and that nobody has touched for long."""
    session = Session()
    session.ask(prompt)
    for each in range(reads):
        session.use("Read", numbered(90, words=f"{WORDS} {each}"), file_path=f"/s/{each}.py")
    session.rest(20)
    path = session.write(folder / f"{number}{made.SESSION[1:]}.jsonl")
    os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    return path


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
def test_the_journey(terminal: Terminal, tmp_path: Path, size: tuple[int, int]) -> None:
    """Start, find the fullest session, see what fills it, plan, write a fork, undo, quit."""
    folder = tmp_path / ".claude" / "projects" / made.PROJECT
    fullest = worked(folder, 1, "Mend the decoder. Never push.", 20)
    others = [worked(folder, 2, "Name the colors.", 2), worked(folder, 3, "Sort the list.", 5)]
    before = {path: path.read_bytes() for path in (fullest, *others)}

    terminal.run(f"{CTXTOP} --set ui.welcome=false", size)
    terminal.until(lambda now: "3 sessions" in now and "Mend the" in now)
    terminal.press("s")
    shown = terminal.until(lambda now: "sort: fullest" in now)
    assert shown.index("Mend the") < shown.index("Sort the") < shown.index("Name the")
    terminal.press("g", "Enter")
    terminal.until(lambda now: "sessions › Mend the" in now and "tool results" in now)
    terminal.press("c")
    terminal.until(lambda now: "frees" in now and "Write a fork" in now)
    terminal.press("f")
    terminal.until(lambda now: "resume" in now and "checks held" in now)
    (fork,) = set(folder.glob("*.jsonl")) - before.keys()
    smaller = fork.stat().st_size
    assert smaller < len(before[fullest])
    os.utime(fork, (1_000_000_000, 1_000_000_000))
    terminal.press("u")
    terminal.until(lambda now: "return to" in now)

    def is_undone(now: str) -> bool:
        # It takes a yes only a moment after all of it was on the screen, as a person gives it.
        if "return to" in now:
            time.sleep(2 * READING_S)
            terminal.press("y")
        return "undid" in now

    terminal.until(is_undone)
    terminal.press("q")
    assert "ended with 0" in terminal.until(lambda now: "ended with" in now)
    assert {path: path.read_bytes() for path in before} == before
    assert fork.stat().st_size > smaller


def test_ascii_alone(terminal: Terminal) -> None:
    terminal.run(f"{CTXTOP} demo --ascii --no-mouse", (120, 40))
    shown = terminal.until(shows_sessions)
    assert "####" in shown
    assert not set("╭╮╰╯│─●○▲✗█▄▁≈…·") & set(shown)
    terminal.press("q")
    assert "ended with 0" in terminal.until(lambda now: "ended with" in now)


def is_running(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def has_ended(pid: int) -> bool:
    end = time.monotonic() + PATIENCE_S
    while is_running(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def test_a_terminal_that_goes_away_ends_it(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run(f"echo $$ > {tmp_path}/pid; exec {CTXTOP} demo", (80, 24))
    terminal.until(shows_sessions)
    pid = int((tmp_path / "pid").read_text())
    terminal.tmux("kill-server")
    assert has_ended(pid)
    assert not list((tmp_path / "tmp").glob("ctxtop-demo-*"))


def test_a_kill_gives_the_terminal_back(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run(f'sh -c "echo \\$\\$ > {tmp_path}/pid; exec {CTXTOP} demo"', (80, 24))
    terminal.until(shows_sessions)
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGTERM)
    shown = terminal.until(lambda now: "ended with" in now)
    assert f"ended with {128 + signal.SIGTERM}" in shown
    assert "Rotate" not in shown
    assert not list((tmp_path / "tmp").glob("ctxtop-demo-*"))
