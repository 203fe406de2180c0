"""From what a person asked for to a plan: `ctxtop compact` and the screen plan here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.compaction.limits import LARGEST_BYTES, UNLIMITED, size_refusal
from ..core.compaction.plan import Harm, make_plan
from ..core.compaction.target import MOST_HARM, TARGET, TOOL_TURNS, target_tokens

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ..core.compaction.plan import Operation, Plan, Refusal
    from ..core.compaction.planning import Draft, Read
    from ..core.compaction.select import Aim
    from ..core.compaction.view import View
    from ..core.compaction.whole import Whole
    from ..core.policy.policy import Policy
    from ..core.sessions import Session

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


class NotPlannedError(Exception):
    """No plan can be made; the message says why and what to do."""


class Ground(msgspec.Struct, frozen=True):
    """The session that is planned for, and what that takes."""

    db: sqlite3.Connection
    """Tokens are estimated by what the store has measured, as long as the plan is worked on."""
    transcript: Path
    session: Session
    policy: Policy
    cache: Path
    """Folder of summaries that a model wrote."""
    read: Read
    """Reads the transcript's entries."""
    tell: Callable[[str], None]
    """Hears what a model that writes a summary has to say."""
    live: str | None = None
    """Who has the session open, where that forbids it."""


def plan_for(ground: Ground, asked: Asked) -> Plan:
    """Plan what was asked for; a refusal is part of it. Raises NotPlannedError."""
    size = _size(ground)
    too_large = size_refusal(size, _largest(asked))
    if too_large:
        # To read gigabytes takes minutes, for a plan that is not carried out.
        known = ground.session.context.tokens or 0
        named = ground.session.session_id
        return make_plan(named, "", size, (), before_tokens=known, refused=[too_large])
    if asked.whole:
        return plan_whole_for(ground, asked, lambda _: None)
    with draft_for(ground, asked) as draft:
        return draft.plan()


@contextmanager
def draft_for(ground: Ground, asked: Asked) -> Iterator[Draft]:
    """Hold a plan by level, of which operations can be left out. Raises NotPlannedError."""
    from ..core.compaction.line_file import open_lines
    from ..core.compaction.planning import draft
    from ..core.compaction.protect import Protection
    from ..core.store.estimating import read_estimator

    _refuse_unread(ground, asked)
    keep = TOOL_TURNS if asked.keep is None else asked.keep
    try:
        with open_lines(ground.transcript) as file:
            yield draft(
                ground.session.session_id,
                ground.transcript,
                file,
                ground.read,
                read_estimator(ground.db).of,
                aim=aim_of(ground.session, asked),
                protection=Protection(tool_turns=keep),
                live=ground.live,
                largest=_largest(asked),
            )
    except OSError as error:
        raise _unread(ground, error) from error


def plan_whole_for(ground: Ground, asked: Asked, look: Callable[[View], None]) -> Plan:
    """Plan for the whole conversation, and let `look` see it. Raises NotPlannedError."""
    from ..core.compaction.plan_whole import plan_whole
    from ..core.store.estimating import read_estimator
    from ..core.summaries.settings import summary_settings
    from .whole_makers import make_of

    _refuse_unread(ground, asked)
    settings = summary_settings(ground.policy)
    make = make_of(asked, settings, ground.session, ground.cache, ground.tell)

    def make_seen(whole: Whole, view: View) -> Operation | Refusal:
        look(view)
        return make(whole, view)

    try:
        return plan_whole(
            ground.session.session_id,
            ground.transcript,
            ground.read,
            read_estimator(ground.db).of,
            make_seen,
            live=ground.live,
            largest=_largest(asked),
        )
    except OSError as error:
        raise _unread(ground, error) from error


def _refuse_unread(ground: Ground, asked: Asked) -> None:
    """Raise NotPlannedError where the transcript is too large to be read for a plan."""
    found = size_refusal(_size(ground), _largest(asked))
    if found:
        raise NotPlannedError(f"{found.why}: {found.what_to_do}")


def _size(ground: Ground) -> int:
    try:
        return ground.transcript.stat().st_size
    except OSError as error:
        raise _unread(ground, error) from error


def _largest(asked: Asked) -> int:
    return UNLIMITED if asked.force else LARGEST_BYTES


def _unread(ground: Ground, error: OSError) -> NotPlannedError:
    return NotPlannedError(f"{ground.transcript} cannot be read: {error.strerror or error}")


def aim_of(session: Session, asked: Asked) -> Aim:
    """Say what a plan by level aims at: half of the effective window where nothing was said."""
    from ..core.compaction.select import Aim

    chose = asked.level is not None or bool(asked.strategies)
    share = asked.target if asked.target is not None or chose else TARGET
    return Aim(
        level=MOST_HARM if asked.level is None else Harm(asked.level),
        strategies=asked.strategies,
        target_tokens=None
        if share is None
        else target_tokens(session.context.window.tokens, share),
        window_tokens=session.context.window.tokens,
    )
