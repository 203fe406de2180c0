"""Print how a thousand stories of paused fleets ended, and which rule was broken: none."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Final

from .engine_fates import in_memory
from .pause_stories import BrokenRuleError, tell_pause_story

STORIES: Final = 1_000


def main() -> int:
    """Run all stories and print the outcomes; return 1 if a rule was broken, else 0."""
    ends, broken, begun = Counter[str](), list[str](), time.process_time()
    with in_memory() as folder:
        for seed in range(STORIES):
            try:
                ends += tell_pause_story(seed, folder / "p")
            except BrokenRuleError as error:
                broken.append(f"story {seed}: {error}")
    for end, times in sorted(ends.items()):
        print(f"{times:7,}  {end}")
    for each in broken[:10]:
        print(each)
    seconds = time.process_time() - begun
    print(f"{STORIES:,} stories, {seconds:.0f} s: {len(broken)} with a broken rule")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
