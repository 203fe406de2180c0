"""What a session is called: the telling part of a prompt, and the choice among several titles."""

import pytest
from ctxtop.core.measure.session_building import session_project, session_title
from ctxtop.core.model.stored_rows import SessionRow
from ctxtop.core.summaries.key_messages import typed_command
from ctxtop.core.transcript.sanitize import MAX_LONG_TITLE_CHARS
from ctxtop.core.transcript.titles import (
    command_prompt,
    first_telling,
    is_telling,
    prompt_title,
    recorded_title,
)

from ..processor_time import thread_seconds

COMMAND = "<command-name>/{0}</command-name>\n  <command-message>{0}</command-message>\n  {1}"
LONG = "the parser drops the last row of every file " * 60


@pytest.mark.parametrize(
    "text",
    [
        "9",
        "q",
        "hi",
        "ok",
        "continue",
        "Continue.",
        "resume please",
        "go on",
        "yes, please!",
        "/",
        "let's go",
        "commit this",
        "👍",
        "1234",
        "Hello Claude",
        "ok ok",
        "",
    ],
)
def test_small_talk_says_nothing(text: str) -> None:
    assert not is_telling(text)


@pytest.mark.parametrize(
    "text", ["fix the login", "Show numbers", "refactor", "修复登录", "npm test"]
)
def test_a_task_says_something(text: str) -> None:
    assert is_telling(text)


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        # Plans: the heading, with and without its prefix, in lines and in one line.
        ("Implement the following plan:\n\n# Plan: Tree view\n\n## Context\nNow", "Tree view"),
        ("Implement the following plan:\n\n# Fix: Show both\n\n## Context", "Fix: Show both"),
        ("Implement the following plan:\n\n# Labels `a`, **b**\n", "Labels a, b"),
        ("Implement the following plan: # Plan: Tree view ## Context Now", "Tree view"),
        ("implement this plan\nfirst move the tax, then test", "first move the tax, then test"),
        ("# Title of the task\n\nSome text.", "Title of the task"),
        ("## Plan - PriceRate limits\ntext", "PriceRate limits"),
        # Sentences.
        ("Fix the flaky tests. They fail on CI.", "Fix the flaky tests"),
        (
            "Hi! Can you fix README.md, e.g. the links? Thanks.",
            "Can you fix README.md, e.g. the links?",
        ),
        (
            "ok\n\nnow move the tax code",
            "now move the tax code",
        ),
        ("the tree view\nis broken on\nsmall screens", "the tree view is broken on small screens"),
        ("Two bugs:\n- the list is empty\n- the tree is slow", "Two bugs: the list is empty"),
        ("Why so long?\nIt is only one file", "Why so long?"),
        ("I have this:", "I have this"),
        # Links, logs, code and what the client wraps.
        ("https://github.com/o/p/issues/73#issuecomment-5 Find the cause", "#73 Find the cause"),
        (
            "See https://example.com/a/b?c=d and copy the design",
            "See https://example.com/a/b?c=d and copy the design",
        ),
        ("https://example.com/a copy the design", "copy the design"),
        ("https://example.com/reports", "https://example.com/reports"),
        (
            'Traceback (most recent call last):\n  File "a.py", line 3\n\nfix that bug',
            "fix that bug",
        ),
        (
            "2026-01-02T10:00:00 INFO start\n2026-01-02T10:00:01 ERROR stop\nWhy does it stop?",
            "Why does it stop?",
        ),
        ("The view is bugged.\n    at useRecipe (chunk-z3.js:31200)", "The view is bugged"),
        ("```\nfoo()\n```\nrename foo to bar", "rename foo to bar"),
        ("[Image #1] make this button larger", "make this button larger"),
        ("<system-reminder>be careful</system-reminder>Add a rule", "Add a rule"),
        (COMMAND.format("plan", "<command-args>add the logos</command-args>"), "add the logos"),
        (COMMAND.format("clear", "<command-args></command-args>"), ""),
        (COMMAND.format("deploy", "<command-args>staging</command-args>"), "/deploy staging"),
        # Nothing said.
        ("9", ""),
        ("resume please", ""),
        ("", ""),
        ("# \n", ""),
    ],
)
def test_a_prompt_is_called_by_what_it_is_about(prompt: str, title: str) -> None:
    assert prompt_title(prompt) == title


