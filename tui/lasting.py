"""What lasts as long as the dashboard, which Python's garbage collector need not look through."""

from __future__ import annotations

import gc
from typing import Final

RARER: Final = 3
"""Full collections come so many times rarer: each stops the screen for 40 to 80 ms, and most of
what it looks through is what Textual keeps of drawn lines. What is left waits that long in memory:
ten times rarer cost 8 MB over five hours of lines, and answered no key sooner."""

_USUAL: Final = gc.get_threshold()


def spare_lasting() -> None:
    """Leave out of later collections all that there is now, and let full ones be rare.

    Modules, styles and widgets are some 80,000 objects: looking through them took 60 to 80 ms
    once a second while somebody typed. What dies of them is still freed where nothing refers
    to it any more; of cycles only those are kept that were there now.
    """
    gc.collect()
    gc.freeze()
    young, middle, old = _USUAL
    gc.set_threshold(young, middle, old * RARER)


def spare_nothing() -> None:
    """Let collections be as they were."""
    gc.set_threshold(*_USUAL)
    gc.unfreeze()
