"""Sliders, bars and rows of the pages that compact: pure functions, alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.claims import Source
from ctxtop.core.compaction.plan import Harm, Operation, Protected, Refusal, Replace, make_plan
from ctxtop.core.compaction.target import effective_window, target_tokens
from ctxtop.core.context import Context, ContextState
from ctxtop.core.window import Window
from ctxtop.tui.action_rows import action_line, select_actions
from ctxtop.tui.actions import Action
from ctxtop.tui.aiming import BY_LEVEL, Aims, Prompt
from ctxtop.tui.change_lines import change_lines
from ctxtop.tui.operation_changes import Change
from ctxtop.tui.operation_rows import all_switched, head_line, item_line, items_of, switched
from ctxtop.tui.plan_report import (
    harm_words,
    plan_lines,
    price_words,
    refusal_words,
    saved_words,
    size_words,
)
from ctxtop.tui.planner import Planned, Wish, mark_of
from ctxtop.tui.planning import CUT, LAST, REVERT, ROLLOVER, SUMMARISE, Asked, complaint
from ctxtop.tui.receipt_report import tick_lines
from ctxtop.tui.receipt_rows import operation_line
from ctxtop.tui.sliding import Scale, track
from ctxtop.tui.widgets.apply_bar import Standing, standing_line
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields
from rich.cells import cell_len

from .makers import session

if TYPE_CHECKING:
    from ctxtop.core.compaction.plan import Plan

CONTEXT = Context(160_000, ContextState.MEASURED, Window(200_000, Source.TABLE))


def operation(
    strategy: str, line: int, tokens: int = 9_000, level: Harm = Harm.MASKED
) -> Operation:
    edit = Replace(line, 0, "0", "/message", '"x"')
    return Operation(
        strategy, level, line, "tool_result", f"Read {line}", "old", tokens, 99, (edit,)
    )


def plan(*operations: Operation, refused: tuple[Refusal, ...] = ()) -> Plan:
    return make_plan(
        "s",
        "0" * 64,
        1_000_000,
        operations,
        before_tokens=160_000,
        break_even_requests=4.2,
        break_even_requests_1h=7.0,
        refused=refused,
        protected=(Protected("newest turns", 75_000),),
    )


FOUND = (
    operation("old-results", 3),
    operation("old-results", 9, 21_000),
    operation("duplicate-results", 5, 12_000, Harm.LOSSLESS),
)


def planned(left_out: frozenset[tuple[str, int | None, str]] = frozenset()) -> Planned:
    kept = tuple(each for each in FOUND if mark_of(each) not in left_out)
    bound = operation("usage", 12, 0, Harm.FILE_ONLY)
    wish = Wish(session(), Aims(), left_out)
    return Planned(wish, plan(*kept, bound), FOUND, (), 1_000_000, 0.1)


@given(st.integers(0, 3), st.integers(1, 50), st.integers(1, 7), st.integers(-9, 400))
def test_every_cell_of_a_track_stands_for_a_value(
    low: int, span: int, step: int, cell: int
) -> None:
    scale = Scale(low, low + span * step, step)
    cells = scale.track_cells(20)
    value = scale.value_at(cell, cells)
    assert scale.lowest <= value <= scale.highest
    assert (value - scale.lowest) % step == 0
    assert scale.nearest(value) == value
    assert 0 <= scale.place(value, cells) < cells
    assert cell_len(track(scale, value, cells, "bold").plain) == cells


def test_few_values_are_dots_and_many_a_line() -> None:
    assert track(Scale(0, 6), 4, 7, "bold").plain == "●●●●●○○"
    assert track(Scale(0, 100, 5), 50, 11, "bold").plain == "━━━━━●─────"
    assert [Scale(0, 6).value_at(cell, 7) for cell in (-3, 0, 6, 99)] == [0, 0, 6, 6]


@pytest.mark.parametrize("width", [40, 60, 78, 118, 238])
def test_the_plan_at_a_glance_fits_its_width(width: int) -> None:
    refused = (Refusal("futile", "it would free 9 tokens", "grow"),)
    drawn = plan_lines(
        plan(*FOUND, refused=refused), CONTEXT, width, is_stale=False, target_tokens=1
    )
    lines = drawn.plain.split("\n")
    assert lines[0].startswith("now")
    assert lines[1].startswith("after")
    assert all(cell_len(line) <= width for line in lines)
    assert "≈ 160 k" in lines[0]
    assert "≈ 118 k" in lines[1]
    assert "✗ refused: it would free" in drawn.plain


def test_what_a_plan_frees_costs_and_takes() -> None:
    made = plan(*FOUND)
    assert saved_words(made) == "frees ≈ 42 k tokens, 26 % · file −297 B"
    assert price_words(made) == "pays back after 5 requests (an hour's cache: after 7 requests)"
    assert harm_words(made) == "takes level 3, masked: of old results a digest stays"
    bound = plan(*FOUND, operation("thinking-after", 4, 1_000, Harm.REASONING))
    assert harm_words(bound).startswith("takes level 5, reasoning: of old results a digest stays")
    assert harm_words(bound).endswith("and the thoughts that are bound to it")
    assert harm_words(plan()) == "takes nothing"
    assert [size_words(each) for each in (950, 21_300, 3_400_000)] == ["950 B", "21 kB", "3.4 MB"]


def test_a_missed_target_is_told_with_what_stays() -> None:
    told = plan_lines(plan(*FOUND), CONTEXT, 100, is_stale=False, target_tokens=100_000).plain
    assert "short of the target, ≈ 100 k; ≈ 75 k stay: newest turns" in told
    reached = plan_lines(plan(*FOUND), CONTEXT, 100, is_stale=False, target_tokens=120_000).plain
    assert "short of" not in reached


def test_a_refusal_says_what_to_do_on_the_screen() -> None:
    refusal = Refusal("target", "the context has 9 tokens", "name a smaller --target")
    said = "nothing to do: the context has 9 tokens; move the target further down"
    assert refusal_words(refusal) == said
    assert "--force" in refusal_words(Refusal("file-size", "it has 300 MB", "say --force"))


def test_rows_are_grouped_by_strategy_with_their_boxes() -> None:
    items = items_of(planned(frozenset({mark_of(FOUND[0])})))
    assert [(each.box, each.is_header) for each in items] == [
        ("[x]", True),
        ("[x]", False),
        ("[-]", True),
        ("[ ]", False),
        ("[x]", False),
        (" + ", False),
        (" = ", False),
    ]
    assert len({each.key for each in items}) == len(items)
    assert [each.can_switch for each in items] == [True] * 5 + [False] * 2


def test_switching_a_group_turns_all_of_it() -> None:
    whole = items_of(planned())
    group = whole[2]
    off = switched(group, frozenset())
    assert off == {mark_of(FOUND[0]), mark_of(FOUND[1])}
    some = items_of(planned(frozenset({mark_of(FOUND[0])})))[2]
    assert switched(some, frozenset({mark_of(FOUND[0])})) == frozenset()
    assert all_switched(planned()) == frozenset(map(mark_of, FOUND))
    assert all_switched(planned(off)) == frozenset()


@pytest.mark.parametrize("width", [50, 76, 95, 96, 150])
def test_every_row_fills_its_width_whatever_it_says(width: int) -> None:
    wide = operation("old-results", 4)
    wide = with_fields(wide, what="读取 [bold]🚑\x1b[31m" * 20, why="\u202ewhy" * 40)
    made = Planned(Wish(session(), Aims()), plan(wide), (wide,), (), 1, 0.1)
    for item in items_of(made):
        said = item_line(item, width).plain
        assert cell_len(said) == width
        assert "\x1b" not in said
        assert "\u202e" not in said
    assert cell_len(head_line(width).plain) == width
    assert cell_len(operation_line(wide, width, is_undone=False, is_marked=True).plain) == width


def test_an_operation_is_shown_before_and_after() -> None:
    found = [Change("replace", 3, "/message", "one\ntwo\nthree\nfour", "[old]")]
    said = change_lines(FOUND[0], found, 60, 2).plain
    assert "  - one\n  - two\n  - … " in said
    assert said.endswith("  + [old]")
    assert "frees 9,000 tokens" in said


def test_ticks_come_one_by_one() -> None:
    checks = ("V1", "V2", "V3")
    assert tick_lines(checks, 0, 40).plain.count("✓") == 0
    assert tick_lines(checks, 2, 40).plain.count("✓") == 2
    assert len(tick_lines(checks, 3, 40).plain.split("\n")) == 3
    assert len(tick_lines(checks, 3, 120).plain.split("\n")) == 1


def test_actions_are_found_by_any_word_that_is_shown() -> None:
    action = Action("a", 0, "s1", "fork", "3 operations: cut", "you", 9_000, 1, "stands", "abcd")
    automatic = Action("b", 0, "s2", "in place", "x", "95 % reached", None, None, "undone")
    titles = {"s1": "Fix the tests"}
    assert select_actions([action, automatic], titles, "FIX fork") == [action]
    assert select_actions([action, automatic], titles, "95") == [automatic]
    assert select_actions([action, automatic], titles, "") == [action, automatic]
    for width in (60, 99, 100, 180):
        said = action_line(automatic, "[/x] 修复" * 30, None, 60_000, width).plain
        assert cell_len(said) == width
    assert "by itself: 95 % reached" in action_line(automatic, "t", None, 0, 180).plain


def test_the_line_below_the_buttons() -> None:
    refusal = Refusal("open", "the session is open in process 7", "end it")
    idle = Standing(can_apply=True, in_place=refusal, running=None, stages=(), problem="")
    said = "not in place: the session is open in process 7; close it there, or write a fork"
    assert standing_line(idle, 100).plain == said
    busy = Standing(True, None, "it is being written", ("copy", "write"), "")
    assert standing_line(busy, 100).plain == "✓ copied  … writing"
    assert standing_line(Standing(False, None, None, (), "a\nb"), 90).plain == "✗ a b"


def test_sliders_ask_what_the_command_asks() -> None:
    prompts = [Prompt(3, "a"), Prompt(9, "b"), Prompt(20, "c")]
    asked = {
        BY_LEVEL: Asked(level=4, target=0.5, keep=10),
        SUMMARISE: Asked(strategies=(SUMMARISE,), keep=10),
        CUT: Asked(strategies=(CUT,), keep_turns=10),
        REVERT: Asked(strategies=(REVERT,), to=LAST),
        ROLLOVER: Asked(strategies=(ROLLOVER,)),
    }
    for strategy, wanted in asked.items():
        found = Aims(strategy=strategy).options(prompts)
        assert found == wanted
        assert complaint(found, in_place=False) is None
    assert Aims(strategy=REVERT, prompts_back=2).options(prompts).to == "9"
    assert Aims(target=0).options().target is None


def test_the_target_is_a_share_of_what_fits() -> None:
    assert effective_window(200_000) == 167_000
    assert target_tokens(200_000) == 83_500
    assert Aims().target_tokens(200_000) == 83_500
    assert Aims(target=0).target_tokens(200_000) is None
