"""An agent that was forked from its session's conversation: its file only names the place."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.transcript_details import read_composition
from ctxtop.core.measure.composition import ContextCategory
from ctxtop.core.store.database import open_reader

from ..transcripts import PROJECT, SESSION, assistant, text, tool, tool_result, user, write
from .test_composing import linked

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.measure.composition import Composition

AGENT = "a1"
OVERHEAD = 20_000
LONG = "found it in the parser " * 2_000  # about 10,000 tokens


def session() -> list[dict[str, Any]]:
    call = tool("Bash", "t1", command="make")
    fork = tool("Agent", "t2", subagent_type="fork", prompt="look")
    return linked(
        user("go"),
        assistant("m1", OVERHEAD, content=[call]),
        tool_result("t1", LONG, {}),
        assistant("m2", 30_000, content=[fork]),
    )


def forked(ref: dict[str, Any], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    own: dict[str, Any] = {"isSidechain": True, "agentId": AGENT}
    begun = [
        lines[-1] | own,
        tool_result("t2", "Fork started.", {}) | own,
        assistant("m3", 30_400, content=[text("Done.")]) | own,
    ]
    named = {"type": "fork-context-ref", "agentId": AGENT, "contextLength": 3}
    where = {"parentSessionId": SESSION, "parentLastUuid": lines[2]["uuid"]}
    return [named | where | ref, *linked(*begun)]


@pytest.fixture
def composed(claude: ClaudeFolder, collector: Collector, store: Path) -> Any:  # noqa: ANN401
    def compose(**ref: str) -> Composition:
        lines = session()
        folder = claude.projects / PROJECT
        write(folder / f"{SESSION}.jsonl", lines)
        write(folder / SESSION / "subagents" / f"agent-{AGENT}.jsonl", forked(ref, lines))
        collector.scan()
        with closing(open_reader(store)) as db:
            return read_composition(db, claude.projects, SESSION, agent_id=AGENT)

    return compose


def test_what_it_inherited_is_named_and_is_no_system_prompt(composed: Any) -> None:  # noqa: ANN401
    found = {each.name: each.tokens for each in composed().categories}
    assert found[ContextCategory.OVERHEAD] == pytest.approx(OVERHEAD, rel=0.01)
    assert found[ContextCategory.INHERITED] == pytest.approx(10_000, rel=0.15)
    assert sum(found.values()) == 30_400


@pytest.mark.parametrize(
    "ref",
    [
        {"parentLastUuid": "gone"},
        {"parentSessionId": "99999999-2222-4333-8444-555555555555"},
        {"parentSessionId": "../../elsewhere"},
        {"type": "something"},
    ],
)
def test_a_place_that_is_not_found_says_nothing(
    composed: Any,  # noqa: ANN401
    ref: dict[str, str],
) -> None:
    found = composed(**ref)
    assert found.total_tokens == 30_400
    assert ContextCategory.INHERITED not in {each.name for each in found.categories}
