"""Markers, blocks and skills in agents' transcripts, and the verdicts that are made of them."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.model.findings import ComplianceVerdict, finding_labels
from ctxtop.core.model.transcript_records import (
    GivenSkillRecord,
    MarkerOrigin,
    MarkerRecord,
    StopFeedbackRecord,
)
from ctxtop.core.policy.policy import PolicyOrigin as Where
from ctxtop.core.policy.resolve import DEFAULT_POLICIES, Policies, RawValue, resolve_policy
from ctxtop.core.readers import fleet_reader
from ctxtop.core.readers.compliance_reader import agent_records
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..dump import dump
from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    append,
    assistant,
    attachment,
    encode,
    launch,
    notification,
    text,
    tool,
    tool_result,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.model.agent import Agent
    from ctxtop.core.model.findings import RunVerdict

AGENT = "a1"
GOOD = "[COMPRESSED] agent_type: worker\nChanged files: a.ts\nResult: ok"
BAD = "I built it, and this is how."
CLNODE = RawValue("preset", "clnode", Where.USER_FILE, "x.toml")
BLOCKED = "Stop hook feedback:\n[check]: say it again"


def say(message: str, words: str, **fields: Any) -> JsonLine:  # noqa: ANN401 -- any field
    return assistant(message, content=[text(words)], **fields)


def skill(name: str = "compress-output", body: str = "Begin with [COMPRESSED].") -> JsonLine:
    head = f"<command-message>{name}</command-message>\n<command-name>{name}</command-name>"
    base = f"Base directory for this skill: /x/{name}\n\n{body}"
    return user([text(head), text(base)], isMeta=True)


def markers(db: sqlite3.Connection) -> list[MarkerRecord]:
    return [marker for _, marker in agent_records(db, MarkerRecord, "marker")]


def stop_feedback(db: sqlite3.Connection) -> list[StopFeedbackRecord]:
    return [block for _, block in agent_records(db, StopFeedbackRecord, "feedback")]


def given_skills(db: sqlite3.Connection) -> list[GivenSkillRecord]:
    return [skill for _, skill in agent_records(db, GivenSkillRecord, "given_skill")]


class Told:
    """A folder with one session and one agent, and what the store says of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.session = root / "projects" / PROJECT / f"{SESSION}.jsonl"
        self.agent = self.session.with_suffix("") / "subagents" / f"agent-{AGENT}.jsonl"
        self.store = root / "state" / "ctxtop.db"
        self.kind = "worker"

    def tell(self, *lines: JsonLine | bytes, back: str | None = "x") -> None:
        """Write the agent's transcript, and that it came back."""
        write(self.agent, lines)
        ended = [] if back is None else [notification(AGENT, back, tool_use_id="toolu_1", at=90)]
        write(self.session, [user("do it"), launch("toolu_1", self.kind), *ended])
        meta = f'{{"agentType":"{self.kind}","toolUseId":"toolu_1","spawnDepth":1}}'
        self.agent.with_suffix(".meta.json").write_text(meta, encoding="utf-8")

    def define(self, *skills: str) -> None:
        path = self.root / "agents" / f"{self.kind}.md"
        path.parent.mkdir(exist_ok=True)
        listed = ", ".join(skills)
        head = f"---\nname: {self.kind}\ndescription: works\nskills: [{listed}]\n---\nWork.\n"
        path.write_text(head, encoding="utf-8")
        for skill in skills:
            self.skill_file(skill).parent.mkdir(parents=True, exist_ok=True)
            self.skill_file(skill).write_text("Begin with [COMPRESSED].", encoding="utf-8")

    def skill_file(self, skill: str) -> Path:
        return self.root / "skills" / skill / "SKILL.md"

    def scan(self) -> None:
        with closing(Writer(self.store)) as writer:
            Collector(ClaudeFolder(self.root.resolve()), writer, Recorder()).scan()

    def agents(self, policies: Policies = DEFAULT_POLICIES) -> tuple[Agent, int | None]:
        self.scan()
        with closing(open_reader(self.store)) as db:
            sessions = fleet_reader.read_sessions(db, 0, policies=policies)
            (agent,) = fleet_reader.read_agents(db, sessions, START_MS, policies=policies)
            return agent, sessions[0].agents_noncompliant

    def ruling(self) -> RunVerdict:
        agent, _ = self.agents()
        assert agent.compliance is not None
        return agent.compliance

    def db(self) -> sqlite3.Connection:
        self.scan()
        return open_reader(self.store)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "claude")


