"""What earlier compactions left is the first thing to keep; every summary has a task and a step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.actions.conversation_planning import shorten_output
from ctxtop.core.compaction.plan import AppendLine, Operation, Refusal
from ctxtop.core.compaction.strategies.summary_and_cut import Conversation, summarize_by_rules
from ctxtop.core.model.conversation import Author, Entry, MessagePart, PartKind
from ctxtop.core.summaries.former_summaries import fit_earlier, split_sections
from ctxtop.core.summaries.summary_building import (
    SummaryBudget,
    SummarySettings,
    build_summary,
    estimate_tokens,
)
from ctxtop.core.summaries.summary_facts import (
    FOUR_SECTIONS,
    FactKind,
    make_fact,
    parse_summary,
    render_summary,
)
from ctxtop.core.transcript.authorship import SUMMARY_MARKER
from ctxtop.core.transcript.entry_decoder import decode_entry
from msgspec.structs import replace

from ..entries import answered, asked, called, compacted, entry, returned, summed_up

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFACE = "This session is being continued from a previous conversation that ran out of context."
SECTIONS = (
    ("Primary Request and Intent", ["Mend the decoder of frames."]),
    ("Key Technical Concepts", [f"- concept {n} of the wire format" for n in range(60)]),
    ("Files and Code Sections", [f"- src/part_{n}.py reads a frame" for n in range(120)]),
    ("All user messages", ['- "Mend the decoder."']),
    ("Pending Tasks", ["- the encoder"]),
    ("Current Work", ["Reading the header of a frame."]),
    ("Optional Next Step", ["Write the test of the empty frame."]),
)
CLIENTS = "\n".join(
    "\n".join([f"{number}. {title}:", *(f"   {line}" for line in lines)])
    for number, (title, lines) in enumerate(SECTIONS, 1)
)


def work(turns: int = 8, first: int = 0) -> list[Entry]:
    lines: list[Entry] = []
    for turn in range(first, first + turns):
        lines += [
            called("Bash", f"w{turn}", command=f"make part{turn}"),
            returned("Bash", f"w{turn}", "word " * 900),
            answered(f"Part {turn} is done."),
        ]
    return lines


def chained(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    found: list[Entry] = []
    for each in entries:
        parent = found[-1].uuid if found and each.boundary is None else None
        found.append(replace(each, parent=parent))
    return tuple(found)


def summarized(entries: Sequence[Entry], budget: SummaryBudget | None = None, keep: int = 2) -> str:
    last = {"uuid": "u", "sessionId": "s"}
    whole = Conversation(
        chained(entries), last, lambda part: estimate_tokens(part.text) + 4, "/t.jsonl"
    )
    found = summarize_by_rules(whole, SummarySettings(FOUR_SECTIONS, budget, keep))
    assert isinstance(found, Operation), found
    *_, line = (each for each in found.edits if isinstance(each, AppendLine))
    return str(json.loads(line.text)["message"]["content"])


def quoted_lines(text: str) -> set[str]:
    return {line.removeprefix("  > ") for line in text.split("\n")}


def test_every_line_of_the_clients_summary_stays() -> None:
    text = summarized(
        [
            asked("Mend it."),
            compacted(),
            summed_up(f"{PREFACE}\n\nSummary:\n{CLIENTS}"),
            *work(),
        ]
    )
    assert set(CLIENTS.split("\n")) <= quoted_lines(text)
    assert PREFACE not in text


def test_where_hardly_more_than_an_earlier_summary_leaves_nothing_is_gained() -> None:
    before = [asked("Mend it."), compacted(), summed_up(CLIENTS), *work(2)]
    last = {"uuid": "u", "sessionId": "s"}
    whole = Conversation(chained(before), last, lambda part: estimate_tokens(part.text), "/t.jsonl")
    short = replace(whole, count_tokens=lambda part: min(40, estimate_tokens(part.text)))
    found = summarize_by_rules(short, SummarySettings(FOUR_SECTIONS, None, 2))
    assert isinstance(found, Refusal)
    assert found.check == "summary_longer"
    assert "that are quoted as they are" in found.why


def test_a_draft_before_the_summary_is_its_own_section_and_the_last() -> None:
    draft = "Analysis:\n1. **Initial Request**: long\n\nSummary:\n" + CLIENTS
    sections = split_sections(draft)
    assert sections[0].startswith("Analysis:")
    assert sections[0].endswith("Summary:")
    assert len(sections) == 1 + len(SECTIONS)
    fact = make_fact(FactKind.EARLIER, draft, 7, 1.0)
    shorter = fit_earlier(fact, estimate_tokens(CLIENTS), estimate_tokens)
    assert shorter is not None
    assert "Initial Request" not in shorter.text


def test_what_does_not_fit_goes_by_the_summarys_own_sections() -> None:
    text = summarized(
        [asked("Mend it."), compacted(), summed_up(CLIENTS), *work()],
        SummaryBudget(1_000, max_earlier_tokens=400),
    )
    kept = quoted_lines(text)
    for title, lines in SECTIONS:
        if title not in {"Key Technical Concepts", "Files and Code Sections"}:
            assert {f"   {line}" for line in lines} <= kept, title
    assert "lines: line" in text, "what is left out is said, and where it is"
    earlier = [each for each in parse_summary(text) if each.kind is FactKind.EARLIER]
    assert estimate_tokens(render_summary(earlier, FOUR_SECTIONS, "")) <= 400


def test_a_summary_of_ours_hands_on_what_the_clients_said() -> None:
    """Two compactions later the client's own summary is still there, word for word."""
    before = [asked("Mend it."), compacted(), summed_up(CLIENTS), *work()]
    once = summarized(before)
    twice = summarized([*before, compacted(), summed_up(once), *work(8, 50)])
    assert set(CLIENTS.split("\n")) <= quoted_lines(twice)


