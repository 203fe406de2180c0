"""Reads a part of a conversation from its transcript, laid out to be shown."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...collectors.claude_code.transcripts.transcript_pages import (
    ConversationFile,
    TranscriptWindow,
)
from ...core.measure.conversation_steps import Step, join_results
from ...core.model.problem import Problem, reading_problem
from .conversation_rows import ConversationLayout, ConversationSizes, StepKey

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ...core.model.counting_rule import CountingRule


@dataclass(frozen=True, slots=True)
class ConversationPlace:
    """Whose conversation, and where in it: None is its end."""

    session_id: str
    agent_id: str | None = None
    offset: int | None = None
    words: tuple[str, ...] = ()  # texts to go to in that line; they are highlighted


@dataclass(frozen=True, slots=True)
class LoadedConversation:
    source: ConversationFile
    window: TranscriptWindow
    steps: tuple[Step, ...]  # with their results


ReadWindow = Callable[[ConversationFile], TranscriptWindow]
ReadResult = LoadedConversation | Problem


def find_conversation(
    db: sqlite3.Connection, projects: Path, place: ConversationPlace
) -> ConversationFile | Problem:
    from ...core.store.queries.context_queries import find_transcript

    found = find_transcript(db, place.session_id, place.agent_id)
    if found is None:
        who = "this agent" if place.agent_id else "this session"
        return Problem(who, "has no transcript of its own", "its parent's conversation shows it")
    return ConversationFile(projects / found[1], place.agent_id)


def read_sizes(
    db: sqlite3.Connection, projects: Path, place: ConversationPlace, counting: CountingRule
) -> ConversationSizes:
    """Return what each step takes in the context, as the breakdown says; none if unknown.

    The sizes of compactions are those of the timeline.
    """
    from ...collectors.claude_code.transcript_details import (
        TranscriptUnavailableError,
        read_composition,
    )
    from ...core.readers.timeline_reader import read_compactions

    compactions = read_compactions(db, (place.session_id, place.agent_id), counting)
    try:
        parts = read_composition(
            db, projects, place.session_id, place.agent_id, counting=counting, max_items=0
        ).part_sizes
    except TranscriptUnavailableError:
        parts = {}
    return ConversationSizes(parts, compactions)


def read_conversation(
    layout: ConversationLayout | None,
    unfolded: AbstractSet[StepKey],
    source: ConversationFile,
    read: ReadWindow,
) -> ReadResult:
    """Read a window and write its rows; may raise PagesOutdatedError."""
    try:
        window = read(source)
    except OSError as error:
        return reading_problem(source.path.name, error, "open this page again")
    steps = tuple(join_results(window.steps))
    if layout is not None:
        layout.rows(steps, unfolded)  # which the screen's thread then finds there
    return LoadedConversation(source, window, steps)
