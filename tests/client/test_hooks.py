"""Our hooks and our status line in the real client: what it told is kept, what we say arrives."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.own_log_records import HOOK_EVENTS
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.plugin import installed_commands
from ctxtop.collectors.plugin.statusline import format_tokens
from ctxtop.collectors.plugin_files.plugin_log import HOOKS_LOG, fault_path, log_path
from ctxtop.core.measure.hook_runs import time_hooks
from ctxtop.core.policy import schema
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import config_queries, log_queries
from ctxtop.core.store.writer import Writer

from tests.log_rows import log_rows

from ..extra_feature import feature
from ..recorder import Recorder
from .features import hook_command
from .lab import LARGE, append_to

if TYPE_CHECKING:
    from pathlib import Path

    from .lab import Json, Lab

# Who subscribes to WorktreeCreate has to make the worktree.
RECORDED = sorted(HOOK_EVENTS - {"WorktreeCreate"})


def logger(lab: Lab) -> Json:
    """The lab's own hook, which ours is compared with."""
    return {"type": "command", "command": append_to(lab.hook_log)}


def record_all(lab: Lab) -> None:
    lab.write_settings(
        {
            "hooks": {
                event: [{"hooks": [logger(lab), hook_command(lab, event)]}] for event in RECORDED
            }
        }
    )


def told(lab: Lab, session_id: str) -> Counter[str]:
    lines = lab.hook_log.read_text(encoding="utf-8").splitlines()
    given = [json.loads(line) for line in lines]
    return Counter(one["hook_event_name"] for one in given if one["session_id"] == session_id)


def kept(store: Path, session_id: str) -> Counter[str]:
    with closing(open_reader(store)) as db:
        assert log_queries.bad_log_lines(db) == []
        return Counter(row.event for row in log_rows(db, "hook_event", session_id))


def faultless(lab: Lab) -> None:
    path = log_path(str(lab.store), HOOKS_LOG)
    assert not list(lab.store.parent.glob("*.logs/*.fault*")), fault_path(path)


def test_every_event_is_recorded(lab: Lab) -> None:
    record_all(lab)
    lab.define_agent("worker")
    (lab.project / "CLAUDE.md").write_text("Be brief.\n", encoding="utf-8")
    task = {"subject": "Build it", "description": "All of it", "activeForm": "Building"}
    done = {"taskId": "1", "status": "completed"}
    first = lab.turn(
        "Work. [[bash:seq 1 3&&&usage:21000]] [[read:/nowhere/at/all&&&usage:22000]]"
        f" [[tool:TaskCreate|{json.dumps(task)}&&&usage:23000]]"
        f" [[tool:TaskUpdate|{json.dumps(done)}&&&usage:24000]]"
        " [[agent:worker|Build <<say:Built.+++usage:9000>>&&&usage:25000]] [[say:ok&&&usage:26000]]"
    )
    lab.turn("/compact keep the plan", resume=first.session_id)
    lab.turn("Go on. [[error:400 messages: bad]]", resume=first.session_id)
    lab.ctxtop()

    found, asked = kept(lab.store, first.session_id), told(lab, first.session_id)
    # Without a screen the client ends, and its hooks with it, as soon as a turn has failed.
    del found["StopFailure"], asked["StopFailure"]
    assert found == asked
    assert set(found) >= {
        "InstructionsLoaded",
        "PostCompact",
        "PostToolBatch",
        "PostToolUse",
        "PostToolUseFailure",
        "PreCompact",
        "PreToolUse",
        "SessionEnd",
        "SessionStart",
        "Stop",
        "SubagentStart",
        "SubagentStop",
        "TaskCompleted",
        "TaskCreated",
        "UserPromptSubmit",
    }
    faultless(lab)


def test_an_agent_that_is_held_up_reads_the_reason_alone(lab: Lab) -> None:
    body = (
        "return None if call.fields['stop_hook_active'] else Reply(block_reason='Rule 3: too"
        " long.')"
    )
    words = [sys.executable, "-I", "-S", feature(lab.root, body), "hook", str(lab.store)]
    command = shlex.join([*words, "SubagentStop", "extra"])
    handler = {"matcher": "worker", "hooks": [{"type": "command", "command": command}]}
    lab.write_settings({"hooks": {"SubagentStop": [handler]}})
    lab.define_agent("worker")
    lab.turn(
        "Delegate. [[agent:worker|Build <<say:Built.+++usage:9000>> <<say:Short.+++usage:9500>>"
        "&&&usage:30000]] [[say:ok&&&usage:35000]]"
    )
    (path,) = lab.config.glob("projects/*/*/subagents/agent-*.jsonl")
    said = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    told = [line["message"]["content"] for line in said if line.get("isMeta")]
    assert told == ["Stop hook feedback:\nRule 3: too long."]
    answers = [line["message"]["content"] for line in said if line["type"] == "assistant"]
    assert [blocks[0]["text"] for blocks in answers] == ["Built.", "Short."]
    faultless(lab)


def bodies(lab: Lab, session_id: str, text: str) -> list[int]:
    """Count a text in each request of a session's own conversation."""
    return [
        json.dumps(exchange["body"]["messages"], ensure_ascii=False).count(text)
        for exchange in lab.exchanges
        if exchange["body"].get("stream") and session_id in json.dumps(exchange["body"])
    ]


