"""Mutated transcripts, planted faults, damaged stores: what `make prove-engine` tries of reading.

Each run tries others. CTXTOP_SEED, which is printed, repeats one.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from . import fuzz_reader, fuzz_store
from .engine_fates import in_memory
from .seed import SEED

TRANSCRIPTS: Final = 10_000

PLANTED: Final = 500
"""Sessions at which our own code raises anything."""

STORES: Final = 200

AT_ONCE: Final = 100
"""Transcripts in one folder, beside the sound ones."""


def main() -> int:
    """Try all of them, and print the seeds of what went wrong; 1 where something did."""
    began, first = time.process_time(), fuzz_reader.first_seed(SEED)
    print(f"CTXTOP_SEED={SEED} repeats this run; its seeds are those from {first} on", flush=True)
    with in_memory() as folder:
        seeds = range(first, first + TRANSCRIPTS)
        found = fuzz_reader.try_all(seeds, folder / "reader", AT_ONCE, print)
        read = time.process_time()
        print(f"{TRANSCRIPTS:,} mutated transcripts, {read - began:.0f} s: {len(found)} failed")
        planted = fuzz_reader.try_planted(
            range(first, first + PLANTED), folder / "planted", AT_ONCE, print
        )
        done = time.process_time()
        print(
            f"{PLANTED:,} sessions with planted faults, {planted.raised:,} of them raised,"
            f" {done - read:.0f} s: {len(planted.found)} failed"
        )
        bad = fuzz_store.try_all(range(STORES), folder / "stores", print)
    print(f"{STORES:,} damaged stores, {time.process_time() - done:.0f} s: {len(bad)} failed")
    return 1 if found or planted.found or bad else 0


if __name__ == "__main__":
    sys.exit(main())
