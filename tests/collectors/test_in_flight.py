"""What a session is at: its open tool calls and whose turn it is, however the lines come."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.model.session_activity import Activity, ActivityKind, WaitingFor, WaitingKind
from ctxtop.core.model.transcript_records import LiveSession
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader

from ..logs import line as log_line
from ..logs import lines, log_file
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    append,
    assistant,
    encode,
    launch,
    launched,
    notification,
    notification_text,
    refusal,
    text,
    tool,
    tool_result,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.store.writer import Writer

CALL = assistant(
    "m1", content=[text("look"), tool("Bash", "t1", command="make  test\x1b[31m")], at=2
)
RESULT = tool_result("t1", "ok", {}, at=3)


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def doing(store: Path, now_s: int = 60) -> Activity | None:
    with closing(open_reader(store)) as db:
        (found,) = read_sessions(db, START_MS + now_s * 1000)
        return found.activity


def registered(writer: Writer, status: str, at: int = 0, waiting_for: str | None = None) -> None:
    writer.save_open_sessions(
        [LiveSession(SESSION, 7, status, None, None, START_MS + at * 1000, waiting_for)]
    )


def test_a_turn_as_it_is_written(path: Path, collector: Collector, store: Path) -> None:
    steps: list[tuple[JsonLine, Activity | None]] = [
        (user(at=1), Activity(ActivityKind.MODEL, "", since=START_MS + 1000)),
        (CALL, Activity(ActivityKind.TOOL, "Bash", "make test[31m", START_MS + 2000)),
        (RESULT, Activity(ActivityKind.MODEL, "", since=START_MS + 3000)),
        (assistant("m2", at=4), None),
    ]
    write(path, [])
    for added, expected in steps:
        append(path, [added])
        collector.scan()
        assert doing(store) == expected


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ([], "Bash"),
        ([RESULT], None),
        ([assistant("m2", at=4)], None),
        ([user("go on", at=4)], None),
        ([user("[Request interrupted by user for tool use]", at=4)], None),
        ([refusal("Prompt is too long", at=4)], None),
        ([assistant("m1", content=[tool("Read", "t2", file_path="/a")], at=2)], "Read"),
        ([assistant("m1", content=[tool("Read", "t2", file_path="/a")], at=2), RESULT], "Read"),
        ([user("<local-command-stdout>x</local-command-stdout>", at=4)], "Bash"),
        ([user("aside", at=4, isSidechain=True)], "Bash"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_what_ends_a_call(
    path: Path,
    collector: Collector,
    store: Path,
    more: list[JsonLine],
    what: str | None,
    at_once: bool,
) -> None:
    if at_once:
        write(path, [user(), CALL, *more])
        collector.scan()
    else:
        write(path, [])
        for added in (user(), CALL, *more):
            append(path, [added])
            collector.scan()

    found = doing(store)
    assert (found.what if found and found.kind is ActivityKind.TOOL else None) == what


def test_a_file_that_begins_anew_has_no_old_calls(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(), CALL])
    collector.scan()
    write(path, [user("begin again, with other words in it", at=5)])
    collector.scan()

    found = doing(store)
    assert found is not None
    assert found.kind is ActivityKind.MODEL


def test_a_task_that_reports_asks_the_model(path: Path, collector: Collector, store: Path) -> None:
    write(path, [user(), assistant(at=2), notification("a1", "[COMPRESSED]", at=7)])
    collector.scan()

    assert doing(store) == Activity(ActivityKind.MODEL, "", since=START_MS + 7000)


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        ({"file_path": "/a b", "old_string": "x"}, "/a b"),
        ({"pattern": "x+", "path": "/p"}, "x+"),
        ({"description": "Find it", "prompt": "long " * 900, "subagent_type": "x"}, "Find it"),
        ({"odd": {"x": 1}, "other": "its words"}, "its words"),
        ({"command": "\u202eevil\n\n two"}, "evil two"),
        ({"command": "x" * 900}, "x" * 200),
        ({"command": 7}, ""),
        ({}, ""),
    ],
)
def test_what_tells_a_call_from_others(
    path: Path, collector: Collector, store: Path, asked: dict[str, Any], detail: str
) -> None:
    write(path, [user(), assistant(content=[tool("Any", "t9", **asked)], at=2)])
    collector.scan()

    found = doing(store)
    assert found is not None
    assert (found.what, found.detail) == ("Any", detail)


def test_an_ended_session_does_nothing(path: Path, collector: Collector, store: Path) -> None:
    write(path, [user(), CALL])
    collector.scan()

    assert doing(store, now_s=3600) is None


def test_the_registry_knows_who_waits(
    path: Path, collector: Collector, store: Path, writer: Writer
) -> None:
    write(path, [user(at=1), CALL])
    collector.scan()
    registered(writer, "waiting", at=3, waiting_for="permission prompt")
    detail = "Bash: make test[31m"
    waits = Activity(ActivityKind.PERSON, "permission prompt", detail, START_MS + 3000)
    assert doing(store, 3600) == waits

    registered(writer, "busy", at=4)
    assert doing(store, 3600) == Activity(
        ActivityKind.TOOL, "Bash", "make test[31m", START_MS + 2000
    )
    # Its word is newer than the transcript's, which was cut off.
    registered(writer, "idle", at=9)
    assert doing(store, 3600) is None
    # Clients before 2.1.112 say nothing of it.
    registered(writer, "idle", at=1)
    assert doing(store, 3600) is not None


def test_a_busy_client_without_words_waits_for_the_model(
    path: Path, collector: Collector, store: Path, writer: Writer
) -> None:
    write(path, [user(), assistant(at=2)])
    collector.scan()
    registered(writer, "busy", at=5)

    assert doing(store) == Activity(ActivityKind.MODEL, "", since=START_MS + 5000)


def test_a_question_waits_for_a_person(path: Path, collector: Collector, store: Path) -> None:
    asked = {"questions": [{"question": "Which one?"}]}
    write(path, [user(), assistant(content=[tool("AskUserQuestion", "t1", **asked)], at=2)])
    collector.scan()

    found = doing(store)
    assert found is not None
    assert (found.kind, found.what) == (ActivityKind.PERSON, "an answer")


@pytest.mark.parametrize(
    ("event", "more", "asks"),
    [
        ("PermissionRequest", {"tool_name": "Bash"}, True),
        ("Notification", {"notification_type": "permission_prompt"}, True),
        ("Notification", {"notification_type": "idle_prompt"}, False),
        ("PostToolUse", {"tool_name": "Bash"}, False),
    ],
)
def test_hooks_tell_of_a_permission_that_is_asked_for(
    path: Path,
    collector: Collector,
    store: Path,
    event: str,
    more: dict[str, Any],
    asks: bool,
) -> None:
    write(path, [user(), CALL])
    told = log_line(START_MS + 2500, session_id=SESSION, hook_event_name=event, **more)
    log_file(store).write_bytes(lines([told]))
    collector.scan()

    found = doing(store)
    assert found is not None
    assert (found.kind is ActivityKind.PERSON) is asks
    if asks:
        assert found == Activity(
            ActivityKind.PERSON, "permission", "Bash: make test[31m", START_MS + 2500
        )
        # It was granted: the tool's result is newer.
        append(path, [RESULT])
        collector.scan()
        assert doing(store) == Activity(ActivityKind.MODEL, "", since=START_MS + 3000)


def test_calls_of_one_answer_end_one_by_one(path: Path, collector: Collector, store: Path) -> None:
    first = assistant("m1", content=[tool("Bash", "t1", command="a")], at=2)
    second = assistant("m1", content=[tool("Bash", "t2", command="b")], at=3)
    write(path, [user(), first, second, tool_result("t2", "ok", {}, at=4)])
    collector.scan()
    found = doing(store)
    assert found is not None
    assert found.detail == "a"


def test_a_line_that_is_half_written_changes_nothing(
    path: Path, collector: Collector, store: Path
) -> None:
    whole = encode([CALL])
    write(path, [user(at=1)])
    with path.open("ab") as file:
        file.write(whole[:-30])
    collector.scan()
    assert doing(store) == Activity(ActivityKind.MODEL, "", since=START_MS + 1000)
    with path.open("ab") as file:
        file.write(whole[-30:])
    collector.scan()
    found = doing(store)
    assert found is not None
    assert found.what == json.loads(whole)["message"]["content"][1]["name"]


# What it waits for


def waiting(store: Path) -> WaitingFor | None:
    with closing(open_reader(store)) as db:
        (found,) = read_sessions(db, START_MS + 60_000)
        return found.waiting_for


@pytest.mark.parametrize(
    ("name", "given", "words", "expected"),
    [
        (
            "Bash",
            {"description": "Clean", "command": "rm -rf\nbuild\x1b[2J"},
            "permission prompt",
            (WaitingKind.PERMISSION, "Bash", "rm -rf build[2J"),
        ),
        (
            "AskUserQuestion",
            {"questions": [{"question": "Which database?"}, {"question": "Why?"}]},
            "input needed",
            (WaitingKind.QUESTION, "AskUserQuestion", "Which database? (and 1 more)"),
        ),
        (
            "AskUserQuestion",
            {"questions": [7, {"question": 8}, {"question": " "}]},
            "input needed",
            (WaitingKind.QUESTION, "AskUserQuestion", ""),
        ),
        (
            "ExitPlanMode",
            {"plan": "Do it"},
            "input needed",
            (WaitingKind.PLAN, "ExitPlanMode", ""),
        ),
        ("Task", {}, "worker request", (WaitingKind.OTHER, "", "worker request")),
    ],
)
def test_what_is_waited_for(
    path: Path,
    collector: Collector,
    store: Path,
    writer: Writer,
    name: str,
    given: dict[str, Any],
    words: str,
    expected: tuple[WaitingKind, str, str],
) -> None:
    write(path, [user(at=1), assistant(content=[tool(name, "t1", **given)], at=2)])
    collector.scan()
    registered(writer, "waiting", at=3, waiting_for=words)
    assert waiting(store) == WaitingFor(*expected, since=START_MS + 3000)


def test_who_is_at_work_waits_for_nobody(
    path: Path, collector: Collector, store: Path, writer: Writer
) -> None:
    write(path, [user(at=1), CALL])
    collector.scan()
    registered(writer, "busy", at=4)
    assert waiting(store) is None


def background(store: Path, now_s: int = 60) -> tuple[str, str | None]:
    with closing(open_reader(store)) as db:
        (found,) = read_sessions(db, START_MS + now_s * 1000)
    is_background = found.activity is not None and found.activity.kind is ActivityKind.BACKGROUND
    return found.status.value, found.activity.what if found.activity and is_background else None


def stop(at: int, *kinds: str) -> bytes:
    tasks = [{"id": f"b{n}", "type": kind, "status": "running"} for n, kind in enumerate(kinds)]
    fields = {"hook_event_name": "Stop", "session_id": SESSION, "background_tasks": tasks}
    return log_line(START_MS + at * 1000, **fields)


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ((), ("idle", None)),
        (("shell",), ("background", "shell")),
        (("subagent", "shell", "monitor"), ("background", "subagent and 2 more")),
    ],
)
def test_what_the_stop_hook_lists_keeps_a_session_from_being_idle(
    path: Path,
    collector: Collector,
    store: Path,
    writer: Writer,
    kinds: tuple[str, ...],
    found: tuple[str, str | None],
) -> None:
    write(path, [user(), assistant("m2", at=4)])
    log_file(store).write_bytes(lines([stop(5, *kinds)]))
    collector.scan()
    registered(writer, "idle", at=6)
    assert background(store) == found
    # The next prompt begins a turn, which ends with a list of its own.
    asked = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION}
    log_file(store).write_bytes(lines([stop(5, *kinds), log_line(START_MS + 7_000, **asked)]))
    collector.scan()
    registered(writer, "busy", at=7)
    assert background(store) == ("busy", None)


def test_a_shell_in_the_background_is_told_by_the_registry(
    path: Path, collector: Collector, store: Path, writer: Writer
) -> None:
    write(path, [user(), assistant("m2", at=4)])
    collector.scan()
    entry = LiveSession(SESSION, 7, "idle", None, None, START_MS + 6_000, has_shell=True)
    writer.save_open_sessions([entry])
    assert background(store) == ("background", "shell")
    registered(writer, "idle", at=6)
    assert background(store) == ("idle", None)


@pytest.mark.parametrize(
    ("more", "now_s", "found"),
    [
        ([], 60, ("background", "agent")),
        ([], 3_600, ("idle", None)),
        ([user(notification_text("w1", "found it"), at=5)], 60, ("idle", None)),
    ],
)
def test_an_agent_that_runs_in_the_background_keeps_its_session_from_being_idle(
    path: Path,
    collector: Collector,
    store: Path,
    writer: Writer,
    more: list[JsonLine],
    now_s: int,
    found: tuple[str, str | None],
) -> None:
    write(path, [user(), launch("t1", at=1), launched("t1", "w1", at=2)])
    append(path, [assistant("m2", at=3), *more, *([assistant("m3", at=6)] if more else [])])
    write(path.with_suffix("") / "subagents" / "agent-w1.jsonl", [user(at=3, isSidechain=True)])
    collector.scan()
    registered(writer, "idle", at=9)
    assert background(store, now_s) == found
