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
    def whole_strategy(self) -> str | None:
        """The strategy for the whole conversation that was named."""
        return next((each for each in self.strategies if each in WHOLE), None)


def complaint(options: Asked, *, in_place: bool) -> str | None:
    """Say what does not go together, and what to do; None where all does."""
    whole = options.whole_strategy
    if whole and len(options.strategies) > 1:
        return f"--strategy {whole} goes alone: leave the others out"
    if options.level is not None and options.level >= Harm.SUMMARY:
        return (
            f"level {options.level} is asked for by name: --strategy summarise (7),"
            " --strategy cut, revert or rollover (8)"
        )
    if whole and (options.level is not None or options.target is not None):
        return f"--strategy {whole} has no --level and no --target: leave them out"
    if whole == ROLLOVER and in_place:
        return "--strategy rollover makes a session of its own: leave --in-place out"
    if whole == CUT and not options.keep_turns:
        return "--strategy cut needs --keep-turns N, the newest turns that stay"
    for option, value, users in (
        ("--keep-turns", options.keep_turns, (CUT,)),
        ("--to", options.to, (REVERT,)),
        ("--template", options.template, (SUMMARISE, ROLLOVER)),
        ("--budget", options.budget, (SUMMARISE, ROLLOVER)),
        ("--provider", options.provider, (SUMMARISE,)),
        ("--model", options.model, (SUMMARISE,)),
    ):
        if value is not None and whole not in users:
            return f"{option} goes with --strategy {' or '.join(users)}"
    if whole in {CUT, REVERT, ROLLOVER} and options.keep is not None:
        return f"--strategy {whole} has no --keep: leave it out"
    if options.model is not None and options.provider in {None, "none"}:
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
    summary_cache: Path
    """Folder of summaries that a model wrote."""
    read_entries: Read
    """Reads the transcript's entries."""
    on_message: Callable[[str], None]
    """Hears what a model that writes a summary has to say."""
    held_by: str | None = None
    """Who has the session open, where that forbids it."""


def plan_for(context: Ground, options: Asked) -> Plan:
    """Plan what was asked for; a refusal is part of it. Raises NotPlannedError."""
    size = _size(context)
    too_large = size_refusal(size, _largest(options))
    if too_large:
        # To read gigabytes takes minutes, for a plan that is not carried out.
        known = context.session.context.tokens or 0
        named = context.session.session_id
        return make_plan(named, "", size, (), before_tokens=known, refused=[too_large])
    if options.whole_strategy:
        return plan_whole_for(context, options, lambda _: None)
    with draft_for(context, options) as draft:
        return draft.plan()


@contextmanager
def draft_for(context: Ground, options: Asked) -> Iterator[Draft]:
    """Hold a plan by level, of which operations can be left out. Raises NotPlannedError."""
    from ..core.compaction.line_file import open_lines
    from ..core.compaction.planning import draft
    from ..core.compaction.protect import Protection
    from ..core.store.estimating import read_estimator

    _refuse_unread(context, options)
    keep = TOOL_TURNS if options.keep is None else options.keep
    try:
        with open_lines(context.transcript) as file:
            yield draft(
                context.session.session_id,
                context.transcript,
                file,
                context.read_entries,
                read_estimator(context.db).for_model,
                options=aim_of(context.session, options),
                protection=Protection(min_turns=keep),
                open_in=context.held_by,
                max_bytes=_largest(options),
            )
    except OSError as error:
        raise _unread(context, error) from error


def plan_whole_for(context: Ground, options: Asked, on_view: Callable[[View], None]) -> Plan:
    """Plan for the whole conversation, and let `look` see it. Raises NotPlannedError."""
    from ..core.compaction.plan_whole import plan_whole
    from ..core.store.estimating import read_estimator
    from ..core.summaries.settings import summary_settings
    from .whole_makers import make_of

    _refuse_unread(context, options)
    settings = summary_settings(context.policy)
    make = make_of(options, settings, context.session, context.summary_cache, context.on_message)

    def make_seen(whole: Whole, view: View) -> Operation | Refusal:
        on_view(view)
        return make(whole, view)

    try:
        return plan_whole(
            context.session.session_id,
            context.transcript,
            context.read_entries,
            read_estimator(context.db).for_model,
            make_seen,
            open_in=context.held_by,
            max_bytes=_largest(options),
        )
    except OSError as error:
        raise _unread(context, error) from error


def _refuse_unread(context: Ground, options: Asked) -> None:
    """Raise NotPlannedError where the transcript is too large to be read for a plan."""
    found = size_refusal(_size(context), _largest(options))
    if found:
        raise NotPlannedError(f"{found.why}: {found.what_to_do}")


def _size(context: Ground) -> int:
    try:
        return context.transcript.stat().st_size
    except OSError as error:
        raise _unread(context, error) from error


def _largest(options: Asked) -> int:
    return UNLIMITED if options.force else LARGEST_BYTES


def _unread(context: Ground, error: OSError) -> NotPlannedError:
    return NotPlannedError(f"{context.transcript} cannot be read: {error.strerror or error}")


def aim_of(session: Session, options: Asked) -> Aim:
    """Say what a plan by level aims at: half of the effective window where nothing was said."""
    from ..core.compaction.select import Aim

    chose = options.level is not None or bool(options.strategies)
    share = options.target if options.target is not None or chose else TARGET
    return Aim(
        max_level=MOST_HARM if options.level is None else Harm(options.level),
        strategies=options.strategies,
        target_tokens=None
        if share is None
        else target_tokens(session.context.window.tokens, share),
        window_tokens=session.context.window.tokens,
    )
