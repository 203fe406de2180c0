"""Killed at any moment and started again, the store holds what one undisturbed scan stores."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..dump import dump
from ..effort import tries
from ..recorder import Recorder
from ..seed import SEED
from ..transcripts import (
    JsonLine,
    agent_result,
    assistant,
    boundary,
    encode,
    launch,
    launched,
    notification,
    refusal,
    summary,
    text,
    tool,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KILLS: Final = tries(12, proving=50)
SESSIONS: Final = 20
ROUNDS: Final = 28

# The child kills itself at the n-th call of one function: before it, or after it.
CHILD: Final = """
import os, signal, sys
from pathlib import Path
import ctxtop.collectors.collector_thread as collect
import ctxtop.collectors.claude_code.reader_pool as reading
import ctxtop.collectors.claude_code.tail as tail
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.store import writer as writing
sys.path.insert(0, sys.argv[1])
from tests.recorder import Recorder

_, _, root, store, hook, count = sys.argv
collect.COMMIT_BYTES = 100_000
read_tail = tail.read_tail
reading.read_tail = lambda path, before: read_tail(path, before, block_bytes=60_000)
left = int(count)

def die_at(function, after):
    def counted(*args, **kwargs):
        global left
        left -= 1
        if left == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **kwargs)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return counted

name, _, when = hook.partition(" ")
if name in ("append", "_insert", "_advance", "save_agent_metas", "restart", "save_open_sessions"):
    setattr(writing.Writer, name, die_at(getattr(writing.Writer, name), when == "after"))
writer = writing.Writer(Path(store))
if name == "statement":
    # Called every thousand steps of SQLite's own machine: in the middle of a statement.
    writer.connection.set_progress_handler(die_at(lambda: 0, False), 1000)
elif name == "commit":
    # Called by SQLite before it commits, and seen here after the statement that did.
    writer.connection.set_trace_callback(
        die_at(lambda sql: None, False) if when == "any" else
        lambda sql, die=die_at(lambda: None, False): die() if sql == "COMMIT" else None
    )
print("ready", flush=True)
if name == "slept":
    import threading
    threading.Timer(left / 1000, os.kill, (os.getpid(), signal.SIGKILL)).start()
collect.Collector(ClaudeFolder(Path(root)), writer, Recorder()).scan()
print("done", left, flush=True)
os._exit(0)
"""


def session_id(number: int) -> str:
    return f"{number:08}-2222-4333-8444-555555555555"


def conversation(seed: int) -> list[JsonLine | bytes]:
    """A long session with all that can stand in one."""
    chance = random.Random(seed)
    lines: list[JsonLine | bytes] = [{"type": "ai-title", "aiTitle": f"Session {seed}"}]
    for turn in range(ROUNDS):
        name, at = f"{seed}_{turn}", turn * 60
        words = " ".join(chance.choices(["comma", "parser", "token", "ünï", "\\"], k=900))
        lines.append(user(f"please {words[:200]}", at=at))
        lines += [
            assistant(f"m_{name}", 900 * turn, output, [block], at=at + 1)
            for output, block in ((1, text(words)), (300, tool("Bash", f"b_{name}")))
        ]
        lines.append(user([{"type": "tool_result", "tool_use_id": "b", "content": words}], at=at))
        lines += [launch(f"t_{name}", at=at + 2), launched(f"t_{name}", f"a{name}")]
        if turn % 3 == 0:
            lines.append(notification(f"a{name}", f"found {words[:900]}", at=at + 9))
        if turn % 4 == 0:
            lines.append(agent_result(f"t_{name}", f"f{name}", words[:500], at=at + 9))
        if turn % 5 == 0:
            lines += compressed(name, at)
        if turn % 7 == 6:
            lines += [boundary(at=at + 10, postTokens=turn), summary(words[:2000])]
        if turn % 11 == 0:
            lines += [b'{"type":"user","mess', {"type": "of-tomorrow"}, refusal("slow down")]
    return lines


def compressed(name: str, at: int) -> list[JsonLine | bytes]:
    """What an agent's file holds of compressed results: a skill, a block, a marker."""
    given = "<command-name>compress-output</command-name> Begin with [COMPRESSED]."
    return [
        user([text(given)], isMeta=True, at=at),
        user("Stop hook feedback:\n[check]: again", isMeta=True, at=at),
        assistant(f"c_{name}", content=[text("[COMPRESSED] agent_type: x")], at=at),
    ]


