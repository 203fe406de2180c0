"""What is read of one agent beside its row: its task, how it filled, what it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ..core.agents import Agent
    from ..core.injection.past import Injection, Past
    from ..core.policy.layers import Policies
    from ..core.sessions import Session
    from ..core.store.answer_queries import GivenRow
    from ..core.store.rows import FillRow

CLOCK_MS: Final = 1_000
"""A result that came with an agent's start was not there for it: clocks of two files."""


class Detail(msgspec.Struct, frozen=True):
    """All of it."""

    task: str = ""
    """The prompt that it began with; empty where no file of its own has it."""
    context_history: tuple[FillRow, ...] = ()
    injected: tuple[GivenRow, ...] = ()
    """What ctxtop gave it at its start, as its hook wrote it down."""
    injection_choice: Injection | None = None
    """What there was to give when it started, by `read_choice`."""


def read_detail(db: sqlite3.Connection, projects: Path, agent: Agent) -> Detail:
    """Read all but the choice, from the store and from the beginning of the agent's own file."""
    from ..core.store.queries import fill
    from .given_lines import given_to_agents

    key = agent.session_id, agent.agent_id
    return Detail(
        _task(db, projects, agent),
        tuple(fill(db, *key)),
        tuple(given_to_agents(db, agent.session_id).get(key, ())),
    )


def _task(db: sqlite3.Connection, projects: Path, agent: Agent) -> str:
    from ..collectors.clean import clean_text
    from ..collectors.transcripts.ends import first_prompt, head_lines
    from ..core.store.request_queries import transcript

    found = transcript(db, agent.session_id, agent.agent_id)
    if found is None:
        return ""
    try:
        return clean_text(first_prompt(head_lines(projects / found[1])))
    except OSError:
        # The file is gone; what the store has of it stays.
        return ""


def read_choice(
    db: sqlite3.Connection, projects: Path, agent: Agent, session: Session, policies: Policies
) -> Injection | None:
    """Work out anew what there was to give, from what is known now; reads all agents' files.

    None where the policy switches injection off, or nothing says when the agent started.
    """
    from pathlib import Path

    from ..collectors.giving import Asked, gather
    from ..core.injection.choose import choose
    from ..core.injection.limits import limits_of

    limits = limits_of(policies.acting.for_project(session.project_root))
    if limits is None or agent.started_at is None:
        return None
    asked = Asked(
        projects / session.path,
        agent.agent_type,
        agent.agent_id,
        project_root=Path(session.project_root) if session.project_root else None,
    )
    start, pasts = gather(asked, db, limits)
    before = [each for each in pasts if _was_there(each, agent.started_at)]
    # Its tasks are as they are now: what they were then nobody wrote down.
    return choose(msgspec.structs.replace(start, tasks=(), plan=""), before, limits)


def _was_there(past: Past, started_at: int) -> bool:
    return past.at is not None and past.at + CLOCK_MS <= started_at
