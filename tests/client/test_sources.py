"""The other files than transcripts, and what was sent: as the real client makes them."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.transcripts.api_requests import find_sent_messages, reread_part
from ctxtop.collectors.plugin_files import plugin_log
from ctxtop.core.model.config_records import DefinitionKind
from ctxtop.core.model.context_window import ClaimSource
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import config_queries as surroundings
from ctxtop.core.store.queries import context_queries, log_queries

from tests.log_rows import log_rows

from .ledger import is_main

if TYPE_CHECKING:
    from .lab import Json, Lab
    from .ledger import Judge

# What ctxtop's own hook will do: one call of the module that the package ships.
_HOOK = """\
import os, sys
sys.path.insert(0, sys.argv[1])
import plugin_log
given = sys.stdin.buffer.read()
for path in sys.argv[4:]:
    lab = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(lab, given.strip().replace(b"\\n", b" ") + b"\\n")
sys.exit(plugin_log.append_record(sys.argv[2], sys.argv[3], given))
"""
EVENTS = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "SubagentStop", "SessionEnd")


def install(lab: Lab, store: str, *events: str) -> None:
    """Make the client write a store's plugin logs in addition to the lab's."""
    script = lab.root / "hook.py"
    script.write_text(_HOOK, encoding="utf-8")
    folder = str(Path(plugin_log.__file__).parent)

    def handler(name: str, event: str, *more: str) -> Json:
        path = plugin_log.log_path(store, name)
        words = [sys.executable, "-I", str(script), folder, path, event, *more]
        return {"type": "command", "command": shlex.join(words)}

    hooks = {event: [{"hooks": [handler(plugin_log.HOOKS_LOG, event)]}] for event in events}
    own = json.loads((lab.config / "settings.json").read_text(encoding="utf-8"))["hooks"]
    for event, groups in own.items():
        hooks.setdefault(event, []).extend(groups)
    line = handler(plugin_log.STATUS_LINE_LOG, "StatusLine", str(lab.status_log))
    lab.write_settings({"hooks": hooks, "statusLine": line})


def test_what_was_sent_is_put_together_again(lab: Lab, judge: Judge) -> None:
    (lab.project / "a.py").write_text("x = 1\n", encoding="utf-8")
    first = lab.turn(
        f"Read. [[read:{lab.project}/a.py&&&usage:21000]] [[bash:seq 1 9&&&usage:23000]]"
        " [[say:ok&&&usage:24000]]"
    )
    judge.turn(first)
    judge.turn(lab.turn("Go on. [[say:ok&&&usage:25000]]", resume=first.session_id))
    asked = [
        exchange["body"]["messages"]
        for exchange in lab.exchanges
        if is_main(exchange, first.session_id) and exchange["body"].get("stream")
    ]

    with closing(open_reader(lab.store)) as db:
        rows = context_queries.requests(db, first.session_id)
        (path,) = lab.config.glob(f"projects/*/{first.session_id}.jsonl")
        assert len(rows) == len(asked) == 4
        for row, messages in zip(rows, asked, strict=True):
            keys = context_queries.sent_messages(db, row.file_id, row.request)
            assert keys is not None
            assert len(keys) == len(messages)
            places = context_queries.request_parts(db, row.file_id, keys)
            spoken = find_sent_messages(path, set(keys) - places.keys(), row.offset)
            for key, message in zip(keys, messages, strict=True):
                place = places.get(key)
                if place:
                    kept = reread_part(path, place.offset, place.length, key)
                    assert kept is not None
                    assert kept["message"]["role"] == message["role"]
                else:
                    assert spoken[key]["role"] == message["role"]
            assert row.shape in context_queries.request_parts(db, row.file_id, [row.shape or 0])
            assert row.message_id


@pytest.mark.usefixtures("terminal")
def test_every_hook_and_snapshot_is_in_the_store_once(lab: Lab, judge: Judge) -> None:
    store = lab.root / "logged" / "ctxtop.db"
    install(lab, str(store), *EVENTS)
    lab.define_agent("worker")
    screen = lab.interactive()
    screen.ask("Hi. [[bash:seq 1 3&&&usage:21000]] [[say:ok&&&usage:22000]]")
    screen.ask("Delegate. [[agent:worker|Build it <<say:Built.+++usage:9000>>&&&usage:30000]]")
    screen.settle()
    session_id = screen.session_id
    screen.close()
    judge.turn(lab.turn("Alone. [[say:ok&&&usage:23000]]"))
    session = lab.ctxtop(store).sessions[session_id]

    with closing(open_reader(store)) as db:
        found = log_rows(db, "hook_event", session_id)
        said = Counter(event.event for event in found)
        for event in ("SessionStart", "UserPromptSubmit", "Stop", "SubagentStop"):
            assert said[event] == len(lab.hooks(event, session_id))
        assert said["PreToolUse"] >= 2
        assert {event.tool_name for event in found if event.event == "PreToolUse"} >= {"Bash"}
        snapshots = log_rows(db, "status_snapshot", session_id)
        assert snapshots
        assert snapshots[-1].window_tokens == 200_000
        assert all(snapshot.used_percentage is not None for snapshot in snapshots[1:])
        assert log_queries.bad_log_lines(db) == []
    window = session.context.window
    assert (window.tokens, window.source) == (200_000, ClaimSource.STATUS_LINE)


def test_settings_and_definitions_are_those_that_the_client_takes(lab: Lab, judge: Judge) -> None:
    lab.define_agent("worker", model="opus")
    lab.define_skill("polish", "Polish it.")
    local = lab.project / ".claude"
    (local / "agents").mkdir(parents=True)
    (local / "agents" / "helper.md").write_text(
        "---\nname: helper\ndescription: helps\nskills: polish\n---\nYou help.\n", encoding="utf-8"
    )
    (local / "settings.json").write_text('{"autoCompactWindow": 150000}', encoding="utf-8")
    lab.write_settings({"env": {"MY_SECRET": "hush"}, "autoCompactEnabled": False})
    turn = lab.turn("Hi. [[say:ok&&&usage:22000]]")
    judge.turn(turn)
    listed = json.dumps([exchange["body"] for exchange in turn.exchanges])

    with closing(open_reader(lab.store)) as db:
        definitions = surroundings.definitions(db)
        names = {each.name for each in definitions if each.kind is DefinitionKind.AGENT}
        assert names == {"worker", "helper"}
        assert all(f"- {name}: " in listed for name in names)
        values = {
            key: value
            for file in surroundings.settings_files(db)
            for key, value in file.values.items()
        }
        assert values["autoCompactWindow"] == 150_000
        assert values["autoCompactEnabled"] is False
    assert b"hush" not in lab.store.read_bytes()


def test_a_fork_shares_its_answers_with_its_parent(lab: Lab, judge: Judge) -> None:
    first = lab.turn("Hi. [[say:ok&&&usage:22000]]")
    judge.turn(first)
    fork = lab.turn(
        "And you? [[say:ok&&&usage:23000]]", resume=first.session_id, more=("--fork-session",)
    )
    judge.turn(fork, resumed=first.session_id)

    with closing(open_reader(lab.store)) as db:
        found = {each.session_id: each.forked_from for each in read_sessions(db, 0)}
    assert found[fork.session_id] == first.session_id
    assert fork.session_id != first.session_id
