"""What the real client (2.1.329) sends after an edit of a transcript that it does not have open.

| edit | what it sent next |
|---|---|
| lines of preservedMessages removed | the summary and the prompt: the kept tail is gone, silently |
| a second line with the same uuid | the last copy, in the place of the first |
| a result made shorter, thinking behind it | all of it as it is; never asks for `drop_block` |
| the same, and the API answers "bound to a different conversation" | once more without thinking |
| a text of thinking changed, and the API refuses the signature | once more without thinking |
| the last usage left above 967k of 1M | COMPACTS FIRST, whatever was cut, then the prompt |
| the same usage lowered | the prompt |
| the same at 199k of 200k, a small model's own session | the prompt |
| a thinking-only line with content [] or an empty text | the line is skipped |
| leading thinking removed | the rest; what is left is still bound to what it was |
| thinking between removed | the rest; the thinking after it has lost what it was bound to |
| all thinking removed | the rest |
| half a line at the end | as if it were not there |
| an image replaced by a text, in the list or as the content itself | the text |
| strings of toolUseResult blanked, or all of it made a string | the same as before |
| cut before a prompt | what stands before it |
| a line removed, its children re-parented | all but that line |
| a result's string made a list, or the list a string | as it was written, no other block changes |
| a result made empty | the empty result, which the API takes |
| two lines of one message edited | both edits |
| a call's input without its keys | the empty input |
| an answer's content made a string | a text block |
"""

from __future__ import annotations

import copy
import difflib
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from .edits import (
    TORN,
    answers,
    compacted,
    results,
    spoken,
    until,
    without,
    without_reparented,
    write_edited,
)
from .images import png
from .lab import LARGE, SMALL
from .wire import blocks_sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from .lab import Lab

pytestmark = pytest.mark.only_all_pairs
"""They describe the client alone: only another client can change what they find."""

Json = dict[str, Any]
Lines = list[Json]

NEXT: Final = "Next. [[say:ok]]"
BOUND_NEXT: Final = "Next. [[bound:&&&say:ok]]"

ABOVE: Final = 970_000
"""Tokens of 1,000,000 from which on the client compacts by itself: 967,000 and more."""

BELOW: Final = 960_000


class Edited:
    """A session of two prompts, and what is sent when a copy of it that was edited goes on."""

    def __init__(self, lab: Lab, model: str) -> None:
        self.lab = lab
        self.model = model
        image = lab.project / "a.png"
        image.write_bytes(png())
        session_id = lab.turn(
            "Begin. [[think:plan&&&bash:seq 1 9]]"
            f" [[think:more&&&say:Now.&&&bash:seq 4 6&&&read:{image}]] [[think:T.&&&say:ok]]",
            model=model,
        ).session_id
        lab.turn("Second. [[think:U.&&&say:yes]]", resume=session_id, model=model)
        (self.path,) = lab.config.glob(f"projects/*/{session_id}.jsonl")
        self.before = blocks_sent(self.sent(lambda lines: lines)[0]["body"])

    def sent(
        self, edit: Callable[[Lines], Lines], prompt: str = NEXT, tail: bytes = b""
    ) -> list[Json]:
        """Edit a copy, go on in it, and list what the API was asked."""
        session_id = write_edited(self.path, edit, tail)
        turn = self.lab.turn(prompt, resume=session_id, model=self.model)
        assert turn.code == 0, turn.out
        assert turn.said["result"] == "ok"
        return [one for one in turn.exchanges if one["path"].endswith("/messages")]

    def change(self, edit: Callable[[Lines], Lines], tail: bytes = b"") -> tuple[list[str], Json]:
        """Send a request after an edit; return the diff of its blocks and the exchange."""
        (exchange,) = self.sent(edit, tail=tail)
        return self.against(exchange), exchange

    def against(self, exchange: Json) -> list[str]:
        changes = difflib.unified_diff(self.before, blocks_sent(exchange["body"]), n=0)
        return [line for line in changes if line[0] in "+-" and line[:3] not in {"+++", "---"}]


@pytest.fixture
def edited(lab: Lab) -> Edited:
    return Edited(lab, LARGE)


def thinking(block: str) -> bool:
    return '"type": "thinking"' in block


