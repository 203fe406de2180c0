"""What became of an agent's duty to compress: the states, the origin, the score, the cost."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.compliance.codes import Format, Verdict
from ctxtop.core.compliance.cost import Weighed, cost, is_too_wide, typical_tokens
from ctxtop.core.compliance.expected import (
    CLNODE_RULES,
    LAST_MESSAGE,
    NOTHING,
    OFF,
    WHOLE_TRANSCRIPT,
    Expected,
    Ground,
    Terms,
    expect,
    skill_in_prompt,
    terms_of,
)
from ctxtop.core.compliance.findings import LIMITS, Limits, labels
from ctxtop.core.compliance.origin import Origin, Place, grep_passes, origin_of
from ctxtop.core.compliance.score import DAY_MS, day_of, score
from ctxtop.core.compliance.states import Ruling, Run, rule
from ctxtop.core.policy.layers import Given, resolve
from ctxtop.core.policy.policy import Origin as Where

GOOD = "[COMPRESSED] agent_type: worker\nChanged files: a.ts\nResult: ok"
BAD = "I built it, and this is how."
ASKED = Expected(Format.OUTPUT, Ground.DECLARED)
SKILL = Place(100, "skill_text")


def run(final: str | None = GOOD, **fields: Any) -> Run:  # noqa: ANN401 -- any field
    known: dict[str, Any] = {"final_message": "m9", "final_offset": 900}
    return Run("worker", has_ended=True, final_text=final, **(known | fields))


def said(offset: int, message: str, text: str) -> Place:
    return Place(offset, "assistant", message, text)


def ruled(it: Run, mode: str = LAST_MESSAGE) -> Ruling:
    return rule(it, ASKED, Terms(mode))


STATES = {
    "at once": (run(), "compliant", []),
    "not at all": (run(BAD), "non_compliant", ["V01"]),
    "the skill's text is no result": (run(BAD, places=(SKILL,)), "non_compliant", ["V01"]),
    "after a block": (run(blocks=(500,)), "forced", []),
    "after a block that only the log tells of": (run(stops=2, was_released=True), "forced", []),
    "another hook's block": (
        run(blocks=(500,), places=(said(400, "m4", GOOD), said(900, "m9", GOOD))),
        "compliant",
        [],
    ),
    "not after a block either": (run(BAD, blocks=(500,)), "exhausted", ["V01"]),
    "badly after a block": (run(f"Well.\n{GOOD}", blocks=(500,)), "exhausted", ["V02"]),
    "blocked and gone": (run(BAD, blocks=(950,)), "non_compliant", ["V01"]),
    "replaced": (
        run("Done.", places=(said(400, "m4", GOOD),)),
        "clobbered",
        ["V01", "V16"],
    ),
    "replaced after a block": (
        run("Done.", blocks=(500,), places=(said(400, "m4", GOOD),)),
        "clobbered",
        ["V01", "V16"],
    ),
    "an earlier one that did not comply": (
        run("Done.", places=(said(400, "m4", "[COMPRESSED]"),)),
        "non_compliant",
        ["V01"],
    ),
    "no words": (run(None), "unknown", []),
    "blank": (run(" \n"), "unknown", []),
    "still at work": (Run("worker", has_ended=False, final_text=BAD), "unknown", []),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state(name: str) -> None:
    it, verdict, codes = STATES[name]
    found = ruled(it)
    assert (found.verdict, labels(found.violations)) == (verdict, codes)


def test_where_nothing_is_expected_it_is_measured_all_the_same() -> None:
    found = rule(run(BAD, blocks=(500,)), NOTHING, Terms())
    assert (found.verdict, found.blocked) == (Verdict.NOT_REQUIRED, True)
    assert (found.judgement.lines, found.judgement.chars) == (1, len(BAD))


def test_what_is_known_without_a_transcript() -> None:
    found = ruled(Run("worker", has_ended=True, final_text=GOOD))
    assert found.verdict is Verdict.COMPLIANT
    assert (found.marker_location, found.grep_passes, found.blocked) == (None, None, None)


def test_more_stops_than_a_block_explains() -> None:
    assert not ruled(run(stops=2)).refired
    assert ruled(run(stops=3)).refired


def test_a_grep_over_the_transcript_as_another_opinion() -> None:
    """T-07: both are told; which one decides is the policy's."""
    fooled = run(BAD, places=(SKILL,))
    assert ruled(fooled).grep_was_wrong
    assert ruled(fooled, WHOLE_TRANSCRIPT).verdict is Verdict.COMPLIANT
    assert not ruled(fooled, WHOLE_TRANSCRIPT).violations
    assert ruled(run(BAD), WHOLE_TRANSCRIPT).verdict is Verdict.NON_COMPLIANT
    # The feedback holds the marker: from then on every grep passes (R000-01).
    fed = run(BAD, blocks=(500,), places=(Place(500, "hook_feedback"),))
    assert ruled(fed, WHOLE_TRANSCRIPT).verdict is Verdict.FORCED
    assert ruled(fed).verdict is Verdict.EXHAUSTED
    assert ruled(run(BAD, blocks=(500,)), WHOLE_TRANSCRIPT).verdict is Verdict.EXHAUSTED


def test_the_best_place_of_a_marker() -> None:
    places = [Place(1, "task_prompt"), SKILL, said(3, "m3", GOOD), said(9, "m9", GOOD)]
    assert origin_of(places, "m9") is Origin.FINAL_ASSISTANT
    assert origin_of(places[:3], "m9") is Origin.EARLIER_ASSISTANT
    assert origin_of(places[:2], "m9") is Origin.TASK_PROMPT
    assert origin_of([SKILL], None) is Origin.SKILL_TEXT
    assert origin_of([], "m9") is None


