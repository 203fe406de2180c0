"""Only a screen that shows the client's permission prompt alone, and whole, is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.collectors.client_terminal.pending_calls import find_shown_call, read_pending_calls
from ctxtop.collectors.client_terminal.permission_prompt import (
    CUT_OFF,
    NO_PROMPT,
    PermissionPrompt,
    PromptRefusedError,
    read_permission_prompt,
)
from ctxtop.collectors.client_terminal.tmux_panes import PaneScreen

from ..transcripts import assistant, user, write

if TYPE_CHECKING:
    from collections.abc import Callable

SCREENS: Final = Path(__file__).with_name("permission_prompts")
"""What 2.1.329 drew, with the cursor's column and row before it."""

CWD: Final = "/home/me/project"
RULE, DASHES = "─" * 60, "╌" * 60


def screen_of(name: str) -> PaneScreen:
    cursor, text = (SCREENS / f"{name}.txt").read_text(encoding="utf-8").split("\n", 1)
    column, row = cursor.split(",")
    return PaneScreen(text, (int(column), int(row)))


def read(name: str) -> PermissionPrompt:
    return read_permission_prompt(screen_of(name))


def refusal(screen: PaneScreen) -> str:
    with pytest.raises(PromptRefusedError) as error:
        read_permission_prompt(screen)
    return str(error.value)


def test_a_command_is_read_with_its_options() -> None:
    found = read("bash")
    assert (found.title, found.agent, found.subject) == ("Bash command", "", "Run it")
    assert found.body == "mkdir -p build && touch build/made"
    assert found.question == "Do you want to proceed?"
    assert (found.yes_key, found.no_key) == ("1", "3")
    assert found.options[0] == "Yes"
    assert found.options[-1] == "No"


def test_without_an_option_for_always_no_is_the_second() -> None:
    found = read("dangerous")
    assert (found.options, found.no_key) == (("Yes", "No"), "2")
    assert found.notes.startswith("Dangerous rm operation")
    assert read("note").notes == "This command requires approval"


def test_text_in_a_command_that_looks_like_a_prompt_is_the_command() -> None:
    found = read("bash_many_lines")
    assert found.body.split("\n")[3:5] == ["❯ 1. Yes", "╌╌╌╌"]
    assert found.body.endswith("rm -rf build")
    assert "╌╌╌╌" in found.subject


def test_an_agent_is_named() -> None:
    assert (read("agent").title, read("agent").agent) == ("Bash command", "general-purpose")


def test_the_cursor_may_be_on_another_option() -> None:
    assert read("second_option").yes_key == "1"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cut_off", CUT_OFF),
        ("question", NO_PROMPT),
        ("typed_into_yes", "someone is typing an answer into its prompt"),
        ("typed_into_no", "someone is typing an answer into its prompt"),
    ],
)
def test_what_is_no_prompt_of_that_kind(name: str, why: str) -> None:
    assert refusal(screen_of(name)) == why


def change(name: str, old: str, new: str) -> PaneScreen:
    screen = screen_of(name)
    assert old in screen.text
    return PaneScreen(screen.text.replace(old, new), screen.cursor)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Printed by a program: the cursor, the rules, or something below give it away.
        (" Esc to cancel", "$ echo done\n Esc to cancel"),
        (" Esc to cancel · Tab to amend", " Esc to cancel · Tab to amend\n❯ a draft"),
        (" Esc to cancel · Tab to amend", f"{RULE}\n❯ \n{RULE}"),
        ("   3. No", "   3. Nothing"),
        ("   3. No", "   3. No\n   4. No"),
        ("   3. No", "   4. No"),
        (" ❯ 1. Yes", " ❯ 1. Yes, always"),
        (" ❯ 1. Yes", "   1. Yes"),
        ("   3. No", " ❯ 3. No"),
        (" Bash command", "Bash command"),
        (" Do you want to proceed?", ""),
        (" Do you want to proceed?", "Do you want to proceed?"),
        (" mkdir -p build", "mkdir -p build"),
        ("╌", "-"),
        ("─", "-"),
    ],
)
def test_a_changed_screen_is_refused(old: str, new: str) -> None:
    assert refusal(change("bash", old, new)) == NO_PROMPT


@pytest.mark.parametrize("cursor", [(1, 0), (2, 10), (0, 10), (30, 10)])
def test_a_cursor_elsewhere_is_refused(cursor: tuple[int, int]) -> None:
    assert refusal(PaneScreen(screen_of("bash").text, cursor)) == NO_PROMPT


@pytest.mark.parametrize(
    "text", ["", "$ ", f"{RULE}\n❯ \n{RULE}\n", f"{RULE}\n{DASHES}\n{DASHES}\n", "─────\n" * 9]
)
def test_other_screens_are_refused(text: str) -> None:
    assert refusal(PaneScreen(text, (1, 1))) == NO_PROMPT


def test_colours_change_nothing() -> None:
    coloured = change("bash", " Bash command", "\x1b[1m Bash command\x1b[0m")
    assert read_permission_prompt(coloured) == read("bash")


