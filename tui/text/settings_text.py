"""The text of settings: values that are ignored, and what an installation changes in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ...core.transcript.sanitize import reveal_line
from .formats import plural

if TYPE_CHECKING:
    from ...collectors.install.install_plan import InstallPlan
    from ...core.policy.policy import IgnoredValue, Policy


def ignored_lines(policy: Policy) -> list[str]:
    """Write a line for each way to make the ignored values of a project's file count."""
    lines = []
    for fix, values in _by_fix(policy).items():
        names = name_keys(each.key for each in values)
        count = plural(len(values), "value")
        lines.append(f"{count} of this project's file ignored ({names}); {fix}")
    return lines


def ignored_table(policy: Policy) -> list[str]:
    """Write the same with a line for each value."""
    lines = []
    for fix, values in _by_fix(policy).items():
        file = values[0].where.partition(": preset ")[0]
        lines.append(f"ignored from {file}; {fix}")
        lines += [f"  {each.key} = {each.value_text}: {each.why}" for each in values]
    return lines


def _by_fix(policy: Policy) -> dict[str, list[IgnoredValue]]:
    groups: dict[str, list[IgnoredValue]] = {}
    for each in policy.ignored:
        groups.setdefault(each.fix, []).append(each)
    return groups


MAX_NAMED_KEYS: Final = 4  # of a line; the others are counted


def name_keys(keys: Iterable[str]) -> str:
    """Name the first few keys, each once, and count the rest."""
    unique = list(dict.fromkeys(keys))
    more = len(unique) - MAX_NAMED_KEYS
    return ", ".join(unique[:MAX_NAMED_KEYS]) + (f" and {more} more" if more > 0 else "")


def install_plan_text(plan: InstallPlan) -> str:
    parts = (("adds", plan.added), ("removes", plan.removed), ("keeps", plan.unchanged))
    changes = [f"{verb} {_kinds_text(things)}" for verb, things in parts if things]
    return reveal_line(f"{plan.file.path}: {'; '.join(changes)}")


def _kinds_text(things: Sequence[str]) -> str:
    kinds = Counter(
        next(kind for kind in ("hook", "status line", "file") if thing.startswith(kind))
        for thing in things
    )
    return ", ".join(plural(count, kind) for kind, count in kinds.items())
