"""Sessions that end in the middle of a turn: what may change before the model goes on with it."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import open_turn, visible_entries

from .edits import results, write_edited
from .lab import LARGE, SMALL, Lab
from .ledger import is_main
from .talks import copy_of, path_of
from .validator import blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Json = dict[str, Any]

ENDS: Final = "[[error:400 The key is not valid.]]"
"""The client gives up: the last results wait for the model."""

GO_ON: Final = "Go on. [[bound:&&&say:done]]"
COUNTED: Final = "&&&usage:counted"
"""Plans measure by what the API reports: here it is what it was sent."""

OLD_TURN: Final = (
    f"[[think:plan&&&bash:seq 1 5000{COUNTED}]] [[think:T.&&&bash:seq 2 5000{COUNTED}]]"
    f" [[say:ok{COUNTED}]]"
)
THOUGHT_EARLY: Final = f"[[think:first&&&bash:seq 3 5000{COUNTED}]] " + " ".join(
    f"[[bash:seq {first} 5000{COUNTED}]]" for first in range(4, 22)
)
"""Its thinking stands before nearly all of its results."""

THOUGHT_LATE: Final = " ".join(f"[[think:n{n}&&&bash:seq {n} 5000{COUNTED}]]" for n in range(4, 22))

THOUGHT_SHORT: Final = " ".join(
    f"[[think:n{n}&&&bash:seq {n} 5000{COUNTED}]]" for n in range(4, 12)
)
"""Fits into a window of 200,000."""


@pytest.fixture(scope="module")
def stopped(new_lab: Callable[[type[Lab]], Lab]) -> Callable[[str, str], tuple[Lab, Path]]:
    """A copy of a session that ended in the middle of its second turn, and its lab."""

    @cache
    def made(turn: str, model: str) -> tuple[Lab, Path]:
        lab = new_lab(Lab)
        lab.write_settings({"autoCompactEnabled": False})
        session_id = lab.turn(f"Begin. {OLD_TURN}", model=model).session_id
        assert lab.turn(f"And now? {turn} {ENDS}", resume=session_id, model=model).code != 0
        return lab, path_of(lab, session_id)

    def copied(turn: str, model: str = LARGE) -> tuple[Lab, Path]:
        lab, path = made(turn, model)
        return lab, copy_of(path)

    return copied


def compact(lab: Lab, path: Path, *words: str) -> Json:
    """Apply a plan, as a person does; returns what the command printed, a refusal too."""
    places = ["--config-dir", str(lab.config), "--db", str(lab.store)]
    run = [sys.executable, "-I", "-m", "ctxtop", *places, "compact", path.stem, *words]
    ended = lab.namespace.run([*run, "--apply", "--json"], lab.project, lab.env, 120.0)
    printed = ended.out or ended.err
    said: Json = json.loads(printed[printed.index("{") :])
    return said | {"code": ended.code}


def go_on(lab: Lab, path: Path, said: Json, model: str = LARGE) -> list[Json]:
    """Resume what the command left, and list what the API was asked for it."""
    session_id = said.get("new_session_id") or path.stem
    turn = lab.turn(GO_ON, resume=session_id, model=model)
    assert turn.code == 0, turn.out
    return [one for one in turn.exchanges if is_main(one, session_id)]


def thoughts(exchange: Json) -> list[str]:
    messages = exchange["body"]["messages"]
    blocks = (block for one in messages for block in blocks_of(one.get("content")))
    return [block["thinking"] for block in blocks if block.get("type") == "thinking"]


def test_a_change_before_the_thinking_of_an_open_turn_makes_the_api_refuse_it(
    stopped: Callable[[str], tuple[Lab, Path]],
) -> None:
    lab, path = stopped(THOUGHT_EARLY)
    assert [each.uuid for each in open_turn(visible_entries(read_entries(path)))]

    def cut(lines: list[Json]) -> list[Json]:
        results(lines)[0]["message"]["content"][0]["content"] = "[cut]"
        return lines

    session_id = write_edited(path, cut)
    first, second = go_on(lab, path, {"new_session_id": session_id})
    assert (first["what"], second["what"]) == ("error", "answer")
    assert second["missing"], "the client tries again without what the turn had thought"


def test_level_4_changes_what_follows_the_thinking_of_an_open_turn(
    stopped: Callable[[str], tuple[Lab, Path]],
) -> None:
    lab, path = stopped(THOUGHT_EARLY)
    said = compact(lab, path, "--level", "4", "--keep", "3")
    assert said["code"] == 0, said
    (asked,) = go_on(lab, path, said)
    assert (asked["unbound"], asked["missing"]) == ([], [])
    assert thoughts(asked)[-1] == "first"
    assert "seq" in json.dumps(asked["body"]["messages"])


def test_level_4_says_what_to_do_where_nothing_may_change(
    stopped: Callable[[str], tuple[Lab, Path]],
) -> None:
    lab, path = stopped(THOUGHT_LATE)
    before = path.read_bytes()
    said = compact(lab, path, "--level", "4", "--keep", "3")
    assert said["code"] != 0
    assert "--strategy condense" in json.dumps(said)
    assert path.read_bytes() == before


@pytest.mark.parametrize("words", [("condense", "--target", "0.05"), ("summarize", "--keep", "4")])
@pytest.mark.parametrize("turn", [THOUGHT_EARLY, THOUGHT_LATE], ids=["early", "late"])
def test_a_boundary_leaves_no_answer_of_the_open_turn_without_its_thinking(
    stopped: Callable[[str], tuple[Lab, Path]], turn: str, words: tuple[str, ...]
) -> None:
    lab, path = stopped(turn)
    said = compact(lab, path, "--strategy", *words)
    assert said["code"] == 0, said
    (asked,) = go_on(lab, path, said)
    assert (asked["unbound"], asked["missing"]) == ([], [])
    assert thoughts(asked) == []


def test_a_model_that_does_not_bind_thinking_keeps_that_of_its_open_turn(
    stopped: Callable[[str, str], tuple[Lab, Path]],
) -> None:
    for words in (("--level", "4", "--keep", "3"), ("--strategy", "condense", "--target", "0.2")):
        lab, path = stopped(THOUGHT_SHORT, SMALL)
        said = compact(lab, path, *words)
        assert said["code"] == 0, said
        (asked,) = go_on(lab, path, said, SMALL)
        assert asked["missing"] == []
        assert "n11" in thoughts(asked)
        entries = visible_entries(read_entries(path_of(lab, asked_session(said, path))))
        assert any(part.kind is PartKind.THINKING for each in entries for part in each.parts)


def asked_session(said: Json, path: Path) -> str:
    return str(said.get("new_session_id") or path.stem)
