"""A recovery in words: what the session ended in, and what each step would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..core.compaction.limit_errors import LimitErrorType
from ..core.compaction.recovery.settings import Step
from .formats import plural, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..collectors.recovering import Recovery
    from ..core.compaction.recovery.ground import Proposal

ENDED_IN: Final = {
    LimitErrorType.NON_EMPTY_CONTENT: "an empty message, which the API refuses",
}


def ended(recovery: Recovery) -> Iterator[str]:
    """Say what it ended in, in lines."""
    found = recovery.found
    what = ENDED_IN.get(found.error_type, "a prompt that is too long")
    yield f"session {found.session_id[:8]} ended in {what}"
    if found.line is not None:
        yield f"  line {found.line} of its transcript"
    if found.current_tokens is not None and found.max_tokens is not None:
        over = tokens(found.current_tokens - found.max_tokens)
        sizes = f"{tokens(found.current_tokens)} of {tokens(found.max_tokens)}, {over} too many"
        room = f"; with room for an answer it fits at {tokens(recovery.fits_at)}"
        yield f"  {sizes}{room}"
    elif found.message_index is not None:
        yield f"  the API names message {found.message_index}"


def hint(proposal: Proposal) -> str:
    """Say what else could be done where a step does not suffice."""
    missing = proposal.insufficient
    return f": {missing.what_to_do}" if missing and missing.what_to_do != "go on" else ""


def what_it_does(recovery: Recovery, proposal: Proposal) -> str:
    """Say what the step that suffices does, and what that comes to."""
    plan = recovery.choice.plan
    if plan is None:
        return ""
    count = len(proposal.operations)
    did = {
        Step.FIX_EMPTY: f"fills {plural(count, 'empty message')}",
        Step.TRUNCATE: f"truncates the largest {'result' if count == 1 else f'{count} results'}",
        Step.AGGRESSIVE: f"truncates {plural(count, 'result')}",
        Step.SUMMARIZE: "a summary takes the place of what was",
        Step.REVERT: "goes back before your last prompt",
    }.get(proposal.step, f"leaves out {plural(count, 'thing')} said twice or superseded")
    sizes = f"≈ {tokens(plan.before_tokens)} → ≈ {tokens(plan.after_tokens)}"
    return f"{did}: {sizes}"


def unused(recovery: Recovery) -> str:
    """Say why a step was not looked at."""
    return "not needed" if recovery.choice.plan else "used up: it was done as often as it may"
