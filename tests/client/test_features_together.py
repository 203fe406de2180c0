"""Pairs of features in the real client: each does beside the other what it does without it."""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.collectors.plugin.installed_commands import FEATURE_EVENTS
from ctxtop.collectors.plugin_files import compact_requests
from ctxtop.core.policy.schema import DEFAULT_PROMPTS
from ctxtop.core.summaries.steering import KEEP_HEADING, RULES_HEADING

from .api import FORGET
from .conftest import ONLY_ALL_PAIRS
from .features import install
from .test_cold import pause, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from .lab import Json, Lab

RULE: Final = f"You must never touch the file {FORGET}.cfg of the shop."
FOUND: Final = "[COMPRESSED] agent_type: worker\nChanged files: none\nResult: The cart rounds."
BUILD: Final = f"[[agent:worker|Build it. <<say:I did it all.>> <<say:{FOUND}>>]]"
REVIEW: Final = f"[[agent:worker|Review it. <<say:{FOUND}>>]]"
PAIRS: Final = [
    pytest.param(
        *pair, marks=() if pair == ("steer", "remember") else getattr(pytest.mark, ONLY_ALL_PAIRS)
    )
    for pair in combinations(FEATURE_EVENTS, 2)
]


def requests(exchanges: list[Json], what: str = "answer") -> list[str]:
    return [
        json.dumps(one["body"]["messages"], ensure_ascii=False)
        for one in exchanges
        if one["what"] == what
    ]


class Work:
    """A session in which every feature has something to do, and what came of it."""

    def __init__(self, lab: Lab) -> None:
        self._define(lab)
        first = lab.turn(f"{RULE} {BUILD} [[say:Run.&&&usage:20000]]")
        session = first.session_id
        second = lab.turn(f"Go on. {REVIEW} [[say:Run.&&&usage:150000]]", resume=session)
        self.agents = "\n".join(requests([*first.exchanges, *second.exchanges]))
        pause(lab, session, 30)
        _leave_result(lab, session)
        next_turn = lab.turn("Next. [[say:ok&&&usage:151000]]", resume=session)
        self.next = "\n".join(requests(next_turn.exchanges))
        self.shown = "\n".join(told(lab, session))
        compacted = lab.turn("/compact", resume=session)
        self.summary = "\n".join(requests(compacted.exchanges, "summary"))
        after = lab.turn("More. [[say:ok]]", resume=session)
        self.after = "\n".join(requests(after.exchanges))

    def _define(self, lab: Lab) -> None:
        (lab.config / "agents").mkdir(exist_ok=True)
        lab.define_skill("compress-output", "Begin with [COMPRESSED].")
        agent = "---\nname: worker\ndescription: works\nskills: compress-output\n---\nWork.\n"
        (lab.config / "agents" / "worker.md").write_text(agent, encoding="utf-8")


def _leave_result(lab: Lab, session: str) -> None:
    store = str(lab.store)
    compact_requests.make_request_folders(store)
    kind = compact_requests.RESULT
    path = compact_requests.request_path(store, session, "0123456789abcdef", kind)
    result = {"state": "done", "pre_tokens": 850_000, "estimated_next_tokens": 20_000}
    compact_requests.write_request_file(path, result)


def _is_rule_repeated(work: Work) -> bool:
    # The client shows the model, as a command's output, what `steer` printed: that is not enough.
    return RULE in work.after.partition(RULES_HEADING)[2].partition("</system-reminder>")[0]


EFFECTS: Final[dict[str, Callable[[Work], bool]]] = {
    "enforce": lambda work: "No line starts with the marker." in work.agents,
    "inject": lambda work: "chosen by ctxtop" in work.agents,
    "steer": lambda work: RULE in work.summary.partition(KEEP_HEADING)[2],
    "remember": _is_rule_repeated,
    "prompts": lambda work: (
        json.dumps(DEFAULT_PROMPTS["reassure"], ensure_ascii=False)[1:-1] in work.next
    ),
    "confirm": lambda work: "ctxtop compacted this session: 850k → 20k tokens." in work.next,
    "cold": lambda work: "the prompt cache expired" in work.shown,
}


def run(lab: Lab, *features: str) -> set[str]:
    """Return the features whose effect the session shows."""
    events = {event for name in features for event in FEATURE_EVENTS[name]}
    install(
        lab,
        **{
            event: " ".join(name for name in features if event in FEATURE_EVENTS[name])
            for event in events
        },
    )
    work = Work(lab)
    return {name for name, is_seen in EFFECTS.items() if is_seen(work)}


def test_without_features_no_effect_is_seen_and_with_all_every_one(lab: Lab) -> None:
    assert run(lab) == set()
    assert run(lab, *FEATURE_EVENTS) == set(FEATURE_EVENTS)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_both_features_of_a_pair_have_their_effect(lab: Lab, one: str, other: str) -> None:
    assert run(lab, one, other) == {one, other}