def make_folder(root: Path) -> None:
    """Write about 40 transcripts, half of them of agents, and their sidecars."""
    for number in range(SESSIONS):
        below = root / "projects" / f"-proj-{number % 3}"
        nested = below / session_id(number) / "subagents"
        nested.mkdir(parents=True)
        torn = b'{"type":"user"' if number % 2 else b""
        main = conversation(number)
        (below / f"{session_id(number)}.jsonl").write_bytes(encode(main) + torn)
        (nested / f"agent-a{number}.jsonl").write_bytes(encode(conversation(100 + number)))
        (nested / f"agent-a{number}.meta.json").write_bytes(encode([{"agentType": "x"}]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kill") / "claude"
    make_folder(root)
    size = sum(path.stat().st_size for path in root.rglob("*.jsonl"))
    assert 10_000_000 < size < 40_000_000
    return root


def scan(root: Path, store: Path) -> None:
    with closing(Writer(store)) as writer:
        Collector(ClaudeFolder(root), writer, Recorder()).scan()


def run_child(root: Path, store: Path, hook: str, count: int, env: dict[str, str]) -> int:
    """Run a scan that dies; give back its exit code."""
    place = __file__.rpartition("/tests/")[0]
    arguments = [place, str(root), str(store), hook, str(count)]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], env=env, capture_output=True, check=False
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr.decode()
    return done.returncode


MOMENTS: Final[tuple[tuple[str, Callable[[random.Random], int]], ...]] = (
    ("append before", lambda chance: chance.randint(1, 220)),
    ("append after", lambda chance: chance.randint(1, 220)),
    ("_insert before", lambda chance: chance.randint(1, 220)),
    ("_insert after", lambda chance: chance.randint(1, 220)),
    ("_advance after", lambda chance: chance.randint(1, 220)),
    ("save_agent_metas after", lambda _: 1),
    ("save_open_sessions after", lambda _: 1),
    ("commit only", lambda chance: chance.randint(1, 25)),
    ("commit any", lambda chance: chance.randint(1, 3000)),
    ("statement", lambda chance: chance.randint(1, 3000)),
    ("slept", lambda chance: chance.randint(1, 1200)),
)


WITH_ROWS: Final = (
    "response",
    "boundary",
    "summary",
    "bad_line",
    "words",
    "marker",
    "feedback",
    "given_skill",
)


def test_killed_at_many_moments(made: Path, tmp_path: Path, child_env: dict[str, str]) -> None:
    chance = random.Random(SEED)
    scan(made, tmp_path / "whole.db")
    whole = dump(tmp_path / "whole.db")
    assert len(whole["file"]) == 2 * SESSIONS
    assert all(whole[name] for name in WITH_ROWS)
    moments = [
        (hook, count_of(chance))
        for hook, count_of in (MOMENTS[number % len(MOMENTS)] for number in range(KILLS))
    ]

    def kill(moment: tuple[str, int]) -> tuple[bool, bool]:
        store = tmp_path / f"{moment[0]} {moment[1]} {threading.get_ident()}" / "ctxtop.db"
        was_killed = run_child(made, store, *moment, child_env) != 0
        was_partly = 0 < files_in(store) < 2 * SESSIONS
        scan(made, store)
        assert dump(store) == whole, f"{moment} with CTXTOP_SEED={SEED}"
        shutil.rmtree(store.parent)
        return was_killed, was_partly

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(kill, moments))
    killed, partly = sum(was for was, _ in done), sum(was for _, was in done)

    assert killed >= KILLS * 3 // 5, "the kills came too late"
    assert partly >= KILLS // 5, "the kills came too early"


def files_in(store: Path) -> int:
    with closing(open_reader(store)) as db:
        return int(db.execute("SELECT COUNT(*) FROM file").fetchone()[0])


def test_killed_while_it_forgets_a_rewritten_file(
    made: Path, tmp_path: Path, child_env: dict[str, str]
) -> None:
    root = tmp_path / "claude"
    shutil.copytree(made / "projects" / "-proj-0", root / "projects" / "-proj-0")
    store = tmp_path / "state" / "ctxtop.db"
    scan(root, store)
    for path in sorted(root.rglob("*.jsonl")):
        path.write_bytes(path.read_bytes().partition(b"\n")[2])
    scan(root, tmp_path / "whole.db")
    whole = dump(tmp_path / "whole.db")
    for hook in ("restart before", "restart after", "append before", "_insert after"):
        assert run_child(root, store, hook, 3, child_env) == -signal.SIGKILL
    scan(root, store)

    rows = dump(store)
    assert rows.pop("trouble") == whole.pop("trouble")
    assert rows == whole
