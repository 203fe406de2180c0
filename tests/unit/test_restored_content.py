"""What older clients put back after a compaction without a line of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.model.conversation import Boundary, MessagePart, PartKind
from ctxtop.core.transcript.restored_content import MAX_FILE_TOKENS, MAX_FILES, with_restored
from ctxtop.core.transcript.visible_messages import visible_entries
from msgspec.structs import replace

from ..entries import answered, asked, attached, called, compacted, entry, returned, summed_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxtop.core.model.conversation import Entry

SKILL = "Base directory for this skill: /skills/pdf\n"


def letters(part: MessagePart) -> int:
    return len(part.text)


def read(path: str, text: str, call: str) -> tuple[Entry, Entry]:
    return called("Read", call, file_path=path), returned("Read", call, text, path)


def as_sent(path: str, text: str) -> str:
    return (
        "<system-reminder>\nCalled the Read tool with the following input:"
        f' {{"file_path": "{path}"}}\n</system-reminder>'
        f"<system-reminder>\nResult of calling the Read tool: {text}\n</system-reminder>"
    )


def restored(entries: Sequence[Entry]) -> list[tuple[str | None, str | None, int]]:
    """The kind, the path and the line of each part that was added to what is sent."""
    return [(each.subtype, each.parts[0].path, each.line) for each in added(entries)]


def added(entries: Sequence[Entry]) -> list[Entry]:
    linked: list[Entry] = []
    for each in entries:
        linked.append(replace(each, parent=linked[-1].uuid if linked else None))
        if each.boundary:
            linked[-1] = replace(linked[-1], parent=None)
    sent = visible_entries(linked)
    found = with_restored(linked, sent, letters)
    new = [each for each in found if each not in sent]
    assert [each for each in found if each in sent] == sent
    if new:
        assert found[0].parts[0].kind is PartKind.SUMMARY
        assert found[1 : len(new) + 1] == new
        assert {each.uuid for each in new} == {None}
    return new


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
    sent = len(as_sent("/p/near.py", f'"     1→{"x" * size}"'))
    for room, kind in ((sent - 1, "compact_file_reference"), (sent, "file")):
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


def test_a_file_comes_back_as_it_is_after_its_edits_in_the_form_that_was_sent() -> None:
    call: dict[str, Any] = {"file_path": "/p/a.py", "content": 'a = 1\nb = "2"\n'}
    wrote = called("Write", "w", **call), returned("Write", "w", "Created.", "/p/a.py")
    edit: dict[str, Any] = {"file_path": "/p/a.py", "old_string": '"2"', "new_string": '"é"'}
    edited = called("Edit", "e", **edit), returned("Edit", "e", "Updated.", "/p/a.py")
    lines = [asked("Go on."), *wrote, *edited, compacted(), summed_up("So far.")]
    (found,) = added(lines)
    numbered = r'"     1→a = 1\n     2→b = \"é\"\n     3→"'
    assert found.parts[0].text == as_sent("/p/a.py", numbered)
    assert found.line == lines[2].line


def test_texts_that_were_cut_are_read_again() -> None:
    whole = [asked("Go on."), *read("/p/a.py", "     1→" + "a" * 90, "c")]
    cut = [
        replace(each, parts=tuple(replace(part, text=part.text[:9]) for part in each.parts))
        for each in whole
    ]
    end = [compacted(), summed_up("So far.")]
    sent = visible_entries([*cut, *end])
    assert len(with_restored([*cut, *end], sent, letters)[-1].parts[0].text) < 200
    linked = with_restored([*cut, *end], sent, letters, lambda: [*whole, *end])
    assert "a" * 90 in linked[-1].parts[0].text


def test_what_is_announced_again_is_part_of_a_request_that_no_answer_has_measured() -> None:
    kind = "deferred_tools_delta"
    tools = replace(attached(kind, "Tools: Fetch"), subtype=kind)
    lines = [asked("Go on."), tools, answered(), compacted(), summed_up("So far.")]
    assert [found for found, _, _ in restored(lines)] == [kind]
    assert restored([*lines, answered("Yes.", context=90_000)]) == []


def test_nothing_comes_back_behind_a_summary_that_ctxtop_wrote() -> None:
    ours = replace(compacted(), boundary=Boundary(planned_tokens=5_000))
    before = [asked("Go on."), *read("/p/a.py", "a = 1", "c")]
    assert restored([*before, ours, summed_up("So far.")]) == []
    assert len(restored([*before, compacted(), summed_up("So far.")])) == 1


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
