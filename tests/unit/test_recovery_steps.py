"""What each step of a recovery proposes: seed 002's rules and numbers, one by one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from ctxtop.core.compaction.plan import Operation, Severity
from ctxtop.core.compaction.recovery.limit_errors import LimitErrorType, find_refusal
from ctxtop.core.compaction.recovery.recovery_run import (
    RecoveryCounters,
    RecoveryRetry,
    RecoverySettings,
    RecoveryStep,
    read_recovery_settings,
    recovery_steps_for,
)
from ctxtop.core.compaction.recovery.recovery_steps import (
    EMPTY_MESSAGE_TEXT,
    TRUNCATION_MESSAGE,
    available_steps,
    chars_to_free,
    choose_step,
    propose_aggressive_truncation,
    propose_empty_fix,
    propose_revert,
    propose_truncation,
)
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import RawValue, resolve_policy
from ctxtop.core.transcript.entry_decoder import read_entries

from .. import transcripts as made
from ..recovering import SETTINGS, carried_out, chain, ground, turn

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.recovery.recovery_steps import RecoveryContext

TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{made.SESSION}.jsonl"


def sizes(*chars: int) -> list[made.JsonLine]:
    """A prompt, and calls whose results have these sizes."""
    turns = [line for place, size in enumerate(chars) for line in turn(f"t{place}", "x" * size)]
    return chain(made.user("look at all of it"), *turns)


def policy(preset: str, **values: object) -> RecoverySettings:
    given = {"preset": preset} | {f"recovery.{name}": each for name, each in values.items()}
    said = [RawValue(name, value, PolicyOrigin.USER_FILE, "here") for name, value in given.items()]
    return read_recovery_settings(resolve_policy(said))


def test_the_defaults_are_the_seeds() -> None:
    """002-64 to 002-67, 002-82, 002-83, 002-93 to 002-96, 002-106, R002-06, R002-12, R002-15."""
    assert read_recovery_settings(resolve_policy(())) == RecoverySettings()
    assert msgspec.to_builtins(SETTINGS) | {"steps_to_confirm": ["revert"]} == {
        "step_order": ("fix_empty", "truncate_largest", "summarize", "revert"),
        "aggressive": False,
        "prune_superseded": False,
        "target_ratio": 0.5,
        "chars_per_token": 4,
        "max_truncate": 20,
        "min_output_chars": 500,
        "max_revert": 3,
        "min_messages": 2,
        "max_empty_fix": 3,
        "steps_to_confirm": ["revert"],
        "cooldown_ms": 60_000,
        "retry": msgspec.to_builtins(RecoveryRetry()),
    }
    assert msgspec.structs.astuple(RecoveryRetry()) == (2, 2000, 2.0, 30_000, 120_000)


@pytest.mark.parametrize(
    ("preset", "steps"),
    [
        ("default", "fix_empty truncate_largest summarize revert"),
        ("omo-doc", "truncate_largest fix_empty revert summarize"),
        ("omo-2.6", "truncate_largest fix_empty summarize revert"),
        ("omo-latest", "dedup fix_empty summarize"),
    ],
)
def test_the_order_by_preset(preset: str, steps: str) -> None:
    """002-13, 002-44, 002-47, 002-91, R002-12 and T-08."""
    expected = tuple(map(RecoveryStep, steps.split()))
    assert recovery_steps_for(LimitErrorType.TOKEN_LIMIT, policy(preset)) == expected
    assert recovery_steps_for(LimitErrorType.CONTEXT_LENGTH, policy(preset)) == expected


def test_aggressive_only_where_it_is_switched_on() -> None:
    """002-46, 002-50, 002-61 and R002-14."""
    on = policy("omo-2.6", aggressive=True, dcp=True)
    steps = recovery_steps_for(LimitErrorType.BEDROCK, on)
    assert steps[0] is RecoveryStep.AGGRESSIVE
    assert RecoveryStep.DCP in steps
    for each in LimitErrorType:
        assert RecoveryStep.AGGRESSIVE not in recovery_steps_for(each, policy("omo-2.6"))


def test_an_empty_message_is_mended_first_and_never_truncated() -> None:
    """002-45 and T-08."""
    wanted = LimitErrorType.NON_EMPTY_CONTENT
    assert recovery_steps_for(wanted, policy("omo-doc")) == (
        RecoveryStep.FIX_EMPTY,
        RecoveryStep.REVERT,
    )
    assert recovery_steps_for(wanted, policy("omo-latest")) == (RecoveryStep.FIX_EMPTY,)


def test_a_person_confirms_a_revert_in_every_policy() -> None:
    """T-08."""
    nothing = policy("default", confirm=[])
    assert nothing.needs_confirmation(RecoveryStep.REVERT)
    assert not nothing.needs_confirmation(RecoveryStep.SUMMARIZE)


def test_the_words_of_a_truncated_result() -> None:
    """002-73."""
    assert len(TRUNCATION_MESSAGE) == 179
    assert TRUNCATION_MESSAGE.startswith("[TOOL RESULT TRUNCATED - Context limit exceeded.")
    assert "\n" not in TRUNCATION_MESSAGE


def test_the_largest_result_goes_first_and_no_more_than_needed(path: Path) -> None:
    """002-52, 002-54, 002-72 and R002-13."""
    found = ground(path, sizes(4000, 80_000, 8000), current=30_000, most=20_000)
    proposal = propose_truncation(found)
    (done,) = proposal.operations
    assert proposal.insufficient is None
    assert done.line == 5
    assert done.level is Severity.MASKED
    assert done.tokens_saved == 20_000 - len(TRUNCATION_MESSAGE) // 4
    lines = carried_out(path, proposal.operations)
    assert lines[4]["message"]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": TRUNCATION_MESSAGE,
    }
    assert lines[2]["message"]["content"][0]["content"] == "x" * 4000


def test_a_list_stays_a_list(path: Path) -> None:
    lines = chain(made.user("go"), *turn("t0", [made.text("x" * 9000)]))
    found = ground(path, lines, current=3000, most=2000)
    done = carried_out(path, propose_truncation(found).operations)
    content = done[2]["message"]["content"][0]["content"]
    assert content == [{"type": "text", "text": TRUNCATION_MESSAGE}]


def test_twenty_results_at_most(path: Path) -> None:
    """002-64, and the counter of earlier attempts (002-101)."""
    lines = sizes(*[1000] * 25)
    assert (
        len(propose_truncation(ground(path, lines, current=99_000, most=50_000)).operations) == 20
    )
    again = ground(
        path,
        lines,
        current=99_000,
        most=50_000,
        counters=RecoveryCounters(attempts=1, truncated=15),
    )
    proposal = propose_truncation(again)
    assert len(proposal.operations) == 5
    assert proposal.insufficient
    assert "are left, more than 50,000" in proposal.insufficient.why


def test_smaller_results_are_left_alone(path: Path) -> None:
    """002-67."""
    found = ground(path, sizes(499, 500), current=3000, most=2999)
    assert [each.line for each in propose_truncation(found).operations] == [5]
    assert propose_truncation(ground(path, sizes(499), current=3000, most=2999)).insufficient


def test_aggressive_truncation_goes_down_to_half(path: Path) -> None:
    """002-51, 002-53, 002-62, 002-63, 002-65 and 002-66: what goes is counted gross."""
    found = ground(path, sizes(300_000, 250_000, 3000, 2000), current=210_000, most=200_000)
    assert chars_to_free(found) == (210_000 - 100_000) * 4
    proposal = propose_aggressive_truncation(found)
    assert [each.line for each in proposal.operations] == [3, 5]
    assert proposal.insufficient is None


def test_aggressive_truncation_stops_at_the_target(path: Path) -> None:
    """R002-13: 440,000 characters are to go; the first one has as many."""
    found = ground(path, sizes(440_000, 250_000), current=210_000, most=200_000)
    assert [each.line for each in propose_aggressive_truncation(found).operations] == [3]


def test_aggressive_truncation_that_reaches_its_target_is_sufficient(path: Path) -> None:
    """002-53, 002-63: 80,000 characters are to go and go, less what stands in their place."""
    found = ground(path, sizes(40_000, 40_000, 400), current=30_000, most=20_000)
    proposal = propose_aggressive_truncation(found)
    assert sum(each.tokens_saved for each in proposal.operations) < 20_000
    assert proposal.is_sufficient


def test_aggressive_truncation_below_its_target_is_sufficient_if_it_fits(path: Path) -> None:
    fits = propose_aggressive_truncation(ground(path, sizes(50_000), current=30_000, most=20_000))
    too_long = ground(path, sizes(30_000), current=30_000, most=20_000)
    assert fits.is_sufficient
    assert not propose_aggressive_truncation(too_long).is_sufficient


def test_without_sizes_half_of_what_is_there_goes(path: Path) -> None:
    """002-46: Bedrock names none."""
    found = ground(path, sizes(8000, 8000, 8000), error_type=LimitErrorType.BEDROCK)
    assert len(propose_aggressive_truncation(found).operations) == 2


def said(lines: list[Any]) -> list[Any]:
    return [line["message"]["content"] for line in lines if "message" in line]


def test_an_empty_message_says_that_it_was_interrupted(path: Path) -> None:
    """002-55, 002-75 to 002-78: an empty part is replaced, a word put where there is none."""
    lines = chain(
        made.user("go"),
        made.assistant("m1", content=[made.text("")]),
        made.user(""),
        made.assistant("m2", content=[]),
        made.user([made.text("  \n"), made.text("yes")]),
        made.assistant("m3"),
    )
    found = ground(path, lines, error_type=LimitErrorType.NON_EMPTY_CONTENT)
    proposal = propose_empty_fix(found)
    word = made.text(EMPTY_MESSAGE_TEXT)
    assert EMPTY_MESSAGE_TEXT == "[user interrupted]"
    assert said(carried_out(path, proposal.operations)) == [
        "go",
        [word],
        EMPTY_MESSAGE_TEXT,
        [word],
        [word, made.text("yes")],
        [made.text("done")],
    ]
    assert len(proposal.operations) == 4


def test_an_empty_text_beside_a_call_is_empty_too(path: Path) -> None:
    """R002-15."""
    call = made.tool("Bash", "t0", command="ls")
    lines = chain(made.user("go"), made.assistant("m1", content=[made.text(""), call]))
    done = carried_out(path, propose_empty_fix(ground(path, lines)).operations)
    assert done[1]["message"]["content"] == [made.text(EMPTY_MESSAGE_TEXT), call]


def test_a_line_of_an_answer_that_says_something_elsewhere_is_left(path: Path) -> None:
    """The client leaves out a line without blocks: the answer itself is not empty."""
    lines = chain(made.user("go"), made.assistant("m1", content=[]), made.assistant("m1"))
    assert propose_empty_fix(ground(path, lines)).operations == ()


@pytest.mark.parametrize(("index", "line"), [(1, 2), (2, 2), (3, 4), (4, 4), (5, 4)])
def test_the_message_at_the_index_or_just_before_it(path: Path, index: int, line: int) -> None:
    """002-42, 002-76 and R002-15: the index, one less, two less."""
    empty = [made.text("")]
    lines = chain(
        made.user("go"),
        made.assistant("m1", content=empty),
        made.user("more"),
        made.assistant("m2", content=empty),
        made.user("and"),
        made.assistant("m3"),
    )
    done = propose_empty_fix(ground(path, lines, index=index)).operations
    assert [each.line for each in done] == [line]


def test_all_of_them_where_the_index_leads_nowhere(path: Path) -> None:
    empty = [made.text("")]
    lines = chain(
        made.user("go"), made.assistant("m1", content=empty), made.user(""), made.assistant("m2")
    )
    assert len(propose_empty_fix(ground(path, lines, index=40)).operations) == 2


def talk(*prompts: int) -> list[made.JsonLine]:
    """Prompts of so many characters, each answered, and a refusal at the end."""
    lines = []
    for place, size in enumerate(prompts):
        lines += [made.user(f"{place}" * size), made.assistant(f"m{place}")]
    lines[-1] = made.refusal("Prompt is too long")
    return chain(*lines)


def test_a_revert_goes_back_before_the_last_prompt(path: Path) -> None:
    """002-56, 002-80, 002-81: its words are given back, to be asked again."""
    found = ground(path, talk(400, 400, 40_000), current=12_000, most=8000)
    proposal = propose_revert(found)
    assert proposal.insufficient is None
    assert proposal.prompt == "2" * 40_000
    assert proposal.reverted_uuid == found.view.entries[4].uuid
    assert [each["type"] for each in carried_out(path, proposal.operations)] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]


def test_a_revert_goes_back_as_far_as_it_takes(path: Path) -> None:
    found = ground(path, talk(400, 400, 20_000, 20_000), current=12_000, most=4000)
    assert propose_revert(found).operations[0].line == 5


@pytest.mark.parametrize(
    ("prompts", "counters", "why"),
    [
        ((4000,), RecoveryCounters(), "fewer than 2 messages"),  # 002-83
        ((400, 4000), RecoveryCounters(reverted=3), "going back 0 prompts"),  # 002-82, 002-85
        ((40_000, 40, 40, 40, 40), RecoveryCounters(), "going back 3 prompts"),
    ],
)
def test_a_revert_is_refused(
    path: Path, prompts: tuple[int, ...], counters: RecoveryCounters, why: str
) -> None:
    found = ground(path, talk(*prompts), current=12_000, most=4000, counters=counters)
    missing = propose_revert(found).insufficient
    assert missing
    assert why in missing.why


def planned(
    found: RecoveryContext,
    steps: tuple[RecoveryStep, ...],
    **tools: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    return choose_step(steps, msgspec.structs.replace(found, **tools))


def summary_of(tokens: int) -> Any:  # noqa: ANN401
    operation = Operation(
        "summarize", Severity.SUMMARY, None, "summary", "all", "why", tokens, 0, ()
    )
    return lambda _: operation


def test_the_first_step_that_suffices_is_taken(path: Path) -> None:
    """002-15, 002-54, 002-60: each costs more than the one before it."""
    found = ground(path, sizes(80_000), current=30_000, most=20_000)
    choice = planned(found, SETTINGS.step_order)
    assert choice.chosen.step is RecoveryStep.TRUNCATE
    assert [each.step for each in choice.proposals] == [
        RecoveryStep.FIX_EMPTY,
        RecoveryStep.TRUNCATE,
    ]
    assert choice.plan.operations == choice.chosen.operations
    assert choice.plan.harm is Severity.MASKED


def test_a_summary_takes_the_place_of_what_did_not_suffice(path: Path) -> None:
    """002-57, 002-86, 002-91."""
    found = ground(path, sizes(8000), current=30_000, most=20_000)
    choice = planned(found, SETTINGS.step_order, summarize=summary_of(15_000))
    assert [each.strategy for each in choice.plan.operations] == ["summarize"]
    assert [each.check for each in choice.refusals] == ["fix_empty", "truncate_largest"]


def test_a_summary_that_saves_nothing_is_no_success(path: Path) -> None:
    """R002-08."""
    found = ground(path, sizes(8000), current=30_000, most=20_000)
    choice = planned(found, (RecoveryStep.SUMMARIZE,), summarize=summary_of(0))
    assert choice.plan is None
    assert choice.refusals[0].why == "no summary is smaller than the current content"


def test_a_revert_waits_for_a_person(path: Path) -> None:
    """T-08: never without being told."""
    found = ground(path, talk(400, 400, 40_000), current=12_000, most=8000)
    waiting = choose_step((RecoveryStep.REVERT,), found)
    told = choose_step((RecoveryStep.REVERT,), found, frozenset({RecoveryStep.REVERT}))
    assert waiting.plan is None
    assert waiting.refusals[0].check == "confirm"
    assert told.plan is not None
    assert told.plan.harm is Severity.CUT


def test_mended_messages_go_along_with_what_makes_it_smaller(path: Path) -> None:
    lines = chain(made.user("go"), made.assistant("m1", content=[made.text("")]))
    lines += chain(made.user("on"), *turn("t0", "x" * 80_000))
    lines[2]["parentUuid"] = lines[1]["uuid"]
    choice = planned(ground(path, lines, current=30_000, most=20_000), SETTINGS.step_order)
    assert [each.strategy for each in choice.plan.operations] == ["fix_empty", "truncate_largest"]


def test_a_line_is_changed_once(path: Path) -> None:
    found = ground(path, sizes(80_000, 9000), current=30_000, most=29_000)
    first = propose_truncation(found)
    found = msgspec.structs.replace(found, planned_operations=first.operations)
    assert [each.line for each in propose_truncation(found).operations] == [5]


def test_dedup_keeps_the_newest_result_of_a_repeated_call(path: Path) -> None:
    """R002-17: the same tool with the same arguments, whatever their order."""
    inputs = {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 2}
    lines = [made.user("go")]
    for place, asked in enumerate(inputs):
        lines.append(made.assistant(f"m{place}", content=[made.tool("Q", f"t{place}", **asked)]))
        result = {"type": "tool_result", "tool_use_id": f"t{place}", "content": f"{place}" * 40_000}
        lines.append(made.user([result]))
    found = ground(path, chain(*lines), current=30_000, most=20_500)
    choice = planned(found, (RecoveryStep.DEDUP,))
    assert choice.plan
    assert [each.line for each in choice.plan.operations] == [3]


def test_what_is_used_up_is_not_planned(path: Path) -> None:
    used = RecoveryCounters(attempts=1, truncated=20, emptied=3)
    found = ground(path, sizes(80_000), current=30_000, most=20_000, counters=used)
    assert list(available_steps(found, SETTINGS.step_order)) == [
        RecoveryStep.SUMMARIZE,
        RecoveryStep.REVERT,
    ]


def detected(path: Path, *lines: made.JsonLine) -> Any:  # noqa: ANN401
    written = made.write(path, chain(*lines))
    rows = [json.loads(line) for line in written.read_bytes().splitlines()]
    return find_refusal(made.SESSION, read_entries(path), lambda line: rows[line - 1])


def test_a_session_that_ended_in_a_refusal(path: Path) -> None:
    """002-11, 002-37 to 002-41, 002-43 and 002-48."""
    details = (
        f'400 {{"type":"error","error":{{"type":"invalid_request_error","message":"{TOO_LONG}"}}}}'
    )
    last = made.refusal("Prompt is too long", error="invalid_request", errorDetails=details)
    found = detected(path, made.user(), last)
    assert (found.error_type, found.current_tokens, found.max_tokens, found.key) == (
        LimitErrorType.TOKEN_LIMIT,
        210_000,
        200_000,
        last["uuid"],
    )


def test_an_empty_message_and_its_index(path: Path) -> None:
    """002-42."""
    words = "messages.12: all messages must have non-empty content"
    found = detected(path, made.user(), made.refusal(f"API Error: 400 {words}"))
    assert (found.error_type, found.message_index) == (LimitErrorType.NON_EMPTY_CONTENT, 12)


@pytest.mark.parametrize(
    "after_it",
    [
        [made.user("again"), made.assistant()],
        [made.boundary(), made.summary()],
    ],
)
def test_a_session_that_went_on_is_not_mended(path: Path, after_it: list[made.JsonLine]) -> None:
    """R002-12: a compaction clears it."""
    assert detected(path, made.user(), made.refusal("Prompt is too long"), *after_it) is None


@pytest.mark.parametrize("words", ["", " \n", [], [made.text("")]])
def test_an_empty_summary_clears_nothing(path: Path, words: Any) -> None:  # noqa: ANN401
    """R002-08: what was refused is still to be recovered, whatever the person typed since."""
    refused = made.refusal("Prompt is too long")
    compaction = made.boundary(), made.summary(words)
    for after_it in ((), (made.user("go on"),)):
        found = detected(path, made.user(), refused, *compaction, *after_it)
        assert found
        assert found.key == refused["uuid"]


def test_an_answer_after_an_empty_summary_clears_it(path: Path) -> None:
    lines = made.refusal("Prompt is too long"), made.boundary(), made.summary("")
    assert detected(path, made.user(), *lines, made.user("on"), made.assistant()) is None


def test_a_boundary_without_a_summary_clears_it(path: Path) -> None:
    """Its kept messages are what the model sees."""
    lines = made.refusal("Prompt is too long"), made.boundary(), made.user("on")
    assert detected(path, made.user(), *lines) is None


@pytest.mark.parametrize("words", ["API Error: 529 overloaded", "max_tokens must be at most 9"])
def test_other_refusals_are_not_ours(path: Path, words: str) -> None:
    assert detected(path, made.user(), made.refusal(words)) is None
