"""What older clients put back after a compaction without a line of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.transcript.conversation import MessagePart, PartKind
from ctxtop.core.transcript.restored_content import MAX_FILE_TOKENS, MAX_FILES, with_restored
from ctxtop.core.transcript.visible_messages import visible_entries
from msgspec.structs import replace

from ..entries import answered, asked, attached, called, compacted, entry, returned, summed_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxtop.core.transcript.conversation import Entry

SKILL = "Base directory for this skill: /skills/pdf\n"


def letters(part: MessagePart) -> int:
    return len(part.text)


def read(path: str, text: str, call: str) -> tuple[Entry, Entry]:
    return called("Read", call, file_path=path), returned("Read", call, text, path)


def restored(entries: Sequence[Entry]) -> list[tuple[str | None, str | None, int]]:
    """The kind, the path and the line of each part that was added to what is sent."""
    linked: list[Entry] = []
    for each in entries:
        linked.append(replace(each, parent=linked[-1].uuid if linked else None))
        if each.boundary:
            linked[-1] = replace(linked[-1], parent=None)
    sent = visible_entries(linked)
    found = with_restored(linked, sent, letters)
    added = [each for each in found if each not in sent]
    assert [each for each in found if each in sent] == sent
    if added:
        assert found[0].parts[0].kind is PartKind.SUMMARY
        assert found[1 : len(added) + 1] == added
    return [(each.subtype, each.parts[0].path, each.line) for each in added]


def test_the_files_read_last_come_back_whole_and_large_ones_by_name() -> None:
    reads = [read(f"/p/{n}.py", f"     1→file {n}", f"c{n}") for n in range(MAX_FILES + 2)]
    large = read("/p/large.py", "x" * (2 * MAX_FILE_TOKENS), "large")
    again = read("/p/3.py", "3", "again")  # a part of what is known
    before = [asked("Go on."), *(each for pair in (*reads, large, again) for each in pair)]
    found = restored([*before, compacted(), summed_up("So far."), answered("Yes.", context=90_000)])
    assert [(kind, path) for kind, path, _ in found] == [
        ("file", "/p/3.py"),
        ("compact_file_reference", "/p/large.py"),
        ("file", "/p/6.py"),
        ("file", "/p/5.py"),
        ("file", "/p/4.py"),
    ]
    assert found[0][2] == reads[3][1].line


def test_a_file_near_the_limit_is_there_if_the_next_answer_has_room_for_it() -> None:
    size = MAX_FILE_TOKENS + 500
    for room, kind in ((size - 1, "compact_file_reference"), (size, "file")):
        asks = asked("x" * 100)
        first = answered("Reading.", context=3_000)
        near = read("/p/near.py", "x" * size, "near")
        near = (replace(near[0], context_tokens=None), near[1])
        context = 2_900 + len("So far.") + room
        lines = [
            asks,
            first,
            *near,
            compacted(),
            summed_up("So far."),
            answered("Yes.", context=context),
        ]
        assert [found[0] for found in restored(lines)] == [kind]


def test_the_plan_and_the_skills_come_back() -> None:
    plan = json.dumps({"plan": "1. Mend it."})
    lines = [
        asked("Implement the following plan:\n\n1. An older one."),
        entry(MessagePart(PartKind.META, f"{SKILL}Old body.")),
        entry(MessagePart(PartKind.META, f"{SKILL}Read the form first.")),
        replace(
            called("ExitPlanMode", "p"),
            parts=(MessagePart(PartKind.TOOL_INPUT, plan, "ExitPlanMode", "p"),),
        ),
        returned("ExitPlanMode", "p"),
        compacted(),
        summed_up("So far."),
    ]
    assert [kind for kind, _, _ in restored(lines)] == ["plan_file_reference", "invoked_skills"]
    assert restored(lines)[1][2] == lines[2].line
    assert restored(lines[:1] + lines[5:])[0][0] == "plan_file_reference"


@pytest.mark.parametrize("kind", ["file", "deferred_tools_delta"])
def test_nothing_is_added_to_what_the_client_recorded(kind: str) -> None:
    before = [asked("Go on."), *read("/p/a.py", "a = 1", "c")]
    assert restored([*before, answered()]) == []
    assert restored([*before, compacted(), summed_up("So far."), attached(kind, "a = 1")]) == []


def test_a_file_whose_read_was_kept_is_not_put_back() -> None:
    call, result = read("/p/a.py", "a = 1", "c")
    summary = summed_up("So far.")
    kept = tuple(each.uuid or "" for each in (call, result))
    end = compacted(kept_uuids=kept, anchor_uuid=summary.uuid)
    assert [call.line for _ in restored([asked("Go on."), call, result, end, summary])] == []
