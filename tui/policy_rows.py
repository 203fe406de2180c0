"""The policy as lines, area by area: what is set, where it was said, and what it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from textual.content import Content

from ..core.policy.kinds import words
from ..core.policy.policy import Origin
from .formats import fit, middle, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..core.policy.policy import Ignored, Policy, PolicyNotice, Resolved

AREAS: Final = {
    "": "how far ctxtop goes",
    "usage": "how much is in a context",
    "limit": "how large a window is",
    "threshold": "where levels begin",
    "rearm": "when a level is told again",
    "absolute": "levels in tokens",
    "compact": "how a session is made smaller",
    "summary": "what a summary is",
    "importance": "what is kept",
    "recovery": "after a prompt that is too long",
    "tools": "results of tools",
    "compliance": "what an agent's result must be",
    "injection": "what an agent that starts is given",
    "steering": "what a compaction is told",
    "prompts": "what the model is told",
    "saveflow": "saves of claude-memory",
    "notify": "notices",
    "ui": "the dashboard",
    "keys": "keys of your own",
}
"""The first part of a key's name, and what all of that area is about."""

SIGN: Final = "●"
"""Before a value that somebody chose."""

IGNORED: Final = "▲ "
"""Before a value of which the project's file says something else, in vain."""

HEADING: Final = "area "
"""Begins the row of an area, which is no value."""

_KEY: Final = 26
_ORIGIN: Final = 14
_LEAST_VALUE: Final = 12

_WORDS: Final = {
    Origin.COMMAND_LINE: "command line",
    Origin.ENVIRONMENT: "environment",
    Origin.PROJECT_FILE: "project's file",
    Origin.USER_FILE: "your file",
    Origin.PRESET: "preset",
    Origin.BUILT_IN: "built in",
}

