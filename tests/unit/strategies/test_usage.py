"""Level 0: the newest answer's usage says what is left of the context."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.compaction.plan import Operation, Severity
from ctxtop.core.compaction.transcript_reading import add_lowered_usage

from tests import transcripts as made
from tests.planned import carried_out, view_of
from tests.worked import Session, numbered

if TYPE_CHECKING:
    from pathlib import Path


def frees(tokens: int, line: int | None = 2) -> Operation:
    return Operation(
        "test", Severity.MASKED, line, "tool_result", "Read /a.py", "old", tokens, 0, ()
    )


def session() -> Session:
    story = Session()
    story.context = 900_000
    story.ask("mend the decoder")
    story.use("Read", numbered(), thinking=True, file_path="/a.py")
    story.say("Mended.")
    return story


def usages(path: Path, *operations: Operation) -> list[dict[str, Any]]:
    """The usage of every answer when the plan is carried out."""
    with view_of(path) as view:
        done = add_lowered_usage(view, operations)
    assert done[: len(operations)] == operations
    data = carried_out(done[len(operations) :], path.read_bytes())
    assert path.stat().st_size - len(data) == sum(each.bytes_saved for each in done)
    lines = [json.loads(line) for line in data.splitlines()]
    return [line["message"]["usage"] for line in lines if line["type"] == "assistant"]


def test_only_the_last_step_of_the_newest_answer_is_lowered(tmp_path: Path) -> None:
    path = session().write(tmp_path / "s.jsonl")
    before = usages(path)
    after = usages(path, frees(300_000))
    assert after[:-1] == before[:-1]
    (step,) = after[-1].pop("iterations")
    before[-1].pop("iterations", None)
    assert after[-1] == before[-1], "what was paid stays"
    whole = sum(before[-1][name] for name in before[-1] if name.endswith("input_tokens"))
    assert step["input_tokens"] == whole - 300_000
    assert step["output_tokens"] == before[-1]["output_tokens"]


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(frees(0), id="nothing goes"),
        pytest.param(frees(10_000, line=99), id="what goes stands behind it"),
        pytest.param(frees(10_000, line=None), id="a boundary is appended"),
        pytest.param(frees(2_000_000), id="more goes than it saw"),
    ],
)
def test_it_stays_where(tmp_path: Path, operation: Operation) -> None:
    path = session().write(tmp_path / "s.jsonl")
    assert usages(path, operation) == usages(path)


def test_behind_a_boundary_the_client_goes_by_the_boundary(tmp_path: Path) -> None:
    story = session()
    story.add(made.boundary())
    story.add(made.summary())
    path = story.write(tmp_path / "s.jsonl")
    assert usages(path, frees(300_000)) == usages(path)
