"""What the hooks around a compaction say, note and remember."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.current_context import read_rules
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.plugin.answers import remember, steer
from ctxtop.collectors.plugin.hook_answer import HookCall
from ctxtop.core.measure.token_estimate import token_upper_bound
from ctxtop.core.model.rule import RuleMark
from ctxtop.core.store.database import open_reader, state_folder
from ctxtop.core.store.queries.agent_queries import answer_items
from ctxtop.core.store.writer import Writer
from ctxtop.core.summaries.rule_choices import mark_rule
from ctxtop.core.summaries.session_rules import NO_RULE_CHOICES
from ctxtop.core.summaries.steering import KEEP_HEADING, RULES_HEADING

from ..agents_at_work import called, write_agent
from ..recorder import Recorder
from ..transcripts import append, assistant, attachment, boundary, summary, text, user, write
from ..trusted_files import write_trusted

if TYPE_CHECKING:
    from pathlib import Path

RULE = "You must never push to the main branch."
DECISION = "We decided to keep the prices in SQLite."
NOW_MS = 2_000_000_000_000


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "config" / "projects" / "-shop" / "11111111-0000-4000-8000-000000000000.jsonl"
    lines = [user(RULE), assistant("m1", content=[text(DECISION)])]
    lines += called("Write", "w1", file_path="/shop/prices.py", content="x = 1")
    lines += called("TaskCreate", "t1", "Task #1 created", subject="Round the totals")
    return write(path, lines)


def call(tmp_path: Path, session: Path, event: str, **fields: object) -> HookCall:
    told: dict[str, object] = {"transcript_path": str(session), "cwd": str(tmp_path)}
    return HookCall(event, told | fields, tmp_path / "state" / "ctxtop.db", NOW_MS)


def steered(tmp_path: Path, session: Path, **fields: object) -> str:
    reply = steer.answer(call(tmp_path, session, "PreCompact", **fields))
    return reply.context if reply else ""


def judge(tmp_path: Path, session: Path, said: str) -> None:
    after = call(tmp_path, session, "PostCompact", compact_summary=said)
    assert remember.answer(after) is None


def prompted(tmp_path: Path, session: Path, prompt: str = "Go on.") -> str:
    reply = remember.answer(call(tmp_path, session, "UserPromptSubmit", prompt=prompt))
    return reply.context if reply else ""


def kept(tmp_path: Path, feature: str) -> list[tuple[str, str]]:
    store = tmp_path / "state" / "ctxtop.db"
    with closing(Writer(store)) as writer:
        Collector(ClaudeFolder((tmp_path / "config").resolve()), writer, Recorder()).scan()
    with closing(open_reader(store)) as db:
        return [(row.kind, row.text) for row in answer_items(db, feature)]


def test_what_must_survive(tmp_path: Path, session: Path) -> None:
    said = steered(tmp_path, session)
    assert said.startswith(KEEP_HEADING)
    for each in (RULE, DECISION, "Round the totals", "/shop/prices.py (created or rewritten)"):
        assert each in said
    assert kept(tmp_path, "steer") == [
        ("constraint", f'"{RULE}"'),
        ("todo", '[pending] "Round the totals"'),
        ("file", "/shop/prices.py (created or rewritten)"),
        ("decision", f'"{DECISION}"'),
    ]


def test_each_thing_is_kept_with_what_it_costs(tmp_path: Path, session: Path) -> None:
    said = steered(tmp_path, session)
    kept(tmp_path, "steer")
    with closing(open_reader(tmp_path / "state" / "ctxtop.db")) as db:
        costs = [row.tokens for row in answer_items(db, "steer")]
    assert all(costs)
    assert sum(filter(None, costs)) <= token_upper_bound(said)


def test_it_is_short_however_much_there_is_to_keep(tmp_path: Path, session: Path) -> None:
    append(
        session, [user(f"You must never touch module number {n}, {'x' * 80}.") for n in range(90)]
    )
    said = steered(tmp_path, session)
    assert 500 < token_upper_bound(said) <= 1_000


def test_agents_that_are_at_work(tmp_path: Path, session: Path) -> None:
    now_s = NOW_MS // 1000
    write_agent(session, "a1", "", finished=None, at_s=now_s - 60, description="Review it")
    write_agent(session, "a2", "", finished=None, at_s=now_s - 86_400)
    write_agent(session, "a3", "Done.", at_s=now_s)
    said = steered(tmp_path, session)
    assert "- worker a1: Review it" in said
    assert "a2" not in said
    assert "a3" not in said


def test_what_an_earlier_compaction_kept_must_survive_too(tmp_path: Path, session: Path) -> None:
    append(session, [boundary(), summary(f"Rule: {RULE}")])
    append(session, [user("More."), assistant("m2", content=[text("We chose a queue.")])])
    said = steered(tmp_path, session)
    assert RULE in said
    assert "We chose a queue." in said
    assert DECISION not in said


def test_an_agents_own_compaction(tmp_path: Path, session: Path) -> None:
    write_agent(session, "a1", "We decided to wait.", prompt="You must always wait.")
    said = steered(tmp_path, session, agent_id="a1")
    assert "You must always wait." in said
    assert RULE not in said


def test_a_budget_of_the_policy(tmp_path: Path, session: Path) -> None:
    write_trusted(tmp_path, "[steering]\nbudget = 0\n")
    assert steered(tmp_path, session) == ""


def test_what_a_terminal_or_the_client_could_obey_is_taken_out(
    tmp_path: Path, session: Path
) -> None:
    append(session, [user("You must never say \x1b[31m</local-command-stdout> at all.")])
    said = steered(tmp_path, session)
    assert "\x1b" not in said
    assert "</local-command-stdout" not in said
    assert "/local-command-stdout> at all." in said


@pytest.mark.parametrize("path", ["/nowhere/at/all.jsonl", "", None, "/etc/passwd"])
def test_no_transcript_no_words(tmp_path: Path, session: Path, path: object) -> None:
    assert steered(tmp_path, session, transcript_path=path) == ""
    after = call(tmp_path, session, "PostCompact", compact_summary="x", transcript_path=path)
    assert remember.answer(after) is None


def test_what_the_summary_left_out_is_said_once(tmp_path: Path, session: Path) -> None:
    steered(tmp_path, session)
    judge(tmp_path, session, f"<analysis>{RULE}</analysis> {DECISION} prices.py, round the totals")
    append(session, [boundary(), summary(f"{DECISION} prices.py, round the totals")])
    said = prompted(tmp_path, session)
    assert said == f'{RULES_HEADING}\n- "{RULE}"'
    assert prompted(tmp_path, session) == ""
    assert kept(tmp_path, "remember") == [("constraint", f'"{RULE}"')]


def test_nothing_forgotten_nothing_said(tmp_path: Path, session: Path) -> None:
    judge(tmp_path, session, steered(tmp_path, session))
    assert prompted(tmp_path, session) == ""
    assert kept(tmp_path, "remember") == []


def test_without_steering_it_judges_by_the_transcript(tmp_path: Path, session: Path) -> None:
    judge(tmp_path, session, f"{DECISION} prices.py, round the totals")
    append(session, [boundary(), summary(f"{DECISION} prices.py, round the totals")])
    assert RULE in prompted(tmp_path, session)


def test_a_boundary_that_is_written_already(tmp_path: Path, session: Path) -> None:
    append(session, [boundary(), summary(f"{DECISION} prices.py, round the totals")])
    judge(tmp_path, session, f"{DECISION} prices.py, round the totals")
    assert RULE in prompted(tmp_path, session)


def test_what_was_kept_word_for_word_is_not_said_again(tmp_path: Path, session: Path) -> None:
    rule = user("You must always greet the customer first.")
    append(session, [rule])
    judge(tmp_path, session, "nothing")
    append(session, [boundary(preservedMessages={"uuids": [rule["uuid"]]}), summary("nothing")])
    said = prompted(tmp_path, session)
    assert RULE in said
    assert "greet" not in said


def test_a_compaction_that_did_not_come(tmp_path: Path, session: Path) -> None:
    judge(tmp_path, session, "nothing")
    assert prompted(tmp_path, session) == ""


def test_a_notification_is_no_prompt(tmp_path: Path, session: Path) -> None:
    judge(tmp_path, session, "nothing")
    append(session, [boundary(), summary("nothing")])
    assert prompted(tmp_path, session, "<task-notification>\n</task-notification>") == ""
    assert RULE in prompted(tmp_path, session)


def test_a_second_compaction_takes_the_place_of_the_first(tmp_path: Path, session: Path) -> None:
    judge(tmp_path, session, "nothing")
    judge(tmp_path, session, steered(tmp_path, session))
    assert prompted(tmp_path, session) == ""


def test_two_prompts_at_once_say_it_once(tmp_path: Path, session: Path) -> None:
    judge(tmp_path, session, "nothing")
    append(session, [boundary(), summary("nothing")])
    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(lambda _: prompted(tmp_path, session), range(6)))
    assert sorted(map(bool, said)) == [False] * 5 + [True]


def test_a_note_that_is_none_is_a_fault_of_this_prompt_alone(tmp_path: Path, session: Path) -> None:
    judge(tmp_path, session, "nothing")
    (note,) = (tmp_path / "state").rglob("lost-*")
    note.write_bytes(b"no JSON")
    with pytest.raises(ValueError, match="JSON"):
        prompted(tmp_path, session)
    assert prompted(tmp_path, session) == ""
    assert list(note.parent.iterdir()) == []


def test_the_rules_come_first_word_for_word_and_as_many_as_fit(
    tmp_path: Path, session: Path
) -> None:
    rules = [
        f"You must never touch module number {n}, {'word ' * 60}or its tests." for n in range(70)
    ]
    append(session, [user(rule) for rule in rules])
    judge(tmp_path, session, "nothing")
    append(session, [boundary(), summary("nothing")])
    said = prompted(tmp_path, session)
    given = [line[3:-1] for line in said.splitlines() if line.startswith('- "')]
    # The newest ones, and a shorter one that fits besides.
    assert given == [*[" ".join(each.split()) for each in reversed(rules)][: len(given) - 1], RULE]
    assert 900 < token_upper_bound(said) <= 1_500
    recorded = kept(tmp_path, "remember")
    assert [text for kind, text in recorded if kind == "constraint"] == [
        f'"{each}"' for each in given
    ]
    assert all(text in said for _, text in recorded)


def test_a_rule_that_an_earlier_compaction_lost_is_given_back_after_the_next(
    tmp_path: Path, session: Path
) -> None:
    append(session, [boundary(), summary("nothing"), user("More."), assistant("m2")])
    judge(tmp_path, session, "nothing")
    append(session, [boundary(), summary("nothing")])
    assert RULE in prompted(tmp_path, session)


def test_a_dropped_rule_is_neither_steered_nor_given_back(tmp_path: Path, session: Path) -> None:
    (rule,) = read_rules(session, NO_RULE_CHOICES)
    mark_rule(state_folder(tmp_path / "state" / "ctxtop.db"), rule.rule_id, RuleMark.DROPPED)
    assert RULE not in steered(tmp_path, session)
    judge(tmp_path, session, "nothing")
    append(session, [boundary(), summary("nothing")])
    said = prompted(tmp_path, session)
    assert DECISION in said
    assert RULE not in said


def test_a_rule_of_a_memory_file_is_given_back_unless_the_client_sends_it_again(
    tmp_path: Path, session: Path
) -> None:
    one = attachment("nested_memory", path="/shop/a/CLAUDE.md", content="- Use tabs in a.")
    two = attachment("nested_memory", path="/shop/b/CLAUDE.md", content="- Use spaces in b.")
    append(session, [one, two])
    judge(tmp_path, session, RULE)
    append(session, [boundary(), summary(RULE), two])
    said = prompted(tmp_path, session)
    assert '- "Use tabs in a."' in said
    assert "spaces" not in said
    assert RULE not in said


def test_with_no_room_nothing_is_said(tmp_path: Path, session: Path) -> None:
    write_trusted(tmp_path, "[steering]\nagain = 0\n")
    judge(tmp_path, session, "nothing")
    append(session, [boundary(), summary("nothing")])
    assert prompted(tmp_path, session) == ""
    assert kept(tmp_path, "remember") == []
