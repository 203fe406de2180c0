"""`ctxtop summaries` and `ctxtop diff`: plans among the others, Markdown, and what was replaced."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from tests import transcripts as made
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

    Run = Callable[..., Ended]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call_ctxtop: Run) -> Run:
    """A session of some prompts, long ago; nobody has a key."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    session = Session()
    session.ask("Mend the decoder. Never push.")
    for number in range(20):
        session.use("Bash", numbered(40, words=WORDS), command=f"make {number}")
    session.use("Edit", "done", file_path="/src/decoder.py", old_string="a", new_string="b")
    session.ask("And the encoder.")
    for number in range(6):
        session.use("Bash", numbered(40, words=WORDS), command=f"make again {number}")
    session.ask("Now test both.")
    session.use("Bash", "ok", command="make test")
    session.say("Both are mended.")
    path = session.write(tmp_path / ".claude" / "projects" / made.PROJECT / f"{made.SESSION}.jsonl")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return call_ctxtop


def compact(run: Run, *words: str) -> dict[str, str]:
    ended = run("compact", made.SESSION[:8], *words, "--apply", "--json")
    assert ended.code == 0, ended.err
    receipt: dict[str, str] = ended.json
    return receipt


def test_a_summary_that_ctxtop_wrote_is_one_plan_and_no_boundary_too(run: Run) -> None:
    assert run("summaries", "--json").json == []
    fork = compact(run, "--strategy", "summarize", "--keep", "4")
    (plan,) = run("summaries", "--json").json
    assert plan["kind"] == "plan"
    assert plan["session_id"] == fork["new_session_id"]
    assert plan["id"] == f"{fork['receipt_id']}.1"
    assert "decoder.py" in plan["text"]
    assert plan["tokens"] > 50
    assert run("summaries", "--search", "kind:boundary", "--json").json == []
    assert len(run("summaries", "--search", "decod kind:plan", "--json").json) == 1
    assert run("summaries", "--search", "decod -decoder.py", "--json").json == []
    assert " plan " in run("summaries").out.splitlines()[0]

    run("undo", fork["receipt_id"])
    (still,) = run("summaries", "--json").json
    assert (still["id"], still["text"]) == (plan["id"], plan["text"])


def test_a_hand_off_is_a_plan(run: Run) -> None:
    compact(run, "--strategy", "rollover")
    (plan,) = run("summaries", "--json").json
    assert plan["kind"] == "plan"
    assert plan["text"].startswith("[Hand-off from session")
    # What takes away and writes nothing is none.
    compact(run, "--strategy", "revert", "--to", "last")
    assert len(run("summaries", "--json").json) == 1


def test_rules_are_listed_with_their_source_and_state(run: Run) -> None:
    (rule,) = run("summaries", "--kind", "rule", "--json").json
    assert (rule["kind"], rule["text"]) == ("rule", "Never push.")
    assert rule["rule"] | {"rule_id": "", "offset": 0} == {
        "rule_id": "",
        "source": "prompt",
        "path": None,
        "offset": 0,
        "state": "in context",
        "state_at": None,
        "mark": "none",
    }
    assert run("summaries", "--search", "kind:rule push", "--json").json == [rule]
    assert "in context · in a prompt" in run("summaries", "--kind", "rule").out
    assert run("summaries", "--kind", "plan", "--json").json == []


def test_a_dropped_rule_is_not_in_the_summary(run: Run) -> None:
    (rule,) = run("summaries", "--kind", "rule", "--json").json
    dropped = run("rule", rule["id"], "dropped", "--json").json
    assert dropped == rule | {"rule": rule["rule"] | {"mark": "dropped"}}

    compact(run, "--strategy", "summarize", "--keep", "4")
    (plan,) = run("summaries", "--json").json
    assert "Rules, quoted" not in plan["text"]
    assert "dropped · in a prompt" in run("summaries", "--kind", "rule").out
    assert "in context · in a prompt" in run("rule", rule["id"], "none").out
    compact(run, "--strategy", "summarize", "--keep", "4")
    assert any("Rules, quoted" in plan["text"] for plan in run("summaries", "--json").json)


def test_what_is_no_rule_cannot_be_marked(run: Run) -> None:
    assert "no summary '12345'" in run("rule", "12345", "pinned").err
    assert run("rule", "12345", "kept").code == 2


