"""How far forecasts were off on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m026_forecast(db: Database) -> None:
    """Make the table of one row, which holds the newest calibration."""
    db.executescript(
        """
        CREATE TABLE forecast_calibration (
            number INTEGER PRIMARY KEY CHECK (number = 1),
            answers INTEGER NOT NULL,
            errors TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
        """
    )
