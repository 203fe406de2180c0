"""Sliders, bars and rows of the pages that compact: pure functions, alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction.compression_level import DueCompression
from ctxtop.core.compaction.plan import (
    CONDENSE,
    CUT,
    LAST_PROMPT,
    OFFERED_LEVELS,
    REVERT,
    ROLLOVER,
    SUMMARIZE,
    EscalationStep,
    Operation,
    PlanOptions,
    PlanTarget,
    ProtectedTokens,
    Refusal,
    ReplaceValue,
    Severity,
    SummaryOutcome,
    check_options,
    make_plan,
)
from ctxtop.core.model.context import Context, ContextState
from ctxtop.core.model.context_window import ClaimSource, Window
from ctxtop.core.model.levels import Level
from ctxtop.core.summaries.artifacts import ArtifactCounts
from ctxtop.tui.entities.receipt_history import HistoryEntry
from ctxtop.tui.screens.compact.compact_panes import (
    BY_LEVEL,
    ApplyState,
    apply_state_line,
    operation_columns,
    operation_row_line,
    operation_rows,
    slider_options,
    toggle_all,
    toggle_row,
)
from ctxtop.tui.screens.compact.compaction_planner import (
    PlannedCompaction,
    PlanRequest,
    PromptChoice,
    operation_key,
)
from ctxtop.tui.screens.history.history_screen import filter_history, history_columns, history_line
from ctxtop.tui.screens.history.receipt_screen import (
    AppliedState,
    applied_columns,
    check_lines,
)
from ctxtop.tui.text.column_headers import header_line
from ctxtop.tui.text.formats import format_bytes
from ctxtop.tui.text.plan_report import (
    break_even_text,
    change_lines,
    harm_text,
    plan_lines,
    refusal_text,
    savings_text,
)
from ctxtop.tui.text.plan_text import OperationChange
from ctxtop.tui.text.text_lines import item_line
from ctxtop.tui.widgets.controls import SliderScale, draw_track
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields
from rich.cells import cell_len

from .makers import session

if TYPE_CHECKING:
    from ctxtop.core.compaction.plan import CompactionPlan

CONTEXT = Context(160_000, ContextState.MEASURED, Window(200_000, ClaimSource.TABLE))


def operation(
    strategy: str, line: int, tokens: int = 9_000, level: Severity = Severity.MASKED
) -> Operation:
    edit = ReplaceValue(line, 0, "0", "/message", '"x"')
    return Operation(
        strategy, level, line, "tool_result", f"Read {line}", "old", tokens, 99, (edit,)
    )


def plan(
    *operations: Operation, refused: tuple[Refusal, ...] = (), target: int | None = None
) -> CompactionPlan:
    made = make_plan(
        "s",
        "0" * 64,
        1_000_000,
        operations,
        before_tokens=160_000,
        refused=refused,
        protected=(ProtectedTokens("newest turns", 75_000),),
        target=None if target is None else PlanTarget(target, 200_000, 167_000),
    )
    return with_fields(made, break_even_requests=4.2, break_even_requests_1h=7.0)


FOUND = (
    operation("old-results", 3),
    operation("old-results", 9, 21_000),
    operation("duplicate-results", 5, 12_000, Severity.SUPERSEDED),
)


def planned(left_out: frozenset[tuple[str, int | None, str]] = frozenset()) -> PlannedCompaction:
    kept = tuple(each for each in FOUND if operation_key(each) not in left_out)
    bound = operation("usage", 12, 0, Severity.FILE_ONLY)
    wish = PlanRequest(session(), PlanOptions(), left_out)
    return PlannedCompaction(wish, plan(*kept, bound), FOUND, ())


@given(st.integers(0, 3), st.integers(1, 50), st.integers(1, 7), st.integers(-9, 400))
def test_every_cell_of_a_track_stands_for_a_value(
    low: int, span: int, step: int, cell: int
) -> None:
    scale = SliderScale(low, low + span * step, step)
    cells = scale.track_cells(20)
    value = scale.value_at(cell, cells)
    assert scale.lowest <= value <= scale.highest
    assert (value - scale.lowest) % step == 0
    assert scale.nearest(value) == value
    assert 0 <= scale.place(value, cells) < cells
    assert cell_len(draw_track(scale, value, cells, "bold").plain) == cells


def test_few_values_are_dots_and_many_a_line() -> None:
    assert draw_track(SliderScale(0, 6), 4, 7, "bold").plain == "●●●●●○○"
    assert draw_track(SliderScale(0, 100, 5), 50, 11, "bold").plain == "━━━━━●─────"
    assert [SliderScale(0, 6).value_at(cell, 7) for cell in (-3, 0, 6, 99)] == [0, 0, 6, 6]


@pytest.mark.parametrize("width", [40, 60, 78, 118, 238])
def test_the_plan_at_a_glance_fits_its_width(width: int) -> None:
    refused = (Refusal("futile", "it would free 9 tokens", "grow"),)
    drawn = plan_lines(plan(*FOUND, refused=refused, target=1), CONTEXT, width, is_stale=False)
    lines = drawn.plain.split("\n")
    assert lines[0].startswith("now")
    assert lines[1].startswith("after")
    assert all(cell_len(line) <= width for line in lines)
    assert "≈ 160 k" in lines[0]
    assert "≈ 118 k" in lines[1]
    assert "✗ refused: it would free" in drawn.plain


def test_what_a_plan_frees_costs_and_takes() -> None:
    made = plan(*FOUND)
    assert savings_text(made) == "frees ≈ 42 k tokens, 26.2 % of the context · file −297 B"
    assert (
        break_even_text(made)
        == "breaks even after 5 requests (with the 1-hour cache: after 7 requests)"
    )
    assert harm_text(made) == "up to level 3, masked: keeps a digest of old results"
    bound = plan(*FOUND, operation("thinking-after", 4, 1_000, Severity.REASONING))
    assert harm_text(bound).startswith("up to level 5, reasoning: keeps a digest of old results")
    assert harm_text(bound).endswith("and the thinking that depends on it")
    assert harm_text(plan()) == "loses nothing"
    assert [format_bytes(each) for each in (950, 21_300, 3_400_000)] == ["950 B", "21 kB", "3.4 MB"]


def test_a_missed_target_is_told_with_what_stays() -> None:
    told = plan_lines(plan(*FOUND, target=100_000), CONTEXT, 100, is_stale=False).plain
    missed = "target: ≈ 18 k above 50 % of the window (100 k): ≈ 75 k are protected (newest turns)"
    assert missed in told
    assert "The strategy condense goes further" in told
    reached = plan_lines(plan(*FOUND, target=120_000), CONTEXT, 100, is_stale=False).plain
    assert "target: 60 % of the window (120 k) is reached" in reached
    assert "above" not in reached
    assert "condense" not in reached


def test_a_target_that_the_client_would_not_leave_alone_is_told() -> None:
    at_once = plan_lines(plan(*FOUND, target=170_000), CONTEXT, 120, is_stale=False).plain
    warning = "Claude Code auto-compacts at 84 % of the window (167 k), below this target"
    assert warning in at_once
    assert warning not in plan_lines(plan(*FOUND), CONTEXT, 120, is_stale=False).plain


def test_the_steps_of_a_plan_that_condenses_are_told() -> None:
    digest = with_fields(operation(CONDENSE, 1, 30_000, Severity.SUMMARY), why="118,000 stay")
    steps = (
        EscalationStep(Severity.MASKED, 12_000, 3, 900),
        EscalationStep(Severity.SUMMARY, 30_000, 9, 900),
    )
    made = with_fields(plan(digest, target=100_000), steps=steps)
    told = plan_lines(made, CONTEXT, 100, is_stale=False).plain.split("\n")
    assert told[-3:] == [
        "level 3, masked: frees ≈ 12 k; after it 3 of 900 names are gone",
        "level 7, summary: frees ≈ 30 k; after it 9 of 900 names are gone",
        "target: 118,000 stay",
    ]
    enough = with_fields(plan(*FOUND, target=120_000), steps=steps[:1])
    told = plan_lines(enough, CONTEXT, 100, is_stale=False).plain.split("\n")
    assert told[-1] == "target: 60 % of the window (120 k) is reached: nothing is condensed"


def test_a_refusal_says_what_to_do_on_the_screen() -> None:
    refusal = Refusal("target", "the context has 9 tokens", "name a smaller --target")
    said = "nothing to do: the context has 9 tokens; lower the target"
    assert refusal_text(refusal) == said
    assert "--force" in refusal_text(Refusal("file-size", "it has 300 MB", "pass --force"))


def test_rows_are_grouped_by_strategy_with_their_boxes() -> None:
    items = operation_rows(planned(frozenset({operation_key(FOUND[0])})))
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
    whole = operation_rows(planned())
    group = whole[2]
    off = toggle_row(group, frozenset())
    assert off == {operation_key(FOUND[0]), operation_key(FOUND[1])}
    some = operation_rows(planned(frozenset({operation_key(FOUND[0])})))[2]
    assert toggle_row(some, frozenset({operation_key(FOUND[0])})) == frozenset()
    assert toggle_all(planned()) == frozenset(map(operation_key, FOUND))
    assert toggle_all(planned(off)) == frozenset()


@pytest.mark.parametrize("width", [50, 76, 95, 96, 150])
def test_every_row_fills_its_width_whatever_it_says(width: int) -> None:
    wide = operation("old-results", 4)
    wide = with_fields(wide, what="读取 [bold]🚑\x1b[31m" * 20, why="\u202ewhy" * 40)
    made = PlannedCompaction(PlanRequest(session(), PlanOptions()), plan(wide), (wide,), ())
    for item in operation_rows(made):
        said = operation_row_line(item, width).plain
        assert cell_len(said) == width
        assert "\x1b" not in said
        assert "\u202e" not in said
    assert header_line(operation_columns(width)).cell_length == width
    columns = applied_columns(width, lambda _: AppliedState.MARKED)
    assert header_line(columns).cell_length == width
    assert item_line(columns, (0, wide)).cell_length == width


def test_an_operation_is_shown_before_and_after() -> None:
    found = [OperationChange("replace", 3, "/message", "one\ntwo\nthree\nfour", "[old]")]
    said = change_lines(FOUND[0], found, 60, 2).plain
    assert "  - one\n  - two\n  - … " in said
    assert said.endswith("  + [old]")
    assert "frees 9,000 tokens" in said


def test_the_page_names_the_compression_that_is_due() -> None:
    """003-15."""
    due = DueCompression(Level.MEDIUM, "92% of its window, medium from 90%")
    said = plan_lines(plan(*FOUND), CONTEXT, 100, is_stale=False, compression=due).plain
    assert "due: medium compression (92% of its window, medium from 90%)" in said


def test_the_page_draws_the_limit_of_a_policy() -> None:
    """R001-06."""
    due = DueCompression(None, "no", limit_tokens=100_000, limit_share=0.5)
    said = plan_lines(plan(*FOUND), CONTEXT, 80, is_stale=False, compression=due).plain
    assert f"limit  {'█' * 15}{'░' * 15}  50 % of 100 k, Medium" in said


def test_the_longer_summaries_can_be_read() -> None:
    """003-20: on the receipt's page and before a plan is applied."""
    longer = ("the longest\nof three", "the next")
    outcome = SummaryOutcome(ArtifactCounts(), ArtifactCounts(), longer)
    said = change_lines(with_fields(FOUND[0], summary=outcome), [], 60, 9).plain
    assert "level 1 of 3, not used\n  · the longest\n  · of three\nlevel 2 of 3" in said


