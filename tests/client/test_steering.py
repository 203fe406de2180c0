"""Steering: what a compaction is asked to keep, what it forgot, and that it is said once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from ctxtop.core.summaries.steering import AGAIN, STEER

from .api import FORGET
from .features import install

if TYPE_CHECKING:
    from .lab import Lab, Turn

RULE = "You must never change the public names of the cart module."
DECISION = "We decided to keep the prices in SQLite."
TOO_LONG = "once:400 prompt is too long: 210000 tokens > 200000 maximum"


def work(lab: Lab, rule: str) -> Turn:
    task = json.dumps({"subject": "Round the totals of the cart", "description": "all"})
    return lab.turn(
        f"{rule} [[write:{lab.project}/prices.py|x = 1]] [[tool:TaskCreate|{task}]]"
        f" [[say:{DECISION}]]"
    )


def overflow(lab: Lab, session: str) -> Turn:
    # The scripted API refuses the same words once only.
    return lab.turn(f"Go on, {session}. [[{TOO_LONG}&&&say:fine&&&usage:20000]]", resume=session)


def sent(turn: Turn, what: str) -> str:
    (found,) = [one["body"]["messages"] for one in turn.exchanges if one["what"] == what]
    return json.dumps(found)


def forgotten(lab: Lab) -> dict[str, Any]:
    words = ["-m", "ctxtop", "--config-dir", str(lab.config), "--db", str(lab.store)]
    ended = subprocess.run(
        [sys.executable, "-I", *words, "compactions", "--json"],
        capture_output=True,
        check=True,
        env=lab.env,
    )
    (only,) = json.loads(ended.stdout)
    found: dict[str, Any] = only["forgotten"]
    return found


def test_a_compaction_keeps_what_it_is_steered_to(lab: Lab) -> None:
    install(lab, PreCompact="steer", PostCompact="remember", UserPromptSubmit="remember")
    session = work(lab, RULE).session_id
    turn = overflow(lab, session)
    asked = sent(turn, "summary")
    assert STEER in asked
    assert asked.count(RULE) == 2, "in the prompt itself, and in what is to be kept"
    for each in (DECISION, "Round the totals of the cart", "prices.py (created or rewritten)"):
        assert each in asked.partition(STEER)[2]
    lost = forgotten(lab)
    assert (lost["files"], lost["decisions"], lost["todos"], lost["constraints"]) == (
        [],
        [],
        [],
        [],
    )
    assert AGAIN not in sent(lab.turn("More. [[say:ok]]", resume=session), "answer")


def test_what_it_forgot_all_the_same_is_said_once(lab: Lab) -> None:
    install(lab, PreCompact="steer", PostCompact="remember", UserPromptSubmit="remember")
    rule = f"You must never touch the file {FORGET}.cfg of the shop."
    session = work(lab, rule).session_id
    overflow(lab, session)
    lost = forgotten(lab)
    assert [each["text"] for each in lost["constraints"]] == [rule]
    assert (lost["files"], lost["decisions"], lost["todos"]) == ([], [], [])
    for number in range(2):
        told = sent(lab.turn(f"More {number}. [[say:ok]]", resume=session), "answer")
        assert told.count(AGAIN) == 1
        assert told.partition(AGAIN)[2].count(rule) == 1
        assert DECISION not in told.partition(AGAIN)[2]


def test_a_manual_one_shows_the_model_what_was_steered(lab: Lab) -> None:
    install(lab, PreCompact="steer", PostCompact="remember", UserPromptSubmit="remember")
    rule = f"You must never touch the file {FORGET}.cfg of the shop."
    session = work(lab, rule).session_id
    asked = sent(lab.turn("/compact", resume=session), "summary")
    assert STEER in asked
    # The client writes what the hook said into the conversation: nothing is left to say.
    told = sent(lab.turn("More. [[say:ok]]", resume=session), "answer")
    assert rule in told
    assert AGAIN not in told
