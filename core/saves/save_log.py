"""What the plugin's log tells of saves: their ends, durations and rates, and why it skipped."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from ..model.config_records import SaveEventRecord
from ..transcript.sanitize import sanitize_title
from .save_metrics import Rate
from .save_status import LoggedEnd
from .selected_files import ProjectSaveFiles, content_of

_COMPLETE: Final = "save.complete"


def logged_end(events: Iterable[SaveEventRecord]) -> LoggedEnd | None:
    ends = [event for event in events if event.event == _COMPLETE and event.at is not None]
    last = max(ends, key=lambda event: event.at or 0, default=None)
    return LoggedEnd(last.at or 0, _failure_text(last)) if last else None


def _failure_text(event: SaveEventRecord) -> str | None:
    """Return an event's error in one line: it is a JSON text, or an object with one.

    An event that could not be read completely may have had an error: that is none that succeeded.
    """
    error = event.error
    if error is None:
        return event.problem
    value = msgspec.json.decode(error)
    words = value
    if isinstance(value, dict):
        named = (value.get(name) for name in ("message", "error", "type"))
        words = next((each for each in named if isinstance(each, str) and each), error)
    return sanitize_title(words if isinstance(words, str) else error)


def durations_ms(flow: ProjectSaveFiles, events: Iterable[SaveEventRecord]) -> list[float]:
    """List how long saves took: by the log, else by the results (R004-10, R004-02)."""
    durations = [event.duration_ms for event in events if event.event == _COMPLETE]
    if not any(durations):
        durations = [(content_of(file).phase_ms or {}).get("total_ms") for file in flow.results]
    return [duration for duration in durations if duration is not None]


def success_rate(flow: ProjectSaveFiles, events: Iterable[SaveEventRecord]) -> Rate:
    """Count the saves without an error: by the log, else by the results."""
    failed = [_failure_text(event) is not None for event in events if event.event == _COMPLETE]
    failed = failed or [bool(content_of(file).errors) for file in flow.results]
    return Rate(failed.count(False), len(failed))


def count_skips(events: Iterable[SaveEventRecord]) -> dict[str, int]:
    """Count how often the Stop hook did nothing, by its guard (R004-10)."""
    return dict(Counter(_skip_guards(events)).most_common(MAX_GUARDS))


MAX_GUARDS: Final = 8  # the plugin has five


def _skip_guards(events: Iterable[SaveEventRecord]) -> Iterator[str]:
    for event in events:
        if event.event == "triage.idempotency_skip":
            try:
                yield sanitize_title(msgspec.json.decode(event.data or "{}", type=_Skip).guard)
            except msgspec.DecodeError:
                yield UNKNOWN_GUARD


UNKNOWN_GUARD: Final = "unknown"


class _Skip(msgspec.Struct):
    guard: str = UNKNOWN_GUARD


class _Scored(msgspec.Struct):
    category: str | None = None


class _Scores(msgspec.Struct):
    triggered: list[_Scored] = []


def triggered_categories(events: Iterable[SaveEventRecord]) -> Iterator[list[str]]:
    """List which categories each triage wanted to be saved (R004-10)."""
    for event in events:
        if event.event == "triage.score" and event.data:
            try:
                scores = msgspec.json.decode(event.data, type=_Scores)
            except msgspec.DecodeError:
                # No version wrote this shape: no category is known.
                scores = _Scores()
            yield [scored.category for scored in scores.triggered if scored.category]
