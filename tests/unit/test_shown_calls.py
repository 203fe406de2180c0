"""A prompt shows one call of the transcript, or it is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.terminal.pending_calls import read_pending_calls
from ctxtop.collectors.terminal.permission_prompt import (
    PermissionPrompt,
    PromptRefusedError,
    read_permission_prompt,
)
from ctxtop.collectors.terminal.shown_calls import find_shown_call
from msgspec.structs import replace

from ..transcripts import assistant, user, write
from .recorded_prompts import CWD, change, screen_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Call = tuple[str, dict[str, Any]]

LINES: Final = [f"l{number}" for number in range(1, 21)]
CHANGED: Final = ["ONE", *LINES[1:10], "between", *LINES[11:]]
CELLS: Final = [{"id": name, "source": ["x = 1\n", "y"]} for name in ("kept", "gone")]


def text_of(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the client worked."""
    path = tmp_path / "project"
    path.mkdir()
    (path / "old.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (path / "over.txt").write_text(text_of(LINES), encoding="utf-8")
    (path / "edit.txt").write_text(text_of(LINES), encoding="utf-8")
    (path / "n.ipynb").write_text(json.dumps({"cells": CELLS}), encoding="utf-8")
    return path


def read(name: str, folder: Path) -> PermissionPrompt:
    screen = screen_of(name)
    return read_permission_prompt(replace(screen, text=screen.text.replace(CWD, str(folder))))


def call_in(folder: Path, call: Call) -> Call:
    tool, given = call
    return tool, json.loads(json.dumps(given).replace(CWD, str(folder)))


@pytest.fixture
def transcript(tmp_path: Path) -> Callable[..., Path]:
    def make(*calls: Call, name: str = "session.jsonl") -> Path:
        uses = [
            {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": given}
            for number, (tool, given) in enumerate(calls)
        ]
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        answer = json.loads(json.dumps(assistant()))
        answer["message"]["content"] = uses
        write(path, [user(), answer])
        return path

    return make


def bash(command: str, description: str = "Run it", **more: object) -> Call:
    return "Bash", {"command": command, "description": description} | more


def write_file(name: str, content: str) -> Call:
    return "Write", {"file_path": f"{CWD}/{name}", "content": content}


def edit(name: str, old: str, new: str, **more: object) -> Call:
    return "Edit", {"file_path": f"{CWD}/{name}", "old_string": old, "new_string": new} | more


def edit_cell(cell_id: str, source: str, **more: object) -> Call:
    given = {"notebook_path": f"{CWD}/n.ipynb", "cell_id": cell_id, "new_source": source}
    return "NotebookEdit", given | more


def search(query: str, **more: object) -> Call:
    return "WebSearch", {"query": query} | more


def skill(name: str) -> Call:
    return "Skill", {"skill": name, "args": "Ann"}


def agent(description: str) -> Call:
    return "Agent", {"description": description, "prompt": "Look around."}


def read_lines(path: str, **more: object) -> Call:
    return "Read", {"file_path": path} | more


def monitor(command: str) -> Call:
    return "Monitor", {"command": command, "description": "Look", "persistent": False}


MADE: Final = bash("mkdir -p build && touch build/made")
MANY_LINES: Final = "cat > a.txt <<'XX'\nline one\n  line two\n❯ 1. Yes\n╌╌╌╌\nXX\nrm -rf build"
WORDS: Final = "mkdir " + " ".join(f"word{number}" for number in range(60))
LONG_URL: Final = f"http://127.0.0.1:1/{'a' * 66}/x"
FETCHED: Final = "what is it about, and then tell me many words so that it wraps\nurl: http://other"
ITEM: Final = {
    "item": "tea",
    "note": "a\n  b",
    "who": {"a-b": [1, None]},
    "due": "2026-11-24T10:00:00Z",
}
WHAT: Final = "what " * 32


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("bash", MADE),
        ("bash_many_lines", bash(MANY_LINES, f"Clean up\n{'╌' * 12}\n ls")),
        ("bash_narrow", bash(WORDS)),
        ("no_description", bash("touch zz", "", timeout=3000)),
        ("create", write_file("notes.txt", "one\n  two\nthree")),
        ("create", ("Write", {"file_path": "notes.txt", "content": "one\n  two\nthree\n"})),
        ("create_empty", write_file("empty.txt", "")),
        ("overwrite_80", write_file("over.txt", text_of(CHANGED))),
        ("overwrite_200", write_file("over.txt", text_of(CHANGED))),
        ("overwrite_same", write_file("edit.txt", text_of(LINES))),
        ("edit", edit("old.txt", "two", "TWO")),
        ("edit_hunks", edit("edit.txt", "\n".join(LINES), "\n".join(CHANGED))),
        ("edit_places_80", edit("edit.txt", "l1", "line 1", replace_all=True)),
        ("edit_places_200", edit("edit.txt", "l1", "line 1", replace_all=True)),
        ("cell_80", edit_cell("kept", "x = 2\ny")),
        ("cell_200", edit_cell("kept", "x = 2\ny")),
        ("cell_insert", edit_cell("kept", "# New", edit_mode="insert", cell_type="markdown")),
        ("cell_delete", edit_cell("gone", "", edit_mode="delete")),
        ("read", read_lines("/etc/hostname")),
        ("read_lines", read_lines("/home/me/outside.txt", offset=2)),
        ("fetch", ("WebFetch", {"url": LONG_URL, "prompt": FETCHED})),
        ("web_search_80", search(WHAT, blocked_domains=["a.org"])),
        ("web_search_200", search(WHAT, blocked_domains=["a.org"])),
        ("mcp_80", ("mcp__shop__price", ITEM)),
        ("mcp_200", ("mcp__shop__price", ITEM)),
        ("mcp_nothing_80", ("mcp__shop__stock", {})),
        ("mcp_nothing_200", ("mcp__shop__stock", {})),
        ("skill_80", skill("greet")),
        ("skill_200", skill("greet")),
        ("agent_call", agent("Look")),
        ("monitor", monitor("touch seen")),
    ],
)
def test_a_prompt_shows_its_call(
    transcript: Callable[..., Path], folder: Path, name: str, call: Call
) -> None:
    other = bash("ls", "List")
    expected = call_in(folder, call)
    found = find_shown_call(read(name, folder), transcript(other, expected), str(folder))
    assert (found.tool_use_id, found.tool, dict(found.input)) == ("toolu_1", *expected)