# The call that a prompt shows


@pytest.fixture
def transcript(tmp_path: Path) -> Callable[..., Path]:
    def make(*calls: tuple[str, dict[str, object]], name: str = "session.jsonl") -> Path:
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


MADE: Final = ("Bash", {"command": "mkdir -p build && touch build/made", "description": "Run it"})
MANY_LINES: Final = "cat > a.txt <<'XX'\nline one\n  line two\n❯ 1. Yes\n╌╌╌╌\nXX\nrm -rf build"
WORDS: Final = "mkdir " + " ".join(f"word{number}" for number in range(60))
LONG_URL: Final = f"http://127.0.0.1:1/{'a' * 66}/x"
FETCHED: Final = "what is it about, and then tell me many words so that it wraps\nurl: http://other"


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("bash", MADE),
        (
            "bash_many_lines",
            (
                "Bash",
                {"command": MANY_LINES, "description": f"Clean up\n{'╌' * 12}\n ls"},
            ),
        ),
        ("bash_narrow", ("Bash", {"command": WORDS, "description": "Run it"})),
        ("no_description", ("Bash", {"command": "touch zz", "description": "", "timeout": 3000})),
        ("create", ("Write", {"file_path": f"{CWD}/notes.txt", "content": "one\n  two\nthree"})),
        ("create", ("Write", {"file_path": "notes.txt", "content": "one\n  two\nthree\n"})),
        (
            "edit",
            (
                "Edit",
                {"file_path": f"{CWD}/old.txt", "old_string": "two", "new_string": "TWO"},
            ),
        ),
        ("read", ("Read", {"file_path": "/etc/hostname"})),
        ("fetch", ("WebFetch", {"url": LONG_URL, "prompt": FETCHED})),
    ],
)
def test_a_prompt_shows_its_call(
    transcript: Callable[..., Path], name: str, call: tuple[str, dict[str, object]]
) -> None:
    other = ("Bash", {"command": "ls", "description": "List"})
    found = find_shown_call(read(name), transcript(other, call), CWD)
    assert (found.tool_use_id, found.tool, dict(found.input)) == ("toolu_1", *call)


@pytest.mark.parametrize(
    ("name", "call", "why"),
    [
        ("bash", ("Bash", MADE[1] | {"command": "mkdir -p build"}), "does not match"),
        ("bash", ("Bash", MADE[1] | {"description": "Something else"}), "does not match"),
        ("bash", ("PowerShell", MADE[1]), "does not match"),
        (
            "edit",
            ("Edit", {"file_path": f"{CWD}/old.txt", "old_string": "one", "new_string": "ONE"}),
            "does not match",
        ),
        (
            "edit",
            ("Edit", {"file_path": "/etc/old.txt", "old_string": "two", "new_string": "TWO"}),
            "does not match",
        ),
        ("create", ("Write", {"file_path": "notes.txt", "content": "one\ntwo"}), "does not match"),
        ("search", ("WebSearch", {"query": "what"}), "cannot verify this kind of prompt"),
    ],
)
def test_a_prompt_of_another_call_is_refused(
    transcript: Callable[..., Path], name: str, call: tuple[str, dict[str, object]], why: str
) -> None:
    with pytest.raises(PromptRefusedError, match=why):
        find_shown_call(read(name), transcript(call), CWD)


def test_two_calls_that_look_alike_are_refused(transcript: Callable[..., Path]) -> None:
    with pytest.raises(PromptRefusedError, match="2 of its pending tool calls"):
        find_shown_call(read("bash"), transcript(MADE, MADE), CWD)


def test_a_call_with_characters_that_no_screen_shows_is_refused(
    transcript: Callable[..., Path],
) -> None:
    screen = change("bash", "touch build", "touch \u200b\u202ebuild")
    hidden = ("Bash", MADE[1] | {"command": "mkdir -p build && touch \u200b\u202ebuild/made"})
    with pytest.raises(PromptRefusedError, match="a terminal does not show"):
        find_shown_call(read_permission_prompt(screen), transcript(hidden), CWD)


def test_an_agent_s_call_is_looked_for_in_its_own_transcript(
    transcript: Callable[..., Path],
) -> None:
    call = ("Bash", {"command": "mkdir fromagent", "description": "Run it"})
    session = transcript(call)
    with pytest.raises(PromptRefusedError, match="does not match"):
        find_shown_call(read("agent"), session, CWD)
    transcript(call, name="session/subagents/agent-a1.jsonl")
    assert find_shown_call(read("agent"), session, CWD).text("command") == "mkdir fromagent"


def test_a_call_before_the_last_prompt_is_not_open(
    transcript: Callable[..., Path], tmp_path: Path
) -> None:
    path = transcript(MADE)
    assert [call.tool for call in read_pending_calls(path)] == ["Bash"]
    with path.open("a", encoding="utf-8") as file:
        write(tmp_path / "more.jsonl", [user()])
        file.write((tmp_path / "more.jsonl").read_text(encoding="utf-8"))
    assert read_pending_calls(path) == []
