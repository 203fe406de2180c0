"""Only a screen that shows the client's permission prompt alone, and whole, is one."""

from __future__ import annotations

from typing import Final

import pytest
from ctxtop.collectors.terminal.permission_prompt import (
    CUT_OFF,
    NO_PROMPT,
    PermissionPrompt,
    PromptRefusedError,
    read_permission_prompt,
)
from ctxtop.collectors.terminal.tmux_panes import PaneScreen

from .recorded_prompts import change, screen_of

PROCEED: Final = "Do you want to proceed?"
RULE, DASHES = "─" * 60, "╌" * 60


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
    assert found.question == PROCEED
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


def test_a_prompt_without_a_body_has_no_rules() -> None:
    found = read("mcp_nothing_80")
    assert (found.subject, found.body) == ("shop — Stock Tool: (MCP)", "")
    assert found.notes.startswith("About the shop — Stock Tool:")
    assert (read("skill_80").title, read("skill_80").question) == ('Use skill "greet"?', PROCEED)
    assert read("overwrite_same").body == ""


def test_what_a_difference_does_not_show_is_kept() -> None:
    assert read("edit_hunks").body.split("\n")[5] == "..."
    assert read("edit_places_80").body.endswith(" changes: 11 places in the file.")


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


def test_colors_change_nothing() -> None:
    colored = change("bash", " Bash command", "\x1b[1m Bash command\x1b[0m")
    assert read_permission_prompt(colored) == read("bash")