def first_result(lines: Lines, content: object) -> Lines:
    results(lines)[0]["message"]["content"][0]["content"] = content
    return lines


def thoughtless(lines: Lines, first: int, last: int | None = None) -> Lines:
    for line in answers(lines, "thinking")[first:last]:
        lines = without_reparented(lines, line)
    return lines


def emptied(lines: Lines, content: list[Json]) -> Lines:
    answers(lines, "thinking")[1]["message"]["content"] = content
    return lines


def pictured(lines: Lines, content: object) -> Lines:
    for line in results(lines):
        block = line["message"]["content"][0]
        if isinstance(block["content"], list):
            block["content"] = content
    return lines


def blanked(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    if isinstance(value, dict):
        return {name: blanked(one) for name, one in value.items()}
    if isinstance(value, list):
        return [blanked(one) for one in value]
    return "" if isinstance(value, str) else value


def blank_copies(lines: Lines, *, shape: bool) -> Lines:
    for line in lines:
        if "toolUseResult" in line:
            line["toolUseResult"] = blanked(line["toolUseResult"]) if shape else ""
    return lines


def believed(lines: Lines, tokens: int) -> Lines:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 0}
    answers(lines)[-1]["message"]["usage"] |= usage | {"cache_read_input_tokens": tokens}
    return lines


def second_prompt(lines: Lines) -> Json:
    return next(line for line in lines if "Second." in str(line.get("message")))


def test_preserved_lines_that_are_missing(edited: Edited) -> None:
    def missing(lines: Lines) -> Lines:
        kept = spoken(lines)[-4:]
        return without(compacted(lines, kept), kept[1])

    (whole,) = edited.sent(lambda lines: compacted(lines, spoken(lines)[-4:]))
    assert any("Second." in block for block in blocks_sent(whole["body"]))
    (exchange,) = edited.sent(missing)
    sent = blocks_sent(exchange["body"])
    assert "SUMMARY" in sent[0]
    assert not any("Second." in block or "Begin." in block for block in sent)


def test_a_second_line_with_the_same_uuid(edited: Edited) -> None:
    def doubled(lines: Lines) -> Lines:
        other = copy.deepcopy(results(lines)[0])
        other["message"]["content"][0]["content"] = "SECOND"
        return [*lines, other]

    change, _ = edited.change(doubled)
    assert len(change) == 2
    assert "SECOND" in change[1]


def test_thinking_behind_an_edit_is_sent_and_the_client_never_asks_to_drop_it(
    edited: Edited,
) -> None:
    change, exchange = edited.change(lambda lines: first_result(lines, "[cut]"))
    assert len(change) == 2
    assert "block_binding" not in exchange["body"]["thinking"]
    assert "thinking-binding-controls" not in exchange["headers"]["anthropic-beta"]
    # All that follows the edit: the first thought stands before it.
    assert [why.partition(": ")[0] for why in exchange["unbound"]] == [
        "messages.4.content.0",
        "messages.6.content.0",
        "messages.8.content.0",
    ]


def test_thinking_that_the_api_does_not_take_is_left_out_at_the_second_try(
    edited: Edited,
) -> None:
    first, second = edited.sent(lambda lines: first_result(lines, "[cut]"), BOUND_NEXT)
    assert (first["what"], second["what"]) == ("error", "answer")
    assert any(thinking(block) for block in blocks_sent(first["body"]))
    left = [block for block in blocks_sent(first["body"]) if not thinking(block)]
    assert blocks_sent(second["body"]) == left


@pytest.mark.invalid_requests
def test_thinking_whose_text_was_changed(edited: Edited) -> None:
    def changed(lines: Lines) -> Lines:
        answers(lines, "thinking")[0]["message"]["content"][0]["thinking"] = "other"
        return lines

    first, second = edited.sent(changed)
    assert (first["what"], second["what"]) == ("refused", "answer")
    assert not any(thinking(block) for block in blocks_sent(second["body"]))


def test_usage_that_an_edit_left_high_compacts_at_resume(edited: Edited) -> None:
    def cut(lines: Lines, tokens: int) -> Lines:
        return believed(first_result(lines, "[cut]"), tokens)

    exchanges = edited.sent(lambda lines: cut(lines, ABOVE))
    assert [one["what"] for one in exchanges] == ["summary", "answer"]
    lowered = edited.sent(lambda lines: cut(lines, BELOW))
    assert [one["what"] for one in lowered] == ["answer"]


