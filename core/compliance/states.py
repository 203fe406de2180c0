"""What became of an agent's duty to compress: one verdict on its whole run."""

from __future__ import annotations

from dataclasses import dataclass

from .codes import FAILED, Code, Format, Verdict
from .expected import WHOLE_TRANSCRIPT
from .findings import BLANK, Finding, Judgement
from .judge import judge
from .lines import SHOWN_CHARS
from .origin import grep_passes, origin_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from .expected import Expected, Terms
    from .origin import Origin, Place

MOST_STOPS: Final = 2
"""SubagentStops of one run: the first, and the one after a block (000-19)."""


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of one run of an agent."""

    agent_type: str | None
    has_ended: bool
    """It came to its end by itself: its last words are its result."""
    final_text: str | None
    """Its last message that has text (000-35, R000-06)."""
    final_message_id: str | None = None
    final_offset: int | None = None
    """In bytes, in its transcript; None where it has none of its own."""
    marker_lines: tuple[Place, ...] = ()
    """Lines of its transcript with the marker, in their order."""
    block_offsets: tuple[int, ...] = ()
    """Byte offsets of what hooks told it when it wanted to stop."""
    stops: int = 0
    """SubagentStop records of it in ctxtop's own log."""
    was_released: bool = False
    """One of them says `stop_hook_active`: it had been blocked."""
    retry_tokens: int = 0
    """Spent by its requests after the first block."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The verdict on a run, with its reasons."""

    verdict: Verdict
    expected: Expected
    judgement: Judgement
    """Of the final message alone."""
    violations: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    marker_location: Origin | None = None
    grep_passes: bool | None = None
    """A grep over the transcript would have let it stop at once; None without a transcript."""
    blocked: bool | None = None
    """None where neither a transcript nor a record tells."""
    refired: bool = False
    """It was asked to stop more often than a block explains (000-19)."""
    retry_tokens: int = 0
    """Spent by the requests that a block made necessary (000-23)."""

    @property
    def failed(self) -> bool:
        """It did not comply."""
        return self.verdict in FAILED

    @property
    def grep_was_wrong(self) -> bool:
        """A grep would have passed what the final message does not fulfil (000-51, T-07)."""
        return self.grep_passes is True and self.failed


def rule(run: Run, expected: Expected, settings: Terms) -> Ruling:
    """Judge a run.

    - not_required: nothing is expected; it is measured all the same (T-25).
    - unknown: it has not come to its end, or left no text (3.0.3).
    - compliant: the final message has no violation (3.0.3); also where another hook blocked
      a message that complied already.
    - forced: the same, after a block of a message that did not comply (000-18, 000-23).
    - clobbered: an earlier message complied, the final one lacks the marker (2.2.3, V16).
    - exhausted: it was blocked, answered, and still did not comply (000-15, 000-19).
    - non_compliant: all others.
    """
    text = run.final_text if run.has_ended else None
    judged = judge(text or "", expected.format, run.agent_type, settings.limits)
    has_transcript = run.final_offset is not None or bool(run.marker_lines or run.block_offsets)
    blocked = bool(run.block_offsets) or run.was_released
    violations = judged.violations
    if expected.format is Format.NONE:
        verdict = Verdict.NOT_REQUIRED
    elif judged is BLANK:
        verdict = Verdict.UNKNOWN
    elif settings.mode == WHOLE_TRANSCRIPT:
        verdict = _by_grep(run) if has_transcript else Verdict.UNKNOWN
        violations = tuple(each for each in violations if verdict in FAILED)
    else:
        verdict, violations = _by_message(run, judged, expected, settings)
    return Ruling(
        verdict,
        expected,
        judged,
        violations,
        judged.warnings,
        origin_of(run.marker_lines, run.final_message_id) if has_transcript else None,
        grep_passes(run.marker_lines, min(run.block_offsets, default=None))
        if has_transcript
        else None,
        blocked if has_transcript or run.stops else None,
        run.stops > MOST_STOPS,
        run.retry_tokens,
    )


def _by_message(
    run: Run, judged: Judgement, expected: Expected, terms: Terms
) -> tuple[Verdict, tuple[Finding, ...]]:
    complied = [
        place.offset
        for place in run.marker_lines
        if place.text
        and place.message_id != run.final_message_id
        and _complies(place.text, run, expected, terms)
    ]
    blocked = run.was_released or bool(run.block_offsets)
    if judged.verdict is Verdict.COMPLIANT:
        first = min(run.block_offsets, default=None)
        before = first is not None and any(offset < first for offset in complied)
        return (Verdict.FORCED if blocked and not before else Verdict.COMPLIANT), ()
    if complied and any(each.code is Code.MARKER_MISSING for each in judged.violations):
        return Verdict.CLOBBERED, (*judged.violations, _clobbered(run))
    answered = not run.block_offsets or (run.final_offset or 0) > min(run.block_offsets)
    if blocked and answered:
        return Verdict.EXHAUSTED, judged.violations
    return Verdict.NON_COMPLIANT, judged.violations


def _complies(text: str, run: Run, expected: Expected, terms: Terms) -> bool:
    found = judge(text, expected.format, run.agent_type, terms.limits)
    return found.verdict is Verdict.COMPLIANT


def _by_grep(run: Run) -> Verdict:
    """Decide as a hook does that looks for the marker anywhere (000-16 to 000-19)."""
    if grep_passes(run.marker_lines, min(run.block_offsets, default=None)):
        return Verdict.COMPLIANT
    if not run.block_offsets:
        return Verdict.NON_COMPLIANT
    return Verdict.FORCED if run.marker_lines else Verdict.EXHAUSTED


def _clobbered(run: Run) -> Finding:
    text = (run.final_text or "").strip()
    first = text.partition("\n")[0]
    return Finding(Code.CLOBBERED, 1, first[:SHOWN_CHARS])
