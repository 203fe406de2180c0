"""What reviewers found, together: by severity, then by file, each thing once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .compliance.review_format import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .compliance.findings import ReviewFinding
    from .compliance_summary import Reviewed

SEVERITIES: Final = tuple(each.lower() for each in GROUPS)
"""The most severe first."""


class Found(msgspec.Struct, frozen=True):
    """One thing, and all reviews that say it in the same words."""

    project: str
    finding: ReviewFinding
    reviews: tuple[Reviewed, ...]
    """Newest first; never empty."""

    @property
    def location(self) -> str:
        """File and lines, as people write them: `src/a.py:3-5`."""
        found = self.finding
        last = f"-{found.last_line}" if found.last_line > found.line else ""
        return f"{found.path}:{found.line}{last}"


class InFile(msgspec.Struct, frozen=True):
    """What was found in one file of one project."""

    project: str
    path: str
    findings: tuple[Found, ...]
    """From its first line on."""


class Severe(msgspec.Struct, frozen=True):
    """What is of one severity."""

    severity: str
    files: tuple[InFile, ...]
    """Those with the most first."""

    @property
    def count(self) -> int:
        """How many things they are."""
        return sum(len(each.findings) for each in self.files)


def gather(reviewed: Iterable[Reviewed], project_of: Mapping[str, str]) -> list[Found]:
    """Put what several reviews say in the same words together; `project_of` a session's id.

    The order is that of the reviews.
    """
    said: dict[tuple[str, ReviewFinding], list[Reviewed]] = {}
    for each in reviewed:
        said.setdefault((project_of.get(each.session_id, ""), each.finding), []).append(each)
    return [
        Found(project, finding, tuple(sorted(who, key=lambda each: -(each.at or 0))))
        for (project, finding), who in said.items()
    ]


def by_severity(found: Iterable[Found]) -> tuple[Severe, ...]:
    """Group by severity, then by file; only severities of which there is something."""
    grouped: dict[str, dict[tuple[str, str], list[Found]]] = {}
    for each in found:
        files = grouped.setdefault(each.finding.severity, {})
        files.setdefault((each.project, each.finding.path), []).append(each)
    return tuple(
        Severe(severity, _files(grouped[severity])) for severity in sorted(grouped, key=_rank)
    )


def _files(files: Mapping[tuple[str, str], list[Found]]) -> tuple[InFile, ...]:
    listed = [
        InFile(project, path, tuple(sorted(found, key=lambda each: each.finding.line)))
        for (project, path), found in files.items()
    ]
    return tuple(sorted(listed, key=lambda each: (-len(each.findings), each.project, each.path)))


def _rank(severity: str) -> tuple[int, str]:
    place = SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
    return place, severity