def test_where_each_marker_stands(told: Told) -> None:
    """Each place where R000-01 says that a grep is fooled, and those that we saw besides."""
    lines = [
        user("Return it as [COMPRESSED]."),
        attachment("hook_additional_context", content=["A sibling said [COMPRESSED] …"]),
        skill(),
        attachment("skill_listing", content="compress-output: [COMPRESSED]"),
        say("m1", "no mark here"),
        assistant("m2", content=[tool("Bash", "t1", command="grep -F '[COMPRESSED]' x")]),
        tool_result("t1", "1: [COMPRESSED]", {"stdout": "1: [COMPRESSED]"}),
        {"type": "api-request-blob", "hash": "h", "message": "[COMPRESSED]"},
        say("m3", GOOD),
        user("Stop hook feedback:\n[check]: no [COMPRESSED]", isMeta=True),
        say("m4", f"Here.\n{GOOD}"),
    ]
    told.tell(*lines)
    data = told.agent.read_bytes()
    with closing(told.db()) as db:
        found = markers(db)
        assert [each.origin for each in found] == [
            MarkerOrigin.TASK_PROMPT,
            MarkerOrigin.INJECTED_CONTEXT,
            MarkerOrigin.SKILL_TEXT,
            MarkerOrigin.OTHER,
            MarkerOrigin.OTHER,
            MarkerOrigin.TOOL_RESULT,
            MarkerOrigin.REQUEST_COPY,
            MarkerOrigin.ASSISTANT,
            MarkerOrigin.HOOK_FEEDBACK,
            MarkerOrigin.ASSISTANT,
        ]
        for each in found:
            line = data[each.offset :].partition(b"\n")[0]
            assert line.startswith(b"{")
            assert b"[COMPRESSED]" in line
        assert [each.text for each in found if each.text] == [GOOD, f"Here.\n{GOOD}"]
        assert len(stop_feedback(db)) == 1
        assert [each.name for each in given_skills(db)] == ["compress-output"]


def test_a_session_s_own_lines_are_not_searched(told: Told) -> None:
    told.tell(say("m1", GOOD))
    append(told.session, [say("s1", GOOD), user(BLOCKED, isMeta=True), skill()])
    with closing(told.db()) as db:
        assert [each.origin for each in markers(db)] == [MarkerOrigin.ASSISTANT]
        assert not stop_feedback(db)
        assert not given_skills(db)


def test_a_marker_in_a_broken_line_is_passed_over(told: Told) -> None:
    told.tell(say("m1", BAD), b'{"type":"user","message":"[COMPRESSED]', say("m2", GOOD))
    with closing(told.db()) as db:
        assert len(markers(db)) == 1


def test_a_marker_in_a_line_that_is_odd_in_two_ways_counts_as_its_answer_does(told: Told) -> None:
    odd = say("m1", GOOD) | {"uuid": "@", "origin": "elsewhere"}
    told.tell(encode([odd]).replace(b'"@"', rb'"\ud83d"').strip(), say("m2", GOOD))
    with closing(told.db()) as db:
        assert len(markers(db)) == 2


RUNS = {
    "compliant": ([skill(), say("m1", GOOD)], []),
    "non_compliant": ([skill(), say("m1", BAD)], ["V01"]),
    "forced": ([skill(), say("m1", BAD), user(BLOCKED, isMeta=True), say("m2", GOOD)], []),
    "exhausted": (
        [skill(), say("m1", BAD), user(BLOCKED, isMeta=True), say("m2", BAD)],
        ["V01"],
    ),
    "clobbered": ([skill(), say("m1", GOOD), user("And?"), say("m2", "Done.")], ["V01", "V16"]),
    "not_required": ([say("m1", BAD)], []),
}


