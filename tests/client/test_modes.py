"""Every mode on sessions of the real client: sent and as large as planned, taken back whole.

With --all-pairs every way is tried on every kind of session.
"""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import TYPE_CHECKING, Final

import msgspec
import pytest
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import Severity
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.compaction.undo import undo
from msgspec.structs import replace

from ..planned import plan_transcript
from .compacting import ApiCounter, resume, subject_of
from .edits import answers, write_edited
from .lab import LARGE
from .talks import TALKS, path_of
from .ways import (
    LATER,
    MORE,
    NEWEST,
    PROMPT_TOKENS,
    WAYS,
    Counting,
    Overcounting,
    Sizes,
    Talk,
    begin,
    prove_way,
    up_to,
    worth_it,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ctxtop.core.compaction.plan import CompactionPlan
    from ctxtop.core.compaction.receipts import CompactionReceipt

    from .lab import Lab


KINDS = ("thinking", "edits", "long day")
"""Every way has something to do on them."""

FULL = 965_640
"""Tokens read from the cache: with what else its request held the client would compact at once,
and not without what a plan takes out."""

COMPACTED = ["summary", "answer"]

MIXED = ("thinking", "edits", "long day")

STACKED = ("level 4, in place", "summary, appended")

ORDERS = ((0, 1), (1, 0))

OVERCOUNTED = "test_a_way_where_estimates_are_far_above_what_the_api_measured"

FEW: Final[dict[str, list[tuple[Any, ...]]]] = {
    "test_a_way": [(KINDS[number % len(KINDS)], way) for number, way in enumerate(WAYS)],
    OVERCOUNTED: [(KINDS[number % len(KINDS)], way) for number, way in enumerate(WAYS, 1)],
    "test_operations_are_taken_back_one_by_one": [
        ("thinking", ApplyMode.FORK),
        ("edits", ApplyMode.IN_PLACE),
    ],
    "test_two_receipts_in_both_orders": [(*STACKED, ORDERS[0]), (*reversed(STACKED), ORDERS[1])],
}
"""Without --all-pairs: each way, each mode and each order once."""

ARGUMENTS = ("kind", "way", "mode", "first", "second", "order")

ALL: Final[dict[str, list[tuple[Any, ...]]]] = {
    "test_a_way": [*product((*TALKS, *MORE), WAYS)],
    OVERCOUNTED: [*product((*TALKS, *MORE), WAYS)],
    "test_operations_are_taken_back_one_by_one": [
        *product(MIXED, (ApplyMode.FORK, ApplyMode.IN_PLACE))
    ],
    "test_two_receipts_in_both_orders": [*product(STACKED, STACKED, ORDERS)],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.function.__name__
    if name in ALL:
        chosen = ALL if metafunc.config.getoption("--all-pairs") else FEW
        arguments = [each for each in metafunc.fixturenames if each in ARGUMENTS]
        metafunc.parametrize(arguments, sorted(chosen[name], key=str))


@pytest.fixture(scope="module")
def talk_of(new_lab: Callable[[type[Lab]], Lab]) -> Iterator[Callable[[str], Talk]]:
    """Sessions that are made once each, and copied for whatever is done to them."""
    made: dict[str, Talk] = {}

    def talk(kind: str) -> Talk:
        if kind not in made:
            made[kind] = begin(new_lab(Counting), kind)
        return made[kind]

    yield talk
    for each in made.values():
        each.store.close()


def test_a_way(
    talk_of: Callable[[str], Talk],
    kind: str,
    way: str,
    ratios: dict[str, list[Sizes]],
) -> None:
    sizes = prove_way(talk_of(kind), WAYS[way])
    if sizes is None:
        pytest.skip("nothing to do")
    ratios.setdefault(way, []).append(sizes)


def test_a_way_where_estimates_are_far_above_what_the_api_measured(
    talk_of: Callable[[str], Talk],
    kind: str,
    way: str,
    ratios: dict[str, list[Sizes]],
) -> None:
    talk = dataclasses.replace(talk_of(kind), estimator=Overcounting())
    sizes = prove_way(talk, WAYS[way])
    if sizes is None:
        pytest.skip("nothing to do")
    ratios.setdefault(f"{way}, overcounted", []).append(sizes)


def test_operations_are_taken_back_one_by_one(
    talk_of: Callable[[str], Talk], kind: str, mode: ApplyMode
) -> None:
    talk = talk_of(kind)
    path = talk.copy()
    unedited = path.read_bytes()
    plan = up_to(Severity.INPUTS)(talk, path)
    assert len(plan.operations) > 1
    receipt, written = talk.apply(path, plan, mode)
    first, *others = range(len(plan.operations))
    talk.undo(receipt, written, first)
    resume(talk.lab, written.stem, "one taken back", LATER)
    for number in reversed(others):
        talk.undo(receipt, written, number)
    assert path.read_bytes()[: len(unedited)] == unedited
    assert talk.says_what_it_said(written)


def test_two_receipts_in_both_orders(
    talk_of: Callable[[str], Talk], first: str, second: str, order: tuple[int, int]
) -> None:
    talk = talk_of("long day")
    path = talk.copy()
    unedited = path.read_bytes()
    done = []
    for name in (first, second):
        plan = WAYS[name].plan(talk, path)
        if plan.refused or not plan.operations:
            pytest.skip("nothing to do")
        done.append(talk.apply(path, plan, WAYS[name].mode)[0])
        talk.lab.turn(
            "More. [[bash:seq 1 900]] [[bash:seq 2 900]] [[say:Done.]]",
            resume=path.stem,
            model=talk.model,
        )
    for number in order:
        talk.undo(done[number], path)
        resume(talk.lab, path.stem, f"{number} taken back", LATER)
    assert path.read_bytes()[: len(unedited)] == unedited
    assert talk.says_what_it_said(path)


def test_a_session_that_was_full_is_not_compacted_when_it_is_resumed(lab: Lab) -> None:
    def left_full(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        newest = answers(lines)[-1]["message"]
        for line in answers(lines):
            if line["message"]["id"] == newest["id"]:
                line["message"]["usage"]["cache_read_input_tokens"] = FULL
        return lines

    session_id = TALKS["side by side"](lab)
    lab.turn("Last. [[bash:seq 1 60]] [[say:ok]]", resume=session_id, model=LARGE)
    path = path_of(lab, write_edited(path_of(lab, session_id), left_full))
    unedited = path.read_bytes()
    planned = plan_transcript(
        PlanSource(path.stem, path, lambda _model: ApiCounter()),
        replace(NEWEST, level=Severity.MASKED.value),
    )
    plan = worth_it(planned)
    untold = tuple(each for each in plan.operations if each.strategy != "usage")
    assert len(untold) == len(plan.operations) - 1

    def sent(chosen: CompactionPlan, mode: ApplyMode) -> tuple[list[str], CompactionReceipt]:
        receipt = apply_plan(chosen, mode, subject_of(lab, path))
        turn = lab.turn(LATER, resume=receipt.new_session_id or path.stem, model=LARGE)
        assert turn.code == 0
        asked = [one for one in turn.exchanges if one["path"].endswith("/messages")]
        return [one["what"] for one in asked], receipt

    assert sent(msgspec.structs.replace(plan, operations=untold), ApplyMode.FORK)[0] == COMPACTED
    kinds, receipt = sent(plan, ApplyMode.FORK)
    assert kinds == ["answer"]
    # What hooks are told of the fork is what the plan foresaw.
    told = lab.hooks("SessionStart", receipt.new_session_id)[-1]["context_tokens"]
    assert abs(told - plan.after_tokens) < PROMPT_TOKENS
    kinds, receipt = sent(plan, ApplyMode.IN_PLACE)
    assert kinds == ["answer"]
    undo(receipt.receipt_id, None, subject_of(lab, path))
    assert path.read_bytes()[: len(unedited)] == unedited
