"""Two ctxtop on one store, in processes of their own, while sessions go on."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from ..dump import FILE_STATE, dump
from ..histories import look_once
from ..seed import SEED
from ..transcripts import PROJECT, append, assistant, boundary, launch, notification, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder

ROUNDS: Final = 60
FILES: Final = 6
DEADLINE_S: Final = 60

# Scans again and again until it is told to stop, with small batches: they meet often.
LOOKER: Final = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.recorder import Recorder
from ctxtop.collectors import collector_thread
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.store.writer import Writer
collector_thread.COMMIT_BYTES = 1500
stop = Path(sys.argv[4])
scans = 0
seen = Path(sys.argv[5])
recorder = Recorder()
while True:
    last = stop.exists()
    writer = Writer(Path(sys.argv[3]))
    collector = collector_thread.Collector(ClaudeFolder(Path(sys.argv[2])), writer, recorder)
    for _ in range(5):
        collector.scan()
        scans += 1
        seen.write_text(str(scans))
    writer.close()
    if last:
        break
print([str(trouble) for trouble in recorder.troubles])
"""


def has_looked_often(count: Path) -> bool:
    return count.exists() and int(count.read_text() or 0) > 5


def test_two_processes_on_one_store_while_files_change(
    claude: ClaudeFolder, tmp_path: Path, store: Path, child_env: dict[str, str]
) -> None:
    chance = random.Random(SEED)
    files = [
        write(claude.projects / PROJECT / f"s{number}.jsonl", [user()]) for number in range(FILES)
    ]
    stop = tmp_path / "stop"
    repository = __file__.rpartition("/tests/")[0]
    arguments = [repository, str(claude.root), str(store), str(stop)]
    counts = [tmp_path / f"scans-{number}" for number in range(2)]
    lookers = [
        subprocess.Popen(
            [sys.executable, "-c", LOOKER, *arguments, str(count)],
            env=child_env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for count in counts
    ]
    began = time.monotonic()
    for number in itertools.count():
        if number >= ROUNDS and all(map(has_looked_often, counts)):
            break
        assert time.monotonic() - began < DEADLINE_S
        path = chance.choice(files)
        lines = [
            assistant(f"m{number}", 1000 + number),
            launch(f"t{number}"),
            notification(f"a{number}", f"found {number}"),
            boundary(at=number),
        ]
        if chance.random() < 0.15:
            write(path, [user(f"again {number}"), *lines])
        else:
            append(path, chance.choices(lines, k=3))
        time.sleep(0.02)
    stop.touch()
    said = [looker.communicate(timeout=DEADLINE_S) for looker in lookers]

    for out, complaint in said:
        assert complaint == ""
        assert out.strip() == "[]"
    look_once(claude, tmp_path / "first.db")
    assert dump(store, FILE_STATE) == dump(tmp_path / "first.db", FILE_STATE), f"{SEED=}"