OTHER: Final = (
    "does not match the tool call that is pending in the transcript: answer it in its terminal"
)


@pytest.mark.parametrize(
    ("name", "call", "why"),
    [
        ("bash", bash("mkdir -p build"), OTHER),
        ("bash", bash(MADE[1]["command"], "Something else"), OTHER),
        ("bash", ("PowerShell", MADE[1]), "cannot verify a prompt for PowerShell: answer it in"),
        ("create", ("Write", {"file_path": "notes.txt", "content": "one\ntwo"}), OTHER),
        # Of the changes of another call a part is not shown, or more is shown.
        ("overwrite_80", write_file("over.txt", text_of([*CHANGED, "more"])), OTHER),
        ("overwrite_80", write_file("over.txt", text_of([*CHANGED[:6], *CHANGED[7:]])), OTHER),
        ("overwrite_80", write_file("over.txt", text_of([*LINES[:10], *CHANGED[10:]])), OTHER),
        ("overwrite_80", write_file("edit.txt", text_of(CHANGED)), OTHER),
        ("overwrite_same", write_file("edit.txt", text_of(CHANGED)), OTHER),
        ("edit", edit("old.txt", "one", "ONE"), OTHER),
        ("edit", edit("old.txt", "w", "W"), OTHER),
        ("edit", edit("new.txt", "two", "TWO"), OTHER),
        ("edit", edit("../old.txt", "two", "TWO"), OTHER),
        ("edit_places_80", edit("edit.txt", "l1", "line 1"), OTHER),
        ("edit_places_80", edit("edit.txt", "l", "line ", replace_all=True), OTHER),
        ("edit_places_80", edit("edit.txt", "l1", "row 1", replace_all=True), OTHER),
        ("cell_80", edit_cell("kept", "x = 2\nz"), OTHER),
        ("cell_80", edit_cell("gone", "x = 2\ny"), OTHER),
        ("cell_80", edit_cell("none", "x = 2\ny"), OTHER),
        ("cell_insert", edit_cell("kept", "# New", edit_mode="insert", cell_type="code"), OTHER),
        ("cell_insert", edit_cell("kept", "# Old", edit_mode="insert"), OTHER),
        ("cell_delete", edit_cell("kept", "", edit_mode="delete"), OTHER),
        ("read_lines", read_lines("/home/me/outside.txt", offset=3), OTHER),
        ("read_lines", read_lines("/home/me/outside.txt"), OTHER),
        ("web_search_80", search(WHAT), OTHER),
        ("web_search_80", search(f"{WHAT} else", blocked_domains=["a.org"]), OTHER),
        ("mcp_80", ("mcp__shop__price", ITEM | {"item": "coffee"}), OTHER),
        ("mcp_80", ("mcp__shop__price", ITEM | {"more": 1}), OTHER),
        ("mcp_80", ("mcp__shop__price", {"item": "tea"}), OTHER),
        ("mcp_80", ("mcp__shop__stock", ITEM), OTHER),
        ("mcp_nothing_80", ("mcp__shop__stock", {"item": "tea"}), OTHER),
        # The title is the server's own, which no transcript has.
        ("mcp_titled", ("mcp__titles__drop", {"q": "x"}), OTHER),
        (
            "mcp_withheld",
            ("mcp__shop__price", {"item": "word " * 2400, "n": 1}),
            "Claude Code does not show all of the call in its prompt: answer it in its terminal",
        ),
        ("skill_80", skill("leave"), OTHER),
        ("agent_call", agent("Look around"), OTHER),
        ("monitor", monitor("touch"), OTHER),
    ],
)
def test_a_prompt_of_another_call_is_refused(
    transcript: Callable[..., Path], folder: Path, name: str, call: Call, why: str
) -> None:
    path = transcript(call_in(folder, call))
    with pytest.raises(PromptRefusedError, match=why):
        find_shown_call(read(name, folder), path, str(folder))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("overwrite_80", write_file("over.txt", text_of(CHANGED))),
        ("edit_hunks", edit("edit.txt", "\n".join(LINES), "\n".join(CHANGED))),
    ],
)
def test_a_file_that_changed_since_the_prompt_is_refused(
    transcript: Callable[..., Path], folder: Path, name: str, call: Call
) -> None:
    path = transcript(call_in(folder, call))
    (folder / call[1]["file_path"].rpartition("/")[2]).write_text(text_of(["l0", *LINES]))
    with pytest.raises(PromptRefusedError, match=OTHER):
        find_shown_call(read(name, folder), path, str(folder))