def ask(lab: Lab, tokens: int, session_id: str | None) -> str:
    turn = lab.turn(f"Go on. [[say:ok&&&usage:{tokens}]]", resume=session_id)
    return turn.session_id


def test_the_model_is_told_at_each_threshold_once(lab: Lab) -> None:
    hook = {"hooks": [hook_command(lab, "UserPromptSubmit", "prompts")]}
    lab.write_settings({"hooks": {"UserPromptSubmit": [hook]}})
    session_id = None
    for tokens in (139_000, 145_000, 146_000, 162_000, 163_000, 164_000):
        session_id = ask(lab, tokens, session_id)
    assert session_id

    reassured, suggested = (
        bodies(lab, session_id, schema.DEFAULT_PROMPTS[action])
        for action in ("reassure", "suggest")
    )
    assert reassured == [0, 0, 1, 1, 1, 1]
    assert suggested == [0, 0, 0, 0, 1, 1]
    faultless(lab)


def test_the_model_is_told_between_tools_by_its_real_window(lab: Lab) -> None:
    hook = {"hooks": [hook_command(lab, "PostToolUse", "prompts")]}
    lab.write_settings({"hooks": {"PostToolUse": [hook]}})
    # The client writes an answer a moment after it has it: the tools take longer than that.
    small = lab.turn(
        "Work. [[bash:sleep 1&&&usage:150000]] [[bash:sleep 1.1&&&usage:165000]]"
        " [[bash:sleep 1.2&&&usage:166000]] [[say:ok&&&usage:167000]]"
    )
    large = lab.turn("Work. [[bash:sleep 1&&&usage:150000]] [[say:ok&&&usage:165000]]", model=LARGE)
    text = schema.DEFAULT_PROMPTS["suggest"]

    assert bodies(lab, small.session_id, schema.DEFAULT_PROMPTS["reassure"]) == [
        0,
        1,
        1,
        1,
    ]
    assert bodies(lab, small.session_id, text) == [0, 0, 1, 1]
    assert bodies(lab, large.session_id, "context window: work on") == [0, 0]
    faultless(lab)


def test_the_timeout_of_every_kind_of_stop_hook_is_found(lab: Lab) -> None:
    """The client records a status message in place of the command, and line ends as a sign."""
    prompt = 'Is it done?\nGiven: $ARGUMENTS [[say:{"ok": true}&&&usage:9000]]'
    asked = {"type": "prompt", "prompt": prompt, "timeout": 20}
    named = {"type": "command", "command": "true", "timeout": 21, "statusMessage": "Looking …"}
    plain = {"type": "command", "command": "true\ntrue", "timeout": 22}
    lab.write_settings({"hooks": {"Stop": [{"hooks": [asked, named, plain]}]}})
    lab.turn("Work. [[say:Done.&&&usage:21000/50]]")
    with closing(Writer(lab.store)) as writer:
        Collector(ClaudeFolder(lab.config.resolve()), writer, Recorder()).scan()
    with closing(open_reader(lab.store)) as db:
        timings = time_hooks(config_queries.hook_runs(db), config_queries.hook_handlers(db))
    assert sorted((each.timeout_ms, each.has_default_timeout) for each in timings) == [
        (20_000, False),
        (21_000, False),
        (22_000, False),
    ]


def test_the_client_notices_nothing_where_ctxtop_is_gone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/bin/python")
    handlers = {event: [{"hooks": [hook_command(lab, event, "prompts")]}] for event in RECORDED}
    monkeypatch.undo()
    lab.write_settings({"hooks": handlers})
    turn = lab.turn("Hi. [[bash:seq 1 3&&&usage:21000]] [[say:ok&&&usage:22000]]")

    assert turn.code == 0
    assert turn.said["result"] == "ok"
    lines = json.dumps(lab.transcript(turn.session_id))
    assert "hook_non_blocking_error" not in lines
    assert "hook_blocking_error" not in lines


@pytest.mark.usefixtures("terminal")
def test_our_line_stands_below_the_one_before(lab: Lab) -> None:
    before = logger(lab)["command"].replace(str(lab.hook_log), str(lab.status_log))
    command = installed_commands.statusline_command(lab.store, f"{before}; echo THEIRS")
    lab.write_settings({"statusLine": {"type": "command", "command": command}})
    screen = lab.interactive(model=LARGE)
    screen.ask("Hi. [[say:ok&&&usage:52000]]")
    screen.until(lambda: "context 5% 52k/1M" in screen.text(), "our line")

    shown = screen.text()
    assert shown.index("THEIRS") < shown.index("context 5%")
    session_id = screen.session_id
    statuses = len(lab.statuses(session_id))
    session = lab.ctxtop().sessions[session_id]
    with closing(open_reader(lab.store)) as db:
        assert len(log_rows(db, "status_snapshot", session_id)) == statuses

    # The reader has seen the session: from now on its line says where it is compacted.
    assert session.context.trigger is not None
    trigger = format_tokens(session.context.trigger.tokens or 0)
    screen.ask("And? [[say:ok&&&usage:62000]]")
    screen.until(lambda: f"context 6% 62k/1M · compacts at {trigger}" in screen.text(), "more")
    faultless(lab)
