"""Every text of a transcript has a bound, and an odd one breaks no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec
from ctxtop.collectors.claude_code.tail import LineBlock
from ctxtop.collectors.claude_code.transcripts.fact_builder import FIELD_SANITIZERS
from ctxtop.collectors.claude_code.transcripts.line_indexer import index_block
from ctxtop.core.model.transcript_records import FileKind, SourceFile, TranscriptRecords
from ctxtop.core.transcript.sanitize import (
    MAX_ID_CHARS,
    MAX_NAME_CHARS,
    MAX_TITLE_CHARS,
    MAX_WORD_CHARS,
)

from ..transcripts import SESSION, assistant, boundary, encode, launch, tool, tool_result, user

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = SourceFile(f"p/{SESSION}.jsonl", FileKind.SESSION, "p", SESSION)
HUGE = "\u65e5\u200bx\x1b" * 1_000


def read(*lines: Any, offset: int = 0) -> TranscriptRecords:  # noqa: ANN401 -- any line
    data = encode(lines)
    return index_block(SOURCE, LineBlock(offset, data, len(data)))


def texts_of(kind: type[msgspec.Struct]) -> Iterator[str]:
    """Name the fields of a fact that hold a text of the transcript's."""
    for name, hint in get_type_hints(kind).items():
        if str in (hint, *get_args(hint)):
            yield name


def test_every_text_of_every_fact_has_a_bound() -> None:
    kinds = [
        get_args(hint)[0] if get_args(hint) else hint
        for hint in get_type_hints(TranscriptRecords).values()
    ]
    structs = [
        kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    ]
    assert len(structs) > 20

    assert {name for kind in structs for name in texts_of(kind)} - FIELD_SANITIZERS.keys() == set()


def test_huge_fields_are_cut_and_harmless() -> None:
    found = read(
        user("look", cwd=f"/{HUGE}", version=HUGE, uuid=HUGE),
        launch(HUGE, HUGE, HUGE, message_id=HUGE, model=HUGE),
        assistant("m1", content=[tool(HUGE, f"t{HUGE}", command=HUGE)]),
        boundary(trigger=HUGE, uuid=f"b{HUGE}"),
    )

    (cut,), (begun,) = found.boundaries, found.launches
    assert len(cut.trigger or "") <= MAX_WORD_CHARS
    assert len(begun.agent_type) <= MAX_NAME_CHARS
    assert len(begun.description) <= MAX_TITLE_CHARS
    for each in (cut.uuid, begun.tool_use_id, found.responses[0].message_id):
        assert len(each) <= MAX_ID_CHARS
    said = msgspec.json.encode(found).decode()
    assert "\u200b" not in said
    assert "\\u001b" not in said


def test_an_odd_id_still_names_the_same_call() -> None:
    call, result = tool("Bash", HUGE), tool_result(HUGE, "done", {})
    first, second = read(assistant(content=[call])), read(result, offset=9_000)

    assert first.open_calls[0].tool_use_id == second.ended_calls[0]
    assert read(assistant(content=[call]), result).open_calls == ()


def test_two_long_ids_stay_two() -> None:
    found = read(assistant(f"{HUGE}1"), assistant(f"{HUGE}2"))

    assert len({each.message_id for each in found.responses}) == 2


def test_a_list_of_sessions_that_is_not_utf_8_is_no_crash() -> None:
    found = read(b'{"type":"derived-from","sessions":[{"id":"x","note":"\xf2"}]}')

    assert found.bad_lines in {0, 1}


def test_a_file_of_bad_lines_is_counted_and_not_kept() -> None:
    found = read(*[b"no JSON"] * 5_000)

    assert found.bad_lines == 5_000
    assert 0 < len(found.bad) <= 100
