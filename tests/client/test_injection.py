"""Injection: what the second agent's first request holds, and what it does not."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.agent_queries import answer_items

from .features import install

if TYPE_CHECKING:
    from .lab import Lab

WORKER = (
    "[COMPRESSED] agent_type: worker\nChanged files: src/cart.py\n"
    "Result: The cart rounds at the end."
)


def first_request(exchanges: list[dict[str, Any]], kind: str) -> str:
    """Return the messages, as JSON, of the first request of a subagent of this type."""
    for exchange in exchanges:
        if f"You are {kind}." in json.dumps(exchange["body"].get("system")):
            return json.dumps(exchange["body"]["messages"])
    pytest.fail(f"no request of {kind}")


def delegate(kind: str, task: str, said: str) -> str:
    return f"Do it. [[agent:{kind}|{task} <<say:{said}>>]] [[say:waiting]]"


@pytest.mark.parametrize("scanned", [True, False], ids=["with a store", "without"])
def test_a_second_agent_is_given_what_the_first_one_found(lab: Lab, scanned: bool) -> None:
    lab.define_agent("worker")
    lab.define_agent("reviewer")
    lab.define_agent("stranger")
    install(lab, SubagentStart="inject")
    here = lab.project
    lab.project = lab.root / "elsewhere"  # type: ignore[misc]
    lab.project.mkdir()
    lab.turn(delegate("stranger", "Look", "The stranger's secret plan."))
    lab.project = here  # type: ignore[misc]
    first = lab.turn(delegate("worker", "Build the cart", WORKER))
    if scanned:
        lab.ctxtop()
    second = lab.turn(delegate("reviewer", "Review the cart", "fine"), resume=first.session_id)
    sent = first_request(second.exchanges, "reviewer")
    assert "The cart rounds at the end." in sent
    assert "secret plan" not in sent
    lab.ctxtop()
    with closing(open_reader(lab.store)) as db:
        rows = answer_items(db, "inject", first.session_id)
    assert [(row.kind, row.text) for row in rows] == [
        ("sibling", "finished in this session under the same parent")
    ]


def test_its_tasks_and_not_what_an_unrelated_agent_of_the_project_found(lab: Lab) -> None:
    for name in ("worker", "reviewer", "stranger"):
        lab.define_agent(name)
    install(lab, SubagentStart="inject")
    lab.turn(delegate("stranger", "Look", "The stranger's details."))
    task = json.dumps({"subject": "Look at the cart", "description": "All of its totals"})
    owner = json.dumps({"taskId": "1", "owner": "reviewer"})
    other = json.dumps({"subject": "Paint the shed", "description": "red"})
    turn = lab.turn(
        f"Do it. [[tool:TaskCreate|{task}]] [[tool:TaskUpdate|{owner}]]"
        f" [[tool:TaskCreate|{other}]] [[agent:reviewer|Review it <<say:fine>>]] [[say:waiting]]"
    )
    sent = first_request(turn.exchanges, "reviewer")
    assert "| [pending] Look at the cart: All of its totals" in sent
    assert "Paint the shed" not in sent
    # Nothing is closer, so the newest of the project is told in short.
    assert "no closer match" in sent
    again = lab.turn(delegate("worker", "Build it", WORKER), resume=turn.session_id)
    assert "stranger's details" not in first_request(again.exchanges, "worker")


def test_an_agent_in_another_is_given_nothing_of_the_one_that_runs(lab: Lab) -> None:
    lab.define_agent("outer")
    lab.define_agent("inner")
    install(lab, SubagentStart="inject")
    turn = lab.turn(
        "Do it. [[agent:outer|Outer work <<say:Half a thought.+++agent:inner|Inner work>>"
        " <<say:Outer is done.>>]] [[say:Waiting.]]"
    )
    sent = first_request(turn.exchanges, "inner")
    assert "Half a thought" not in sent
    assert "chosen by ctxtop" not in sent
