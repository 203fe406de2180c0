"""From what a person asked of `ctxtop compact` to a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ...core.compaction.limits import LARGEST_BYTES, UNLIMITED
from ...core.compaction.plan import Harm
from ...core.trigger import BUFFER, RESERVE
from .report import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.compaction.plan import Plan
    from ...core.compaction.select import Aim
    from ...core.sessions import Session
    from .reading import Reading

TARGET: Final = 0.5
"""Of the effective window (compaction.md 7.5; oh-my-opencode has the same)."""

TOOL_TURNS: Final = 10
"""Newest turns with tools that stay (compaction.md 7.5)."""

SUMMARISE: Final = "summarise"
CUT: Final = "cut"
REVERT: Final = "revert"
ROLLOVER: Final = "rollover"

WHOLE: Final = (SUMMARISE, CUT, REVERT, ROLLOVER)
"""Strategies for a conversation as a whole: levels 7 and 8, each alone and only by name."""

TEMPLATES: Final = {
    "4": "four_section",
    "5": "five_section",
    "8": "eight_section",
    "11": "native",
}
"""By how many sections they have."""

LAST: Final = "last"
"""The word for the newest prompt."""


class Asked(msgspec.Struct, frozen=True):
    """What a person asked for; None where nothing was said."""

    strategies: tuple[str, ...] = ()
    level: int | None = None
    target: float | None = None
    keep: int | None = None
    keep_turns: int | None = None
    to: str | None = None
    """A prompt: the number of its line, the start of its uuid, or `LAST`."""
    template: str | None = None
    budget: int | None = None
    """Tokens."""
    provider: str | None = None
    model: str | None = None
    force: bool = False
    """Also a transcript that is larger than any that is changed unasked."""

    @property
    def whole(self) -> str | None:
        """The strategy for the whole conversation that was named."""
        return next((each for each in self.strategies if each in WHOLE), None)


def complaint(asked: Asked, *, in_place: bool) -> str | None:
    """Say what does not go together, and what to do; None where all does."""
    whole = asked.whole
    if whole and len(asked.strategies) > 1:
        return f"--strategy {whole} goes alone: leave the others out"
    if asked.level is not None and asked.level >= Harm.SUMMARY:
        return (
            f"level {asked.level} is asked for by name: --strategy summarise (7),"
            " --strategy cut, revert or rollover (8)"
        )
    if whole and (asked.level is not None or asked.target is not None):
        return f"--strategy {whole} has no --level and no --target: leave them out"
    if whole == ROLLOVER and in_place:
        return "--strategy rollover makes a session of its own: leave --in-place out"
    if whole == CUT and not asked.keep_turns:
        return "--strategy cut needs --keep-turns N, the newest turns that stay"
    for option, value, users in (
        ("--keep-turns", asked.keep_turns, (CUT,)),
        ("--to", asked.to, (REVERT,)),
        ("--template", asked.template, (SUMMARISE, ROLLOVER)),
        ("--budget", asked.budget, (SUMMARISE, ROLLOVER)),
        ("--provider", asked.provider, (SUMMARISE,)),
        ("--model", asked.model, (SUMMARISE,)),
    ):
        if value is not None and whole not in users:
            return f"{option} goes with --strategy {' or '.join(users)}"
    if whole in {CUT, REVERT, ROLLOVER} and asked.keep is not None:
        return f"--strategy {whole} has no --keep: leave it out"
    if asked.model is not None and asked.provider in {None, "none"}:
        return "--model needs --provider: no model is asked without one"
    return None


def plan_for(found: Reading, session: Session, asked: Asked, cache: Path, live: str | None) -> Plan:
    """Plan what was asked for; a refusal is part of it. Raises RefusedError.

    `cache` is the folder of summaries that a model wrote; `live` says who has the session open,
    where that forbids it.
    """
    from ...collectors.transcripts.conversation import entries_from
    from ...core.compaction.plan_whole import plan_whole
    from ...core.compaction.planning import plan_transcript
    from ...core.compaction.protect import Protection
    from ...core.store.estimating import read_estimator
    from ...core.summaries.settings import summary_settings
    from .whole_makers import make_of

    transcript = found.places.folder.projects / session.path
    count = read_estimator(found.db).of
    largest = UNLIMITED if asked.force else LARGEST_BYTES
    try:
        if asked.whole:
            make = make_of(asked, summary_settings(found.policies.of(session.cwd)), session, cache)
            return plan_whole(
                session.session_id,
                transcript,
                entries_from,
                count,
                make,
                live=live,
                largest=largest,
            )
        keep = TOOL_TURNS if asked.keep is None else asked.keep
        return plan_transcript(
            session.session_id,
            transcript,
            entries_from,
            count,
            aim=_aim(session, asked),
            protection=Protection(tool_turns=keep),
            live=live,
            largest=largest,
        )
    except OSError as error:
        why = error.strerror or error
        raise RefusedError(f"{transcript} cannot be read: {why}") from error


def _aim(session: Session, asked: Asked) -> Aim:
    from ...core.compaction.select import Aim

    chose = asked.level is not None or bool(asked.strategies)
    share = asked.target if asked.target is not None or chose else TARGET
    effective = session.context.window.tokens - RESERVE - BUFFER
    return Aim(
        level=Harm.INPUTS if asked.level is None else Harm(asked.level),
        strategies=asked.strategies,
        target_tokens=None if share is None else round(share * effective),
    )