def test_a_grep_sees_what_stood_there_when_it_looked() -> None:
    assert grep_passes([SKILL], None)
    assert not grep_passes([Place(600, "hook_feedback")], 500)
    assert not grep_passes([], None)


CLNODE = Terms(preset_rules=CLNODE_RULES)

EXPECTED: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "preloaded": (("worker", ["compress-review"], ["compress-output"]), "review", "preloaded"),
    "declared": (("worker", [], ["x", "team:compress-output"]), "output", "declared"),
    "a name alone asks for nothing": (("reviewer", [], None), "none", "nobody"),
    "by a preset's rules": (("node-backend", [], None, CLNODE), "output", "rule"),
    "a definition outweighs a name": (("reviewer", [], [], CLNODE), "none", "nobody"),
    "prompted": (("reviewer", [], [], Terms(), "compress-review"), "review", "prompt"),
    "a definition outweighs a prompt": (
        ("worker", [], ["compress-output"], Terms(), "compress-review"),
        "output",
        "declared",
    ),
    "unknown": (("worker", ["other"], None), "none", "nobody"),
    "nameless": ((None, [], None), "none", "nobody"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_expected(name: str) -> None:
    asked, format_, ground = EXPECTED[name]
    found = expect(*asked)
    assert (found.format, found.source) == (format_, ground)


def test_a_definition_that_is_not_as_the_rules_say() -> None:
    assert expect("reviewer", [], [], CLNODE).differs_from_policy
    assert expect("reviewer", [], ["compress-output"], CLNODE).differs_from_policy
    assert not expect("reviewer", [], ["compress-review"], CLNODE).differs_from_policy
    assert not expect("worker", [], ["compress-output"], CLNODE).differs_from_policy
    assert not expect("reviewer", [], None, CLNODE).differs_from_policy
    assert not expect("reviewer", [], []).differs_from_policy, "nobody asked for a table"


def test_rules_that_a_person_wrote_always_hold() -> None:
    rules = Terms(rules={"reviewer": Format.OUTPUT, "node-backend": Format.NONE})
    assert expect("reviewer", [], [], rules).format is Format.OUTPUT
    assert expect("node-backend", [], None, rules) == NOTHING
    # A skill that is declared says more than a table.
    assert expect("reviewer", [], ["compress-review"], rules).format is Format.REVIEW


def test_the_terms_of_a_policy() -> None:
    built_in = terms_of(resolve(()))
    assert built_in == Terms()
    assert built_in.rules is None
    given = [
        Given("compliance.rules", "worker=review", Where.PROJECT_FILE, "x.toml"),
        Given("compliance.line_limit", 5, Where.PROJECT_FILE, "x.toml"),
        Given("compliance.min_samples", 3, Where.PROJECT_FILE, "x.toml"),
    ]
    terms = terms_of(resolve(given))
    assert terms.rules == {"worker": Format.REVIEW}
    assert (terms.limits, terms.min_samples) == (Limits(output_lines=5), 3)
    disabled = [Given("disabled_modules", "compliance", Where.USER_FILE, "y.toml")]
    assert terms_of(resolve(disabled)).mode == OFF
    preset = terms_of(resolve([Given("preset", "clnode", Where.USER_FILE, "z.toml")]))
    assert (preset.rules, preset.preset_rules) == (None, CLNODE_RULES)
    assert CLNODE_RULES["reviewer"] is Format.REVIEW


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
    found = [ruled(run())] * 8 + [ruled(run(blocks=(500,)))]
    few = score(found, 10)
    assert (few.judged_count, few.passed_share, few.first_pass_share) == (9, None, None)
    enough = score([*found, ruled(run(BAD, places=(SKILL,)))], 10)
    assert (enough.passed_share, enough.first_pass_share, enough.forced_share) == (0.9, 0.8, 0.1)
    assert (enough.grep_passed, enough.grep_wrong) == (1, 1)
    assert enough.codes == {"V01": 1}
    assert enough.verdicts[Verdict.COMPLIANT] == 8


def test_a_score_counts_what_could_be_judged() -> None:
    others = [ruled(run(None)), rule(run(BAD), NOTHING, Terms())]
    found = score(others, 0)
    assert (found.judged_count, found.passed_share, found.codes) == (0, None, {})
    assert sum(found.verdicts.values()) == 2


def test_what_compliance_would_have_saved() -> None:
    good = [Weighed(ruled(run()), tokens) for tokens in (30, 50, 40)]
    bad, short = Weighed(ruled(run(BAD)), 640), Weighed(ruled(run(BAD)), 20)
    assert typical_tokens([bad], LIMITS)[Format.OUTPUT] == 250
    typical = typical_tokens([*good, bad], LIMITS)
    assert typical[Format.OUTPUT] == 40
    told = cost([*good, bad, short], typical)
    assert (told.result_tokens, told.excess_tokens, told.retry_tokens) == (780, 600, 0)
    blocked = Weighed(ruled(run(blocks=(500,), retry_tokens=21_000)), 30)
    assert cost([blocked], typical).retry_tokens == 21_000


def test_a_review_of_too_many_files() -> None:
    text = "[COMPRESSED] agent_type: worker\nFiles reviewed: {}\nVerdict: PASS"
    asked = Expected(Format.REVIEW, Ground.DECLARED)
    for files, wide in (("a,b,c,d,e,f,g", False), ("a,b,c,d,e,f,g,h", True)):
        assert is_too_wide(rule(run(text.format(files)), asked, Terms()), LIMITS) is wide


def test_a_day_begins_at_midnight_in_utc() -> None:
    assert day_of(3 * DAY_MS + 5) == 3 * DAY_MS
