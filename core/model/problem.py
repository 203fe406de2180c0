"""A problem that was found, and how it is reported and resolved."""

import os
from collections.abc import Callable

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """Something that could not be read: where, what, and what to do."""

    where: str
    what: str
    fix: str
    traceback: str = ""  # of a fault of ours

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.fix}"

    @property
    def detail(self) -> str:
        """What the log shows of it besides `what`."""
        return f"{self.fix}\n\n{self.traceback}".rstrip()


def printable_path(place: str) -> str:
    """Replace what is not UTF-8: the store accepts only text."""
    return os.fsencode(place).decode("utf-8", "replace")


def unreadable_problem(where: str, error: OSError) -> Problem:
    return Problem(
        printable_path(where),
        f"cannot be read ({error.strerror or error})",
        "check its permissions; ctxtop retries automatically",
    )


def reading_problem(where: str, error: OSError, fix: str) -> Problem:
    """Make the problem of a page that cannot read what it was opened for."""
    return Problem(where, f"cannot be read: {error.strerror or error}", fix)


class ProblemReporter(msgspec.Struct, frozen=True):
    """The collector's callbacks; the first two may be called again with the same problem."""

    report: Callable[[Problem], None]
    resolve: Callable[[str], object]
    notify: Callable[[Problem], None]  # of what happened, once

    def report_unreadable(self, where: str, error: OSError) -> None:
        self.report(unreadable_problem(where, error))

    def report_or_resolve(self, where: str, problem: str | None, fix: str) -> None:
        if problem is None:
            self.resolve(where)
        else:
            self.report(Problem(where, problem, fix))
