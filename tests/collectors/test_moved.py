"""A session whose file was moved into another project's folder: its agents say what it says now."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import context_queries
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    append,
    assistant,
    chained,
    launch,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder

BEGUN = [user(), assistant("m1", 1000, at=2), launch("t1", at=6)]
ASIDE = user("look around", 7, isSidechain=True)


def in_sidechain(number: int) -> JsonLine:
    """An agent's answer as clients up to 2.0 wrote it."""
    return assistant(
        f"s{number}", 900 * number, at=7 + number, isSidechain=True, parentUuid=ASIDE["uuid"]
    )


def in_progress(number: int) -> JsonLine:
    """An agent's answer as clients up to about 2.1.9x wrote it."""
    message = assistant(f"p{number}", 900 * number, output=20, at=7 + number)
    said = {"type": "agent_progress", "agentId": "a1", "message": message}
    return chained("progress", at=7 + number, data=said, parentToolUseID="t1")


def told(store: Path) -> tuple[Any, ...]:
    """The agents, and the course of each."""
    with closing(open_reader(store)) as db:
        found = read_agents(db, read_sessions(db, START_MS), START_MS)
        return tuple(
            (
                agent,
                points(db, agent.agent_id),
                len(context_queries.answers(db, SESSION, agent.agent_id)),
            )
            for agent in found
        )


def points(db: Any, agent_id: str) -> list[tuple[Any, ...]]:  # noqa: ANN401 -- a connection
    """When how many tokens stood in an agent's context."""
    return [(each.at, each.tokens) for each in context_queries.fill_history(db, SESSION, agent_id)]


@pytest.mark.parametrize("answer", [in_sidechain, in_progress])
def test_an_agent_in_a_moved_file_is_as_that_file_says(
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    tmp_path: Path,
    answer: Any,  # noqa: ANN401
) -> None:
    before = claude.projects / PROJECT / f"{SESSION}.jsonl"
    after = claude.projects / "-home-dev-other" / before.name
    write(before, [*BEGUN, ASIDE, answer(1)])
    collector.scan()
    after.parent.mkdir()
    before.rename(after)
    append(after, [answer(2)])
    collector.scan()
    with closing(Writer(tmp_path / "clean.db")) as writer:
        Collector(claude, writer, Recorder()).scan()

    found = told(store)
    assert 1800 in [agent.context.tokens for agent, *_ in found]
    assert found == told(tmp_path / "clean.db")
