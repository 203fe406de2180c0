"""The calibration of forecasts that this machine's sessions gave, as the store keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..forecast_calibration import DISTANCES, Calibration

if TYPE_CHECKING:
    import sqlite3


def stored_calibration(db: sqlite3.Connection) -> Calibration | None:
    """Read the newest calibration; None where there is none, or one of another version."""
    row = db.execute("SELECT errors FROM forecast_calibration").fetchone()
    if row is None:
        return None
    try:
        found = msgspec.json.decode(row[0], type=Calibration)
    except msgspec.DecodeError:
        return None
    return found if len(found.errors) == len(DISTANCES) else None


def measured_answers(db: sqlite3.Connection) -> int | None:
    """Read how many answers the newest calibration was measured on; None where there is none."""
    row = db.execute("SELECT answers FROM forecast_calibration").fetchone()
    return None if row is None else int(row[0])


def save_calibration(db: sqlite3.Connection, calibration: Calibration, answers: int) -> None:
    """Replace the stored calibration, in the writer's transaction."""
    db.execute(
        "INSERT OR REPLACE INTO forecast_calibration VALUES (1, ?, ?)",
        [answers, msgspec.json.encode(calibration).decode()],
    )
