"""Print how more than ten thousand stories of changed sessions ended, and what was lost: nothing.

Every system call of every act (a plan carried out, taken back, a part of it, what a crash left
being settled) is let fail, is the last one of its process, and comes after a client's write.
Behind these come stories with faults at random.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final

from .engine_fates import every_fate, in_memory, random_fate, told
from .engine_stories import LOST, CorruptedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .engine_fates import Fate

LEAST: Final = 10_000
"""Stories, of which so many are told."""

RANDOM: Final = 3_000


def main() -> int:
    """Run all stories and print the outcomes.

    Returns 1 if a story ended badly or fewer than LEAST were run, else 0.
    """
    ends, bad, count, begun = Counter[str](), list[str](), 0, time.process_time()
    with in_memory() as folder:
        for fate in _fates(folder / "c"):
            count += 1
            try:
                ends += told(fate, folder / "c").ends
            except CorruptedError as error:
                bad.append(str(error))
    for end, times in sorted(ends.items()):
        print(f"{times:7,}  {end}")
    lost = sum(LOST in each for each in bad)
    for each in bad[:10]:
        print(each)
    print(
        f"{count:,} stories, {ends.total():,} acts, {time.process_time() - begun:.0f} s: "
        f"{len(bad) - lost} corrupted, {lost} lines lost"
    )
    return 1 if bad or count < LEAST else 0


def _fates(root: Path) -> Iterator[Fate]:
    yield from chain(every_fate(root), map(random_fate, range(RANDOM)))


if __name__ == "__main__":
    sys.exit(main())