def test_a_small_models_own_session_is_not_compacted_at_resume(lab: Lab) -> None:
    exchanges = Edited(lab, SMALL).sent(lambda lines: believed(lines, 199_000))
    assert [one["what"] for one in exchanges] == ["answer"]


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": ""}]], ids=["nothing", "text"])
def test_a_line_of_thinking_that_was_emptied(edited: Edited, content: list[Json]) -> None:
    change, _ = edited.change(lambda lines: emptied(lines, content))
    assert len(change) == 1
    assert '"thinking": "more"' in change[0]


@pytest.mark.parametrize(
    ("first", "last", "unbound"),
    [
        pytest.param(0, 2, 0, id="leading"),
        pytest.param(1, 2, 1, id="between"),
        pytest.param(0, None, 0, id="all"),
    ],
)
def test_thinking_that_was_removed(
    edited: Edited, first: int, last: int | None, unbound: int
) -> None:
    change, exchange = edited.change(lambda lines: thoughtless(lines, first, last))
    assert len(change) == (4 if last is None else last - first)
    assert all(thinking(block) for block in change)
    assert len(exchange["unbound"]) == unbound


def test_a_torn_line(edited: Edited) -> None:
    assert edited.change(lambda lines: lines, TORN)[0] == []


@pytest.mark.parametrize(
    "content", ["[image]", [{"type": "text", "text": "[image]"}]], ids=["a string", "a list"]
)
def test_an_image_that_became_text(edited: Edited, content: object) -> None:
    change, _ = edited.change(lambda lines: pictured(lines, content))
    assert len(change) == 2
    assert '"image"' in change[0]
    assert json.dumps(content, sort_keys=True) in change[1]


@pytest.mark.parametrize("shape", [True, False], ids=["its shape kept", "a string"])
def test_a_blank_copy_of_a_result(edited: Edited, shape: bool) -> None:
    assert edited.change(lambda lines: blank_copies(lines, shape=shape))[0] == []


def test_a_cut_before_a_prompt(edited: Edited) -> None:
    def cut(lines: Lines) -> Lines:
        return until(lines, second_prompt(lines))[:-1]

    change, _ = edited.change(cut)
    assert [block[:6] for block in change] == ["-user ", "-assis", "-assis"]


def test_a_line_removed_and_its_children_hung_behind_its_parent(edited: Edited) -> None:
    change, _ = edited.change(lambda lines: without_reparented(lines, answers(lines, "text")[0]))
    assert len(change) == 1
    assert '"Now."' in change[0]


@pytest.mark.parametrize(
    "content", ["[cut]", [{"type": "text", "text": "[cut]"}], ""], ids=["string", "list", "empty"]
)
def test_the_form_of_a_result(edited: Edited, content: object) -> None:
    change, _ = edited.change(lambda lines: first_result(lines, content))
    assert len(change) == 2
    assert f'"content": {json.dumps(content, sort_keys=True)}' in change[1]


def test_two_lines_of_one_message(edited: Edited) -> None:
    def both(lines: Lines) -> Lines:
        words, call = answers(lines, "text")[0]["message"], answers(lines, "tool_use")[1]["message"]
        assert words["id"] == call["id"]
        words["content"][0]["text"] = "Edited."
        call["content"][0]["input"]["command"] = "[cut]"
        return lines

    change, _ = edited.change(both)
    assert len(change) == 4
    assert '"Edited."' in change[2]
    assert '"[cut]"' in change[3]


def test_a_call_without_what_was_given(edited: Edited) -> None:
    def bare(lines: Lines) -> Lines:
        answers(lines, "tool_use")[0]["message"]["content"][0]["input"] = {}
        return lines

    change, _ = edited.change(bare)
    assert '"input": {}' in change[1]


def test_an_answer_that_is_a_string(edited: Edited) -> None:
    def plain(lines: Lines) -> Lines:
        answers(lines)[-1]["message"]["content"] = "plain"
        return lines

    change, _ = edited.change(plain)
    assert change[1] == '+assistant {"text": "plain", "type": "text"}'
