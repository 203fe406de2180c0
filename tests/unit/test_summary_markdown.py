"""Summaries as Markdown: whatever their text says, it stays text."""

from __future__ import annotations

import re

import pytest
from ctxtop.core.model.stored_rows import SummaryRow
from ctxtop.tui.text.summary_text import fenced_block, summaries_markdown
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

ROW = SummaryRow(
    summary_id=1,
    kind="agent",
    session_id="s-1",
    agent_id="a-1",
    agent_type="reviewer",
    description="look [at] `it`\n---\n# no heading",
    at=1_795_176_000_000,
    lines=2,
    estimated_tokens=7,
    text="one\n```\ntwo\n````",
)


def whole(*rows: SummaryRow) -> str:
    return "".join(summaries_markdown(rows, {"s-1": "Title · shop"}))


def test_one_has_its_facts_as_front_matter() -> None:
    text = whole(ROW)
    lines = text.split("\n")
    assert lines[0] == "---"
    assert lines.index("---", 1) == 10
    assert 'session: "Title · shop"' in lines
    assert 'at: "2026-11-20T12:00:00.000Z"' in lines
    assert "estimated_tokens: 7" in lines
    assert "# reviewer look \\[at\\] \\`it\\` --- \\# no heading" in lines
    assert text.endswith("`````text\none\n```\ntwo\n````\n`````\n")


def test_several_stand_below_each_other() -> None:
    text = whole(ROW, replace(ROW, kind="boundary"), replace(ROW, kind="plan", description="cut"))
    assert re.findall("^##? .*$", text, re.MULTILINE)[0] == "# Summaries"
    assert text.count("```yaml\n") == 3
    assert "\n## compaction\n" in text
    assert "\n## plan: cut\n" in text


def test_nothing_is_an_empty_text() -> None:
    assert whole() == ""


@given(st.text())
def test_no_text_ends_its_own_fence(text: str) -> None:
    lines = fenced_block(text).split("\n")
    fence = lines[0].removesuffix("text")
    assert set(fence) == {"`"}
    assert not any(line.strip().startswith(fence) for line in lines[1:-2])
    assert lines[-2] == fence


@pytest.mark.parametrize("hostile", ["`" * 40, "```\n~~~\n---", "a\\`b"])
def test_hostile_facts_stay_in_their_block(hostile: str) -> None:
    text = whole(replace(ROW, description=hostile), ROW)
    block = text.split("```yaml\n")[1].split("\n```\n")[0]
    assert "`" not in block
    assert block.count("\n") == 8
