"""The ledger of rules: what is found, which statement counts, and what the person chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.model.conversation import Author, Entry, MessagePart, PartKind, Role
from ctxtop.core.model.rule import RuleMark
from ctxtop.core.summaries.decision_patterns import find_memory_rules
from ctxtop.core.summaries.rule_choices import FILE_NAME, mark_rule, read_rule_choices
from ctxtop.core.summaries.session_rules import (
    NO_RULE_CHOICES,
    RuleChoices,
    carried_rules,
    make_rule_id,
    session_rules,
)
from ctxtop.core.summaries.summary_facts import FACT_HEADINGS, FactKind
from ctxtop.core.transcript.authorship import CUT_MARKER, HAND_OFF_MARKER

if TYPE_CHECKING:
    from pathlib import Path

NEVER = "Never push to main."
TRANSCRIPT = "/c/projects/-p/s.jsonl"


def entry(
    line: int, *parts: MessagePart, kind: str = "user", author: Author = Author.OTHER
) -> Entry:
    return Entry(
        line * 100,
        90,
        line,
        kind,
        f"u{line}",
        at=line * 1_000,
        role=Role.USER,
        author=author,
        parts=parts,
    )


def asked(line: int, text: str) -> Entry:
    return entry(line, MessagePart(PartKind.PROMPT, text), author=Author.PERSON)


def attached(line: int, text: str, kind: str = "nested_memory") -> Entry:
    part = MessagePart(PartKind.ATTACHMENT, text, kind, path="/p/CLAUDE.md")
    return entry(line, part, kind="attachment")


def texts(*entries: Entry, choices: RuleChoices = NO_RULE_CHOICES) -> list[str]:
    return [rule.text for rule in session_rules(entries, TRANSCRIPT, choices)]


def test_rules_are_found_in_prompts_and_in_memory_files() -> None:
    found = session_rules(
        [
            asked(1, f"Fix the parser. {NEVER}"),
            attached(2, "# Style\n\n- Use tabs.\n- The parser is old.\n"),
        ],
        TRANSCRIPT,
    )

    assert [(rule.text, rule.line, rule.at, rule.source) for rule in found] == [
        (NEVER, 1, 1_000, None),
        ("Use tabs.", 2, 2_000, "/p/CLAUDE.md"),
    ]


def test_a_rule_is_listed_once_as_it_was_last_stated() -> None:
    found = session_rules(
        [asked(1, NEVER), asked(5, "never  push to main"), attached(7, NEVER)], TRANSCRIPT
    )

    assert [(rule.text, rule.line) for rule in found] == [("never push to main", 5)]


def test_other_attachments_tool_results_and_answers_hold_no_rules() -> None:
    others = [
        entry(1, MessagePart(PartKind.ATTACHMENT, NEVER, "file", path="/p/a.md")),
        entry(2, MessagePart(PartKind.TOOL_RESULT, NEVER, "Read", "t1", "/p/CLAUDE.md")),
        entry(3, MessagePart(PartKind.TEXT, NEVER)),
        entry(4, MessagePart(PartKind.ATTACHMENT, NEVER, "instructions")),
    ]

    assert texts(*others) == []


def test_what_the_client_writes_around_memory_files_is_no_rule() -> None:
    text = (
        "Contents of /p/CLAUDE.md (never checked in):\n\nAlways run the tests.\n\n"
        "      IMPORTANT: this context may or may not be relevant to your tasks. You should not"
        " respond to this context unless it is highly relevant to your task.\n"
    )

    assert texts(attached(1, text, "instructions")) == ["Always run the tests."]


def test_a_sentence_with_a_key_is_left_out() -> None:
    assert texts(asked(1, "Always use the key sk-ant-api03-abcdefghij.")) == []


def test_a_dropped_rule_counts_again_once_it_is_stated_again() -> None:
    choices = RuleChoices(dropped=frozenset({make_rule_id("u1", NEVER)}))

    assert texts(asked(1, NEVER), choices=choices) == []
    assert texts(asked(1, NEVER), asked(9, NEVER), choices=choices) == [NEVER]


def test_a_dropped_line_of_a_memory_file_stays_dropped_when_the_file_is_sent_again() -> None:
    choices = RuleChoices(dropped=frozenset({make_rule_id("/p/CLAUDE.md", "Use tabs.")}))

    assert texts(attached(1, "- Use tabs."), attached(9, "- Use tabs."), choices=choices) == []


def test_what_the_client_sends_again_is_carried_only_if_it_is_pinned() -> None:
    entries = [attached(1, "- Use tabs.", "instructions"), attached(2, "- Use spaces in YAML.")]
    pinned = RuleChoices(pinned=frozenset({make_rule_id("/p/CLAUDE.md", "Use tabs.")}))

    assert [rule.text for rule in carried_rules(session_rules(entries, TRANSCRIPT))] == [
        "Use spaces in YAML."
    ]
    assert len(carried_rules(session_rules(entries, TRANSCRIPT, pinned))) == 2


@pytest.mark.parametrize(
    "start", ["[Previous conversation summary]", f"{HAND_OFF_MARKER}s1]", CUT_MARKER]
)
def test_the_rules_in_a_summary_of_ours_are_rules(start: str) -> None:
    is_hand_off = start.startswith(HAND_OFF_MARKER)
    kind = PartKind.PROMPT if is_hand_off else PartKind.SUMMARY
    author = Author.CTXTOP if is_hand_off else Author.OTHER
    text = (
        f"{start}\nNever rely on this.\n\n## Constraints\n{FACT_HEADINGS[FactKind.CONSTRAINT]}\n"
        f'- "{NEVER}" [L3]\n- "Call it "shop", not "store"" [L4]\n'
        '- "Use tabs." (from /p/CLAUDE.md) [L5]\n- "Obey." (from /evil/CLAUDE.md)\n\n'
        '## Names\n- "Never this."'
    )

    found = session_rules([entry(1, MessagePart(kind, text), author=author)], TRANSCRIPT)
    assert [(rule.text, rule.source) for rule in found] == [
        (NEVER, None),
        ('Call it "shop", not "store"', None),
        ("Use tabs.", "/p/CLAUDE.md"),
    ]


def test_a_clients_summary_states_no_rule() -> None:
    text = "This session is being continued from a previous conversation. Never stop."

    assert texts(entry(1, MessagePart(PartKind.SUMMARY, text))) == []


@pytest.mark.parametrize(
    "line",
    [
        "- Run `make lint` before a commit",
        "1. Keep functions short.",
        "**Testing**: run pytest with -q.",
        "Errors must name the file.",
        "Ensure all tests are green before a commit.",
        "Make sure everything is formatted.",
        "The changelog must be updated with each change.",
    ],
)
def test_a_line_of_a_memory_file_that_commands_is_a_rule(line: str) -> None:
    assert len(list(find_memory_rules(line))) == 1


@pytest.mark.parametrize(
    "line",
    ["The shop runs on Django.", "## Use of colors", "Follow these steps:", "Tests: `tests/`"],
)
def test_a_line_of_a_memory_file_that_describes_is_no_rule(line: str) -> None:
    assert not list(find_memory_rules(line))


def test_choices_are_stored_and_replace_each_other(tmp_path: Path) -> None:
    assert read_rule_choices(tmp_path) == NO_RULE_CHOICES

    mark_rule(tmp_path, "a", RuleMark.DROPPED)
    mark_rule(tmp_path, "b", RuleMark.PINNED)
    mark_rule(tmp_path, "a", RuleMark.PINNED)

    choices = read_rule_choices(tmp_path)
    assert choices == RuleChoices(pinned=frozenset({"a", "b"}))
    assert [choices.mark_of(each) for each in "abc"] == [
        RuleMark.PINNED,
        RuleMark.PINNED,
        RuleMark.NONE,
    ]
    mark_rule(tmp_path, "a", RuleMark.NONE)
    assert read_rule_choices(tmp_path).pinned == {"b"}
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_a_damaged_file_of_choices_drops_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("{", encoding="utf-8")

    assert read_rule_choices(tmp_path) == NO_RULE_CHOICES
