"""Whether all places that add up answers say the same of recorded sessions.

Each folder of the corpus and each case is read into a store of its own; what the commands and
exports print is added up and compared: tokens, answers and dollars at list prices. Each part of a
session's context has to have one size: in the breakdown, in its items, in the conversation and in
a plan, and after the next answers. Of recorded requests the items are left out: the corpus has
other texts there.
Usage: CTXTOP_SHARED=../shared python -m tests.bench.bench_sums [CONFIG_DIR ...]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxtop.core.measure.composition import CompositionSource
from ctxtop.core.store.database import open_reader

from ..one_size import SizedSessions, compare_plan, compare_shown, compare_turns
from ..sums import all_sums
from .recordings import recordings, shared_folder, too_few

if TYPE_CHECKING:
    from collections.abc import Iterator


SHOWN: Final = 3  # differences of a session


def folders(shared: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Yield copies of the corpora and cases as configuration folders."""
    for corpus in sorted((shared / "corpus").glob("*")):
        if (corpus / "config").is_dir():
            yield corpus.name, Path(shutil.copytree(corpus / "config", scratch / corpus.name))
        elif recordings(corpus):
            config = scratch / corpus.name
            shutil.copytree(corpus, config / "projects" / "-home-dev-recorded")
            yield corpus.name, config
    for case in sorted((shared / "cases").glob("*/claude")):
        yield case.parent.name, Path(shutil.copytree(case, scratch / case.parent.name))


def compare(name: str, config: Path, scratch: Path) -> int:
    """Print what one folder's places say; return how many of them differ from the totals."""
    store = scratch / "stores" / f"{name}.db"
    env = {**os.environ, "HOME": str(scratch / "home"), "CLAUDE_CONFIG_DIR": str(config)}

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "ctxtop", *words, "--db", str(store)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if not done.stdout:
            raise SystemExit(f"{name}: {' '.join(words)}: {done.stderr}")
        return done.stdout

    found = all_sums(run, store)
    expected = found["totals"]
    differing = {place: each.differs(expected) for place, each in found.items()}
    tokens = expected.input + expected.written + expected.read + (expected.output or 0)
    print(
        f"{name:<30} {expected.answers:>7,} answers {tokens:>15,} tokens"
        f" {expected.dollars:>10,.4f} $  {sum(map(bool, differing.values()))}"
        f" of {len(found)} places differ"
    )
    for place, fields in differing.items():
        for field in fields:
            print(f"    {place}: {field}")
    return sum(map(bool, differing.values())) + compare_sizes(config, store)


def compare_sizes(config: Path, store: Path) -> int:
    """Print how many sizes of parts were compared, and those that differ; return how many."""
    sizes, differing = 0, 0
    with closing(open_reader(store)) as db:
        found = SizedSessions(config.resolve() / "projects", db, time.time_ns() // 1_000_000)
        for session in found.sessions:
            is_request = found.composed(session).source is CompositionSource.REQUESTS
            for compare_one in (compare_plan, compare_shown, compare_turns)[:: 1 + is_request]:
                compared = compare_one(found, session)
                sizes += compared.sizes
                differing += len(compared.differences)
                for each in compared.differences[:SHOWN]:
                    print(f"    {session.session_id[:8]}, {compare_one.__name__}: {each}")
    print(f"    {sizes:,} sizes of parts in {len(found.sessions)} sessions: {differing} differ")
    return differing


def main() -> int:
    given = [Path(each) for each in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        found = [(each.name, each) for each in given] or [*folders(shared_folder(), scratch)]
        if not found:
            print(too_few(shared_folder(), "a folder with sessions is", 0))
            return 1
        return int(sum(compare(name, config, scratch) for name, config in found) > 0)


if __name__ == "__main__":
    sys.exit(main())
