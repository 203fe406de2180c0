"""A result above its cap is cut to it: the first lines and the end stay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ctxtop.core.compaction.plan import DEFAULT_RESULT_CAPS, PlanOptions, ResultCaps, Severity
from ctxtop.core.compaction.strategies.masked import OVERSIZED, STUB_RESERVE_TOKENS
from ctxtop.core.compaction.strategies.stubs import has_stub
from ctxtop.core.compaction.transcript_planning import STRATEGIES
from msgspec.structs import replace

from tests.planned import carried_out, plan_transcript, short, source_of, view_of
from tests.worked import WORDS, Session

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.compaction.plan import CompactionPlan, Operation

CAPS = ResultCaps(max_tokens=1_000, max_web_tokens=400, header_lines=3)
LEVEL_3 = PlanOptions(level=Severity.MASKED.value, result_caps=CAPS)
OUTPUT = [f"line {n} of {WORDS}" for n in range(300)]


def plan_of(session: Session, folder: Path, options: PlanOptions = LEVEL_3) -> CompactionPlan:
    return plan_transcript(source_of(session.write(folder / "session.jsonl")), options)


def capped(plan: CompactionPlan) -> list[Operation]:
    return [each for each in plan.operations if each.strategy == OVERSIZED]


def new_text(operation: Operation) -> str:
    (edit,) = operation.edits
    return str(json.loads(edit.value))  # type: ignore[union-attr]


def test_a_result_of_the_newest_turns_is_cut_to_the_cap(session: Session, tmp_path: Path) -> None:
    _, line = session.use("Bash", "\n".join(OUTPUT), command="make test")
    session.say()
    (found,) = capped(plan_of(session, tmp_path))
    assert (found.line, found.level) == (line, Severity.MASKED)
    assert found.why == "larger than 1,000 tokens"
    first, second, third, stub, *rest = new_text(found).split("\n")
    assert [first, second, third] == OUTPUT[:3]
    assert stub.startswith("[ctxtop ")
    assert "capped Bash make test; " in stub
    assert "chars left out. Run it again for more." in stub
    assert rest == OUTPUT[-len(rest) :]
    with view_of(session.write(tmp_path / "before.jsonl")) as view:
        (block,) = (each for each in view.blocks if each.line == line)
        left = view.count_tokens_with_text(block, new_text(found))
    assert CAPS.max_tokens - 3 * STUB_RESERVE_TOKENS <= left <= CAPS.max_tokens


def test_the_number_of_first_lines_is_a_setting(session: Session, tmp_path: Path) -> None:
    session.use("Bash", "\n".join(OUTPUT), command="make test")
    session.say()
    caps = ResultCaps(max_tokens=1_000, header_lines=0)
    (found,) = capped(plan_of(session, tmp_path, PlanOptions(level=3, result_caps=caps)))
    assert new_text(found).startswith("[ctxtop ")


def test_a_web_page_has_a_cap_of_its_own(session: Session, tmp_path: Path) -> None:
    page = "\n".join(OUTPUT[:18])
    session.use("Bash", page, command="make test")
    _, line = session.use("WebFetch", page.replace("line", "page"), url="https://example.org/a")
    session.say()
    (found,) = capped(plan_of(session, tmp_path))
    assert found.line == line
    assert found.why == "larger than 400 tokens"
    assert "Fetch it again for more." in new_text(found)


def test_a_text_in_one_line_is_cut_inside_it(session: Session, tmp_path: Path) -> None:
    text = "<" + "decode the frame " * 1_000 + ">"
    session.use("mcp__db__query", text, query="select")
    session.say()
    (found,) = capped(plan_of(session, tmp_path))
    head, stub, tail = new_text(found).split("\n")
    assert text.startswith(head)
    assert has_stub(f"{head}\n{tail}") is False
    assert "capped mcp__db__query select" in stub
    assert text.endswith(tail)


def test_errors_and_agents_results_stay_whole(session: Session, tmp_path: Path) -> None:
    session.use("Bash", "\n".join(OUTPUT), failed=True, command="make test")
    session.use("Agent", "\n".join(OUTPUT), prompt="look", subagent_type="reviewer")
    session.say()
    assert capped(plan_of(session, tmp_path)) == []


def test_the_default_caps_leave_ordinary_results(session: Session, tmp_path: Path) -> None:
    session.use("Bash", "\n".join(OUTPUT), command="make test")
    session.say()
    options = PlanOptions(level=Severity.MASKED.value)
    assert options.result_caps == DEFAULT_RESULT_CAPS
    assert capped(plan_of(session, tmp_path, options)) == []


def test_an_old_result_is_masked_instead(session: Session, tmp_path: Path) -> None:
    session.use("Bash", "\n".join(OUTPUT), command="make test")
    session.rest(lines=60)
    plan = plan_of(session, tmp_path, short(Severity.MASKED))
    assert [each.strategy for each in plan.operations if each.tokens_saved] == ["old-shell-output"]


def test_a_capped_result_is_masked_once_it_is_old(session: Session, tmp_path: Path) -> None:
    _, line = session.use("mcp__db__query", "\n".join(OUTPUT), query="select")
    session.say()
    path = session.write(tmp_path / "one.jsonl")
    found = capped(plan_of(session, tmp_path))
    after = carried_out(found, path.read_bytes())
    block = json.loads(after.splitlines()[line - 1])["message"]["content"][0]
    assert not has_stub(block["content"])

    older = Session()
    older.lines = [json.loads(each) for each in after.splitlines()]
    older.rest(lines=60)
    options = replace(short(Severity.MASKED), result_caps=CAPS)
    strategies = {each.strategy: each.line for each in plan_of(older, tmp_path, options).operations}
    assert strategies["old-results"] == line


def test_what_was_cut_is_not_cut_again(session: Session, tmp_path: Path) -> None:
    session.use("Bash", "\n".join(OUTPUT), command="make test")
    session.say()
    path = session.write(tmp_path / "one.jsonl")
    after = carried_out(capped(plan_of(session, tmp_path)), path.read_bytes())
    path.write_bytes(after)
    assert capped(plan_transcript(source_of(path), LEVEL_3)) == []


def test_the_strategy_is_the_last_of_its_level() -> None:
    masked = [each.name for each in STRATEGIES if each.level is Severity.MASKED]
    assert masked[-1] == OVERSIZED
