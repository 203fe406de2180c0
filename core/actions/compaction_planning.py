"""Plan a compaction from its options: for `ctxtop compact` and for the compact page."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from ..compaction.plan import (
    DEFAULT_MAX_SEVERITY,
    DEFAULT_PROTECTED_TURNS,
    DEFAULT_TARGET_SHARE,
    Severity,
    make_plan,
    target_tokens,
)
from ..compaction.transcript_file import MAX_TRANSCRIPT_BYTES, NO_SIZE_LIMIT, check_transcript_size
from .plan_options import NotPlannedError, PlanOptions

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ..compaction.operation_selection import SelectionOptions
    from ..compaction.plan import CompactionPlan, Operation, Refusal
    from ..compaction.summary_boundary import Conversation
    from ..compaction.transcript_planning import EntryReader, PlanDraft
    from ..compaction.transcript_view import TranscriptView
    from ..model.session import Session
    from ..policy.policy import Policy


class PlanContext(msgspec.Struct, frozen=True):
    """The session that is planned for, and what that takes."""

    db: sqlite3.Connection
    """Tokens are estimated by what the store has measured, as long as the plan is worked on."""
    transcript: Path
    session: Session
    policy: Policy
    summary_cache: Path
    """Folder of summaries that a model wrote."""
    read_entries: EntryReader
    """Reads the transcript's entries."""
    on_message: Callable[[str], None]
    """Hears what a model that writes a summary has to say."""
    held_by: str | None = None
    """Who has the session open, where that forbids it."""


def plan_compaction(context: PlanContext, options: PlanOptions) -> CompactionPlan:
    """Plan what was asked for; a refusal is part of it. Raises NotPlannedError."""
    size = _transcript_size(context)
    too_large = check_transcript_size(size, _size_limit(options))
    if too_large:
        # To read gigabytes takes minutes, for a plan that is not carried out.
        known = context.session.context.tokens or 0
        named = context.session.session_id
        return make_plan(named, "", size, (), before_tokens=known, refused=[too_large])
    if options.whole_strategy:
        return plan_whole_conversation(context, options, lambda _: None)
    with draft_compaction(context, options) as draft:
        return draft.plan()


@contextmanager
def draft_compaction(context: PlanContext, options: PlanOptions) -> Iterator[PlanDraft]:
    """Hold a plan by level, of which operations can be left out. Raises NotPlannedError."""
    from ..compaction.protection import ProtectionLimits
    from ..compaction.transcript_file import open_transcript
    from ..compaction.transcript_planning import draft_plan
    from ..store.token_samples import read_estimator

    _refuse_too_large(context, options)
    keep = DEFAULT_PROTECTED_TURNS if options.keep is None else options.keep
    try:
        with open_transcript(context.transcript) as file:
            yield draft_plan(
                context.session.session_id,
                context.transcript,
                file,
                context.read_entries,
                read_estimator(context.db).for_model,
                options=selection_aim(context.session, options),
                protection=ProtectionLimits(min_turns=keep),
                open_in=context.held_by,
                max_bytes=_size_limit(options),
            )
    except OSError as error:
        raise _unreadable(context, error) from error


def plan_whole_conversation(
    context: PlanContext, options: PlanOptions, on_view: Callable[[TranscriptView], None]
) -> CompactionPlan:
    """Plan for the whole conversation, and let `look` see it. Raises NotPlannedError."""
    from ..compaction.conversation_planning import plan_conversation
    from ..store.token_samples import read_estimator
    from ..summaries.summary_settings import read_summary_settings
    from .whole_strategies import whole_operation_maker

    _refuse_too_large(context, options)
    settings = read_summary_settings(context.policy)
    make = whole_operation_maker(
        options, settings, context.session, context.summary_cache, context.on_message
    )

    def make_seen(whole: Conversation, view: TranscriptView) -> Operation | Refusal:
        on_view(view)
        return make(whole, view)

    try:
        return plan_conversation(
            context.session.session_id,
            context.transcript,
            context.read_entries,
            read_estimator(context.db).for_model,
            make_seen,
            open_in=context.held_by,
            max_bytes=_size_limit(options),
        )
    except OSError as error:
        raise _unreadable(context, error) from error


def _refuse_too_large(context: PlanContext, options: PlanOptions) -> None:
    """Raise NotPlannedError where the transcript is too large to be read for a plan."""
    found = check_transcript_size(_transcript_size(context), _size_limit(options))
    if found:
        raise NotPlannedError(f"{found.why}: {found.what_to_do}")


def _transcript_size(context: PlanContext) -> int:
    try:
        return context.transcript.stat().st_size
    except OSError as error:
        raise _unreadable(context, error) from error


def _size_limit(options: PlanOptions) -> int:
    return NO_SIZE_LIMIT if options.force else MAX_TRANSCRIPT_BYTES


def _unreadable(context: PlanContext, error: OSError) -> NotPlannedError:
    return NotPlannedError(f"{context.transcript} cannot be read: {error.strerror or error}")


def selection_aim(session: Session, options: PlanOptions) -> SelectionOptions:
    """Return the selection options of a plan by level.

    The target is half of the effective window if no target, level or strategy was chosen.
    """
    from ..compaction.operation_selection import SelectionOptions

    chose = options.level is not None or bool(options.strategies)
    share = options.target if options.target is not None or chose else DEFAULT_TARGET_SHARE
    return SelectionOptions(
        max_level=DEFAULT_MAX_SEVERITY if options.level is None else Severity(options.level),
        strategies=options.strategies,
        target_tokens=None
        if share is None
        else target_tokens(session.context.window.tokens, share),
        window_tokens=session.context.window.tokens,
    )
