"""What lasts as long as the dashboard, which Python's garbage collector need not look through."""

from __future__ import annotations

import gc


def spare_lasting() -> None:
    """Leave out of later collections all that there is now.

    Modules, styles and widgets are some 80,000 objects: looking through them took 60 to 80 ms
    once a second while somebody typed. What dies of them is still freed where nothing refers
    to it any more; of cycles only those are kept that were there now.
    """
    gc.collect()
    gc.freeze()


def spare_nothing() -> None:
    """Let collections look through everything again."""
    gc.unfreeze()
