"""A plan's sums, harm and id follow from its operations."""

from __future__ import annotations

import msgspec
from ctxtop.core.compaction.plan import (
    AppendLine,
    CompactionPlan,
    Operation,
    RemoveLine,
    ReplaceValue,
    Severity,
    make_plan,
    plan_to_dict,
)

LINE = (3, 40, "00")
MASKED = Operation(
    "masked-results", Severity.MASKED, 3, "tool_result", "Bash: make", "old", 900, 3_000,
    (ReplaceValue(*LINE, pointer="/a", value='"b"'), RemoveLine(*LINE)),
)  # fmt: skip
FILE_ONLY = Operation("snapshots", Severity.FILE_ONLY, 4, "", "", "", 0, 500, (AppendLine("{}"),))


def plan(*operations: Operation, base: str = "ab") -> CompactionPlan:
    """Plan these for a file of 10,000 bytes."""
    return make_plan("s", base, 10_000, operations, before_tokens=5_000)


def test_sums_and_harm() -> None:
    made = plan(FILE_ONLY, MASKED)
    assert (made.after_tokens, made.bytes_after, made.harm) == (4_100, 6_500, Severity.MASKED)
    assert plan().harm is Severity.FILE_ONLY


def test_the_id_follows_from_the_file_and_the_operations() -> None:
    assert plan(MASKED).plan_id == plan(MASKED).plan_id
    others = {plan(MASKED).plan_id, plan(FILE_ONLY).plan_id, plan(MASKED, base="cd").plan_id}
    assert len(others) == 3


def test_only_appends() -> None:
    assert plan(FILE_ONLY).only_appends
    assert not plan(FILE_ONLY, MASKED).only_appends


def test_a_plan_survives_its_record() -> None:
    made = plan(MASKED, FILE_ONLY)
    assert msgspec.json.decode(msgspec.json.encode(made), type=CompactionPlan) == made


def test_what_programs_get() -> None:
    record = plan_to_dict(plan(MASKED))
    assert record["harm"] == 3
    assert record["operations"] == [
        {"op": 1, "strategy": "masked-results", "level": 3, "line": 3, "kind": "tool_result",
         "what": "Bash: make", "why": "old", "tokens_saved": 900, "bytes_saved": 3_000}
    ]  # fmt: skip
