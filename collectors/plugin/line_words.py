"""The words of the status line: how full, compacted when, and which agents did not comply."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

THOUSAND: Final = 1_000
MILLION: Final = 1_000_000
TENTHS_BELOW: Final = 10 * MILLION

_USED: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_LARGE: Final = "[1m]"


def status_line(snapshot: Mapping[str, Any], saved: Mapping[str, Any]) -> str:
    """Say in one line what the client tells of a session, and what the reader kept of it.

    The client's own numbers are the newest. What was kept holds for the model and window
    that it was worked out for; a forecast is brought up to now by what was added since.
    """
    told = _fields(snapshot, "context_window")
    window = _count(told.get("context_window_size"))
    if saved.get("window_source") == "policy" or window is None:
        window = _count(saved.get("window_tokens")) or window
    used = _used(_fields(told, "current_usage"))
    sign = ""
    if used is None and saved.get("context_state") == "estimated":
        # After a compaction the client says nothing until the next answer.
        used, sign = _count(saved.get("context_tokens")), "≈"
    parts = [_fill(used, window, sign)]
    if _is_for(saved, _fields(snapshot, "model").get("id"), window):
        parts.append(_trigger(used, saved))
    parts.append(_agents(_count(saved.get("agents_noncompliant"))))
    return " · ".join(part for part in parts if part)


def size(tokens: int) -> str:
    """Write a number of tokens in at most five signs: 950, 12k, 168k, 1M, 1.2M."""
    if tokens < THOUSAND:
        return str(tokens)
    if tokens < MILLION - THOUSAND // 2:
        return f"{round(tokens / THOUSAND)}k"
    shown = f"{tokens / MILLION:.1f}" if tokens < TENTHS_BELOW else f"{tokens / MILLION:.0f}"
    return f"{shown.removesuffix('.0')}M"


def _fill(used: int | None, window: int | None, sign: str) -> str:
    if used is None:
        return f"context –/{size(window)}" if window else ""
    if not window:
        return f"context {sign}{size(used)}"
    return f"context {sign}{round(100 * used / window)}% {sign}{size(used)}/{size(window)}"


def _trigger(used: int | None, kept: Mapping[str, Any]) -> str:
    trigger = _count(kept.get("trigger_tokens"))
    if not trigger:
        return ""
    turns = _turns(used, trigger, kept)
    return f"compacts at {size(trigger)}" + (f", {turns}" if turns else "")


def _turns(used: int | None, trigger: int, kept: Mapping[str, Any]) -> str:
    """Bring the forecast up to now: as many turns fewer as less is left until the trigger."""
    turns = _fields(kept, "turns_left")
    p50, p80 = _count(turns.get("p50")), _count(turns.get("p80"))
    counter, then = _count(kept.get("counter_tokens")), _count(kept.get("context_tokens"))
    if used is None or p50 is None or p80 is None or counter is None or then is None:
        return ""
    added = used - then
    left = trigger - counter
    if added < 0:
        # Compacted since: another forecast, which nobody has made yet.
        return ""
    if added and left > 0:
        rest = max(0, left - added) / left
        p50, p80 = round(p50 * rest), round(p80 * rest)
    return f"≈{p50} turns" if p50 == p80 else f"≈{p50}-{p80} turns"


def _agents(noncompliant: int | None) -> str:
    if not noncompliant:
        return ""
    return f"{noncompliant} agent{'' if noncompliant == 1 else 's'} not compliant"


def _is_for(kept: Mapping[str, Any], model: object, window: int | None) -> bool:
    if not isinstance(model, str) or kept.get("window_tokens") != window:
        return False
    return kept.get("model") == model.removesuffix(_LARGE)


def _used(usage: Mapping[str, Any]) -> int | None:
    counts = [_count(usage.get(name)) for name in _USED]
    total = sum(count for count in counts if count is not None)
    return total or None


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _fields(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}
