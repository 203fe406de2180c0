"""What we append is what the client sends: our summary and the kept tail; cut, what it was.

And a rollover: the client goes on from the hand-off alone, and the old session is as it was.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.plan import AppendLine, Operation
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.strategies.summary_and_cut import (
    Conversation,
    newest_entry,
    plan_cut,
    plan_rollover,
    summarize_by_rules,
)
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.compaction.undo import undo
from ctxtop.core.summaries.summary_building import SummaryBudget, SummarySettings, estimate_tokens
from ctxtop.core.summaries.summary_facts import (
    EIGHT_SECTIONS,
    ELEVEN_SECTIONS,
    FOUR_SECTIONS,
)
from ctxtop.core.transcript.authorship import SUMMARY_MARKER
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from ..sessions_on_disk import rest, subject_of
from .compacting import ApiCounter, resume
from .lab import Lab
from .ledger import is_main
from .script import texts_of
from .talks import copy_of
from .wire import received

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NEXT = "Next. [[say:ok]]"

ROOM = SummaryBudget(2_500)

MANY = " ".join(f"[[bash:seq 1 {number}]]" for number in range(20, 400, 20))

SESSIONS = {
    "tools side by side and thoughts": (
        (
            "Never push. [[think:plan&&&bash:seq 1 900&&&bash:seq 4 600]] [[bash:seq 7 900]]"
            " [[think:T.&&&say:We decided to use sqlite.]]"
        ),
        "Go on. [[think:Hm.&&&bash:seq 1 700]] [[say:done]]",
        "And more. [[bash:seq 1 9&&&bash:seq 2 9]] [[think:so&&&say:more done]]",
    ),
    "one long turn": (f"Always test. {MANY} [[say:all of it]]",),
    "many short turns": tuple(
        f"Question {number}, {'with many words ' * 40}."
        f" [[bash:seq {number} 300]] [[say:Answer {number}.]]"
        for number in range(12)
    ),
}


def whole(path: Path) -> Conversation:
    entries = tuple(read_entries(path))
    last = newest_entry(entries)
    assert last
    raw = path.read_bytes()[last.offset : last.offset + last.length]
    return Conversation(
        entries,
        json.loads(raw),
        lambda piece: estimate_tokens(piece.text) + 4,
        str(path),
    )


def append(path: Path, operation: object) -> str:
    """Append an operation's lines; give the text of its summary."""
    assert isinstance(operation, Operation), operation
    texts = [edit.text for edit in operation.edits if isinstance(edit, AppendLine)]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{text}\n" for text in texts)
    summary: str = json.loads(texts[1])["message"]["content"]
    return summary


def sent_on_resume(lab: Lab, session_id: str) -> list[dict[str, Any]]:
    """Resume, and take back what that wrote: give the messages of the first request."""
    (path,) = lab.config.glob(f"projects/*/{session_id}.jsonl")
    before = path.read_bytes()
    turn = lab.turn(NEXT, resume=session_id)
    path.write_bytes(before)
    asked = next(one for one in turn.exchanges if is_main(one, session_id))
    messages: list[dict[str, Any]] = asked["body"]["messages"]
    return messages


def bare(text: str) -> str:
    return "".join(text.split())


def texts(messages: list[dict[str, Any]]) -> str:
    """All that is said, without white space: the client joins texts in its own ways."""
    return bare(" ".join(text for message in messages for text in texts_of(message)))


def worked(lab: Lab, prompts: tuple[str, ...]) -> Path:
    session_id = lab.turn(prompts[0]).session_id
    for prompt in prompts[1:]:
        lab.turn(prompt, resume=session_id)
    (path,) = lab.config.glob(f"projects/*/{session_id}.jsonl")
    return path


@pytest.fixture(scope="module")
def session(new_lab: Callable[[type[Lab]], Lab]) -> Callable[[str], tuple[Lab, Path]]:
    """A lab, and a copy of a session that was made in it once."""

    @cache
    def made(name: str) -> tuple[Lab, Path]:
        lab = new_lab(Lab)
        return lab, worked(lab, SESSIONS[name])

    def copied(name: str) -> tuple[Lab, Path]:
        lab, path = made(name)
        return lab, copy_of(path)

    return copied