def test_a_plan_is_compared_with_what_it_stands_for(run: Run) -> None:
    fork = compact(run, "--strategy", "summarize", "--keep", "4")
    named = f"{fork['receipt_id']}.1"
    found = run("diff", named, "--json").json
    assert (found["summary"], found["kind"]) == (named, "plan")
    files = {each["text"]: each["where"] for each in found["things"] if each["sort"] == "files"}
    assert files == {"/src/decoder.py": "summary"}
    rules = [each for each in found["things"] if each["sort"] == "rules"]
    assert [each["text"] for each in rules] == ["Never push."]
    assert sum(turn["stays"] for turn in found["turns"]) > 0
    assert any(turn["quoted"] for turn in found["turns"])
    shown = run("diff", named)
    assert "✓ /src/decoder.py" in shown.out
    assert "names " in shown.out.splitlines()[1]


def test_two_are_compared(run: Run) -> None:
    one = compact(run, "--strategy", "summarize", "--keep", "4")
    two = compact(run, "--strategy", "rollover")
    left, right = f"{one['receipt_id']}.1", f"{two['receipt_id']}.1"
    found = run("diff", left, right, "--json").json
    assert found["same_lines"] > 0
    assert found["right_lines"] > 0
    assert len(found["pairs"]) >= found["same_lines"]
    assert "+ [Hand-off from session" in run("diff", left, right).out
    heads = [line for line in run("summaries").out.splitlines() if " plan " in line]
    short_ids = [head.split()[0] for head in heads]
    by_short_ids = run("diff", *short_ids, "--json").json
    assert {by_short_ids["left"], by_short_ids["right"]} == {left, right}
    by_starts = run("diff", left[:7], f"{right[:7]}.1", "--json").json
    assert (by_starts["left"], by_starts["right"]) == (left, right)
    refused = run("diff", "", right)
    assert (refused.code != 0, "is ambiguous" in refused.err) == (True, True)
    refused = run("diff", left, "12345")
    assert refused.code != 0
    assert "no summary '12345'" in refused.err


def test_markdown_is_printed_or_written_once(run: Run, tmp_path: Path) -> None:
    assert run("summaries", "--export", "none.md").code == 1
    compact(run, "--strategy", "summarize", "--keep", "4")
    printed = run("summaries", "--format", "markdown").out
    assert printed.startswith('---\nkind: "plan"\n')
    ended = run("summaries", "--export", "out.md")
    assert ended.code == 0
    path = tmp_path / "out.md"
    assert str(path) in ended.out
    assert path.read_text() == printed
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = run("summaries", "--export", "out.md")
    assert (again.code, again.out) == (1, "")
    assert "already exists: name another file" in again.err
    assert run("summaries", "--json", "--export", "x.md").code == 2
    assert not (tmp_path / "none.md").exists()


def test_a_filter_that_says_nothing_is_told_beside_the_output(run: Run) -> None:
    ended = run("summaries", "--search", "since:whenever", "--json")
    assert (ended.code, ended.json) == (0, [])
    assert "since:whenever is not valid" in ended.err


FORM = "## Task Overview\nMend it.\n## Work Completed\nAll.\n## Important Context\n"


@pytest.mark.parametrize(
    ("text", "flaws"),
    [
        (FORM + "word " * 992, ["1,001 words, at most 1,000", "no section Current State"]),
        (FORM + "word " * 992 + "\n**4. Current State:**", ["1,004 words, at most 1,000"]),
        ("[Previous conversation summary]\n\n" + FORM + "Short.", ["no section Current State"]),
        (FORM + "## Current State\nDone.", []),
        ("This session is being continued.\n1. Primary Request:\n" + "word " * 2_000, []),
    ],
)
def test_a_summary_of_another_form_than_was_asked_for_is_told(
    tmp_path: Path, call_ctxtop: Run, text: str, flaws: list[str]
) -> None:
    """001-26 and 001-28: at most 1,000 words, in four sections."""
    session = Session()
    session.ask("Mend the decoder.")
    session.add(made.boundary())
    session.add(made.summary(text))
    session.write(tmp_path / ".claude" / "projects" / made.PROJECT / f"{made.SESSION}.jsonl")
    (found,) = call_ctxtop("summaries", "--json").json
    assert found["flaws"] == flaws
    shown = call_ctxtop("summaries").out
    assert ("⚠ " + ", ".join(flaws) in shown) == bool(flaws)


def test_what_ctxtop_writes_by_rules_has_no_empty_sections(run: Run) -> None:
    compact(run, "--strategy", "summarize", "--keep", "4")
    (plan,) = run("summaries", "--json").json
    assert plan["flaws"] == []
