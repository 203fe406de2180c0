"""How grave an event is."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from ...core.model.levels import Level


class EventSeverity(IntEnum):
    NOTE = 0
    WARNING = 1
    PROBLEM = 2


LEVEL_SEVERITIES: Final = {
    Level.NOTICE: EventSeverity.NOTE,
    Level.WARNING: EventSeverity.WARNING,
    Level.HIGH: EventSeverity.WARNING,
    Level.EMERGENCY: EventSeverity.PROBLEM,
    Level.OVERFLOW: EventSeverity.PROBLEM,
}
