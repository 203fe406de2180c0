"""The window of every model that ctxtop knows is the client's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.claude_models import LARGE_WINDOW_SUFFIX, SMALL_WINDOW, table_window

from .lab import LARGE, SMALL

if TYPE_CHECKING:
    from .lab import Lab
    from .ledger import Judge

MODELS = (
    "opus",
    "sonnet",
    "haiku",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-fable-5-2",
    "claude-mythos-5-2",
    "claude-mythos-preview",
    "claude-fable-5-1",
    "claude-mythos-5-1",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-fable-5",
    "claude-mythos-5",
    "claude-opus-4-8",
    "claude-opus-4-7",
    "claude-opus-4-6",
    "claude-opus-4-6[1m]",
    "claude-sonnet-4-6",
    "claude-sonnet-4-6[1m]",
    "claude-opus-4-5",
    "claude-sonnet-4-5-20250929",
    "claude-haiku-4-5-20251001",
    "claude-haiku-4-5[1m]",
    "claude-sonnet-4-20250514",
    "claude-sonnet-4-0",
    "claude-3-opus-20240229",
    "claude-3-haiku-20240307",
    "claude-3-7-sonnet-20250219",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_by_itself(lab: Lab, judge: Judge, model: str) -> None:
    turn = lab.turn("Hi. [[say:ok&&&usage:31000]]", model=model)
    assert turn.said["modelUsage"]
    judge.turn(turn)


def test_from_a_large_model_to_a_small_one(lab: Lab, judge: Judge) -> None:
    first = lab.turn("Much. [[say:ok&&&usage:310000]]", model=LARGE)
    judge.turn(first)
    judge.turn(lab.turn("/compact", resume=first.session_id, model=LARGE))
    small = lab.turn("Less. [[say:ok&&&usage:30000]]", resume=first.session_id, model=SMALL)
    assert judge.turn(small).context.window.tokens == SMALL_WINDOW
    judge.turn(lab.turn("More. [[say:ok&&&usage:33000]]", resume=first.session_id, model=LARGE))


def test_a_model_that_stands_in_for_another(lab: Lab, judge: Judge) -> None:
    first = lab.turn("Hi. [[say:ok&&&usage:31000]]", model=LARGE)
    judge.turn(first)
    lab.retries = 10
    turn = lab.turn(
        f"Go on. [[overload:{LARGE}&&&say:ok&&&usage:32000]]",
        resume=first.session_id,
        model=LARGE,
        more=("--fallback-model", SMALL),
    )
    assert judge.turn(turn).model == SMALL


@pytest.mark.parametrize("model", ["claude-haiku-6", "claude-opus-4-9", "my-own-model"])
def test_a_model_that_nobody_knows(lab: Lab, judge: Judge, model: str) -> None:
    assert table_window(model) is None
    judge.turn(lab.turn("Hi. [[say:ok&&&usage:31000]]", model=model))


def test_the_large_window_of_another_session(lab: Lab, judge: Judge) -> None:
    model = "claude-sonnet-4-6"
    judge.turn(lab.turn("Much. [[say:ok&&&usage:310000]]", model=model + LARGE_WINDOW_SUFFIX))
    judge.turn(lab.turn("Hi. [[say:ok&&&usage:31000]]", model=model))
