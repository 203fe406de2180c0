"""What a save puts into its session: counted by hand, piece by piece."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.conversation import Boundary, MessagePart, PartKind
from ctxtop.core.saves.save_noise import (
    MAX_COMMAND_CHARS,
    MAX_COMMANDS,
    NoiseClass,
    NoiseShare,
    SaveNoise,
    Saver,
    TriageDataForm,
    decode_noise,
    encode_noise,
    measure_noise,
    parse_triage_block,
)

from ..save_rows import FILE_REASON, INLINE_REASON, Talk

if TYPE_CHECKING:
    from ctxtop.core.model.conversation import Entry


def count(piece: MessagePart) -> int:
    return len(piece.text)


def noise_of(entries: list[Entry], before: int | None = 1000) -> SaveNoise:
    found = measure_noise(entries, count, before)
    assert found
    return found


def test_a_save_by_an_agent_is_counted_piece_by_piece() -> None:
    talk = (
        Talk()
        .block()  # 6 lines
        .call("a", "Agent", '{"prompt":"save"}', 1400)  # 1 line, 1 item
        .agent_back("a", "Saved it.\nAll of it.")  # 1 line: the client folds it
        .say("Saved: a (create), b (update)", 1700)  # 1 line
        .prompt()
        .say("no part of it", 9000)
    )
    found = noise_of(talk.entries)

    assert (found.lines, found.items) == (6 + 1 + 1 + 1, 1)
    assert (found.tokens, found.is_estimated) == (1700 + 5 - 1000, False)
    assert found.saver is Saver.AGENT
    assert found.said == ("a (create)", "b (update)")
    assert (found.form, found.categories) == (TriageDataForm.FILE, ("decision", "runbook"))
    assert (found.agents, found.leaked_calls) == (1, 0)
    assert found.closed
    assert (found.end_offset, found.end_line) == (300, 4)
    assert found.classes[NoiseClass.TRIAGE] == NoiseShare(6, 0, len(FILE_REASON))
    assert found.classes[NoiseClass.SPAWN].lines == 2


def task(prompt: str) -> str:
    return json.dumps({"subagent_type": "general-purpose", "prompt": prompt})


WRITES = """Run exactly these commands, one after the other:
1. `python3 /p/memory_write.py --action create --target decision`
- python3 /p/memory_enforce.py --token=ghp_0123456789abcdefghijABCDEFGHIJ012345
Then say what was saved."""


def test_the_commands_of_a_save_agent_are_listed_and_a_second_agent_is_counted() -> None:
    """004-41, 004-42: one agent saves, and does exactly what it is told."""
    drafting = Talk().block().call("d", "Agent", task("Draft with memory_draft.py")).say("ok", 5)
    found = noise_of(drafting.call("a", "Agent", task(WRITES)).prompt().entries)
    assert (found.agents, found.save_agents) == (2, 1)
    first, second = found.commands
    assert first == "python3 /p/memory_write.py --action create --target decision"
    assert second.startswith("python3 /p/memory_enforce.py --token=")
    assert "ghp_0123456789" not in second
    assert found.data_file == "/staging/triage-data.json"

    twice = Talk().block().call("a", "Task", task(WRITES)).call("b", "Task", task(WRITES * 20))
    found = noise_of(twice.entries)
    assert (found.save_agents, len(found.commands)) == (2, MAX_COMMANDS)
    assert all(len(each) <= MAX_COMMAND_CHARS for each in found.commands)


def test_a_prompt_that_is_no_json_has_no_commands() -> None:
    found = noise_of(Talk().block().call("a", "Agent", "memory_write.py").entries)
    assert (found.agents, found.save_agents, found.commands) == (1, 0, ())


def test_a_save_by_the_main_agent() -> None:
    talk = (
        Talk()
        .block(INLINE_REASON)
        .call("a", "Bash", '{"command":"python3 memory_candidate.py"}')
        .back("a", "1\n2\n3")
        .call("b", "Bash", '{"command":"python3 memory_write.py --action create"}')
        .back("b", "1\n2\n3\n4", failed=True)
        .call("c", "Bash", '{"command":"python3 memory_write.py --action create"}')
        .back("c", "")
        .call("d", "Bash", '{"command":"ls"}')
        .back("d", "x")
    )
    found = noise_of(talk.entries, None)

    assert found.form is TriageDataForm.INLINE
    assert found.saver is Saver.MAIN
    assert not found.closed
    assert found.items == 4
    block = len(INLINE_REASON.splitlines())
    assert found.classes[NoiseClass.TRIAGE].lines == block
    # A result of three lines is shown whole; of four three and how many more; none is one line.
    assert found.classes[NoiseClass.SAVE_OP] == NoiseShare(
        1 + 3 + 1, 2, found_tokens(talk, 1, 2, 3)
    )
    assert found.classes[NoiseClass.RETRY] == NoiseShare(4 + 1 + 1, 1, found_tokens(talk, 4, 5, 6))
    assert found.classes[NoiseClass.OTHER] == NoiseShare(1 + 1, 1, found_tokens(talk, 7, 8))
    assert found.lines == block + 5 + 6 + 2
    assert found.is_estimated
    assert found.tokens == sum(share.estimated_tokens for share in found.classes.values())


def found_tokens(talk: Talk, *places: int) -> int:
    return sum(count(piece) for place in places for piece in talk.entries[place].parts)


def test_what_an_agent_should_have_done_is_a_leak() -> None:
    talk = (
        Talk()
        .block()
        .call("a", "Task", "{}")
        .agent_back("a", "done")
        .call("b", "Bash", '{"command":"memory_write.py"}')
        .back("b", "ok")
    )
    talk.add("assistant", MessagePart(PartKind.TOOL_INPUT, "{}", "Read", "x"), sidechain=True)
    talk.add("user", MessagePart(PartKind.TOOL_RESULT, "1\n2", "Read", "x"), sidechain=True)
    found = noise_of(talk.entries)

    assert (found.leaked_calls, found.leaked_lines) == (2, 1 + 1 + 1 + 2)
    # The agent's own lines take no room in the session's context.
    assert found.lines == 6 + 2 + 2
    assert found.saver is Saver.AGENT


def test_a_script_saves() -> None:
    talk = Talk().block().call("a", "Bash", "memory_orchestrate.py run").back("a", "Saved: x")
    assert noise_of(talk.entries).saver is Saver.SCRIPT


def test_an_agent_in_the_background() -> None:
    talk = Talk().block().call("a", "Agent", "{}")
    talk.agent_back("a", "Async agent launched successfully.")
    talk.agent_back("a", "<task-notification>…")

    found = noise_of(talk.entries)
    assert (found.agents, found.agents_in_background, found.lines) == (1, 1, 6 + 1 + 2)


def test_a_second_block_ends_the_first() -> None:
    talk = Talk().block().say("x", 1100).block().say("y", 1300)
    first, second = noise_of(talk.entries), noise_of(talk.entries[2:], 1105)

    assert (first.closed, first.tokens, first.lines) == (True, 105, 7)
    assert (second.closed, second.tokens, second.lines) == (False, 200, 7)


def test_a_compaction_inside_makes_it_an_estimate() -> None:
    talk = Talk().block().say("x", 1100).add("system", boundary=Boundary()).say("y", 300)
    found = noise_of(talk.entries)

    assert found.was_compacted
    assert found.is_estimated
    assert found.tokens == len(FILE_REASON) + 2


def test_thinking_and_attachments_take_tokens_and_no_line() -> None:
    talk = Talk().block()
    talk.add("assistant", MessagePart(PartKind.THINKING, "hm"))
    talk.add("attachment", MessagePart(PartKind.ATTACHMENT, "reminder"))
    found = noise_of(talk.entries, None)
    assert (found.lines, found.tokens) == (6, len(FILE_REASON) + 10)


@pytest.mark.parametrize(
    "text",
    [
        "Stop hook feedback:\nrun the linter",
        "The following items should be saved as memories before stopping:",
        "",
    ],
)
def test_other_words_are_no_save(text: str) -> None:
    assert parse_triage_block(text) is None
    assert measure_noise(Talk().block(text).entries, count, None) is None
    assert measure_noise([], count, None) is None


def test_forms_of_a_block() -> None:
    file, inline = parse_triage_block(FILE_REASON), parse_triage_block(INLINE_REASON)
    assert file
    assert inline
    assert file.data_form is TriageDataForm.FILE
    # What stands in the data is not what the hook listed.
    assert (inline.data_form, inline.categories) == (TriageDataForm.INLINE, ("decision", "runbook"))
    bare = parse_triage_block(FILE_REASON.partition("<triage")[0])
    assert bare
    assert bare.data_form is TriageDataForm.NONE


def test_it_is_kept_and_read_again() -> None:
    found = noise_of(Talk().block().say("Saved: a", 1100).entries)
    assert decode_noise(encode_noise(found)) == found
    assert decode_noise(None) is None
    assert decode_noise('{"form":"other"}') is None