@pytest.mark.parametrize("verdict", RUNS)
def test_the_verdict_on_a_transcript(told: Told, verdict: str) -> None:
    lines, codes = RUNS[verdict]
    told.tell(user("Build it"), *lines)
    agent, failed = told.agents()
    assert agent.compliance is not None
    assert (agent.compliance.verdict, finding_labels(agent.compliance.violations)) == (
        verdict,
        codes,
    )
    assert failed == (1 if codes else 0)
    blocked = verdict in {"forced", "exhausted"}
    assert agent.compliance.blocked is blocked
    # Of the one request after the block: what it saw and what it said.
    assert agent.compliance.retry_tokens == (1050 if blocked else 0)


def test_a_message_of_several_lines_is_judged_whole(told: Told) -> None:
    told.tell(skill(), say("m1", "Let me see."), say("m2", "Well, then:"), say("m2", GOOD))
    assert finding_labels(told.ruling().violations) == ["V02"]


def test_one_at_work_is_not_judged_yet(told: Told) -> None:
    told.tell(skill(), say("m1", BAD), back=None)
    registry = told.root / "sessions" / f"{os.getpid()}.json"
    registry.parent.mkdir()
    registry.write_text(
        f'{{"pid":{os.getpid()},"sessionId":"{SESSION}","status":"busy"}}', encoding="utf-8"
    )
    agent, failed = told.agents()
    assert (agent.status, failed) == ("running", 0)
    assert agent.compliance is not None
    assert agent.compliance.verdict is ComplianceVerdict.UNKNOWN


def test_a_definition_declares_what_no_transcript_shows(told: Told) -> None:
    told.tell(say("m1", BAD))
    told.define("compress-output")
    assert told.ruling().expected.source == "declared"
    assert told.ruling().verdict is ComplianceVerdict.NON_COMPLIANT
    told.define()
    assert told.ruling().verdict is ComplianceVerdict.NOT_REQUIRED


def test_a_declared_skill_that_is_not_installed_asks_for_nothing(told: Told) -> None:
    """The agent never saw it: it is measured, and no preset's table steps in."""
    told.kind = "reviewer"
    told.tell(say("m1", BAD))
    told.define("compress-review")
    told.skill_file("compress-review").unlink()
    for policies in (DEFAULT_POLICIES, Policies(resolve_policy([CLNODE]))):
        agent, failed = told.agents(policies)
        assert agent.compliance is not None
        assert agent.compliance.verdict is ComplianceVerdict.NOT_REQUIRED
        assert agent.compliance.judgment.lines == len(BAD.splitlines())
        assert failed == 0
    told.tell(skill("compress-review"), say("m1", BAD))
    assert told.ruling().expected.source == "preloaded"
    assert told.ruling().verdict is ComplianceVerdict.NON_COMPLIANT


def test_a_skill_that_the_agent_took_itself_asks_for_nothing(told: Told) -> None:
    told.tell(say("m1", "I look at the skill."), skill(), say("m2", BAD))
    assert told.ruling().verdict is ComplianceVerdict.NOT_REQUIRED


def test_a_name_alone_asks_for_nothing(told: Told) -> None:
    told.kind = "reviewer"
    told.tell(say("m1", BAD))
    assert told.agents()[1] == 0
    ruling = told.ruling()
    assert (ruling.verdict, ruling.expected.source) == (ComplianceVerdict.NOT_REQUIRED, "none")


def test_the_preset_clnode_goes_by_names_where_nobody_defines_them(told: Told) -> None:
    told.kind = "reviewer"
    told.tell(say("m1", BAD))
    mode = RawValue("compliance.mode", "last_message", Where.USER_FILE, "x.toml")
    clnode = Policies(resolve_policy([CLNODE, mode]))
    agent, failed = told.agents(clnode)
    assert agent.compliance is not None
    assert (agent.compliance.expected.source, agent.compliance.failed, failed) == ("rule", True, 1)
    told.define()
    agent, failed = told.agents(clnode)
    assert agent.compliance is not None
    assert (agent.compliance.verdict, failed) == (ComplianceVerdict.NOT_REQUIRED, 0)