def test_two_calls_that_look_alike_are_refused(transcript: Callable[..., Path]) -> None:
    for name, call in (("bash", MADE), ("agent_call", agent("Look"))):
        path = transcript(call, (call[0], call[1] | {"prompt": "Something else"}))
        with pytest.raises(PromptRefusedError, match="2 of its pending tool calls"):
            find_shown_call(read_permission_prompt(screen_of(name)), path, CWD)


@pytest.mark.parametrize(
    ("name", "shown", "call"),
    [
        ("bash", "touch build", bash("mkdir -p build && touch \u200b\u202ebuild/made")),
        ("mcp_80", '"a-b"', ("mcp__shop__price", ITEM | {"who": {"a\u200b-b": [1, None]}})),
    ],
)
def test_a_call_with_characters_that_no_screen_shows_is_refused(
    transcript: Callable[..., Path], name: str, shown: str, call: Call
) -> None:
    hidden = "touch \u200b\u202ebuild" if name == "bash" else '"a\u200b-b"'
    screen = change(name, shown, hidden)
    with pytest.raises(PromptRefusedError, match="a terminal does not show"):
        find_shown_call(read_permission_prompt(screen), transcript(call), CWD)


def test_an_agent_s_call_is_looked_for_in_its_own_transcript(
    transcript: Callable[..., Path], folder: Path
) -> None:
    call = bash("mkdir fromagent")
    session = transcript(call)
    with pytest.raises(PromptRefusedError, match="has not written the tool call"):
        find_shown_call(read("agent", folder), session, CWD)
    transcript(call, name="session/subagents/agent-a1.jsonl")
    found = find_shown_call(read("agent", folder), session, CWD)
    assert found.text("command") == "mkdir fromagent"


def test_a_call_before_the_last_prompt_is_not_open(
    transcript: Callable[..., Path], tmp_path: Path
) -> None:
    path = transcript(MADE)
    assert [call.tool for call in read_pending_calls(path)] == ["Bash"]
    with path.open("a", encoding="utf-8") as file:
        write(tmp_path / "more.jsonl", [user()])
        file.write((tmp_path / "more.jsonl").read_text(encoding="utf-8"))
    assert read_pending_calls(path) == []
