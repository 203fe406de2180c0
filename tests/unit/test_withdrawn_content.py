"""What the client says it stopped sending is not counted, and not planned to be removed again.

`tests/client/test_project.py` proves the rules on the real client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.core.model.conversation import PartKind, cleared_result_ids
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from ..planned import plan_of, tokens_of, view_of
from ..transcripts import SESSION, assistant, attachment, text, tool, tool_result, user
from ..worked import Session

if TYPE_CHECKING:
    from pathlib import Path

STAND_IN: Final = "[Old tool result content cleared]"
LONG: Final = "found " * 2_000


def conversation(*after: dict[str, Any]) -> Session:
    """Two answers that think and call, with a long result, a short one and a long error."""
    session = Session()
    session.add(user("look"))
    session.add(assistant("m1", content=[{"type": "thinking", "thinking": "first"}]))
    session.add(assistant("m1", content=[{"type": "thinking", "thinking": "second"}]))
    session.add(assistant("m1", content=[tool("Bash", "t1", command="a")]))
    session.add(tool_result("t1", LONG, {}))
    session.add(assistant("m2", content=[{"type": "thinking", "thinking": "third"}]))
    session.add(assistant("m2", content=[tool("Bash", "t2", command="b")]))
    session.add(tool_result("t2", "short", {}))
    session.add(assistant("m3", content=[tool("Bash", "t3", command="c")]))
    failed = user([{"type": "tool_result", "tool_use_id": "t3", "content": LONG, "is_error": True}])
    session.add(failed)
    for line in after:
        session.add(line)
    session.add(user("go on"))
    return session


def sent(session: Session, file: Path) -> list[tuple[PartKind, str]]:
    entries = visible_entries(read_entries(session.write(file)))
    return [(part.kind, part.text) for entry in entries for part in entry.parts]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def cut(**more: object) -> dict[str, Any]:
    named = {"callIds": ["t1", "t2", "t3", 7], "standIn": STAND_IN, "roughTokens": 3}
    return attachment("tool_results_cut", **named | more)


def results(session: Session, file: Path) -> list[str]:
    return [words for kind, words in sent(session, file) if kind is PartKind.TOOL_RESULT]


def test_a_cut_result_is_its_stand_in_unless_it_is_short_or_failed(file: Path) -> None:
    assert results(conversation(cut()), file) == [STAND_IN, "short", LONG]


def test_the_first_line_that_names_a_result_counts(file: Path) -> None:
    assert results(conversation(cut(), cut(standIn="-")), file) == [STAND_IN, "short", LONG]


@pytest.mark.parametrize(
    "odd",
    [
        {"standIn": "-" * 201},
        {"standIn": ""},
        {"standIn": 7},
        {"callIds": "t1"},
        {"cause": "something"},
        {"cause": "withdrawn_by_tool"},  # no connector's tool
    ],
)
def test_what_the_client_does_not_believe_cuts_nothing(file: Path, odd: dict[str, object]) -> None:
    assert results(conversation(cut(**odd)), file) == [LONG, "short", LONG]


def test_what_was_cut_frees_nothing_again(file: Path, tmp_path: Path) -> None:
    whole, without = conversation(), conversation(cut())
    data = without.write(file).read_bytes()
    assert tokens_of(data, tmp_path) < tokens_of(whole.write(file).read_bytes(), tmp_path) * 0.7
    without.write(file)
    named = {each.line for each in plan_of(file).operations}
    assert 5 not in named, "the result's line"
    assert cleared_result_ids(read_entries(file)) >= {"t1"}


def test_the_line_that_says_so_keeps_every_byte(file: Path) -> None:
    session = conversation(cut(), attachment("thinking_stripped", scope="all"))
    session.add({"type": "relocated", "sessionId": SESSION, "relocatedCwd": "/x"})
    with view_of(session.write(file)) as view:
        reasons = [*view.protected_lines.values()]
    assert reasons.count("says what is no longer sent") == 2
    assert reasons.count("session's state") == 1


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"scope": "all"}, []),
        ({"scope": "all", "cause": "return_after_idle"}, []),
        ({"from": {"messageId": "m1", "thinkingIndex": 1}}, ["first"]),
        ({"from": {"messageId": "m2", "thinkingIndex": 0}}, ["first", "second"]),
        ({"from": {"messageId": "m2", "thinkingIndex": 1}}, []),  # not there: all
        ({"from": {"messageId": 7}}, []),
    ],
)
def test_thinking_is_stripped_from_a_place_on(
    file: Path, given: dict[str, object], left: list[str]
) -> None:
    strip = attachment("thinking_stripped", **{"scope": "partial"} | given)
    found = sent(conversation(strip), file)
    assert [words for kind, words in found if kind is PartKind.THINKING] == left


def test_only_thinking_before_the_line_is_stripped(file: Path) -> None:
    session = conversation(attachment("thinking_stripped", scope="all"))
    session.add(assistant("m4", content=[{"type": "thinking", "thinking": "fourth"}]))
    session.add(assistant("m4", content=[text("Done.")]))
    found = sent(session, file)
    assert [words for kind, words in found if kind is PartKind.THINKING] == ["fourth"]


def test_advice_is_stripped_from_the_answers_before(file: Path) -> None:
    def advised(name: str) -> list[dict[str, Any]]:
        use = {"type": "server_tool_use", "id": f"s{name}", "name": "advisor", "input": {}}
        said = {"type": "advisor_tool_result", "tool_use_id": f"s{name}", "content": f"do {name}"}
        return [assistant(name, content=[use, said, text(name)])]

    session = conversation(*advised("m4"), attachment("advisor_stripped"), *advised("m5"))
    found = sent(session, file)
    assert [words for _, words in found if words.startswith("do ")] == ["do m5"]


def test_a_file_above_the_limit_is_withdrawn_but_not_one_that_was_answered(file: Path) -> None:
    def attached(name: str, *, above: bool) -> dict[str, Any]:
        limit = {"overTokenLimit": True} if above else {}
        return attachment("file", filename=f"/p/{name}", content=f"text of {name}", **limit)

    session = conversation(
        attached("answered", above=True),
        assistant("m4", content=[text("Seen.")]),
        attached("large", above=True),
        attached("small", above=False),
        attachment("whole_texts_withdrawn"),
    )
    words = [words for kind, words in sent(session, file) if kind is PartKind.ATTACHMENT]
    assert words[0] == "text of answered"
    assert words[1].startswith("The user @-mentioned /p/large. Its contents were not attached")
    assert words[2:] == ["text of small"]


def answered(name: str, context: int = 40_000, **management: object) -> dict[str, Any]:
    line = assistant(name, context, content=[text("Seen.")])
    if management:
        line["message"]["context_management"] = management
    return line


CLEARED: Final = {"type": "clear_tool_uses_20250919", "cleared_input_tokens": 3_000}


def test_the_oldest_results_are_gone_that_the_api_cleared_for_the_newest_answer(
    file: Path,
) -> None:
    edits = [CLEARED | {"cleared_tool_uses": 2}, {"type": "clear_thinking_20251015"}]
    session = conversation(answered("m4", applied_edits=edits))
    assert results(session, file) == [STAND_IN, "short", LONG], "of two the second is shorter"
    session.add(answered("m5"))
    assert results(session, file) == [LONG, "short", LONG], "the next request held them again"


def test_results_of_tools_that_the_client_keeps_are_never_cleared(file: Path) -> None:
    session = Session()
    session.add(user("look"))
    session.add(assistant("m1", content=[tool("Skill", "t1"), tool("Bash", "t2")]))
    session.add(tool_result("t1", LONG, {}))
    session.add(tool_result("t2", LONG, {}))
    session.add(answered("m2", applied_edits=[CLEARED | {"cleared_tool_uses": 1}]))
    assert results(session, file) == [LONG, STAND_IN]
