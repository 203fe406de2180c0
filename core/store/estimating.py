"""An estimator from the store: with the factors learnt here, and counts that are kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..estimate import Estimator
from .growth_queries import samples, text_count

if TYPE_CHECKING:
    import sqlite3


def read_estimator(db: sqlite3.Connection) -> Estimator:
    """Make an estimator of what the store knows; it reads from the connection as long as used."""
    return Estimator(samples(db), partial(text_count, db))
