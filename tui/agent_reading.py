"""What the agents' page shows: some sessions' agents, and what is summed up of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ..core.agents import Agent
    from ..core.compliance_summary import Compliance
    from ..core.policy.layers import Policies
    from ..core.review_groups import Found
    from ..core.sessions import Session


class Scope(Enum):
    """Of which sessions agents are shown; `a` goes from one to the next."""

    SESSION = "this session"
    LIVE = "live sessions"
    ALL = "all sessions"


@dataclass(frozen=True, slots=True)
class Gathered:
    """One moment of some sessions' agents."""

    scope: Scope
    agents: tuple[Agent, ...]
    """In the order they started."""
    compliance: Compliance
    findings: tuple[Found, ...]
    """What their reviewers found, newest review first."""


def gather_agents(
    db: sqlite3.Connection,
    scope: Scope,
    session_id: str | None,
    sessions: Sequence[Session],
    policies: Policies,
) -> Gathered:
    """Read the agents of a scope, and sum them up as `ctxtop compliance` does."""
    from ..core.compliance.expected import terms_of
    from ..core.compliance_summary import sum_up
    from ..core.fleet import read_agents
    from ..core.review_groups import gather

    agents = read_agents(db, sessions, _only(scope, session_id, sessions), policies)
    summed = sum_up(agents, terms_of(policies.common))
    projects = {each.session_id: each.project for each in sessions}
    return Gathered(scope, tuple(agents), summed, tuple(gather(summed.findings, projects)))


def _only(scope: Scope, session_id: str | None, sessions: Sequence[Session]) -> list[str] | None:
    if scope is Scope.SESSION:
        return [session_id or ""]
    if scope is Scope.LIVE:
        return [each.session_id for each in sessions if each.live]
    return None
