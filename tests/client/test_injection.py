"""Injection: what the second agent's first request holds, and what it does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from .features import install

if TYPE_CHECKING:
    from .lab import Lab

WORKER = (
    "[COMPRESSED] agent_type: worker\nChanged files: src/cart.py\n"
    "Result: The cart rounds at the end."
)


def first_request(exchanges: list[dict[str, Any]], words: str) -> str:
    """Give the texts of the first request whose messages hold some words."""
    for exchange in exchanges:
        sent = json.dumps(exchange["body"].get("messages"))
        if words in sent and len(exchange["body"]["messages"]) <= 2:
            return sent
    pytest.fail(f"no request holds {words!r}")


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
    sent = first_request(second.exchanges, "Review the cart")
    assert "The cart rounds at the end." in sent
    assert "stranger" not in sent.partition("Available agent types")[0]
    assert "secret plan" not in sent
