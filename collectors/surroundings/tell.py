"""Telling of what could not be read, for the parts of the collector that stand by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..folder import Trouble, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable


class Tell(msgspec.Struct, frozen=True):
    """The collector's ways to tell; the first two may be called again with the same."""

    report: Callable[[Trouble], None]
    resolve: Callable[[str], None]
    notify: Callable[[Trouble], None]
    """Of what happened, once."""

    def report_unreadable(self, where: str, error: OSError) -> None:
        """Tell that a place could not be read this time; it is tried again."""
        self.report(unreadable(where, error))

    def report_or_resolve(self, where: str, problem: str | None, fix: str) -> None:
        """Tell what is wrong with a place, or that nothing is."""
        if problem is None:
            self.resolve(where)
        else:
            self.report(Trouble(where, problem, fix))
