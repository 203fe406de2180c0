"""What became of an agent's duty to compress: the states, the origin, the score, the cost."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.compliance.expectations import (
    DEFAULT_RESULT_LIMITS,
    LAST_MESSAGE,
    OFF,
    WHOLE_TRANSCRIPT,
    ComplianceSettings,
    ResultLimits,
    compliance_settings,
    find_expected_format,
)
from ctxtop.core.compliance.run_verdict import (
    MS_PER_DAY,
    AgentRun,
    MarkerLine,
    WeighedResult,
    best_marker_location,
    day_start,
    find_replaced_result,
    grep_would_pass,
    is_review_too_wide,
    judge_run,
    make_score,
    sum_cost,
    typical_result_tokens,
)
from ctxtop.core.model.findings import (
    ComplianceVerdict,
    ExpectationSource,
    ExpectedFormat,
    MarkerLocation,
    RunVerdict,
    finding_labels,
)
from ctxtop.core.model.result_formats import CLNODE_FORMATS, ResultFormat, skill_in_prompt
from ctxtop.core.policy.policy import PolicyOrigin as Where
from ctxtop.core.policy.resolve import RawValue, resolve_policy

GOOD = "[COMPRESSED] agent_type: worker\nChanged files: a.ts\nResult: ok"
BAD = "I built it, and this is how."
ASKED = ExpectedFormat(ResultFormat.OUTPUT, ExpectationSource.DECLARED)
SKILL = MarkerLine(100, "skill_text")

NOTHING_EXPECTED = ExpectedFormat(ResultFormat.NONE, ExpectationSource.NONE)


def run(final: str | None = GOOD, **fields: Any) -> AgentRun:  # noqa: ANN401 -- any field
    known: dict[str, Any] = {"final_message_id": "m9", "final_offset": 900}
    return AgentRun("worker", has_ended=True, final_text=final, **(known | fields))


def said(offset: int, message: str, text: str) -> MarkerLine:
    return MarkerLine(offset, "assistant", message, text)


def ruled(it: AgentRun, mode: str = LAST_MESSAGE) -> RunVerdict:
    return judge_run(it, ASKED, ComplianceSettings(mode))


STATES = {
    "at once": (run(), "compliant", []),
    "not at all": (run(BAD), "non_compliant", ["V01"]),
    "the skill's text is no result": (run(BAD, marker_lines=(SKILL,)), "non_compliant", ["V01"]),
    "after a block": (run(block_offsets=(500,)), "forced", []),
    "after a block that only the log tells of": (run(stops=2, was_released=True), "forced", []),
    "another hook's block": (
        run(block_offsets=(500,), marker_lines=(said(400, "m4", GOOD), said(900, "m9", GOOD))),
        "compliant",
        [],
    ),
    "not after a block either": (run(BAD, block_offsets=(500,)), "exhausted", ["V01"]),
    "badly after a block": (run(f"Well.\n{GOOD}", block_offsets=(500,)), "exhausted", ["V02"]),
    "blocked and gone": (run(BAD, block_offsets=(950,)), "non_compliant", ["V01"]),
    "replaced": (
        run("Done.", marker_lines=(said(400, "m4", GOOD),)),
        "clobbered",
        ["V01", "V16"],
    ),
    "replaced after a block": (
        run("Done.", block_offsets=(500,), marker_lines=(said(400, "m4", GOOD),)),
        "clobbered",
        ["V01", "V16"],
    ),
    "an earlier one that did not comply": (
        run("Done.", marker_lines=(said(400, "m4", "[COMPRESSED]"),)),
        "non_compliant",
        ["V01"],
    ),
    "no words": (run(None), "unknown", []),
    "blank": (run(" \n"), "unknown", []),
    "still at work": (AgentRun("worker", has_ended=False, final_text=BAD), "unknown", []),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state(name: str) -> None:
    it, verdict, codes = STATES[name]
    found = ruled(it)
    assert (found.verdict, finding_labels(found.violations)) == (verdict, codes)


def test_where_nothing_is_expected_it_is_measured_all_the_same() -> None:
    found = judge_run(run(BAD, block_offsets=(500,)), NOTHING_EXPECTED, ComplianceSettings())
    assert (found.verdict, found.blocked) == (ComplianceVerdict.NOT_REQUIRED, True)
    assert (found.judgment.lines, found.judgment.chars) == (1, len(BAD))


def test_what_is_known_without_a_transcript() -> None:
    found = ruled(AgentRun("worker", has_ended=True, final_text=GOOD))
    assert found.verdict is ComplianceVerdict.COMPLIANT
    assert (found.marker_location, found.grep_passes, found.blocked) == (None, None, None)


def test_more_stops_than_a_block_explains() -> None:
    assert ruled(run(stops=2)).refires == 0
    assert (ruled(run(stops=4)).stops, ruled(run(stops=4)).refires) == (4, 2)
    assert make_score([ruled(run(stops=3)), ruled(run(stops=5)), ruled(run())], 1).refires == 4


def test_the_compliant_message_that_a_later_one_replaced_is_kept() -> None:
    newest = GOOD.replace("ok", "better")
    lines = (said(300, "m3", GOOD), said(400, "m4", newest), said(500, "m5", "[COMPRESSED]"))
    assert ruled(run("Done.", marker_lines=lines)).replaced_result == newest
    assert ruled(run(marker_lines=lines)).replaced_result is None
    assert find_replaced_result([GOOD, newest, "[COMPRESSED] of old", "Done."], "worker") == newest
    assert find_replaced_result([GOOD, "Done."], "other") is None
    assert find_replaced_result([BAD, "Done."], "worker") is None
    assert find_replaced_result([], "worker") is None


def test_a_grep_over_the_transcript_as_another_opinion() -> None:
    """T-07: both are computed; the verdict never follows a marker that the agent did not write."""
    fooled = run(BAD, marker_lines=(SKILL,))
    for mode in (LAST_MESSAGE, WHOLE_TRANSCRIPT):
        assert ruled(fooled, mode).verdict is ComplianceVerdict.NON_COMPLIANT
        assert ruled(fooled, mode).grep_was_wrong


EARLIER = said(400, "m4", f"Done:\n{GOOD}")
ANY_ANSWER = {
    "one that is not the last": (run(BAD, marker_lines=(SKILL, EARLIER)), "compliant", []),
    "one that another hook blocked": (
        run(BAD, block_offsets=(500,), marker_lines=(EARLIER,)),
        "compliant",
        [],
    ),
    "after a block": (
        run(block_offsets=(500,), marker_lines=(SKILL, said(900, "m9", GOOD))),
        "forced",
        [],
    ),
    "after a block that only the log tells of": (
        run(stops=2, was_released=True, marker_lines=(said(900, "m9", GOOD),)),
        "forced",
        [],
    ),
    "none": (run(BAD, marker_lines=(SKILL,)), "non_compliant", ["V01"]),
    # The feedback holds the marker: from then on every grep passes (R000-01).
    "none after a block either": (
        run(BAD, block_offsets=(500,), marker_lines=(MarkerLine(500, "hook_feedback"),)),
        "exhausted",
        ["V01"],
    ),
    "blocked and gone": (run(BAD, block_offsets=(950,)), "non_compliant", ["V01"]),
}
for origin in ("task_prompt", "tool_result", "injected_context", "request_copy", "other"):
    ANY_ANSWER[f"only {origin}"] = (
        run(BAD, marker_lines=(MarkerLine(200, origin),)),
        "non_compliant",
        ["V01"],
    )


@pytest.mark.parametrize("name", ANY_ANSWER)
def test_the_mode_whole_transcript_counts_the_agent_s_own_answers_only(name: str) -> None:
    it, verdict, codes = ANY_ANSWER[name]
    found = ruled(it, WHOLE_TRANSCRIPT)
    assert (found.verdict, finding_labels(found.violations)) == (verdict, codes)


def test_the_best_place_of_a_marker() -> None:
    places = [MarkerLine(1, "task_prompt"), SKILL, said(3, "m3", GOOD), said(9, "m9", GOOD)]
    assert best_marker_location(places, "m9") is MarkerLocation.FINAL_ASSISTANT
    assert best_marker_location(places[:3], "m9") is MarkerLocation.EARLIER_ASSISTANT
    assert best_marker_location(places[:2], "m9") is MarkerLocation.TASK_PROMPT
    assert best_marker_location([SKILL], None) is MarkerLocation.SKILL_TEXT
    assert best_marker_location([], "m9") is None


def test_a_grep_sees_what_stood_there_when_it_looked() -> None:
    assert grep_would_pass([SKILL], None)
    assert not grep_would_pass([MarkerLine(600, "hook_feedback")], 500)
    assert not grep_would_pass([], None)


CLNODE = ComplianceSettings(preset_rules=CLNODE_FORMATS)

EXPECTED: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "preloaded": (("worker", ["compress-review"], ["compress-output"]), "review", "preloaded"),
    "declared": (("worker", [], ["x", "team:compress-output"]), "output", "declared"),
    "a name alone asks for nothing": (("reviewer", [], None), "none", "none"),
    "by a preset's rules": (("node-backend", [], None, CLNODE), "output", "rule"),
    "a definition outweighs a name": (("reviewer", [], [], CLNODE), "none", "none"),
    "prompted": (("reviewer", [], [], ComplianceSettings(), "compress-review"), "review", "prompt"),
    "a definition outweighs a prompt": (
        ("worker", [], ["compress-output"], ComplianceSettings(), "compress-review"),
        "output",
        "declared",
    ),
    "unknown": (("worker", ["other"], None), "none", "none"),
    "nameless": ((None, [], None), "none", "none"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_expected(name: str) -> None:
    asked, format_, ground = EXPECTED[name]
    found = find_expected_format(*asked)
    assert (found.format, found.source) == (format_, ground)


def test_a_definition_that_is_not_as_the_rules_say() -> None:
    assert find_expected_format("reviewer", [], [], CLNODE).differs_from_policy
    assert find_expected_format("reviewer", [], ["compress-output"], CLNODE).differs_from_policy
    assert not find_expected_format("reviewer", [], ["compress-review"], CLNODE).differs_from_policy
    assert not find_expected_format("worker", [], ["compress-output"], CLNODE).differs_from_policy
    assert not find_expected_format("reviewer", [], None, CLNODE).differs_from_policy
    assert not find_expected_format("reviewer", [], []).differs_from_policy, (
        "nobody asked for a table"
    )


def test_rules_that_a_person_wrote_always_hold() -> None:
    rules = ComplianceSettings(
        rules={"reviewer": ResultFormat.OUTPUT, "node-backend": ResultFormat.NONE}
    )
    assert find_expected_format("reviewer", [], [], rules).format is ResultFormat.OUTPUT
    assert find_expected_format("node-backend", [], None, rules) == NOTHING_EXPECTED
    # A skill that is declared says more than a table.
    assert (
        find_expected_format("reviewer", [], ["compress-review"], rules).format
        is ResultFormat.REVIEW
    )


def test_the_terms_of_a_policy() -> None:
    built_in = compliance_settings(resolve_policy(()))
    assert built_in == ComplianceSettings()
    assert built_in.rules is None
    given = [
        RawValue("compliance.rules", "worker=review", Where.PROJECT_FILE, "x.toml"),
        RawValue("compliance.line_limit", 5, Where.PROJECT_FILE, "x.toml"),
        RawValue("compliance.min_samples", 3, Where.PROJECT_FILE, "x.toml"),
    ]
    terms = compliance_settings(resolve_policy(given))
    assert terms.rules == {"worker": ResultFormat.REVIEW}
    assert (terms.limits, terms.min_samples) == (ResultLimits(output_lines=5), 3)
    disabled = [RawValue("disabled_modules", "compliance", Where.USER_FILE, "y.toml")]
    assert compliance_settings(resolve_policy(disabled)).mode == OFF
    preset = compliance_settings(
        resolve_policy([RawValue("preset", "clnode", Where.USER_FILE, "z.toml")])
    )
    assert (preset.rules, preset.preset_rules) == (None, CLNODE_FORMATS)
    assert CLNODE_FORMATS["reviewer"] is ResultFormat.REVIEW


@pytest.mark.parametrize(
    ("prompt", "skill"),
    [
        ("Review src/. Use the compress-review skill for your result.", "compress-review"),
        ("Return your findings as a [COMPRESSED] block.", "compress-output"),
        ("Your reply must start with [COMPRESSED] agent: worker", "compress-output"),
        ("The backend said:\n[COMPRESSED] agent: node-backend\nResult: done\nGo on.", None),
        ("Compress-outputs of the build are in dist/.", None),
        ("Review src/.", None),
    ],
)
def test_a_prompt_that_asks_for_a_format(prompt: str, skill: str | None) -> None:
    assert skill_in_prompt(prompt) == skill


def test_no_share_is_told_of_a_few_results() -> None:
    found = [ruled(run())] * 8 + [ruled(run(block_offsets=(500,)))]
    few = make_score(found, 10)
    assert (few.judged_count, few.passed_share, few.first_pass_share) == (9, None, None)
    enough = make_score([*found, ruled(run(BAD, marker_lines=(SKILL,)))], 10)
    assert (enough.passed_share, enough.first_pass_share, enough.forced_share) == (0.9, 0.8, 0.1)
    assert (enough.grep_passed, enough.grep_wrong) == (1, 1)
    assert enough.codes == {"V01": 1}
    assert enough.verdicts[ComplianceVerdict.COMPLIANT] == 8


def test_a_score_counts_what_could_be_judged() -> None:
    others = [ruled(run(None)), judge_run(run(BAD), NOTHING_EXPECTED, ComplianceSettings())]
    found = make_score(others, 0)
    assert (found.judged_count, found.passed_share, found.codes) == (0, None, {})
    assert sum(found.verdicts.values()) == 2


def test_what_compliance_would_have_saved() -> None:
    good = [WeighedResult(ruled(run()), tokens) for tokens in (30, 50, 40)]
    bad, short = WeighedResult(ruled(run(BAD)), 640), WeighedResult(ruled(run(BAD)), 20)
    assert typical_result_tokens([bad], DEFAULT_RESULT_LIMITS)[ResultFormat.OUTPUT] == 250
    typical = typical_result_tokens([*good, bad], DEFAULT_RESULT_LIMITS)
    assert typical[ResultFormat.OUTPUT] == 40
    told = sum_cost([*good, bad, short], typical)
    assert (told.result_tokens, told.excess_tokens, told.retry_tokens) == (780, 600, 0)
    blocked = WeighedResult(ruled(run(block_offsets=(500,), retry_tokens=21_000)), 30)
    assert sum_cost([blocked], typical).retry_tokens == 21_000


def test_a_review_of_too_many_files() -> None:
    text = "[COMPRESSED] agent_type: worker\nFiles reviewed: {}\nVerdict: PASS"
    asked = ExpectedFormat(ResultFormat.REVIEW, ExpectationSource.DECLARED)
    for files, wide in (("a,b,c,d,e,f,g", False), ("a,b,c,d,e,f,g,h", True)):
        assert (
            is_review_too_wide(
                judge_run(run(text.format(files)), asked, ComplianceSettings()),
                DEFAULT_RESULT_LIMITS,
            )
            is wide
        )


def test_a_day_begins_at_midnight_in_utc() -> None:
    assert day_start(3 * MS_PER_DAY + 5) == 3 * MS_PER_DAY
