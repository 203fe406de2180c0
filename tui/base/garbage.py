"""When Python looks for garbage, which stops all other work: rarely in a command, later in full."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

USUAL_THRESHOLDS: Final = gc.get_threshold()

COMMAND_THRESHOLD: Final = 100_000
"""New objects after which a command looks through them. Its modules and rows are some 100,000, and
hardly any are garbage: looking after each 700, as usual, took a tenth of its time."""

FULL_COLLECTION_FACTOR: Final = 3
"""How many times rarer full garbage collections become: each stops the screen for 40 to 80 ms, and
most of what it looks through is Textual's cache of drawn lines. Garbage stays in memory that much
longer: a factor of ten cost 8 MB over five hours, and answered no key sooner."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for garbage as seldom as a command needs, and not once more when Python exits."""
    before = gc.get_threshold()
    gc.set_threshold(COMMAND_THRESHOLD, *USUAL_THRESHOLDS[1:])
    atexit.register(gc.freeze)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def freeze_long_lived_objects() -> None:
    """Exclude all existing objects from garbage collection, and make full collections rare.

    Modules, styles and widgets are some 80,000 objects: looking through them took 60 to 80 ms
    once a second while somebody typed. Those that nothing refers to any more are still freed;
    only reference cycles among them are kept.
    """
    gc.collect()
    gc.freeze()
    young, middle, old = USUAL_THRESHOLDS
    gc.set_threshold(young, middle, old * FULL_COLLECTION_FACTOR)


def unfreeze_objects() -> None:
    """Undo `freeze_long_lived_objects`."""
    gc.set_threshold(*USUAL_THRESHOLDS)
    gc.unfreeze()
