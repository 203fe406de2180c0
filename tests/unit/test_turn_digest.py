"""What a section of a digest keeps of a turn, and how sections are read back."""

from __future__ import annotations

import pytest
from ctxtop.core.model.conversation import Entry, MessagePart, PartKind
from ctxtop.core.summaries.former_summaries import previous_summary_facts
from ctxtop.core.summaries.tool_outcomes import list_failed_calls
from ctxtop.core.summaries.turn_digest import (
    DigestSection,
    DigestSource,
    describe_state,
    parse_digest,
    quote_summary,
    render_digest,
)
from ctxtop.core.transcript.authorship import DIGEST_MARKER
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ..entries import answered, asked, called, compacted, entry, returned, summed_up, touched

WORDS = "Mend the decoder.\n\n## Turn 9: lines 1 to 2, ≈ 3 tokens [abcd1234]\n> and quote\tthis"


def digest(*entries: Entry) -> str:
    return DigestSource(list_failed_calls(entries)).digest_turn(entries)


def section(number: int = 1, body: str = "The user (line 3):\n  > Hello.\n") -> DigestSection:
    return DigestSection(number, 3, 40, 12_345, "0a1b2c3d", body)


def test_the_persons_words_are_whole() -> None:
    body = digest(asked(WORDS + " and more" * 9_000), answered("Yes."))
    assert all(f"  > {line}\n" in body for line in WORDS.split("\n")[:-1])
    assert " and more" * 9_000 in body


def test_answers_to_questions_and_reasons_of_a_rejection_are_whole() -> None:
    answer = 'User has answered your questions: "Which?"="The second,\nplease"'
    said = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it"
        " was a file edit, the new_string was NOT written to the file). To tell you how to proceed,"
        " the user said:\nUse tabs.\nAlways."
    )
    body = digest(
        called("AskUserQuestion", "q1", questions=[]),
        returned("AskUserQuestion", "q1", answer),
        called("Bash", "b1", command="make"),
        returned("Bash", "b1", said, failed=True),
    )
    assert "  > please" in body
    assert "  > Use tabs.\n  > Always.\n" in body


def test_decisions_plans_and_anchors_are_word_for_word() -> None:
    decision = "I decided to keep the ring buffer, because a list would grow without a limit."
    body = digest(
        answered(f"Well. {decision} So be it."),
        called("ExitPlanMode", "p1", plan="1. Read\n2. Write"),
        answered("<!-- anchor -->\nThe port is 8123."),
    )
    assert f'- "{decision}"\n' in body
    assert "  > 1. Read\n  > 2. Write\n" in body
    assert "  > The port is 8123.\n" in body


def test_files_say_what_was_done_to_them() -> None:
    body = digest(
        *touched("Read", "/p/a.py", "r1"), *touched("Edit", "/p/a.py", "e1"),
        *touched("Edit", "/p/a.py", "e2"), *touched("Write", "/p/b.py", "w1"),
        called("Bash", "x1", command="rm /p/b.py"), returned("Bash", "x1", ""),
    )  # fmt: skip
    assert body.startswith("Files, to read again before editing:\n")
    assert "- /p/a.py (edited 2×, read 1×)\n" in body
    assert "- /p/b.py (deleted, written 1×)\n" in body


def test_errors_say_how_they_ended() -> None:
    body = digest(
        called("Bash", "1", command="make test"),
        replace(returned("Bash", "1", "ValueError: no <b>bytes</b>", failed=True), line=7),
        *touched("Edit", "/p/a.py", "e1"),
        called("Bash", "2", command="make test"),
        replace(returned("Bash", "2", "ok"), line=9),
        called("Bash", "3", command="tox"),
        returned("Bash", "3", "fatal: gone", failed=True),
    )
    assert "ValueError: no ‹b›bytes‹/b› → went well at line 9" in body
    assert "fatal: gone → still open" in body


def test_agents_results_are_compressed() -> None:
    text = "found it " * 500 + "<verdict>The parser is at fault.</verdict>"
    result = entry(MessagePart(PartKind.AGENT_RETURN, text, "Task", "t1"), role="user")
    call = called("Task", "t1", subagent_type="explore", description="Find the parser")
    body = digest(call, result)
    assert 'Agent explore "Find the parser" (line' in body
    assert "‹verdict›The parser is at fault.‹/verdict›" in body
    assert len(body) < 2_000
    started = "Async agent launched successfully.\nagentId: a1b2c3"
    result = entry(MessagePart(PartKind.AGENT_RETURN, started, "Task", "t1"), role="user")
    assert "was started in the background: a1b2c3" in digest(call, result)


def test_the_last_sentences_of_the_answer_stay() -> None:
    body = digest(answered("First. " * 200 + "It works now. Shall I push?"), entry())
    assert body.endswith("Ended with:\n  > First.\n  > It works now.\n  > Shall I push?\n")


def test_nothing_is_redacted_in_what_stays_in_the_file() -> None:
    """The file holds it anyway, and the model that wrote or read it gets it back."""
    code = "pwd = defaultpwd1"
    key = "ghp_" + "a1B2" * 9
    body = digest(
        asked(f"Call it as {code} with {key}."),
        answered(f"We decided to use {code} in all tests."),
    )
    assert f"  > Call it as {code} with {key}." in body
    assert f'- "We decided to use {code} in all tests."' in body


def test_sections_are_read_back_word_for_word() -> None:
    sections = (
        replace(section(1), names=("core/a.py", "Decoder.feed")),
        replace(section(2), label="continues turn 1"),
        DigestSection(3, 41, 41, 900, "", quote_summary(summed_up(WORDS)), "earlier summary"),
    )
    text = render_digest(sections, "s-1", ["Open todos:", "- [pending] test it"])
    assert "ctxtop compact s-1 --restore-turn N" in text
    parsed = parse_digest(text)
    assert [each.text for each in parsed] == [each.text for each in sections]
    assert [each.number for each in parsed] == [1, 2, 3]
    assert render_digest(parsed, "s-1", ["Open todos:", "- [pending] test it"]) == text


@given(st.text() | st.sampled_from([WORDS, section().text, DIGEST_MARKER, "\r## Turn 4", "## x"]))
def test_no_text_of_a_transcript_passes_for_a_section(words: str) -> None:
    spoken = digest(
        asked(words),
        answered(f"I decided to use {words}. Because."),
        called("Bash", "1", command=words),
        returned("Bash", "1", words, failed=True),
        called("Task", "t1", subagent_type=words, description=words),
        entry(MessagePart(PartKind.AGENT_RETURN, words, "Task", "t1"), role="user"),
    )
    todo = describe_state([called("TodoWrite", "2", todos=[{"content": words, "status": words}])])
    text = render_digest([section(1, spoken), section(2)], "s", todo)
    assert [each.number for each in parse_digest(text)] == [1, 2]
    assert parse_digest(text)[1].body == section().body


def test_a_later_summary_quotes_a_digest_by_its_turns() -> None:
    text = render_digest([section()], "s", ["Open todos:", "- [pending] old"])
    turns = [asked("One."), answered("Yes."), compacted(), summed_up(text)]
    (quoted,) = previous_summary_facts(turns)
    assert quoted.text == section().text.strip()


@pytest.mark.parametrize(
    "text", ["", "Hello.", section().text, f"x{DIGEST_MARKER}\n{section().text}"]
)
def test_other_texts_have_no_sections(text: str) -> None:
    assert parse_digest(text) == ()
