"""What reviewers found, as Markdown for an issue, a pull request or a prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .formats import moment, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.review_groups import Found, InFile, Severe

TITLE: Final = "Findings of reviewers"

_ACTIVE: Final = re.compile(r"[\[\]<>]")
"""What begins a link, an image or HTML: a reviewer's words fetch and hide nothing."""


def findings_markdown(groups: Iterable[Severe]) -> str:
    """Write groups as a document; empty where there are none."""
    lines = [line for group in groups for line in _severe(group)]
    return "\n".join([f"# {TITLE}", *lines, ""]) if lines else ""


def finding_markdown(found: Found) -> str:
    """Write one thing as a line that stands for itself."""
    return f"- **{found.finding.severity}** {_code(found.location)}: {_tail(found)}"


def _severe(group: Severe) -> Iterator[str]:
    yield from ("", f"## {plain(group.severity).capitalize()} ({group.count})")
    for each in group.files:
        yield from _in_file(each)


def _in_file(each: InFile) -> Iterator[str]:
    where = f" in {plain(each.project)}" if each.project else ""
    yield from ("", f"### {_code(each.path)}{where}", "")
    for found in each.findings:
        place = found.location.removeprefix(found.finding.path).removeprefix(":")
        yield f"- **{place}** {_tail(found)}"


def _tail(found: Found) -> str:
    who = "; ".join(f"{plain(each.agent_type)}, {moment(each.at)}" for each in found.reviews)
    return f"{plain(found.finding.text)} _({who})_"


def plain(words: str) -> str:
    """Write words so that Markdown makes no link, image or HTML of them."""
    return _ACTIVE.sub(lambda found: f"\\{found[0]}", one_line(words))


def _code(words: str) -> str:
    shown = one_line(words).replace("`", "'")
    return f"`{shown}`"