def test_a_models_words_are_handed_on() -> None:
    written = make_fact(FactKind.WRITTEN, "The frame has a header of 12 bytes.", 0, 1.0)
    once = build_summary([written], FOUR_SECTIONS, SummaryBudget(500)).text
    text = summarized([asked("Mend it."), answered("ok"), compacted(), summed_up(once), *work()])
    assert "  > The frame has a header of 12 bytes." in text.split("\n")


def test_facts_that_a_summary_of_ours_held_come_first() -> None:
    decided = "We decided to use frame_store for the index of all frames."
    before = [asked("Mend it."), answered(decided), *work()]
    once = summarized(before)
    assert decided in once
    between = [compacted(), summed_up(once)]
    later = [
        each
        for turn in range(60)
        for each in (
            answered(f"I decided to use part_store_{turn} for part number {turn} of the frames."),
            *work(1, 100 + turn),
        )
    ]
    twice = summarized([*before, *between, *later], SummaryBudget(900))
    assert decided in twice
    assert "part_store_3 " not in twice, "not all of the new ones fit"


def teammate(text: str, intro: str = "", number: int = 1) -> Entry:
    line = {
        "type": "user",
        "uuid": "a1",
        "message": {
            "role": "user",
            "content": f'{intro}<teammate-message teammate_id="lead" color="blue">\n{text}\n'
            "</teammate-message>",
        },
    }
    found = decode_entry(10, json.dumps(line).encode(), {}, number)
    assert found is not None
    assert not any(part.kind is PartKind.PROMPT for part in found.parts)
    return found


@pytest.mark.parametrize("intro", ["", "Another Claude session sent a message:\n"])
def test_a_teammates_order_is_the_task_and_is_not_called_the_users(intro: str) -> None:
    order = "Test the coupon field. Never touch the cart."
    text = summarized([teammate(order, intro), *work()])
    assert f'- First request, from the teammate "lead": "{order}" [L1]' in text.split("\n")
    assert 'From the teammate "lead", not from the user:' in text
    rules = [each for each in parse_summary(text) if each.kind is FactKind.CONSTRAINT]
    assert rules == [], "a teammate's rule is not the user's"


