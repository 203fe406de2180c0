"""The text of values that an untrusted project's file sets and that are ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from .formats import plural

if TYPE_CHECKING:
    from ...core.policy.policy import IgnoredValue, Policy


MAX_NAMED_KEYS: Final = 4  # keys of a line; the others are counted


def ignored_lines(policy: Policy) -> list[str]:
    """Write what is ignored of a project's file in one line for each way to change that."""
    return [_line(group) for group in _by_fix(policy)]


def ignored_table(policy: Policy) -> list[str]:
    """Write the same with a line for each value."""
    lines = []
    for group in _by_fix(policy):
        lines.append(f"ignored from {_file_of(group[0])}; {group[0].fix}")
        lines += [f"  {each.key} = {each.value_text}: {each.why}" for each in group]
    return lines


def name_keys(keys: Iterable[str]) -> str:
    """Name the first few keys, each once, and count the rest."""
    every = list(dict.fromkeys(keys))
    more = len(every) - MAX_NAMED_KEYS
    return ", ".join(every[:MAX_NAMED_KEYS]) + (f" and {more} more" if more > 0 else "")


def _by_fix(policy: Policy) -> list[list[IgnoredValue]]:
    groups: dict[str, list[IgnoredValue]] = {}
    for each in policy.ignored:
        groups.setdefault(each.fix, []).append(each)
    return list(groups.values())


def _line(group: list[IgnoredValue]) -> str:
    # The folder stands in the remedy, or above the values.
    named = name_keys(each.key for each in group)
    said = f"{plural(len(group), 'value')} of this project's file ignored ({named})"
    return f"{said}; {group[0].fix}"


def _file_of(found: IgnoredValue) -> str:
    return found.where.partition(": preset ")[0]
