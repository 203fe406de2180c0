"""Steering: what a compaction is asked to keep, what it forgot, and that it is said once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.current_context import read_rules
from ctxtop.core.measure.token_estimate import token_upper_bound
from ctxtop.core.summaries.session_rules import NO_RULE_CHOICES
from ctxtop.core.summaries.steering import KEEP_HEADING, REMINDER_HEADING, RULES_HEADING

from .api import FORGET
from .features import install

if TYPE_CHECKING:
    from .lab import Lab, Turn

RULE = "You must never change the public names of the cart module."
DECISION = "We decided to keep the prices in SQLite."
KINDS = ("files", "decisions", "todos", "constraints")
CLOSE = 60
"""Tokens of what the client says before and after."""
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


def ctxtop(lab: Lab, *words: str) -> Any:  # noqa: ANN401 -- any JSON
    places = ["--config-dir", str(lab.config), "--db", str(lab.store)]
    ended = subprocess.run(
        [sys.executable, "-I", "-m", "ctxtop", *places, *words],
        capture_output=True,
        check=True,
        env=lab.env,
    )
    return json.loads(ended.stdout)


def compaction(lab: Lab) -> dict[str, Any]:
    (only,) = ctxtop(lab, "compactions", "--json")
    found: dict[str, Any] = only
    return found


def test_a_compaction_keeps_what_it_is_steered_to(lab: Lab) -> None:
    install(lab, PreCompact="steer", PostCompact="remember", UserPromptSubmit="remember")
    session = work(lab, RULE).session_id
    turn = overflow(lab, session)
    asked = sent(turn, "summary")
    assert KEEP_HEADING in asked
    assert asked.count(RULE) == 2, "in the prompt itself, and in what is to be kept"
    for each in (DECISION, "Round the totals of the cart", "prices.py (created or rewritten)"):
        assert each in asked.partition(KEEP_HEADING)[2]
    told = compaction(lab)
    assert not any(told["forgotten"][kind] for kind in KINDS)
    assert {each["kind"] for each in told["steered"]} == {"constraint", "todo", "file", "decision"}
    assert all(each["kept"] for each in told["steered"])
    request = sent(lab.turn("More. [[say:ok]]", resume=session), "answer")
    assert REMINDER_HEADING not in request
    assert RULES_HEADING not in request


def test_what_it_forgot_all_the_same_is_said_once(lab: Lab) -> None:
    install(lab, PreCompact="steer", PostCompact="remember", UserPromptSubmit="remember")
    rule = f"You must never touch the file {FORGET}.cfg of the shop."
    session = work(lab, rule).session_id
    overflow(lab, session)
    told = compaction(lab)
    lost = {kind: told["forgotten"][kind] for kind in KINDS}
    assert [each["text"] for each in lost.pop("constraints")] == [rule]
    assert not any(lost.values())
    assert [each["text"] for each in told["steered"] if not each["kept"]] == [f'"{rule}"']
    for number in range(2):
        request = sent(lab.turn(f"More {number}. [[say:ok]]", resume=session), "answer")
        assert request.count(RULES_HEADING) == 1
        assert request.partition(RULES_HEADING)[2].count(rule) == 1
        assert DECISION not in request.partition(RULES_HEADING)[2]


def test_a_rule_that_the_summary_lost_is_in_the_next_request_once(lab: Lab) -> None:
    install(lab, PostCompact="remember", UserPromptSubmit="remember")
    session = work(lab, RULE).session_id
    overflow(lab, session)
    request = sent(lab.turn("More. [[say:ok]]", resume=session), "answer")
    assert request.count(RULES_HEADING) == 1
    assert request.count(RULE) == 1


def test_a_manual_one_shows_the_model_what_was_steered_and_the_rule_is_given_back_all_the_same(
    lab: Lab,
) -> None:
    install(lab, PreCompact="steer", PostCompact="remember", UserPromptSubmit="remember")
    rule = f"You must never touch the file {FORGET}.cfg of the shop."
    session = work(lab, rule).session_id
    asked = sent(lab.turn("/compact", resume=session), "summary")
    assert KEEP_HEADING in asked
    assert listed_rules(lab)[rule]["state"] == "lost"
    told = sent(lab.turn("More. [[say:ok]]", resume=session), "answer")
    # The client repeats what the hook printed as a command's output: not as the user's words.
    assert told.count(KEEP_HEADING) == 1
    assert told.partition(RULES_HEADING)[2].partition("</system-reminder>")[0].count(rule) == 1
    assert listed_rules(lab)[rule]["state"] == "given back"


def test_what_the_client_shows_the_model_of_it_again_is_short_and_its_cost_is_told(
    lab: Lab,
) -> None:
    install(lab, PreCompact="steer", PostCompact="remember", UserPromptSubmit="remember")
    rules = " ".join(f"You must never change the part number {n} of the shop." for n in range(40))
    session = lab.turn(f"{rules} [[say:Understood.]]").session_id
    asked = sent(lab.turn("/compact", resume=session), "summary").partition(KEEP_HEADING)[2]
    told = compaction(lab)
    cost = sum(each["tokens"] for each in told["steered"])
    assert 0 < cost <= 1_000
    assert all(each["text"].strip('"') in asked for each in told["steered"])
    request = sent(lab.turn("More. [[say:ok]]", resume=session), "answer")
    assert request.count(KEEP_HEADING) == 1, "the client's echo of what the hook said"
    echo = request.partition(KEEP_HEADING)[2].partition("PostCompact [")[0]
    assert token_upper_bound(json.loads(f'"{echo}"')) <= 1_000 + CLOSE


def test_a_file_that_the_client_names_again_is_not_forgotten(lab: Lab) -> None:
    files = [lab.project / f"part_{n}.py" for n in range(3)]
    for number, file in enumerate(files):
        lines = (f"price_{number}_{line} = {line} * RATE" for line in range(1_500))
        file.write_text("\n".join(lines), encoding="utf-8")
    steps = " ".join(f"[[read:{file}]]" for file in files)
    session = lab.turn(f"Read. {steps} [[say:Read.]]").session_id
    lab.turn("/compact", resume=session)
    lab.turn("More. [[say:ok]]", resume=session)
    attached = [line["attachment"] for line in lab.transcript(session) if "attachment" in line]
    named = {each["filename"] for each in attached if each["type"] == "compact_file_reference"}
    again = {each["filename"] for each in attached if each["type"] == "file"}
    assert named | again == {str(file) for file in files}
    assert named, "what is too large is named alone"
    assert compaction(lab)["forgotten"]["files"] == []


def listed_rules(lab: Lab) -> dict[str, dict[str, Any]]:
    listed = ctxtop(lab, "summaries", "--kind", "rule", "--json")
    return {each["text"]: each["rule"] for each in listed}


def test_a_rule_is_listed_as_lost_and_then_as_given_back(lab: Lab) -> None:
    install(lab, PostCompact="remember", UserPromptSubmit="remember")
    session = work(lab, RULE).session_id
    assert listed_rules(lab)[RULE]["state"] == "in context"
    overflow(lab, session)
    assert listed_rules(lab)[RULE]["state"] == "lost"
    lab.turn("More. [[say:ok]]", resume=session)
    assert listed_rules(lab)[RULE]["state"] == "given back"


def test_a_cut_carries_the_rules_of_prompts_and_the_client_sends_those_of_its_memory_again(
    lab: Lab,
) -> None:
    of_memory = "Never rename the columns of the price list."
    (lab.project / "CLAUDE.md").write_text(f"- {of_memory}\n", encoding="utf-8")
    session = lab.turn("Begin. [[say:Begun.]]").session_id
    lab.turn(f"{RULE} [[say:Understood.]]", resume=session)
    for number in range(3):
        lab.turn(f"Step {number}. [[say:{'done ' * 2_000}]]", resume=session)
    assert {RULE, of_memory} <= listed_rules(lab).keys()
    receipt = ctxtop(
        lab, "compact", session, "--strategy", "cut", "--keep-turns", "1", "--apply", "--json"
    )
    request = sent(lab.turn("More. [[say:ok]]", resume=receipt["new_session_id"]), "answer")
    assert request.count(RULE) == 1
    assert request.count(of_memory) == 1


@pytest.mark.usefixtures("terminal")
def test_a_rule_that_is_typed_during_a_turn(lab: Lab) -> None:
    screen = lab.interactive()
    screen.type(f"Begin. [[held:{lab.go}&&&bash:true]] [[say:ok]]")
    screen.until_status("busy")
    screen.type(RULE)
    lab.let_go()
    screen.settle()
    path = next(lab.config.glob(f"projects/*/{screen.session_id}.jsonl"))
    (rule,) = read_rules(path, NO_RULE_CHOICES)
    assert rule.text == RULE
    assert listed_rules(lab)[RULE]["rule_id"] == rule.rule_id
    screen.leave()