def test_a_long_sentence_is_kept_to_its_limit() -> None:
    assert prompt_title(LONG) == LONG[:MAX_LONG_TITLE_CHARS].rstrip()


@pytest.mark.parametrize(
    "part", ["<command-name>", "# ", "[Image #", "```", "- a:\n", "https://x/", "e.g. "]
)
def test_hostile_prompts_take_no_long_time(part: str) -> None:
    assert thread_seconds(lambda: prompt_title(part * 200_000)) < 1.0


def test_a_command_s_own_options_are_no_prompt() -> None:
    assert command_prompt(COMMAND.format("model", "<command-args>opus</command-args>")) == ""
    assert command_prompt("no command") == ""


def test_a_recorded_title_loses_a_plan_s_introduction() -> None:
    assert recorded_title("Implement the following plan: # Plan: Tree view") == "Tree view"
    assert recorded_title("Website redesign") == "Website redesign"
    assert recorded_title(None) == ""


def test_what_says_something_comes_before_what_comes_first() -> None:
    assert first_telling(("9", None, "", "fix the login")) == "fix the login"
    assert first_telling(("9", None, "ok")) == ""


def row(**fields: str | None) -> SessionRow:
    return SessionRow(1, "0123456789", "p/0123456789.jsonl", "-home-me-shop", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"custom_title": "Mine", "ai_title": "Theirs", "prompt_title": "Typed"}, "Mine"),
        ({"ai_title": "Theirs", "prompt_title": "Typed it"}, "Theirs"),
        ({"ai_title": "hi", "prompt_title": "fix it all"}, "fix it all"),
        ({"first_prompt": "hi", "prompt_title": "fix it all"}, "fix it all"),
        ({"first_prompt": "hi", "last_prompt": "add the tax"}, "add the tax"),
        ({"first_prompt": "hi", "last_prompt": "ok"}, "session 01234567"),
        ({"custom_title": "9", "first_prompt": "hi"}, "9"),
        ({}, "session 01234567"),
    ],
)
def test_a_session_takes_the_best_title_it_has(fields: dict[str, str], title: str) -> None:
    assert session_title(row(**fields)) == title


@pytest.mark.parametrize(
    ("cwd", "root", "project"),
    [
        ("/home/me/shop", "/home/me/shop", "shop"),
        ("/home/me/shop/web/src", "/home/me/shop", "shop/web/src"),
        ("/home/me/shop/.claude/worktrees/fix-login", None, "shop/fix-login"),
        ("C:\\me\\shop\\.claude\\worktrees\\fix-login", None, "shop/fix-login"),
        ("/home/me/shop/.worktrees/fix/login", None, "shop/fix/login"),
        ("/home/me/other", "/home/me/shop", "other"),
        ("/worktrees/a", None, "a"),
        (None, None, "home-me-shop"),
    ],
)
def test_a_project_tells_worktrees_apart(cwd: str | None, root: str | None, project: str) -> None:
    assert session_project(row(cwd=cwd, project_root=root)) == project


@pytest.mark.parametrize(
    ("name", "arguments", "title", "typed"),
    [
        ("voice", "", "", None),
        ("add-dir", "../lib", "", None),
        ("init", "", "", "/init"),
        ("plan", "", "", None),
        ("plan", "add the logos", "add the logos", "/plan add the logos"),
        ("team.deploy", "staging", "/team.deploy staging", "/team.deploy staging"),
    ],
)
def test_titles_and_summaries_know_the_same_commands(
    name: str, arguments: str, title: str, typed: str | None
) -> None:
    text = COMMAND.format(name, f"<command-args>{arguments}</command-args>")
    assert command_prompt(text) == title
    assert typed_command(text) == typed
