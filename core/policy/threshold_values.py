"""Lists of thresholds: parsed in full or as numbers that move some levels, and moved one by one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from ..model.levels import DEFAULT_THRESHOLDS, Level, Threshold, ThresholdBase, ThresholdOp
from .value_types import MAX_TOKENS, InvalidValueError, list_items, to_share

THRESHOLD_ACTIONS: Final = (
    *("reassure", "inform", "suggest", "warn", "offer_compact", "compact", "native", "alert"),
    "recover",
)

_DEFAULT_ACTIONS: Final = {
    Level.NOTICE: "reassure",
    Level.WARNING: "suggest",
    Level.LIGHT: "compact",
    Level.MEDIUM: "compact",
    Level.HIGH: "offer_compact",
    Level.AGGRESSIVE: "compact",
    Level.EMERGENCY: "alert",
    Level.OVERFLOW: "recover",
}
_THRESHOLDS_EXPECTED: Final = (
    "two shares for notice and warning, e.g. 60%, 75%, or a list of thresholds, e.g. 0.8:warning"
    " or { at = 0.8, level = 'warning' }; levels are " + ", ".join(Level)
)
_NUMBERED_LEVELS: Final = (
    Level.NOTICE,
    Level.WARNING,
    Level.HIGH,
    Level.EMERGENCY,
    Level.OVERFLOW,
)
"""The levels that plain numbers are for, in order; a single number is for the warning."""

MAX_SHARE: Final = 2  # of a window or a trigger: fuller contexts do not exist


def threshold_list(raw: object) -> tuple[Threshold, ...]:
    """Parse a list of tables, or of words like 0.8:warning, >0.9:high:compact, 1.0@trigger:high.

    Plain numbers move levels of the built-in list: see `change_thresholds`.
    """
    return change_thresholds(raw, DEFAULT_THRESHOLDS)


def change_thresholds(raw: object, current: object) -> tuple[Threshold, ...]:
    """Parse a list as `threshold_list` does; plain numbers move levels of the current list.

    `60%, 75%` and `0.6, 0.75` are notice and warning; further numbers are high, emergency and
    overflow; a single one is the warning. The other levels stay. Raises InvalidValueError, also
    if a moved level would pass another one.
    """
    shares = _shares(raw)
    if shares is not None:
        return _move_levels(shares, _thresholds_of(current))
    thresholds = tuple(_parse_threshold(each) for each in list_items(raw))
    if len({each.name for each in thresholds}) != len(thresholds):
        raise InvalidValueError("a list of thresholds, each once")
    return thresholds


def moves_levels(raw: object) -> bool:
    """Whether a value is plain numbers, which leave other levels as they are."""
    return _shares(raw) is not None


def _shares(raw: object) -> list[float] | None:
    """Parse numbers alone; None if there are none, or anything else."""
    try:
        items = [raw] if isinstance(raw, (int, float)) else list_items(raw)
    except InvalidValueError:
        return None
    shares = [share for each in items if (share := to_share(each)) is not None]
    return shares if shares and len(shares) == len(items) else None


def _thresholds_of(value: object) -> tuple[Threshold, ...]:
    items = value if isinstance(value, tuple) else ()
    return tuple(each for each in items if isinstance(each, Threshold))


def _move_levels(shares: Sequence[float], current: tuple[Threshold, ...]) -> tuple[Threshold, ...]:
    if len(shares) > len(_NUMBERED_LEVELS):
        raise InvalidValueError(
            f"at most {len(_NUMBERED_LEVELS)} numbers: {', '.join(_NUMBERED_LEVELS)}"
        )
    if not all(0 < each <= MAX_SHARE for each in shares):
        raise InvalidValueError("shares of the window above 0%, e.g. 60% or 0.6, up to 200%")
    levels = _NUMBERED_LEVELS if len(shares) > 1 else (Level.WARNING,)
    moved: dict[Level, float] = dict(zip(levels, shares, strict=False))
    targets = _first_of_level(moved, current)
    changed = [replace(each, at=moved[each.level]) for each in targets]
    others = [each for each in current if each not in targets]
    ordered = tuple(sorted((*others, *changed), key=_order))
    _check_order(ordered, changed)
    return ordered


def _first_of_level(
    moved: Mapping[Level, float], current: Iterable[Threshold]
) -> tuple[Threshold, ...]:
    """Return the threshold of each moved level, a new one where there is none."""
    found: dict[Level, Threshold] = {}
    for each in current:
        if each.level in moved and each.of is ThresholdBase.WINDOW:
            found.setdefault(each.level, each)
    return tuple(
        found.get(level) or Threshold(at, level, _DEFAULT_ACTIONS[level])
        for level, at in moved.items()
    )


def _order(threshold: Threshold) -> tuple[bool, float, int]:
    """Sort key: shares of the window first, then the others; by share and urgency."""
    rank = list(Level).index(threshold.level)
    return (threshold.of is not ThresholdBase.WINDOW, threshold.at, rank)


def _check_order(thresholds: Iterable[Threshold], changed: Iterable[Threshold]) -> None:
    """Raise InvalidValueError if a changed level is not between the less and more urgent ones."""
    levels = list(Level)
    of_window = [each for each in thresholds if each.of is ThresholdBase.WINDOW]
    for one in changed:
        for other in of_window:
            low, high = sorted((one, other), key=lambda each: levels.index(each.level))
            if low.level is not high.level and low.at >= high.at:
                raise InvalidValueError(
                    f"rising shares: {low.level} at {low.at * 100:.4g}% is not below"
                    f" {high.level} at {high.at * 100:.4g}%; move both, e.g. 60%, 80% as notice"
                    " and warning"
                )


def _parse_threshold(raw: object) -> Threshold:
    fields = _split_threshold(raw) if isinstance(raw, str) else raw
    if not isinstance(fields, Mapping) or not set(fields) <= {"at", "level", "action", "op", "of"}:
        raise InvalidValueError(_THRESHOLDS_EXPECTED)
    at = to_share(fields.get("at"))
    try:
        level = Level(fields.get("level", ""))
        of = ThresholdBase(fields.get("of", ThresholdBase.WINDOW))
        op = ThresholdOp(fields.get("op", ThresholdOp.AT_LEAST))
    except ValueError:
        raise InvalidValueError(_THRESHOLDS_EXPECTED) from None
    most = MAX_TOKENS if of is ThresholdBase.TOKENS else MAX_SHARE
    if at is None or not 0 < at <= most:
        raise InvalidValueError(f"thresholds above 0 and up to {most} of the {of}")
    action = fields.get("action", _DEFAULT_ACTIONS[level])
    if not isinstance(action, str) or action not in THRESHOLD_ACTIONS:
        raise InvalidValueError(f"thresholds whose action is one of {', '.join(THRESHOLD_ACTIONS)}")
    return Threshold(at, level, action, op, of)


def _split_threshold(word: str) -> dict[str, object]:
    where, *rest = (part.strip() for part in word.split(":"))
    at, _, base = where.lstrip(">= ").partition("@")
    fields: dict[str, object] = {"at": at.strip()}
    if where.startswith(">") and not where.startswith(">="):
        fields["op"] = ThresholdOp.ABOVE.value
    if base:
        fields["of"] = base.strip()
    names = ("level", "action")
    if len(rest) > len(names):
        raise InvalidValueError(_THRESHOLDS_EXPECTED)
    return fields | dict(zip(names, rest, strict=False))


STEP_SHARE: Final = 0.01  # of a move, and between two levels at least


def movable_thresholds(value: object) -> tuple[Threshold, ...]:
    """Return the thresholds that are shares of the window, the lowest first."""
    shares = (each for each in _thresholds_of(value) if each.of is ThresholdBase.WINDOW)
    return tuple(sorted(shares, key=_order))


def move_threshold(value: object, place: int, at: float) -> tuple[Threshold, ...]:
    """Move one of the movable thresholds, without passing its neighbors; all others stay.

    The share is rounded to whole steps.
    """
    movable = movable_thresholds(value)
    lowest = movable[place - 1].at + STEP_SHARE if place else STEP_SHARE
    highest = movable[place + 1].at - STEP_SHARE if place + 1 < len(movable) else MAX_SHARE
    steps = round(min(max(at, lowest), highest) / STEP_SHARE)
    share, target = round(steps * STEP_SHARE, 4), movable[place]
    return tuple(
        replace(each, at=share) if each is target else each for each in _thresholds_of(value)
    )