_FIXED: Final = {
    Origin.COMMAND_LINE: "the command line says it: start ctxtop without that option",
    Origin.ENVIRONMENT: "the environment says it: unset {where}",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The cells of a line's parts; 0 for what has no room."""

    key: int
    value: int
    origin: int
    about: int


def lay_out(width: int) -> Layout:
    """Share a width: what a value is for goes first, then where it was said."""
    rest = width - 2 - _KEY - 1
    origin = _ORIGIN if rest >= _LEAST_VALUE + 1 + _ORIGIN else 0
    rest -= origin + 1 if origin else 0
    value = rest
    about = 0
    if rest > 2 * _LEAST_VALUE + 12:
        value = max(_LEAST_VALUE, rest * 2 // 5)
        about = rest - value - 1
    return Layout(_KEY, max(1, value), origin, about)


def policy_head(layout: Layout) -> Content:
    """Write the line above the values."""
    parts = [fit("  key", layout.key + 2), fit("value", layout.value)]
    parts += [fit("said by", layout.origin)] if layout.origin else []
    parts += [fit("what it is for", layout.about)] if layout.about else []
    return Content.styled(" ".join(parts), "$quiet")


def value_line(found: Resolved, layout: Layout, ignored: Ignored | None = None) -> Content:
    """Write a value's line: what somebody chose stands out, and has a sign.

    `ignored` is what the project's file says of it in vain.
    """
    chosen = is_chosen(found)
    sign = f"{SIGN} " if chosen else "  "
    parts = [
        (IGNORED if ignored else sign, "$level-warning" if ignored else "$accent"),
        (f"{fit(found.key.name, layout.key)} ", "bold" if chosen else "$foreground"),
        (fit(value_words(found), layout.value), "$accent" if chosen else "$foreground"),
    ]
    if layout.origin:
        parts.append((f" {fit(_WORDS[found.origin], layout.origin)}", "$quiet"))
    if layout.about:
        about = found.key.description
        if ignored:
            about = f"ignored: {one_line(ignored.value_text)} ({one_line(ignored.why)})"
        parts.append((f" {fit(about, layout.about)}", "$level-warning" if ignored else "$quiet"))
    return Content.assemble(*parts)


def area_line(area: str, values: Sequence[Resolved], width: int, is_folded: bool) -> Content:  # noqa: FBT001 -- a state
    """Write the line above the values of an area, which says of folded ones how many are set."""
    name = area or "ctxtop"
    about = AREAS.get(area, "")
    if is_folded:
        chosen = sum(map(is_chosen, values))
        counted = f"{len(values)} values" + (f", {chosen} {SIGN} set" if chosen else "")
        about = f"{about} · {counted}" if about else counted
    return Content.assemble(
        ("▸ " if is_folded else "▾ ", "$quiet"),
        (name, "bold $primary"),
        (f"  {middle(about, max(1, width - len(name) - 4))}", "$quiet"),
    )


def value_words(found: Resolved) -> str:
    """Write a value with its unit."""
    value = found.value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return one_line(words(value)) or "none"
    said = f"{value:,}" if isinstance(value, int) else f"{value:g}"
    return f"{said} {found.key.unit}".strip()


def is_chosen(found: Resolved) -> bool:
    """Say whether somebody set it; a preset's values were chosen with it."""
    return found.origin not in {Origin.BUILT_IN, Origin.PRESET}


def area_of(found: Resolved) -> str:
    """Name the area that a value stands in; one alone stands with what is about all."""
    area, dot, _ = found.key.name.partition(".")
    return area if dot or area in AREAS else ""


def select(policy: Policy, filter_text: str, *, chosen_only: bool) -> list[Resolved]:
    """Choose the values that have all words, or only those that somebody chose."""
    parts = filter_text.casefold().split()
    return [
        each
        for each in policy.values.values()
        if (not chosen_only or is_chosen(each)) and all(part in _text(each) for part in parts)
    ]


def by_area(chosen: Iterable[Resolved]) -> dict[str, list[Resolved]]:
    """Group values by their area, in the order of the areas."""
    found: dict[str, list[Resolved]] = {}
    for each in chosen:
        found.setdefault(area_of(each), []).append(each)
    order = list(AREAS)
    return dict(
        sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else 99)
    )


def _text(found: Resolved) -> str:
    parts = (found.key.name, value_words(found), _WORDS[found.origin], found.key.description)
    return " ".join(parts).casefold()


def whole_value(found: Resolved) -> Content:
    """Write all that is known of a value."""
    key = found.key
    lines = [
        Content(one_line(key.description)),
        Content(""),
        _fact("value", value_words(found)),
        _fact("said by", origin_words(found)),
        _fact("built in", value_words(replace(found, value=key.default))),
    ]
    return Content("\n").join(lines)


def origin_words(found: Resolved) -> str:
    """Name where a value was said; which file that is stands where it is written."""
    is_file = found.origin in {Origin.USER_FILE, Origin.PROJECT_FILE}
    where = "" if is_file or not found.where else f": {one_line(found.where)}"
    return f"{_WORDS[found.origin]}{where}"


def why_fixed(found: Resolved) -> str:
    """Say why a value cannot be changed in a file of ours; empty where it can."""
    return _FIXED.get(found.origin, "").format(where=one_line(found.where))


def difference_lines(path: str, lines: Sequence[str]) -> Content:
    """Write what a file gains and loses, with the signs of a difference."""
    styles = {"+": "$level-calm", "-": "$level-warning"}
    shown = [Content.styled(line, styles.get(line[:1], "$quiet")) for line in lines]
    return Content("\n").join([Content.styled(one_line(path), "bold"), Content(""), *shown])


def notice_lines(notices: Sequence[PolicyNotice | str], width: int) -> list[Content]:
    """Write what was said and does not hold."""
    return [
        Content.styled(middle(f"▲ {one_line(str(each))}", width), "$level-warning")
        for each in notices
    ]


def _fact(label: str, said: str) -> Content:
    return Content.assemble((f"{label:<10}", "$quiet"), said)
