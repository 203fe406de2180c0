"""The verdict on one text: every example of the requirements, and every code by itself."""

from __future__ import annotations

import time

import pytest
from ctxtop.core.compliance.expectations import ResultLimits
from ctxtop.core.compliance.judge import block_reason, judge_result
from ctxtop.core.model.findings import (
    BLANK_RESULT,
    MAX_RESULT_LINES,
    ComplianceVerdict,
    FindingCode,
    finding_labels,
)
from ctxtop.core.model.result_formats import COMPRESSED_MARKER, ResultFormat
from hypothesis import example, given
from hypothesis import strategies as st

HEAD = "[COMPRESSED] agent_type: node-backend\n"
FILES = "Changed files: a.ts\n"
GOOD = f"{HEAD}{FILES}Result: ok"
REVIEWER = "[COMPRESSED] agent_type: reviewer\nFiles reviewed: a.py\n"

# Requirements section 3, X01 to X12: type, text, codes, lines, and what a grep says.
EXAMPLES = {
    "X01": (
        "node-backend",
        (
            "[COMPRESSED] agent_type: node-backend\n"
            "Changed files: src/server/db.ts, src/server/routes/api.ts\n"
            "Result: Added GET /api/users with pagination; 12 tests pass."
        ),
        [],
        3,
        True,
    ),
    "X02": (
        "react-frontend",
        (
            "[COMPRESSED] agent_type: react-frontend\n"
            "Changed files: src/web/App.tsx\n"
            "Result: Split dashboard into 3 panes; build passes.\n"
            "Decisions: chose CSS grid over flex because panes resize\n"
            "Blockers: API /api/stats missing on server"
        ),
        [],
        5,
        True,
    ),
    "X03": (
        "cli-hooks",
        (
            "[COMPRESSED] agent_type: cli-hooks\n"
            "Changed files: src/cli/index.ts\n"
            "Result: init now merges hooks.\n"
            "Existing settings are preserved.\n"
            "4 tests added, all pass."
        ),
        [],
        5,
        True,
    ),
    "X04": (
        "node-backend",
        f"{HEAD}{FILES}Result: one\ntwo\nthree\nDecisions: d1\nd2\nd3\nd4\nd5",
        [],
        10,
        True,
    ),
    "X05": (
        "node-backend",
        f"{HEAD}{FILES}Result: one\ntwo\nthree\nDecisions: d1\nd2\nd3\nd4\nd5\nd6",
        ["V05"],
        11,
        True,
    ),
    "X06": (
        "node-backend",
        (
            "I finished the task. Here are all the details...\n"
            "First I opened db.ts and changed the schema."
        ),
        ["V01"],
        2,
        False,
    ),
    "X07": ("node-backend", f"I completed the task.\n{GOOD}", ["V02", "V10"], 4, True),
    "X08": ("node-backend", GOOD.replace("COMPRESSED", "compressed"), ["V01"], 3, False),
    "X09": ("react-frontend", f"{HEAD}Changed files: a.tsx\nResult: ok", ["V04"], 3, True),
    "X10": ("node-backend", f"{HEAD}{FILES}Decisions: chose X over Y", ["V06:Result"], 3, True),
    "X11": ("node-backend", f"{HEAD}{FILES}Result: one\ntwo\nthree\nfour", ["V07"], 6, True),
    "X12": (
        "node-backend",
        f"{HEAD}{FILES}Result: new helper\n```ts\nexport const x = 1\n```",
        ["V08"],
        6,
        True,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_requirements(name: str) -> None:
    kind, text, codes, lines, grep = EXAMPLES[name]
    found = judge_result(text, ResultFormat.OUTPUT, kind)
    assert finding_labels(found.violations) == codes
    assert found.verdict is (
        ComplianceVerdict.NON_COMPLIANT if codes else ComplianceVerdict.COMPLIANT
    )
    assert (found.lines, COMPRESSED_MARKER in text, found.warnings) == (lines, grep, ())


# A text that has this one code and no other, and the line that shows it.
OUTPUTS = {
    "V01": ("just words", 1),
    "V02": (f"Well.\n{GOOD}", 1),
    "V03": (f"[COMPRESSED]\n{FILES}Result: ok", 1),
    "V04": (f"[COMPRESSED] agent_type: other\n{FILES}Result: ok", 1),
    "V05": (f"{GOOD}\nDecisions: a\n" + "\n".join("bcdefgh"), 11),
    "V06:Changed files": (f"{HEAD}Result: ok", 1),
    "V06:Result": (f"{HEAD}{FILES}Result:", 3),
    "V07": (f"{GOOD}\nb\nc\nd", 6),
    "V08": (f"{GOOD}\n```\nx = 1\n```", 4),
    "V09": (f"{GOOD}\n## More", 4),
    "V10": (f"{GOOD}\nLet me know if you need more.", 4),
    "V11": (f"{GOOD}\nResult: again", 4),
    "W01": (f"{GOOD}\nBlockers: none", 4),
    "W02": (f"{GOOD}{'x' * 1000}", 1),
    "W03": (f"{GOOD}\n블로커: x", 4),
    "W05": (f"{HEAD}Result: ok\nChanged files: a.ts", 3),
}
REVIEWS = {
    "V05": (REVIEWER + "Suggestion: a.py:1 — x\n" * 18 + "Verdict: PASS", 21),
    "V06:Files reviewed": ("[COMPRESSED] agent_type: reviewer\nVerdict: PASS", 1),
    "V06:Verdict": (f"{REVIEWER}Suggestion: a.py:1 — x", 1),
    "V11": (f"{REVIEWER}and more\nVerdict: PASS", 3),
    "V12": (f"{REVIEWER}Verdict: MAYBE", 3),
    "V13": (f"{REVIEWER}Warning: a.py:1 — x\nVerdict: PASS", 4),
    "V14": (f"{REVIEWER}Suggestion: no place\nVerdict: PASS", 3),
    "W01": (f"{REVIEWER}Critical: none\nVerdict: PASS", 3),
    "W05": (
        f"{REVIEWER}Warning: a.py:1 — x\nCritical: a.py:2 — y\nVerdict: FAIL (1/1)",
        4,
    ),
    "W06": ("[COMPRESSED] agent_type: reviewer\nFiles reviewed: a,b,c,d,e,f,g,h\nVerdict: PASS", 2),
}
ONE_CODE = [(ResultFormat.OUTPUT, *each) for each in OUTPUTS.items()]
ONE_CODE += [(ResultFormat.REVIEW, *each) for each in REVIEWS.items()]


@pytest.mark.parametrize(("expected", "code", "told"), ONE_CODE)
def test_a_text_with_one_code_alone(
    expected: ResultFormat, code: str, told: tuple[str, int]
) -> None:
    text, line = told
    kind = "node-backend" if expected is ResultFormat.OUTPUT else "reviewer"
    found = judge_result(text, expected, kind)
    assert finding_labels((*found.violations, *found.warnings)) == [code]
    assert next(each.line for each in (*found.violations, *found.warnings)) == line
    assert found.verdict is (
        ComplianceVerdict.NON_COMPLIANT if code.startswith("V") else ComplianceVerdict.COMPLIANT
    )


def test_every_code_has_a_text_and_a_sentence() -> None:
    tried = {code.partition(":")[0] for code in (*OUTPUTS, *REVIEWS)}
    # V16 needs an earlier message; the wrong format and the guide's variant have other codes too.
    assert tried | {"V15", "V16", "W04"} == {code.value for code in FindingCode}
    assert all(code.sentence and COMPRESSED_MARKER not in code.sentence for code in FindingCode)


def test_the_other_format_lacks_the_fields_of_its_own() -> None:
    output = judge_result(GOOD, ResultFormat.REVIEW, "node-backend")
    assert finding_labels(output.violations) == ["V06:Files reviewed", "V06:Verdict", "V15"]
    review = judge_result(f"{REVIEWER}Verdict: PASS", ResultFormat.OUTPUT, "reviewer")
    assert finding_labels(review.violations) == ["V06:Changed files", "V06:Result", "V15"]
    assert [each.line for each in review.violations] == [1, 1, 2]


def test_korean_fields_do_not_stand_for_the_required_ones() -> None:
    text = f"{HEAD}변경 파일: a.ts\n핵심 결과: ok\n핵심 결과: ok\n블로커: none"
    found = judge_result(text, ResultFormat.OUTPUT, "node-backend")
    assert finding_labels(found.violations) == ["V06:Changed files", "V06:Result"]
    assert finding_labels(found.warnings) == ["W03"]


def test_the_guide_s_variant_is_recognized() -> None:
    text = "[COMPRESSED]\n## Changed Files\n- a.ts\n## Key Decisions\n- x\n## Issues\n- none"
    found = judge_result(text, ResultFormat.OUTPUT, "node-backend")
    assert finding_labels(found.violations) == ["V03", "V06:Changed files", "V06:Result", "V09"]
    assert finding_labels(found.warnings) == ["W04"]


ALLOWED = [
    f"{HEAD}Blockers: no access\n{FILES}Result: ok",
    f"{HEAD}{FILES}Blockers: no access\nResult: ok",
    f"{HEAD}Changed files: (none)\nResult: ok",
    f"\n\n{HEAD.rstrip()}   \r\n{FILES}Result: ok\r\n\n",
    f"{HEAD}{FILES}\nResult: ok",
    f"{HEAD}{FILES}Result: see Warning: it is slow\nWarning: it is slow",
]


@pytest.mark.parametrize("text", ALLOWED)
def test_what_the_grammar_allows(text: str) -> None:
    found = judge_result(text, ResultFormat.OUTPUT, "node-backend")
    assert (found.verdict, found.warnings) == (ComplianceVerdict.COMPLIANT, ())


def test_a_plugin_s_agent_may_leave_out_the_plugin() -> None:
    for named in ("team:node-backend", "node-backend"):
        text = GOOD.replace("node-backend", named)
        assert (
            judge_result(text, ResultFormat.OUTPUT, "team:node-backend").verdict
            is ComplianceVerdict.COMPLIANT
        )
    assert judge_result(GOOD, ResultFormat.OUTPUT).verdict is ComplianceVerdict.COMPLIANT


REVIEW = """\
[COMPRESSED] agent_type: reviewer
Files reviewed: src/a.py, src/b.py
Critical: src/a.py:7 — wrong rate
- src/b.py:10-12 – lost update
Warning: C:\\x\\a.py:3 - no test
Suggestion: src/a.py:1 — rename
Verdict: FAIL (2 critical, 1 warning)"""


def test_a_review_s_findings() -> None:
    found = judge_result(REVIEW, ResultFormat.REVIEW, "my-reviewer")
    assert (found.verdict, found.reviewed_files, found.review_passes) == (
        ComplianceVerdict.COMPLIANT,
        2,
        False,
    )
    assert [
        (each.severity, each.path, each.line, each.last_line, each.text)
        for each in found.review_findings
    ] == [
        ("critical", "src/a.py", 7, 7, "wrong rate"),
        ("critical", "src/b.py", 10, 12, "lost update"),
        ("warning", "C:\\x\\a.py", 3, 3, "no test"),
        ("suggestion", "src/a.py", 1, 1, "rename"),
    ]


@pytest.mark.parametrize(
    ("verdict", "codes"),
    [
        ("PASS", ["V13"]),
        ("FAIL", ["V12"]),
        ("FAIL (2/1)", []),
        ("FAIL (2 criticals, 1 warnings)", []),
        ("FAIL (1 critical, 1 warning)", ["V13"]),
        ("FAIL (two)", ["V12"]),
        ("fail (2/1)", ["V12"]),
        ("FAIL (2/1) and more", ["V12"]),
    ],
)
def test_a_review_s_own_verdict(verdict: str, codes: list[str]) -> None:
    text = REVIEW.rpartition("Verdict:")[0] + f"Verdict: {verdict}"
    assert finding_labels(judge_result(text, ResultFormat.REVIEW, "reviewer").violations) == codes


def test_the_verdict_is_the_last_line() -> None:
    text = f"{REVIEWER}Verdict: FAIL (1/0)\nCritical: a.py:3 — x"
    assert finding_labels(judge_result(text, ResultFormat.REVIEW, "reviewer").violations) == ["V12"]


def test_limits_come_from_outside() -> None:
    limits = ResultLimits(
        output_lines=2, review_lines=2, result_lines=1, soft_chars=10, review_files=0
    )
    found = judge_result(f"{GOOD}\nmore", ResultFormat.OUTPUT, "node-backend", limits)
    assert finding_labels(found.violations) == ["V05", "V07"]
    assert finding_labels(found.warnings) == ["W02"]


def test_nothing_is_said_of_a_text_of_which_nothing_is_expected() -> None:
    found = judge_result("I completed it.\n```\n```", ResultFormat.NONE)
    assert (found.verdict, found.violations, found.lines) == (ComplianceVerdict.NOT_REQUIRED, (), 3)


@pytest.mark.parametrize("text", ["", "\n \n", "\t\r\n"])
def test_a_blank_text_is_unknown(text: str) -> None:
    assert judge_result(text, ResultFormat.OUTPUT) is BLANK_RESULT


def test_a_marker_far_below_is_found() -> None:
    text = "chatter\n" * (2 * MAX_RESULT_LINES) + GOOD
    found = judge_result(text, ResultFormat.OUTPUT, "node-backend")
    assert finding_labels(found.violations) == ["V02", "V05"]
    assert found.lines == 2 * MAX_RESULT_LINES + 3


PARTS = st.sampled_from(
    [
        "[COMPRESSED]",
        "[COMPRESSED] agent_type: a",
        "Changed files: a",
        "Result: x",
        "Result:",
        "Blockers: none",
        "변경 파일: a",
        "Files reviewed: a, b",
        "Critical: a.py:1 — x",
        "- a.py:3-4 - y",
        "Verdict: PASS",
        "Verdict: FAIL (1/0)",
        "```",
        "## Issues",
        "#12",
        "",
        "  ",
        "words",
        "Let me know",
        "\r",
        "\x0c",
        "\u2028",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PARTS).map("\n".join), st.lists(PARTS).map("\r\n".join))


@given(TEXTS, st.sampled_from(ResultFormat), st.one_of(st.none(), st.text(max_size=5)))
@example("\x0b", ResultFormat.OUTPUT, None)
def test_any_text_is_judged_and_every_finding_has_its_line(
    text: str, expected: ResultFormat, kind: str | None
) -> None:
    found = judge_result(text, expected, kind)
    lines = text.replace("\r\n", "\n").split("\n")
    for each in (*found.violations, *found.warnings):
        assert lines[each.line - 1].rstrip().startswith(each.text.removesuffix("…"))
    assert found.lines <= len(lines)
    if found.verdict is ComplianceVerdict.COMPLIANT:
        assert COMPRESSED_MARKER in text
    # What is said of it is short, and no grep finds a marker in it.
    if found.violations:
        told = block_reason(found, expected, "a", ResultLimits())
        assert len(told.split("\n")) <= 5
        assert COMPRESSED_MARKER not in told


@given(TEXTS)
def test_blank_lines_around_and_spaces_behind_change_nothing(text: str) -> None:
    before = judge_result(text, ResultFormat.OUTPUT, "a")
    padded = "\n \n" + "\n".join(f"{line}  " for line in text.split("\n")) + "\n\n"
    after = judge_result(padded, ResultFormat.OUTPUT, "a")
    assert finding_labels(after.violations) == finding_labels(before.violations)
    assert after.lines == before.lines


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 5_000_000 + "x",
        "a\n" * 2_500_000,
        f"{HEAD}Critical: " + "a:" * 2_500_000,
        f"{HEAD}Critical: a:" + "1" * 5_000_000,
        " " * 5_000_000 + "x",
        "x" + " \n" * 2_500_000 + "y",
        "[COMPRESSED]" * 400_000,
    ],
)
def test_five_megabytes_take_no_time(text: str) -> None:
    began = time.process_time()
    judge_result(text, ResultFormat.OUTPUT, "a")
    judge_result(text, ResultFormat.REVIEW, "a")
    # 20 ms each; what grows with the square would take hours.
    assert time.process_time() - began < 5
