"""What would be sent: one test a rule. tests/client proves the rules on the real client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.model.conversation import (
    Boundary,
    Entry,
    MessagePart,
    PartKind,
    Role,
    group_messages,
)
from ctxtop.core.transcript.visible_messages import visible_entries
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORDS = {"user": PartKind.PROMPT, "assistant": PartKind.TEXT, "attachment": PartKind.ATTACHMENT}


def entry(uuid: str, parent: str | None, kind: str = "user", **more: Any) -> Entry:  # noqa: ANN401
    role = {"user": Role.USER, "attachment": Role.USER, "assistant": Role.ASSISTANT}.get(kind)
    pieces = (MessagePart(_WORDS[kind], uuid),) if kind in _WORDS else ()
    made = Entry(offset=0, length=1, line=1, type=kind, uuid=uuid, parent=parent, role=role)
    return replace(made, parts=pieces, **more) if "parts" not in more else replace(made, **more)


def answer(uuid: str, parent: str, message: str, *pieces: MessagePart) -> Entry:
    said = pieces or (MessagePart(PartKind.TEXT, uuid),)
    return entry(uuid, parent, "assistant", message_id=message, parts=said)


def call(name: str) -> MessagePart:
    return MessagePart(PartKind.TOOL_INPUT, "{}", "Bash", name)


def result(uuid: str, parent: str, *names: str, at: int = 0) -> Entry:
    pieces = tuple(MessagePart(PartKind.TOOL_RESULT, f"of {one}", "Bash", one) for one in names)
    return entry(uuid, parent, parts=pieces, at=at)


def remembers(uuid: str, *, goes_back: bool = False) -> Entry:
    line = Entry(offset=0, length=1, line=1, type="last-prompt", leaf_uuid=uuid)
    return replace(line, goes_back=goes_back or not uuid)


def sent(lines: Iterable[Entry]) -> list[str]:
    placed = [replace(one, offset=10 * n, line=n + 1) for n, one in enumerate(lines)]
    return [one.uuid or "" for one in visible_entries(placed)]


PLAIN = [entry("a", None), answer("b", "a", "m1"), entry("c", "b"), answer("d", "c", "m2")]


def test_a_plain_conversation_is_sent_as_it_stands() -> None:
    assert sent(PLAIN) == ["a", "b", "c", "d"]
    assert sent([]) == []


def test_of_two_lines_with_one_uuid_the_last_counts() -> None:
    again = replace(PLAIN[2], parts=(MessagePart(PartKind.PROMPT, "second"),))
    placed = [replace(one, offset=n) for n, one in enumerate([*PLAIN, again])]
    assert [one.parts[0].text for one in visible_entries(placed)] == ["a", "b", "second", "d"]


def test_the_last_line_of_the_file_leads() -> None:
    assert sent([*PLAIN, entry("e", "b")]) == ["a", "b", "e"]


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("d", ["a", "b", "c", "d"]),
        ("c", ["a", "b", "c", "d"]),
        ("e", ["a", "b", "e"]),
        ("a", ["a", "b", "e"]),
        ("gone", ["a", "b", "e"]),
    ],
)
def test_what_the_client_remembers_decides_between_branches(hint: str, expected: list[str]) -> None:
    assert sent([*PLAIN, entry("e", "b"), remembers(hint)]) == expected


def test_of_results_side_by_side_the_one_that_is_remembered_need_not_lead_on() -> None:
    lines = [
        entry("a", None),
        answer("b1", "a", "m1", call("t1")),
        answer("b2", "b1", "m1", call("t2")),
        result("r2", "b2", "t2", at=1),
        remembers("r2"),
        result("r1", "b1", "t1", at=2),
        answer("c", "r1", "m2"),
    ]

    assert sent(lines) == ["a", "b1", "b2", "r2", "r1", "c"]


def test_an_answer_remembered_by_another_of_its_lines_is_the_same() -> None:
    lines = [
        entry("a", None),
        answer("b1", "a", "m", call("x")),
        answer("b2", "b1", "m", call("y")),
        result("ry", "b2", "y", at=1),
        result("rx", "b1", "x", at=2),
        answer("c", "rx", "m2"),
        remembers("b2"),
    ]
    assert sent(lines) == ["a", "b1", "b2", "ry", "rx", "c"]


def test_a_line_without_a_parent_that_says_nothing_does_not_lead() -> None:
    assert sent([*PLAIN, entry("error", None, "system")]) == ["a", "b", "c", "d"]


def test_a_rewind_to_before_the_first_prompt_leaves_nothing() -> None:
    assert sent([*PLAIN, remembers("")]) == []
    assert sent([*PLAIN, remembers("b"), remembers("")]) == []
    assert sent([*PLAIN, remembers(""), entry("new", None)]) == ["new"]
    assert sent([*PLAIN, remembers(""), remembers("b")]) == ["a", "b", "c", "d"]


def test_what_a_person_went_back_from_is_not_sent_until_something_is_written() -> None:
    back = remembers("b", goes_back=True)
    assert sent([*PLAIN, back]) == ["a", "b"]
    assert sent([*PLAIN, back, remembers("b")]) == ["a", "b"], "the client writes it again"
    assert sent([*PLAIN, back, remembers("d")]) == ["a", "b", "c", "d"]
    assert sent([*PLAIN, back, entry("e", "b")]) == ["a", "b", "e"]
    assert sent([*PLAIN, back, entry("e", "d")]) == ["a", "b", "c", "d", "e"]
    assert sent([*PLAIN, remembers("gone", goes_back=True)]) == ["a", "b", "c", "d"]


def test_a_result_that_a_person_went_back_to_is_sent_with_what_is_attached() -> None:
    lines = [
        entry("a", None),
        answer("b", "a", "m1", call("t1")),
        result("r", "b", "t1", at=1),
        entry("hook", "r", "attachment"),
        entry("more", "hook", "attachment"),
        answer("c", "more", "m2"),
    ]
    assert sent([*lines, remembers("r", goes_back=True)]) == ["a", "b", "r", "hook", "more"]
    # The result of a call is sent with it.
    assert sent([*lines, remembers("b", goes_back=True)]) == ["a", "b", "r"]


def test_a_missing_parent_is_the_line_before() -> None:
    assert sent([PLAIN[0], PLAIN[2], PLAIN[3]]) == ["a", "c", "d"]


def test_progress_stands_between_two_lines() -> None:
    lines = [PLAIN[0], entry("p", "a", "progress"), answer("b", "p", "m1")]
    assert sent(lines) == ["a", "b"]


def test_a_circle_is_left() -> None:
    lines = [entry("a", None), answer("b", "d", "m1"), *PLAIN[2:], entry("end", "d", "system")]
    assert sent(lines) == ["a", "b", "c", "d"]


def test_a_circle_without_a_way_out_ends() -> None:
    assert sent([entry("a", "b"), entry("b", "a")]) == ["a", "b"]


def test_a_sidechain_is_left_out_of_a_session_and_is_all_of_an_agent() -> None:
    aside = [replace(one, sidechain=True, uuid=f"s{one.uuid}", parent=None) for one in PLAIN[:1]]
    assert sent([*PLAIN, *aside]) == ["a", "b", "c", "d"]
    assert sent([replace(one, sidechain=True) for one in PLAIN]) == ["a", "b", "c", "d"]


def test_what_hangs_on_a_result_aside_goes_with_it_unless_it_leads_on() -> None:
    lines = [
        entry("a", None),
        answer("b1", "a", "m", call("x")),
        answer("b2", "b1", "m", call("y")),
        result("rx", "b1", "x", at=1),
        entry("hook x", "rx", "attachment"),
        result("ry", "b2", "y", at=2),
        entry("hook y", "ry", "attachment"),
        answer("c", "hook y", "m2"),
    ]
    assert sent(lines) == ["a", "b1", "b2", "rx", "hook x", "ry", "hook y", "c"]
    assert sent([*lines, entry("back", "b2")]) == ["a", "b1", "b2", "rx", "hook x", "ry", "back"]


def boundary(kept: tuple[str, ...] = (), **more: Any) -> list[Entry]:  # noqa: ANN401
    left = Boundary(kept_uuids=kept, **{"anchor_uuid": "sum", **more})
    summary = entry("sum", "bound", parts=(MessagePart(PartKind.SUMMARY, "s"),))
    return [entry("bound", None, "system", boundary=left), summary]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (boundary(), ["sum", "new"]),
        (boundary(("c", "d")), ["sum", "c", "d", "new"]),
        (boundary(("c", "gone")), ["sum", "new"]),
        (boundary(("c", "d"), anchor_uuid="gone"), ["sum", "new"]),
        (boundary(("a", "b"), anchor_uuid="bound"), ["a", "b", "sum", "new"]),
        (boundary(kept_range=("c", "d")), ["sum", "c", "d", "new"]),
        (boundary(kept_range=("gone", "d")), ["sum", "new"]),
    ],
)
def test_a_boundary_and_what_it_keeps(lines: list[Entry], expected: list[str]) -> None:
    assert sent([*PLAIN, *lines, entry("new", "sum")]) == expected


@pytest.mark.parametrize(("kept", "stays"), [((), []), (("c", "d"), ["c", "d"])])
def test_a_message_that_follows_a_removed_one_continues_behind_the_boundary(
    kept: tuple[str, ...], stays: list[str]
) -> None:
    """A second /compact in one process writes such a parent."""
    expected = ["sum", *stays, "new"]
    assert sent([*PLAIN, *boundary(kept), entry("new", "b")]) == expected
    # Old lines that are written again behind the boundary stay removed.
    again = [*PLAIN, *boundary(kept), entry("new", "sum"), *PLAIN]
    assert sent(again) == expected
    assert sent([*again, remembers("b")]) == expected


def test_only_the_last_boundary_counts() -> None:
    first = [replace(one, uuid=f"{one.uuid}1") for one in boundary(("c", "d"))]
    assert sent([*PLAIN, *first, *boundary(), entry("new", "sum")]) == ["sum", "new"]


def test_errors_blanks_and_lone_thoughts_are_not_sent() -> None:
    thought, blank = MessagePart(PartKind.THINKING, "hm"), MessagePart(PartKind.TEXT, " \n")
    lines = [
        entry("a", None),
        answer("t1", "a", "m1", thought),
        answer("b", "t1", "m1"),
        answer("t2", "b", "m2", thought),
        answer("w", "t2", "m2", blank),
        answer("e", "w", "m3"),
    ]
    lines[-1] = replace(lines[-1], hidden=True)
    assert sent(lines) == ["a", "t1", "b"]


def test_attachments_stand_before_their_prompt() -> None:
    lines = [
        entry("a", None),
        entry("env", "a", "attachment"),
        entry("date", "env", "attachment"),
        answer("b", "date", "m1", call("x")),
        result("rx", "b", "x"),
        entry("left", "rx", "attachment"),
        entry("c", "left"),
        entry("tasks", "c", "attachment"),
    ]
    assert sent(lines) == ["env", "date", "a", "b", "rx", "left", "tasks", "c"]


def test_an_error_keeps_what_was_attached_before_it_apart() -> None:
    failed = replace(answer("e", "x", "m2"), hidden=True)
    lines = [entry("a", None), entry("x", "a", "attachment"), failed, entry("c", "e")]
    assert sent([*lines, entry("y", "c", "attachment")]) == ["x", "a", "y", "c"]


def test_an_answers_lines_are_one_message_where_results_were_written_between_them() -> None:
    lines = [
        entry("a", None),
        answer("thought", "a", "m", MessagePart(PartKind.THINKING)),
        answer("x", "thought", "m", call("x")),
        result("rx", "x", "x"),
        entry("hook", "rx", "attachment"),
        answer("words", "hook", "m"),
        answer("y", "words", "m", call("y")),
        result("ry", "y", "y"),
        answer("next", "ry", "m2"),
    ]
    sends = ["a", "thought", "words", "x", "y", "rx", "hook", "ry", "next"]
    assert sent(lines) == sends
    said = group_messages(visible_entries(lines))
    assert [len(one.entries) for one in said] == [1, 4, 3, 1]


def test_what_runs_aside_while_an_answer_streams_stands_where_it_was_written() -> None:
    times = {"x": 1, "y": 2, "z": 4, "w": 6}
    lines = [
        entry("a", None),
        replace(answer("x", "a", "m", call("x")), at=times["x"]),
        replace(answer("y", "x", "m", call("y")), at=times["y"]),
        result("rx", "x", "x", at=3),
        replace(answer("z", "rx", "m", call("z")), at=times["z"]),
        result("ry", "y", "y", at=5),
        replace(answer("w", "z", "m", call("w")), at=times["w"]),
        result("rz", "z", "z", at=7),
        result("rw", "w", "w", at=8),
        answer("next", "rw", "m2"),
    ]
    assert sent(lines) == ["a", "x", "y", "z", "w", "rx", "ry", "rz", "rw", "next"]


def test_a_result_without_its_call_goes_with_what_was_written_into_it() -> None:
    lines = [entry("a", None), answer("b", "a", "m"), result("r", "b", "gone")]
    lines += [entry("left", "r", "attachment"), answer("c", "left", "m2")]
    assert sent(lines) == ["a", "b", "c"]


def test_a_call_without_its_result_goes_but_at_the_end() -> None:
    lines = [entry("a", None), answer("b", "a", "m", MessagePart(PartKind.TEXT, "t"), call("x"))]
    assert visible_entries(lines)[-1].parts[-1].kind is PartKind.TOOL_INPUT
    assert visible_entries([*lines, entry("c", "b")])[1].parts == (MessagePart(PartKind.TEXT, "t"),)


def test_of_calls_side_by_side_one_result_is_enough_at_the_end() -> None:
    lines = [entry("a", None), answer("b", "a", "m", call("x"), call("y")), result("r", "b", "y")]
    assert len(visible_entries(lines)[1].parts) == 2


def test_a_replaced_result_is_read_as_what_replaced_it() -> None:
    lines = [entry("a", None), answer("b", "a", "m", call("x")), result("r", "b", "x")]
    told = Entry(
        offset=9, length=1, line=9, type="content-replacement", replaced_results=(("x", "less"),)
    )
    assert [one.parts[0].text for one in visible_entries([*lines, told])] == ["a", "{}", "less"]


def test_lines_that_follow_each_other_are_one_message() -> None:
    lines = [entry("env", None, "attachment"), entry("a", "env"), answer("b", "a", "m")]
    lines += [answer("c", "b", "m"), answer("d", "c", "m2")]
    said = group_messages(visible_entries(lines))
    assert [(one.role, len(one.entries)) for one in said] == [
        (Role.USER, 2),
        (Role.ASSISTANT, 2),
        (Role.ASSISTANT, 1),
    ]