def test_a_prompt_that_asks_for_the_format_is_enough(told: Told) -> None:
    told.tell(say("m1", BAD))
    called = launch("toolu_1", told.kind)
    asked = {"subagent_type": told.kind, "prompt": "Build it, and use the compress-output skill."}
    called["message"]["content"] = [tool("Agent", "toolu_1", **asked)]
    write(told.session, [user("do it"), called, notification(AGENT, BAD, tool_use_id="toolu_1")])
    ruling = told.ruling()
    assert (ruling.verdict, ruling.expected.source) == (ComplianceVerdict.NON_COMPLIANT, "prompt")
    assert told.agents()[1] == 1


def test_a_policy_can_ask_for_it_or_not_at_all(told: Told) -> None:
    told.tell(say("m1", BAD))

    def under(key: str, value: object) -> tuple[ComplianceVerdict | None, int | None]:
        policy = resolve_policy([RawValue(key, value, Where.USER_FILE, "x.toml")])
        agent, failed = told.agents(Policies(policy))
        return agent.compliance.verdict if agent.compliance else None, failed

    assert under("compliance.rules", {"worker": "output"}) == (ComplianceVerdict.NON_COMPLIANT, 1)
    assert under("compliance.mode", "off") == (None, 0)


def test_an_agent_without_a_file_is_judged_by_what_it_returned(told: Told) -> None:
    told.kind = "node-backend"
    told.tell(say("m1", GOOD), back=GOOD.replace("worker", "node-backend"))
    told.agent.unlink()
    told.agent.with_suffix(".meta.json").unlink()
    rules = RawValue("compliance.rules", {"node-backend": "output"}, Where.USER_FILE, "x.toml")
    ruling = told.agents(Policies(resolve_policy([rules])))[0].compliance
    assert ruling is not None
    assert (ruling.verdict, ruling.marker_location, ruling.grep_passes) == (
        ComplianceVerdict.COMPLIANT,
        None,
        None,
    )


def test_however_it_is_read_the_rows_are_the_same(tmp_path: Path) -> None:
    lines: list[JsonLine | bytes] = [
        user("[COMPRESSED]?"),
        skill(),
        say("m1", GOOD),
        user(BLOCKED, isMeta=True),
        say("m2", "a"),
        say("m2", GOOD),
    ]
    whole, pieces = Told(tmp_path / "one"), Told(tmp_path / "two")
    whole.tell(*lines)
    whole.scan()
    pieces.tell(*lines)
    data = encode(lines)
    pieces.agent.write_bytes(b"")
    for place in range(0, len(data), 97):
        with pieces.agent.open("ab") as file:
            file.write(data[place : place + 97])
        pieces.scan()
    # A line that is appended again says nothing new.
    append(pieces.agent, lines[1:4])
    pieces.scan()
    for table in ("marker", "feedback", "given_skill"):
        assert dump(whole.store)[table] == dump(pieces.store)[table]
        assert dump(whole.store)[table]


def test_a_file_that_is_written_anew_forgets_what_it_said(told: Told) -> None:
    told.tell(skill(), say("m1", GOOD))
    told.scan()
    told.tell(user("x"), say("m1", BAD))
    with closing(told.db()) as db:
        assert not markers(db)
        assert not given_skills(db)


def test_a_store_of_an_earlier_ctxtop_reads_what_is_there_again(told: Told) -> None:
    told.tell(skill(), say("m1", BAD), user(BLOCKED, isMeta=True), say("m2", GOOD))
    told.scan()
    whole = dump(told.store)
    with closing(sqlite3.connect(told.store)) as db:
        for table in ("marker", "feedback", "given_skill"):
            db.execute(f"DROP TABLE {table}")
        db.execute("CREATE TABLE _sqlite_migrations (name TEXT)")
        db.execute("PRAGMA user_version = 0")
        db.commit()
    told.scan()
    assert dump(told.store) == whole