@pytest.mark.parametrize("name", SESSIONS)
def test_the_client_sends_the_summary_and_the_tail(
    session: Callable[[str], tuple[Lab, Path]], name: str
) -> None:
    lab, path = session(name)
    template = {0: FOUR_SECTIONS, 1: EIGHT_SECTIONS, 2: ELEVEN_SECTIONS}[list(SESSIONS).index(name)]
    original = path.read_bytes()
    plain = sent_on_resume(lab, path.stem)

    summary = append(path, summarize_by_rules(whole(path), SummarySettings(template, ROOM, 4)))
    appended = path.read_bytes()
    resume(lab, path.stem, "with our boundary")
    path.write_bytes(appended)
    sent = sent_on_resume(lab, path.stem)

    assert summary.startswith(SUMMARY_MARKER)
    assert bare(summary) in texts(sent)
    assert json.dumps(sent).count("ctxtop took") == 1
    assert len(visible_entries(read_entries(path))) >= 3, "the summary and a kept tail"
    assert len(json.dumps(sent)) < len(json.dumps(plain)) + len(summary)

    path.write_bytes(original)
    assert received(sent_on_resume(lab, path.stem)) == received(plain)


def test_a_cut_keeps_the_first_prompt_and_the_last_turns(
    session: Callable[[str], tuple[Lab, Path]],
) -> None:
    lab, path = session("many short turns")
    original = path.read_bytes()
    plain = received(sent_on_resume(lab, path.stem))
    append(path, plan_cut(whole(path), 2))
    text = json.dumps(sent_on_resume(lab, path.stem))
    asked = [number for number in range(12) if f"Question {number}," in text]
    assert asked == [0, 10, 11]
    assert "Earlier conversation removed" in text
    path.write_bytes(original)
    assert received(sent_on_resume(lab, path.stem)) == plain


def test_a_second_summary_is_not_made_of_the_first(
    session: Callable[[str], tuple[Lab, Path]],
) -> None:
    lab, path = session("many short turns")
    append(path, summarize_by_rules(whole(path), SummarySettings(FOUR_SECTIONS, ROOM, 4)))
    for number in range(20, 24):
        lab.turn(f"Question {number}, {'more words ' * 40}. [[say:Yes.]]", resume=path.stem)
    summary = append(path, summarize_by_rules(whole(path), SummarySettings(FOUR_SECTIONS, ROOM, 2)))
    assert summary.count("Question 0,") == 2, "as a request, and as the first message"
    assert summary.count(SUMMARY_MARKER) == 1
    text = json.dumps(sent_on_resume(lab, path.stem))
    assert text.count("ctxtop took") == 1
    assert "Question 5," in text


@pytest.mark.parametrize("name", SESSIONS)
def test_the_client_goes_on_from_the_hand_off(
    session: Callable[[str], tuple[Lab, Path]], name: str, tmp_path: Path
) -> None:
    lab, path = session(name)
    rest(path)
    original = path.read_bytes()
    plain = received(sent_on_resume(lab, path.stem))
    subject = subject_of(path, tmp_path)
    plan = plan_conversation(
        PlanSource(path.stem, path, lambda _: ApiCounter()),
        lambda whole, view: plan_rollover(whole, view, SummarySettings(FOUR_SECTIONS, ROOM)),
    )
    assert plan.refused == ()
    receipt = apply_plan(plan, ApplyMode.FORK, subject)
    fork = Path(receipt.target)
    rolled = fork.read_bytes()
    (handed,) = (json.loads(line) for line in rolled.split(b"\n") if b"[Hand-off from" in line)

    resume(lab, fork.stem, "the hand-off")
    fork.write_bytes(rolled)
    sent = sent_on_resume(lab, fork.stem)
    assert bare(handed["message"]["content"]) in texts(sent)
    assert received(sent) != plain

    assert path.read_bytes() == original
    rest(fork)
    undo(receipt.receipt_id, None, subject_of(fork, tmp_path))
    assert received(sent_on_resume(lab, fork.stem)) == plain
