"""Mutated transcripts and damaged stores: what `make prove-engine` tries of the reading side."""

from __future__ import annotations

import sys
import time
from typing import Final

from . import fuzz_reader, fuzz_store
from .engine_fates import in_memory

TRANSCRIPTS: Final = 10_000

STORES: Final = 200

AT_ONCE: Final = 100
"""Transcripts in one folder, beside the sound ones."""


def main() -> int:
    """Try all of them, and print the seeds of what went wrong; 1 where something did."""
    began, seconds = time.process_time(), 0.0
    with in_memory() as folder:
        found = fuzz_reader.try_all(TRANSCRIPTS, folder / "reader", AT_ONCE, print)
        seconds = time.process_time() - began
        print(f"{TRANSCRIPTS:,} mutated transcripts, {seconds:.0f} s: {len(found)} failed")
        bad = fuzz_store.try_all(range(STORES), folder / "stores", print)
    seconds = time.process_time() - began - seconds
    print(f"{STORES:,} damaged stores, {seconds:.0f} s: {len(bad)} failed")
    return 1 if found or bad else 0


if __name__ == "__main__":
    sys.exit(main())
