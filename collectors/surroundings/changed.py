"""Reading again what has changed of the files in a folder, each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...core.store.surroundings_queries import Seen
    from .contained import Found
    from .tell import Tell

Fact = TypeVar("Fact")


def read_changed(
    present: Mapping[str, Found],
    known: Mapping[str, Seen],
    read: Callable[[Found], Fact],
    problems: Tell,
) -> list[Fact]:
    """Read the files, by path, that are not as they are known; one that cannot be read is told."""
    changed = []
    for path, found in present.items():
        seen = known.get(path)
        if seen and seen.mark == found.mark:
            continue
        try:
            changed.append(read(found))
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.report_unreadable(path, error)
        else:
            problems.resolve(path)
    return changed
