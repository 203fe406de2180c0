"""What programs read of compliance."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...core.compliance.findings import labels

if TYPE_CHECKING:
    from ...core.compliance.findings import Finding, Judgement
    from ...core.compliance.states import Ruling

Record = dict[str, Any]


def of_agent(ruling: Ruling | None) -> Record:
    """The keys of an agent that say whether it compressed its result."""
    return {
        "expected_format": ruling.expected.format.value if ruling else None,
        "verdict": ruling.verdict.value if ruling else None,
        "violations": labels(ruling.violations) if ruling else [],
        "warnings": labels(ruling.warnings) if ruling else [],
        "marker_origin": ruling.origin.value if ruling and ruling.origin else None,
        "blocked": ruling.blocked if ruling else None,
        "expected_by": ruling.expected.ground.value if ruling else None,
        "grep_passes": ruling.grep if ruling else None,
        "refired": ruling.refired if ruling else None,
    }


def checked(found: Judgement) -> Record:
    """The object of `ctxtop check`."""
    return {
        "verdict": found.verdict.value,
        "violations": labels(found.violations),
        "warnings": labels(found.warnings),
        "lines": found.lines,
        "chars": found.chars,
        "findings": [finding(each) for each in (*found.violations, *found.warnings)],
        "review": [asdict(each) for each in found.review],
    }


def finding(found: Finding) -> Record:
    """A violation or a warning, with the line that shows it."""
    return {
        "code": found.label,
        "name": found.code.name,
        "line": found.line,
        "text": found.text,
        "why": found.sentence,
    }
