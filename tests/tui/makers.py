"""Sessions, agents and summaries as the store would give them, made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.model.agent import Agent, AgentStatus
from ctxtop.core.model.context import Context, ContextState
from ctxtop.core.model.context_window import ClaimSource, Window
from ctxtop.core.model.session import Session, SessionStatus
from ctxtop.core.model.stored_rows import SummaryRow
from msgspec.structs import replace

from .support import NOW_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW: Final = Window(200_000, ClaimSource.TABLE)


def context(tokens: int | None, state: str = "measured") -> Context:
    return Context(tokens, ContextState("unknown" if tokens is None else state), WINDOW)


def session(**fields: Any) -> Session:  # noqa: ANN401 -- any field may be named
    made = Session(
        session_id="aaaaaaaa-0000-4000-8000-000000000000",
        title="Fix the flaky checkout tests",
        project="shop",
        cwd="/home/dev/shop",
        model="claude-haiku-4-5",
        client_version="2.1.329",
        status=SessionStatus.ENDED,
        live=False,
        tmux=None,
        context=context(172_412),
        too_long=None,
        refusal=None,
        compactions=0,
        last_compaction_at=None,
        agents=0,
        started_at=NOW_MS - 600_000,
        last_activity_at=NOW_MS - 120_000,
        path="-home-dev-shop/aaaaaaaa.jsonl",
    )
    return replace(made, **fields)


def agent(agent_id: str, parent: str | None = None, **fields: Any) -> Agent:  # noqa: ANN401
    made = Agent(
        agent_id=agent_id,
        session_id="aaaaaaaa-0000-4000-8000-000000000000",
        parent_agent_id=parent,
        agent_type="reviewer",
        description="look at it",
        model="claude-opus-5-5",
        status=AgentStatus.COMPLETED,
        context=context(20_000),
        tool_uses=3,
        started_at=NOW_MS - 90_000,
        ended_at=NOW_MS,
        result=None,
        last_message=None,
    )
    return replace(made, **fields)


def summary(text: str, **fields: Any) -> SummaryRow:  # noqa: ANN401
    made: Mapping[str, Any] = {
        "summary_id": 1,
        "kind": "agent",
        "session_id": "aaaaaaaa-0000-4000-8000-000000000000",
        "agent_id": "a1",
        "agent_type": "reviewer",
        "description": "look at it",
        "at": NOW_MS - 60_000,
        "lines": len(text.split("\n")),
        "estimated_tokens": 10,
        "text": text,
    }
    return SummaryRow(**{**made, **fields})
