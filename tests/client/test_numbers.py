"""ctxtop's numbers are the client's own: every time, not on average."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.context import ContextState
from ctxtop.core.model.session import PromptTooLong, SessionStatus

from .lab import LARGE, SMALL

if TYPE_CHECKING:
    from .lab import Lab
    from .ledger import Judge

TOO_LONG = "400 prompt is too long: 210000 tokens > 200000 maximum"


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_tools_and_a_resume(lab: Lab, judge: Judge, model: str) -> None:
    file = lab.project / "shop.py"
    first = lab.turn(
        f"Write it. [[think:A rule.&&&say:Writing.&&&write:{file}|RATE = 7&&&usage:21000/90]]"
        f" [[read:{file}&&&bash:seq 1 200&&&usage:24500]] [[say:Written.&&&usage:29000/140]]",
        model=model,
    )
    assert judge.turn(first).context.tokens == 29_000
    for number, usage in enumerate((30_999, 31_000, 97_500, 145_000, 166_999)):
        turn = lab.turn(
            f"Step {number}. [[bash:echo {number}&&&usage:{usage - 400}]]"
            f" [[say:Step {number} is done.&&&usage:{usage}/{20 + number}]]",
            resume=first.session_id,
            model=model,
        )
        assert judge.turn(turn).context.tokens == usage


def test_the_window_is_larger_than_200_000(lab: Lab, judge: Judge) -> None:
    turn = lab.turn("Much. [[bash:seq 1 9&&&usage:310000]] [[say:ok&&&usage:966000]]", model=LARGE)
    assert judge.turn(turn).context.window.tokens == 1_000_000


def test_of_a_server_side_loop_the_last_pass_counts(lab: Lab, judge: Judge) -> None:
    turn = lab.turn("Search. [[say:Found.&&&loop:20000,24000]]")
    assert judge.turn(turn).context.tokens == 24_000
    judge.turn(lab.turn("Go on. [[say:On.&&&usage:25000]]", resume=turn.session_id))


def test_compactions_by_hand_and_by_itself(lab: Lab, judge: Judge) -> None:
    first = lab.turn("Fill it. [[bash:seq 1 900&&&usage:160000]] [[say:full&&&usage:166000]]")
    judge.turn(first)
    again = lab.turn(
        f"One more. [[once:{TOO_LONG}&&&say:After it.&&&usage:22000]]", resume=first.session_id
    )
    session = judge.turn(again)
    assert (session.context.tokens, session.compactions) == (22_000, 1)
    session = judge.turn(lab.turn("/compact keep the plan", resume=first.session_id))
    assert (session.context.state, session.compactions) == (ContextState.ESTIMATED, 2)
    judge.turn(lab.turn("Go on. [[say:Gone on.&&&usage:19000/31]]", resume=first.session_id))
    triggers = [row.trigger for row in lab.ctxtop().compactions]
    assert sorted(map(str, triggers)) == ["auto", "manual"]


def test_a_fork_counts_what_it_copies_once(lab: Lab, judge: Judge) -> None:
    first = lab.turn("Begin. [[bash:seq 1 9&&&usage:21000]] [[say:ok&&&usage:45000]]", model=LARGE)
    judge.turn(first)
    fork = lab.turn(
        "Try another way. [[say:forked&&&usage:52000]]",
        resume=first.session_id,
        model=LARGE,
        more=("--fork-session",),
    )
    assert fork.session_id != first.session_id
    assert judge.turn(fork, resumed=first.session_id).context.tokens == 52_000
    old = lab.turn("Go on. [[say:on&&&usage:47000]]", resume=first.session_id, model=LARGE)
    assert judge.turn(old, resumed=first.session_id).context.tokens == 47_000


def test_a_refused_prompt_changes_no_number(lab: Lab, judge: Judge) -> None:
    first = lab.turn("Begin. [[say:ok&&&usage:45000/12]]")
    judge.turn(first)
    refused = lab.turn("Then. [[error:400 messages.1: no]]", resume=first.session_id)
    assert refused.said["is_error"]
    session = judge.turn(refused)
    assert session.context.tokens == 45_000
    assert session.refusal is not None
    session = judge.turn(lab.turn("Again. [[say:ok&&&usage:46000]]", resume=first.session_id))
    assert session.refusal is None


def test_a_prompt_that_stays_too_long(lab: Lab, judge: Judge) -> None:
    first = lab.turn("Fill it. [[bash:seq 1 900&&&usage:160000]] [[say:full&&&usage:198000]]")
    judge.turn(first)
    session = judge.turn(lab.turn(f"More. [[error:{TOO_LONG}]]", resume=first.session_id))
    assert session.status is SessionStatus.TOO_LONG
    assert session.too_long == PromptTooLong(210_000, 200_000)
    session = judge.turn(lab.turn("Short. [[say:ok&&&usage:18000]]", resume=first.session_id))
    assert (session.too_long, session.context.tokens) == (None, 18_000)


def test_an_error_that_passes_changes_no_number(lab: Lab, judge: Judge) -> None:
    turn = lab.turn("Begin. [[once:529 Overloaded&&&say:ok&&&usage:45000/12]]")
    session = judge.turn(turn)
    assert (session.context.tokens, session.refusal) == (45_000, None)


def test_two_sessions_in_one_folder(lab: Lab, judge: Judge) -> None:
    one = lab.turn("One. [[say:ok&&&usage:21000]]")
    judge.turn(one)
    two = lab.turn("Two. [[say:ok&&&usage:22000]]")
    judge.turn(two)
    judge.turn(lab.turn("One again. [[say:ok&&&usage:23000]]", resume=one.session_id))
    assert len(lab.ctxtop().sessions) == 2
