"""Holding an agent up once: the answer at SubagentStop, and all the doubts in which it goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.plugin.answers import enforce
from ctxtop.collectors.plugin.answers.enforce import (
    answer,
    find_preloaded_skills,
    read_last_message,
    was_blocked_before,
)
from ctxtop.collectors.plugin.hook_answer import HookCall
from ctxtop.core.files.safe_open import open_regular

from ..transcripts import PROJECT, SESSION, JsonLine, assistant, text, tool_result, user, write
from ..trusted_files import write_trusted

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import BinaryIO

GOOD = "[COMPRESSED] agent_type: worker\nChanged files: a.ts\nResult: ok"
BAD = "I built it, and this is how."


def say(message: str, words: str) -> JsonLine:
    return assistant(message, content=[text(words)])


def skill(name: str = "compress-output") -> JsonLine:
    head = f"<command-message>{name}</command-message>\n<command-name>{name}</command-name>"
    return user([text(head), text("Base directory for this skill: /x\n\nDo.")], isMeta=True)


BLOCK = user("Stop hook feedback:\n[check]: again", isMeta=True)


class Stop:
    """A config folder and a project, and an agent that wants to stop."""

    def __init__(self, root: Path) -> None:
        self.config = root / "claude"
        self.project = root / "project"
        self.session = self.config / "projects" / PROJECT / f"{SESSION}.jsonl"
        self.agent = self.session.with_suffix("") / "subagents" / "agent-a1.jsonl"
        self.project.mkdir()
        self.store = root / "ctxtop.db"
        self.install(self.config)
        self.tell(user("Build it"), skill(), say("m1", BAD))

    def tell(self, *lines: JsonLine | bytes) -> None:
        write(self.agent, lines)

    def define(self, place: Path, *skills: str, name: str = "worker") -> None:
        place.mkdir(parents=True, exist_ok=True)
        listed = "".join(f"\n  - {each}" for each in skills)
        head = f"---\nname: {name}\ndescription: works\nskills:{listed}\n---\nWork.\n"
        (place / f"{name}.md").write_text(head, encoding="utf-8")

    def install(self, place: Path) -> None:
        folder = place / "skills" / "compress-output"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("Begin with [COMPRESSED].\n", encoding="utf-8")

    def given(self, **fields: object) -> dict[str, Any]:
        return {
            "hook_event_name": "SubagentStop",
            "session_id": SESSION,
            "transcript_path": str(self.session),
            "cwd": str(self.project),
            "agent_id": "a1",
            "agent_type": "worker",
            "agent_transcript_path": str(self.agent),
            "stop_hook_active": False,
            "last_assistant_message": BAD,
        } | fields

    def asked(self, **fields: object) -> str:
        """Return the reason why the agent is blocked; empty if it may stop."""
        reply = answer(HookCall("SubagentStop", self.given(**fields), self.store, 0))
        return reply.block_reason if reply else ""


@pytest.fixture
def stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stop:
    for name in ("CLAUDE_PROJECT_DIR", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    stop = Stop(tmp_path)
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(stop.project))
    return stop


def test_the_reason_is_short_and_says_what_to_do(stop: Stop) -> None:
    said = stop.asked()
    assert "V01: No line starts with the marker." in said
    assert "agent_type: worker" in said
    assert "at most 10 lines" in said
    assert len(said.split("\n")) <= 5
    assert "[COMPRESSED]" not in said


def test_a_reason_never_holds_the_marker_that_it_quotes(stop: Stop) -> None:
    said = stop.asked(last_assistant_message=GOOD.replace("worker", "other") + "\n## More\n```")
    assert "Line 1: the marker agent_type: other" in said
    assert "[COMPRESSED]" not in said


def test_a_review_is_told_the_review_s_format(stop: Stop) -> None:
    stop.tell(user("Review it"), skill("team:compress-review"), say("m1", BAD))
    said = stop.asked()
    assert "compress-review" in said
    assert "at most 20 lines" in said


@pytest.mark.parametrize(
    "fields",
    [
        {"last_assistant_message": GOOD},
        {"stop_hook_active": True},
        {"stop_hook_active": None},
        {"agent_type": ""},
        {"agent_type": 7},
        {"agent_transcript_path": None},
        {"agent_transcript_path": "/nowhere/agent.jsonl"},
        {"agent_transcript_path": "a\0b"},
    ],
    ids=str,
)
def test_in_these_cases_it_goes(stop: Stop, fields: dict[str, object]) -> None:
    assert stop.asked(**fields) == ""


@pytest.mark.parametrize("preset", ["default", "clnode"])
def test_a_type_that_only_has_the_name_of_a_reviewer_goes(stop: Stop, preset: str) -> None:
    write_trusted(stop.project, f'[policy]\npreset = "{preset}"\n')
    stop.tell(user("Review it"), say("m1", BAD))
    assert stop.asked(agent_type="reviewer") == ""


def test_another_event_is_none_of_ours(stop: Stop) -> None:
    assert answer(HookCall("Stop", stop.given(), stop.store, 0)) is None


def test_nobody_is_held_up_twice(stop: Stop) -> None:
    stop.tell(user("Build it"), skill(), say("m1", BAD), BLOCK, say("m2", BAD))
    assert stop.asked() == ""


def test_words_that_only_look_like_a_block_are_none(stop: Stop) -> None:
    said = "Stop hook feedback:\n[check]: again"
    stop.tell(user(said), skill(), say("m1", said), tool_result("t", said, {}))
    assert not was_blocked_before(stop.agent)
    assert stop.asked()


def test_without_a_message_the_transcript_s_end_is_judged(stop: Stop) -> None:
    assert stop.asked(last_assistant_message=None)
    stop.tell(skill(), say("m1", BAD), say("m2", GOOD))
    assert stop.asked(last_assistant_message=None) == ""
    stop.tell(skill())
    assert stop.asked(last_assistant_message=None) == ""


def test_the_last_words_are_all_blocks_of_the_last_message(stop: Stop) -> None:
    tool_use = [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]
    stop.tell(
        say("m1", "before"), say("m2", "one"), say("m2", "two"), assistant("m3", content=tool_use)
    )
    assert read_last_message(stop.agent) == "one\ntwo"


def test_skills_taken_later_do_not_count(stop: Stop) -> None:
    stop.tell(user("Build it"), say("m1", "Let me see."), skill(), say("m2", BAD))
    assert find_preloaded_skills(stop.agent) == []
    assert stop.asked() == ""


def test_the_user_s_and_the_project_s_definitions(stop: Stop) -> None:
    stop.tell(user("Build it"), say("m1", BAD))
    assert stop.asked() == ""
    stop.define(stop.config / "agents" / "team", "compress-output")
    assert stop.asked()
    # The project's wins, and it does not ask for it.
    stop.define(stop.project / ".claude" / "agents", "other")
    assert stop.asked() == ""
    stop.define(stop.project / ".claude" / "agents", "compress-output")
    assert stop.asked()


def test_a_declared_skill_that_is_not_installed_asks_for_nothing(stop: Stop) -> None:
    stop.tell(user("Build it"), say("m1", BAD))
    stop.define(stop.config / "agents", "compress-output")
    shutil.rmtree(stop.config / "skills")
    assert stop.asked() == ""
    stop.install(stop.project / ".claude")
    assert stop.asked()
    shutil.rmtree(stop.project / ".claude")
    kit = stop.config / "skills" / "kit"
    stop.install(kit)
    assert stop.asked() == ""
    (kit / ".claude-plugin").mkdir()
    (kit / ".claude-plugin" / "plugin.json").write_text('{"name": "kit"}', encoding="utf-8")
    assert stop.asked()
    stop.define(stop.config / "agents", "team:compress-output")
    assert stop.asked() == ""
    stop.define(stop.config / "agents", "kit:compress-output")
    assert stop.asked()


def test_another_agent_s_definition_is_not_its_own(stop: Stop) -> None:
    stop.tell(user("Build it"), say("m1", BAD))
    stop.define(stop.config / "agents", "compress-output", name="other")
    assert stop.asked() == ""


def test_a_plugin_s_definition(stop: Stop) -> None:
    stop.tell(user("Build it"), say("m1", BAD))
    place = stop.config / "plugins" / "cache" / "team"
    stop.define(place / "agents", "compress-output")
    assert stop.asked(agent_type="team:worker") == ""
    listed = {
        "version": 2,
        "plugins": {"team@shop": [{"scope": "user", "installPath": str(place)}]},
    }
    path = stop.config / "plugins" / "installed_plugins.json"
    path.write_text(json.dumps(listed), encoding="utf-8")
    assert "agent_type: team:worker" in stop.asked(agent_type="team:worker")
    assert stop.asked(agent_type="other:worker") == ""


def test_a_definition_that_cannot_be_used_declares_nothing(stop: Stop) -> None:
    stop.tell(user("Build it"), say("m1", BAD))
    place = stop.config / "agents"
    place.mkdir()
    (place / "worker.md").write_text("---\nname: worker\nskills: [compress-output", "utf-8")
    assert stop.asked() == ""


def test_the_policy_of_the_project_holds(stop: Stop) -> None:
    write_trusted(stop.project, '[compliance]\nmode = "off"\n')
    assert stop.asked() == ""
    write_trusted(stop.project, "[compliance]\nline_limit = 2\n")
    assert "V05" in stop.asked(last_assistant_message=GOOD)
    assert "3 lines, 2 allowed" in stop.asked(last_assistant_message=GOOD)


def test_the_mode_whole_transcript_lets_go_who_has_said_the_marker(stop: Stop) -> None:
    write_trusted(stop.project, '[compliance]\nmode = "whole_transcript"\n')
    # What the agent was given, and what tools returned, are no answers of its own.
    given = "Begin with [COMPRESSED]."
    told = user([text("<command-name>compress-output</command-name>"), text(given)], isMeta=True)
    read = tool_result("toolu_1", given, {})
    stop.tell(user(f"Return it. {given}"), told, read, say("m1", BAD))
    assert "V01" in stop.asked()
    stop.tell(user("Build it"), skill(), say("m1", GOOD), say("m2", BAD))
    assert stop.asked() == ""
    # The client writes the last message a moment later.
    stop.tell(user("Build it"), skill())
    assert stop.asked(last_assistant_message=f"Done.\n{GOOD}") == ""


def test_links_are_not_followed(stop: Stop) -> None:
    real = stop.agent.rename(stop.agent.with_name("elsewhere.jsonl"))
    stop.agent.symlink_to(real)
    with pytest.raises(OSError, match=r".+"):
        stop.asked()


def test_the_definitions_are_not_looked_for_on_the_whole_disk(
    stop: Stop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop.tell(user("Build it"), say("m1", BAD))
    stop.define(tmp_path / "outside", "compress-output")
    claude = stop.project / ".claude"
    claude.mkdir()
    looked: list[str] = []
    scandir = os.scandir

    def counted(path: str) -> object:
        looked.append(str(path))
        return scandir(path)

    monkeypatch.setattr("ctxtop.collectors.plugin.answers.enforce.os.scandir", counted)
    for target in ("/", tmp_path / "outside"):
        (claude / "agents").symlink_to(target)
        assert stop.asked() == ""
        (claude / "agents").unlink()
    (claude / "agents").mkdir()
    (claude / "agents" / "disk").symlink_to("/")
    (claude / "agents" / "worker.md").symlink_to(tmp_path / "outside" / "worker.md")
    os.mkfifo(claude / "agents" / "pipe.md")
    assert stop.asked() == ""
    assert set(looked) == {str(claude / "agents"), str(stop.config / "agents")}
    # A link inside of the project is followed, as the client does.
    (claude / "agents" / "worker.md").unlink()
    stop.define(stop.project / "shared", "compress-output")
    (claude / "agents" / "own").symlink_to(stop.project / "shared")
    assert "V01" in stop.asked()


def test_a_search_for_definitions_ends(stop: Stop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enforce, "MAX_ENTRIES", 50)
    read: list[str] = []
    opened = open_regular

    def counted(path: Path) -> AbstractContextManager[BinaryIO]:
        read.append(str(path))
        return opened(path)

    monkeypatch.setattr(enforce, "open_regular", counted)
    agents = stop.project / ".claude" / "agents"
    for number in range(400):
        stop.define(agents / str(number % 7), name=f"a{number}")
    (agents / "again").symlink_to(stop.project)
    stop.tell(user("Build it"), say("m1", BAD))
    assert stop.asked() == ""
    assert 0 < len(read) <= 50
    monkeypatch.setattr(enforce, "MAX_ENTRIES", 10_000)
    monkeypatch.setattr(enforce, "MAX_TOTAL_BYTES", 1000)
    read.clear()
    assert stop.asked() == ""
    assert 0 < len(read) < 50


def test_a_good_result_is_judged_without_what_takes_long() -> None:
    code = (
        "import sys, ctxtop.collectors.plugin.answers.enforce\n"
        "print(*sorted({'msgspec','sqlite_utils','textual','yaml','sqlite3','tomllib','inspect'}"
        " & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == []


def test_a_transcript_that_is_not_written_yet_says_nothing(stop: Stop) -> None:
    stop.define(stop.config / "agents", "compress-output")
    stop.agent.unlink()
    assert "V01" in stop.asked()
    assert stop.asked(last_assistant_message=GOOD) == ""
    assert stop.asked(last_assistant_message="") == ""
