"""Rules in the store: where each was stated, and what compactions and the person did to it."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.current_context import read_rules
from ctxtop.collectors.plugin_files import state_files
from ctxtop.core.model.rule import ListedRule, RuleMark, RuleSource, RuleState
from ctxtop.core.readers.rule_reader import read_listed_rules
from ctxtop.core.readers.summary_reader import find_summaries, read_summary_rows
from ctxtop.core.store.database import open_reader
from ctxtop.core.summaries.session_rules import NO_RULE_CHOICES, RuleChoices, session_rules
from ctxtop.core.summaries.summary_search import SummaryCriteria
from ctxtop.core.transcript.entry_decoder import read_entries

from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    append,
    assistant,
    attachment,
    boundary,
    summary,
    text,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

OTHER = "99999999-2222-4333-8444-555555555555"
RULE = "Never push to main."
MEMORY = attachment(
    "nested_memory", path="/home/dev/proj/CLAUDE.md", content="# Style\n\n- Use tabs.\n"
)


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def rules(
    store: Path,
    session_id: str | None = None,
    query: str = "",
    choices: RuleChoices = NO_RULE_CHOICES,
) -> list[tuple[str, ListedRule]]:
    wanted = SummaryCriteria(query=query, kind="rule", session_id=session_id)
    with closing(open_reader(store)) as db:
        ids = find_summaries(db, (), wanted, {SESSION: "p", OTHER: "p"}, 0).ids
        known = read_listed_rules(db, ids, choices)
        return [(row.text, known[row.summary_id]) for row in read_summary_rows(db, (), ids)]


def state_of(store: Path, text: str) -> tuple[RuleState, int | None]:
    rule = next(rule for stated, rule in rules(store) if stated == text)
    return rule.state, rule.state_at


def test_rules_of_prompts_and_memory_files_are_listed_only_if_they_are_asked_for(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(f"Fix it. {RULE}"), MEMORY, assistant(content=[text("Never stop.")])])
    collector.scan()

    assert {(text, rule.source, rule.path) for text, rule in rules(store)} == {
        (RULE, RuleSource.PROMPT, None),
        ("Use tabs.", RuleSource.MEMORY, "/home/dev/proj/CLAUDE.md"),
    }
    assert [text for text, _ in rules(store, query="pu")] == [RULE]
    with closing(open_reader(store)) as db:
        assert find_summaries(db, (), SummaryCriteria(), {}, 0).ids == []
        assert find_summaries(db, (), SummaryCriteria(query="push"), {}, 0).ids == []


def test_the_store_and_a_compaction_call_a_rule_the_same(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(RULE), MEMORY, user("Prefer small commits.", uuid=None)])
    collector.scan()

    stated = {rule.text: rule.rule_id for rule in session_rules(read_entries(path), str(path))}
    assert {text: rule.rule_id for text, rule in rules(store)} == stated
    assert len(stated) == 3


QUEUED = (
    "<system-reminder>\nThe user sent a new message while you were working:\nStop renaming files."
    "\n\nThis is how Claude Code surfaces messages the user sends mid-turn. Never mind.\n"
    "</system-reminder>"
)


@pytest.mark.parametrize("rendered", [{}, {"rendered": [{"content": QUEUED}]}])
def test_a_rule_that_was_typed_during_a_turn(
    path: Path, collector: Collector, store: Path, rendered: dict[str, object]
) -> None:
    queued = attachment("queued_command", prompt="Stop renaming files.", commandMode="prompt")
    write(path, [user("Go."), queued | rendered])
    collector.scan()

    ((text, listed),) = rules(store)
    (rule,) = session_rules(read_entries(path), str(path))
    assert text == rule.text == "Stop renaming files."
    assert listed.rule_id == rule.rule_id
    assert read_rules(path, NO_RULE_CHOICES) == (rule,)


def test_a_rule_that_is_stated_again_is_listed_once_as_it_was_stated_last(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(RULE, at=1), MEMORY, user("More.")])
    collector.scan()
    begin = path.stat().st_size
    append(path, [user(RULE.upper(), at=9), MEMORY | {"uuid": "again"}])
    collector.scan()

    found = rules(store)
    assert sorted(text for text, _ in found) == [RULE.upper(), "Use tabs."]
    assert all(rule.offset >= begin for _, rule in found)


def test_what_an_agent_was_asked_is_no_rule_of_a_persons(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user("Go."), user(RULE, isSidechain=True)])
    write(path.with_suffix("") / "subagents" / "agent-a1.jsonl", [user(RULE)])
    collector.scan()

    assert rules(store) == []


def test_a_memory_file_that_two_sessions_read_is_listed_once_and_for_each_of_them(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user("Go."), MEMORY])
    write(path.with_name(f"{OTHER}.jsonl"), [user("Go."), MEMORY | {"sessionId": OTHER}])
    collector.scan()

    assert len(rules(store)) == 1
    assert len(rules(store, SESSION)) == len(rules(store, OTHER)) == 1


def test_a_rule_that_a_compaction_lost_and_that_was_given_back(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(RULE), user("Prefer small commits."), MEMORY])
    collector.scan_and_report_compactions()
    assert state_of(store, RULE) == (RuleState.IN_CONTEXT, None)

    append(path, [boundary(at=5), summary("The person wants small commits."), assistant("m", at=6)])
    collector.scan_and_report_compactions()
    lost_at = START_MS + 5_000
    assert state_of(store, RULE) == (RuleState.LOST, lost_at)
    assert state_of(store, "Use tabs.") == (RuleState.LOST, lost_at)
    assert state_of(store, "Prefer small commits.") == (RuleState.IN_CONTEXT, None)

    before_ms = time.time_ns() // 1_000_000
    about = {"session_id": SESSION, "kind": "constraint"}
    state_files.record_answer(store, "remember", text=f'"{RULE}"', **about)
    append(path, [MEMORY | {"uuid": "again"}])
    collector.scan_and_report_compactions()
    state, at = state_of(store, RULE)
    assert state is RuleState.GIVEN_BACK
    assert (at or 0) >= before_ms
    assert state_of(store, "Use tabs.") == (RuleState.IN_CONTEXT, None)


def test_what_the_person_chose(path: Path, collector: Collector, store: Path) -> None:
    write(path, [user(RULE)])
    collector.scan()
    ((_, rule),) = rules(store)

    assert rule.mark is RuleMark.NONE
    ((_, dropped),) = rules(store, choices=RuleChoices(dropped=frozenset({rule.rule_id})))
    assert dropped.mark is RuleMark.DROPPED
