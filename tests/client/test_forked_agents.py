"""An agent that the client forks from its session's conversation."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ctxtop.collectors.claude_code.transcript_details import read_composition
from ctxtop.core.measure.composition import ContextCategory
from ctxtop.core.store.database import open_reader

if TYPE_CHECKING:
    from .lab import Lab
    from .ledger import Judge

FORKS = {"CLAUDE_CODE_FORK_SUBAGENT": "1"}


def test_what_it_inherited_is_no_system_prompt_and_counts_once(lab: Lab, judge: Judge) -> None:
    lab.variables |= FORKS
    built = "<<say:Built.+++usage:42000/9>>"
    turn = lab.turn(
        f"Begin. [[bash:seq 1 3000&&&usage:27000]] [[agent:fork|Build it {built}&&&usage:40000]]"
        " [[bash:sleep 3&&&usage:41000]] [[say:ok&&&usage:41500]]"
    )
    judge.turn(turn)
    store = lab.root / "forked.db"
    (agent,) = lab.ctxtop(store).agents
    assert (agent.agent_type, agent.context.tokens) == ("fork", 42_000)
    with closing(open_reader(store)) as db:
        projects = lab.config / "projects"
        found = read_composition(db, projects, turn.session_id, agent_id=agent.agent_id)
    sizes = {each.name: each.tokens for each in found.categories}
    assert 12_000 < sizes[ContextCategory.INHERITED] < 18_000, "a list of 3,000 numbers"
    assert ContextCategory.OVERHEAD not in sizes, "the session's own are recorded"
    assert sum(sizes.values()) == 42_000