def test_ticks_come_one_by_one() -> None:
    checks = ("V1", "V2", "V3")
    assert check_lines(checks, 0, 40).plain.count("✓") == 0
    assert check_lines(checks, 2, 40).plain.count("✓") == 2
    assert len(check_lines(checks, 3, 40).plain.split("\n")) == 3
    assert len(check_lines(checks, 3, 120).plain.split("\n")) == 1


def test_actions_are_found_by_any_word_that_is_shown() -> None:
    action = HistoryEntry(
        "a", 0, "s1", "fork", "3 operations: cut", "you", "stands", 9_000, 1, "abcd"
    )
    automatic = HistoryEntry("b", 0, "s2", "in place", "x", "95 % reached", "undone")
    titles = {"s1": "Fix the tests"}
    assert filter_history([action, automatic], titles, "FIX fork") == [action]
    assert filter_history([action, automatic], titles, "95") == [automatic]
    assert filter_history([action, automatic], titles, "") == [action, automatic]
    for width in (60, 99, 100, 180):
        title = {automatic.session_id or "": "[/x] 修复" * 30}
        columns = history_columns([automatic], width, title, {}, 60_000)
        said = history_line(columns, automatic).plain
        assert cell_len(said) == width
    said = history_line(history_columns([automatic], 180, {}, {}, 0), automatic).plain
    assert "95 % reached: x" in said


