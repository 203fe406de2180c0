"""What is read of one agent: its task, how its context grew, what was injected at its start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ....core.store.log_records import AnswerItemRecord
from ....core.store.queries.agent_queries import answer_items
from ....core.store.queries.query_rows import FillRow

if TYPE_CHECKING:
    import sqlite3

    from ....core.injection.context_selection import EarlierResult, Injection
    from ....core.model.agent import Agent
    from ....core.model.session import Session
    from ....core.policy.resolve import Policies

Key = tuple[str, str]


def read_injected_context(
    db: sqlite3.Connection, session_id: str | None = None
) -> dict[Key, list[AnswerItemRecord]]:
    """Find what agents were given, by session and agent."""
    found: dict[Key, list[AnswerItemRecord]] = {}
    for row in answer_items(db, "inject", session_id):
        if row.agent_id:
            found.setdefault((row.session_id, row.agent_id), []).append(row)
    return found


def injected_records(rows: Sequence[AnswerItemRecord]) -> list[dict[str, Any]] | None:
    """Make the value of `injected`; None where nothing was recorded."""
    if not rows:
        return None
    return [
        {
            "stage": row.kind,
            "session_id": row.from_session_id,
            "agent_id": row.from_agent_id,
            "reason": row.text,
            "at_most_tokens": row.tokens,
        }
        for row in rows
    ]


def injected_lines(rows: Sequence[AnswerItemRecord]) -> list[str]:
    return [
        f"{row.kind.replace('_', ' ')}: {row.from_agent_id or 'its tasks'}, {row.text}"
        + ("" if row.tokens is None else f", at most {row.tokens:,} tokens")
        for row in rows
    ]


CLOCK_TOLERANCE_MS: Final = 1_000
"""A result that came with an agent's start was not there for it: clocks of two files."""


class AgentDetails(msgspec.Struct, frozen=True):
    """All of it."""

    task: str = ""  # the prompt that it began with; empty where no file of its own has it
    context_history: tuple[FillRow, ...] = ()
    injected: tuple[AnswerItemRecord, ...] = ()
    """What ctxtop gave it at its start, as its hook wrote it down."""
    injection_choice: Injection | None = None
    """What there was to give when it started, by `read_injection_choice`."""


def read_agent_details(db: sqlite3.Connection, projects: Path, agent: Agent) -> AgentDetails:
    """Read all but the choice, from the store and from the beginning of the agent's own file."""
    from ....core.store.queries.context_queries import fill_history

    key = agent.session_id, agent.agent_id
    return AgentDetails(
        _read_task(db, projects, agent),
        tuple(fill_history(db, *key)),
        tuple(read_injected_context(db, agent.session_id).get(key, ())),
    )


def _read_task(db: sqlite3.Connection, projects: Path, agent: Agent) -> str:
    from ....collectors.claude_code.transcripts.transcript_ends import (
        first_prompt_text,
        read_head_lines,
    )
    from ....core.store.queries.context_queries import find_transcript
    from ....core.transcript.sanitize import sanitize_text

    found = find_transcript(db, agent.session_id, agent.agent_id)
    if found is None:
        return ""
    try:
        return sanitize_text(first_prompt_text(read_head_lines(projects / found[1])))
    except OSError:
        # The file is gone; what the store has of it stays.
        return ""


def read_injection_choice(
    db: sqlite3.Connection, projects: Path, agent: Agent, session: Session, policies: Policies
) -> Injection | None:
    """Work out anew what there was to give, from what is known now; reads all agents' files.

    None where the policy switches injection off, or nothing says when the agent started.
    """
    from pathlib import Path

    from ....collectors.claude_code.injection_sources import (
        InjectionRequest,
        gather_injection_sources,
    )
    from ....core.injection.context_selection import injection_limits, select_context

    limits = injection_limits(policies.acting.for_project(session.project_root))
    if limits is None or agent.started_at is None:
        return None
    asked = InjectionRequest(
        projects / session.path,
        agent.agent_type,
        agent.agent_id,
        project_root=Path(session.project_root) if session.project_root else None,
    )
    start, pasts = gather_injection_sources(asked, db, limits)
    before = [each for each in pasts if _was_there(each, agent.started_at)]
    # Its tasks are as they are now: what they were then nobody wrote down.
    return select_context(msgspec.structs.replace(start, tasks=(), plan=""), before, limits)


def _was_there(past: EarlierResult, started_at: int) -> bool:
    return past.at is not None and past.at + CLOCK_TOLERANCE_MS <= started_at
