"""Mutated archives and status lines: what `make prove-engine` tries of them, with a fresh seed."""

from __future__ import annotations

import os
import secrets
import sys
import time
from typing import Final

from . import fuzz_archive, fuzz_status_line
from .engine_fates import in_memory

ARCHIVES: Final = 300

STATUS_LINES: Final = 260

AT_ONCE: Final = 52
"""Status lines in one log."""

SEED: Final = "CTXTOP_SEED"
"""The variable with the first seed of an earlier run, to repeat it."""


def main() -> int:
    """Try all of them, and print the first seed and what went wrong; 1 where something did."""
    first = int(os.environ.get(SEED) or secrets.randbelow(10**7))
    print(f"{SEED}={first}")
    began = time.process_time()
    with in_memory() as folder:
        bad = fuzz_archive.try_all(range(first, first + ARCHIVES), folder / "archive", print)
        seconds = time.process_time() - began
        print(f"{ARCHIVES:,} mutated archives, {seconds:.0f} s: {len(bad)} failed")
        lines = range(first, first + STATUS_LINES)
        odd = fuzz_status_line.try_all(lines, folder / "lines", AT_ONCE, print)
    seconds = time.process_time() - began - seconds
    print(f"{STATUS_LINES:,} mutated status lines, {seconds:.0f} s: {len(odd)} failed")
    return 1 if bad or odd else 0


if __name__ == "__main__":
    sys.exit(main())