def test_an_assigned_task_is_a_task() -> None:
    frame = {
        "type": "task_assignment",
        "taskId": "3",
        "subject": "Measure the index",
        "description": "Run it three times.",
        "assignedBy": "team-lead",
    }
    text = summarized([teammate(json.dumps(frame)), *work()])
    assert 'First request, from the teammate "team-lead": "Measure the index Run it' in text


def test_a_leads_session_has_no_task_from_its_teammates() -> None:
    text = summarized(
        [asked("Lead the team."), teammate("I am done with it.", "", 10_000), *work()]
    )
    assert "the teammate" not in text
    assert '- First request: "Lead the team."' in text


def test_a_teammates_message_is_read_whole() -> None:
    (part,) = teammate("word " * 2_000).parts
    from ctxtop.core.actions.conversation_planning import _is_tool_output

    assert not _is_tool_output(part)
    assert _is_tool_output(MessagePart(PartKind.META, "word " * 2_000))
    assert len(shorten_output(MessagePart(PartKind.META, "word " * 2_000)).text) < 2_000


def summary_parts(text: str) -> tuple[list[str], list[str]]:
    facts = parse_summary(text)
    return (
        [each.text for each in facts if each.kind is FactKind.GOAL],
        [each.text for each in facts if each.kind is FactKind.NEXT],
    )


@pytest.mark.parametrize(
    ("entries", "task", "step"),
    [
        ([asked("Mend it."), *work()], 'First request: "Mend it."',
         "Next step: the user's next request: the current one was answered"),
        ([asked("Mend it."), *work()[:-1]], 'First request: "Mend it."',
         "Next step: go on with the current request"),
        ([asked("Mend it."), *work(), asked("Now the encoder."), answered("Let me read it."),
          called("Read", "r", file_path="/p"), returned("Read", "r")],
         'Current request: "Now the encoder."',
         'Next step: go on with the current request; the model announced "Let me read it."'),
        ([compacted(), summed_up(CLIENTS), *work()],
         'First request, as an earlier summary states it: "Mend the decoder of frames."',
         "Next step: "),
        ([entry(MessagePart(PartKind.META, "<channel source=\"x\">Deploy it.</channel>"),
                author=Author.OTHER), *work()],
         "First request, from a channel: ",
         "Next step: the next message: the current one was answered"),
    ],
)  # fmt: skip
def test_every_summary_states_its_task_and_its_next_step(
    entries: list[Entry], task: str, step: str
) -> None:
    goals, steps = summary_parts(summarized(entries))
    assert any(goal.startswith(task) for goal in goals), goals
    assert steps[0].startswith(step), steps


def test_after_a_compaction_alone_the_step_is_the_earlier_summarys() -> None:
    before = [compacted(), summed_up(CLIENTS)]
    calls = [
        each
        for n in range(6)
        for each in (called("Bash", f"c{n}", command="ls"), returned("Bash", f"c{n}", "x " * 900))
    ]
    _, steps = summary_parts(summarized([*before, *calls]))
    line = calls[-1].line
    step = 'Next step: "Write the test of the empty frame.", as an earlier summary states it'
    assert steps == [f"{step}; not answered yet: what Bash returned (line {line})"]


def test_the_first_request_is_handed_on_where_the_lines_are_gone() -> None:
    once = summarized([asked("Mend the decoder."), *work()])
    assert once.startswith(SUMMARY_MARKER)
    text = summarized([compacted(), summed_up(once), asked("Now the encoder."), *work()])
    goals, _ = summary_parts(text)
    assert [goal.split(" [")[0] for goal in goals] == [
        'First request: "Mend the decoder."',
        'Current request: "Now the encoder."',
    ]