def test_the_line_below_the_buttons() -> None:
    refusal = Refusal("open", "the session is open in process 7", "end it")
    idle = ApplyState(can_apply=True, in_place=refusal, running=None, stages=(), problem="")
    said = "not in place: the session is open in process 7; close it there, or write a fork"
    assert apply_state_line(idle, 100).plain == said
    busy = ApplyState(True, None, "being written", ("copy", "write"), "")
    assert apply_state_line(busy, 100).plain == "✓ copied  … writing"
    assert apply_state_line(ApplyState(False, None, None, (), "a\nb"), 90).plain == "✗ a b"


def test_sliders_ask_what_the_command_asks() -> None:
    prompts = [PromptChoice(3, "a"), PromptChoice(9, "b"), PromptChoice(20, "c")]
    asked = {
        BY_LEVEL: PlanOptions(level=4, target=0.5, keep=10),
        CONDENSE: PlanOptions(strategies=(CONDENSE,), target=0.5),
        SUMMARIZE: PlanOptions(strategies=(SUMMARIZE,), keep=10),
        CUT: PlanOptions(strategies=(CUT,), keep_turns=10),
        REVERT: PlanOptions(strategies=(REVERT,), to=LAST_PROMPT),
        ROLLOVER: PlanOptions(strategies=(ROLLOVER,)),
    }
    place = OFFERED_LEVELS.index(Severity.INPUTS)
    values = {"level": place, "target": 50, "keep": 10, "turns": 10, "back": 1}
    for strategy, wanted in asked.items():
        found = slider_options(strategy, values, prompts)
        assert found == wanted
        assert check_options(found) is None
    assert slider_options(REVERT, values | {"back": 2}, prompts).to == "9"
    assert slider_options(BY_LEVEL, values | {"target": 0}).target is None


def test_the_target_is_a_share_of_the_window() -> None:
    half = PlanTarget(100_000, 200_000, 167_000)
    assert PlanOptions().target_in(200_000, 167_000) == half
    assert PlanOptions(target=0.5, level=4).target_in(200_000, 167_000) == half
    assert PlanOptions(level=4).target_in(200_000) is None
    assert half.share == 0.5
    assert not half.passes_trigger


def test_without_a_choice_the_target_is_below_auto_compaction() -> None:
    early = PlanOptions().target_in(1_000_000, 400_000)
    assert early == PlanTarget(200_000, 1_000_000, 400_000)
    chosen = PlanOptions(target=0.5).target_in(1_000_000, 400_000)
    assert chosen == PlanTarget(500_000, 1_000_000, 400_000)
    assert chosen
    assert chosen.passes_trigger
