"""A permission prompt of the real client is answered from outside, or refused."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.locations.places import Places
from ctxtop.collectors.terminal.pending_calls import read_pending_calls
from ctxtop.collectors.terminal.permission_prompt import PromptRefusedError
from ctxtop.collectors.terminal.prompt_answer import (
    Answer,
    PromptTarget,
    ProvedPrompt,
    answer_prompt,
    prove_prompt,
)
from ctxtop.core.model.session_activity import WaitingKind
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import BUILT_IN_POLICY, RawValue, resolve_policy
from ctxtop.tui.page_kit.terminal_dialogs import AnswerScreen
from ctxtop.tui.text.session_text import waiting_text
from msgspec.structs import replace

from ..tui.support import Clock, Stage, opened
from . import mcp_server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .lab import Lab
    from .screen import Screen

pytestmark = pytest.mark.usefixtures("terminal")

MAKE = "Run. [[bash:mkdir -p build && touch build/made&&&usage:21000]] [[say:done]]"
SOON_S = 60.0  # what takes longer does not come
WRITTEN_S = 3.0  # a call is written within 0.1 s, or not before it is answered
MAX_ASKS = 4
YES_ROW = "❯ 1. Yes"


def tool(name: str, **given: object) -> str:
    return f"Run. [[tool:{name}|{json.dumps(given)}]] [[say:done]]"


def open_asking(lab: Lab, prompt: str, *args: str) -> Screen:
    """Open a client that asks for every permission, and let it wait for one."""
    lab.write_settings({"permissions": {}})
    screen = lab.interactive(*args)
    ask(lab, screen, prompt)
    return screen


def ask(lab: Lab, screen: Screen, prompt: str) -> None:
    """Type a prompt and wait for a dialog whose call is in the transcript.

    On a busy machine 2.1.329 sometimes writes a call only once its prompt is answered (seen in
    3 of 50 runs): such a prompt is left, and asked for again.
    """
    for _ in range(MAX_ASKS):
        screen.type(prompt)
        screen.until_status("waiting")
        screen.until(lambda: "❯ 1. " in screen.text(), "the dialog")
        if not is_held_back(target_of(lab, screen)):
            return
        screen.press("Escape")
        screen.until_status("idle")
    pytest.fail(f"no call was written, {MAX_ASKS} times: {prompt}")


def is_held_back(target: PromptTarget) -> bool:
    """Whether the call is not written; if it is refused for another reason, a test looks at it."""
    end, why = time.monotonic() + WRITTEN_S, ""
    while time.monotonic() < end:
        try:
            prove_prompt(target)
        except PromptRefusedError as error:
            why = str(error)
            time.sleep(0.1)
        else:
            return False
    return "has not written" in why


def target_of(lab: Lab, screen: Screen) -> PromptTarget:
    folder = ClaudeFolder(lab.config.resolve())
    name = f"projects/*/{screen.session_id}.jsonl"
    screen.until(lambda: any(lab.config.glob(name)), "the transcript")
    (path,) = lab.config.glob(name)
    return PromptTarget(screen.session_id, path, folder, BUILT_IN_POLICY)


def proved(target: PromptTarget, but: ProvedPrompt | None = None) -> ProvedPrompt:
    """Wait for a prompt that is proved: the transcript comes a moment later than the dialog.

    `but` was answered: another one is waited for.
    """
    end = time.monotonic() + SOON_S
    while True:
        try:
            shown = prove_prompt(target)
        except PromptRefusedError:
            if time.monotonic() > end:
                raise
        else:
            if but is None or shown.call != but.call:
                return shown
            assert time.monotonic() < end, "no other prompt came"
        time.sleep(0.1)


def refusal(target: PromptTarget) -> str:
    with pytest.raises(PromptRefusedError) as error:
        prove_prompt(target)
    return str(error.value)


def answer_refusal(target: PromptTarget, shown: ProvedPrompt) -> str:
    with pytest.raises(PromptRefusedError) as error:
        answer_prompt(target, shown, Answer.YES)
    return str(error.value)


def resize(screen: Screen, columns: int, rows: int) -> None:
    screen._tmux("resize-window", "-t", "lab", "-x", str(columns), "-y", str(rows))


def test_yes_runs_the_command_once_and_never_forever(lab: Lab) -> None:
    screen = open_asking(lab, MAKE)
    target = target_of(lab, screen)
    shown = proved(target)
    assert shown.call.tool == "Bash"
    assert dict(shown.call.request)["command"] == "mkdir -p build && touch build/made"
    session = lab.ctxtop().sessions[screen.session_id]
    assert waiting_text(session) == "Bash: mkdir -p build && touch build/made"
    answer_prompt(target, shown, Answer.YES)
    screen.settle()
    assert (lab.project / "build" / "made").exists()
    assert lab.ctxtop().sessions[screen.session_id].waiting_for is None
    # It is asked again: nothing was allowed for longer than this.
    ask(lab, screen, MAKE.replace("made", "other"))
    assert dict(proved(target).call.request)["command"] == "mkdir -p build && touch build/other"
    assert not list(lab.project.glob(".claude/settings*"))


def test_the_dashboard_shows_the_command_and_answers(lab: Lab) -> None:
    screen = open_asking(lab, MAKE)
    assert proved(target_of(lab, screen))
    asyncio.run(answer_in_dashboard(lab))


async def answer_in_dashboard(lab: Lab) -> None:
    places = Places(lab.config.resolve(), lab.store)
    async with opened(Stage(places, Clock())) as it:
        await it.until(lambda: "1 waits for you" in it.status)
        await it.press("w", "a")
        await it.until(lambda: isinstance(it.app.screen, AnswerScreen) and it.app.screen.takes_keys)
        assert "mkdir -p build && touch build/made" in it.words
        assert not (lab.project / "build").exists()
        await it.press("y")
        await it.until((lab.project / "build" / "made").exists)


class Dashboard:
    """The dashboard in a terminal of 80 by 24 beside the client's, driven by keys alone."""

    def __init__(self, lab: Lab, screen: Screen) -> None:
        self._screen = screen
        places = ("--config-dir", str(lab.config.resolve()), "--db", str(lab.store))
        command = [sys.executable, "-P", "-m", "ctxtop", *places]
        screen._tmux("new-session", "-d", "-s", "top", "-x", "80", "-y", "24", *command)
        self.until("Welcome to ctxtop")
        self.press("Escape")
        self.until("1 waits for you")

    def text(self) -> str:
        return self._screen._tmux("capture-pane", "-p", "-t", "top")

    def until(self, words: str) -> None:
        self._screen.until(lambda: words in self.text(), words)

    def approve(self, made: Path) -> None:
        """Say yes until the command has made a file.

        No yes is taken before all of the question was on the screen for a moment.
        """

        def is_made() -> bool:
            if not made.exists():
                self.press("y")
            return made.exists()

        self._screen.until(is_made, "the command")

    def press(self, *keys: str) -> None:
        """Press keys as a person does, each after a moment."""
        for key in keys:
            self._screen._tmux("send-keys", "-t", "top", key)
            time.sleep(1.0)


def open_hidden(lab: Lab, between: str) -> tuple[Screen, Dashboard]:
    """Open a client that asks for a command whose end is 34 lines below its beginning."""
    command = "\n".join(("ls -la", *[between] * 34, "touch pwned"))
    screen = open_asking(lab, tool("Bash", command=command, description="List"))
    resize(screen, 160, 70)
    assert proved(target_of(lab, screen)).call.text("command") == command
    dashboard = Dashboard(lab, screen)
    dashboard.press("w", "a")
    dashboard.until("Do you want to proceed?")
    return screen, dashboard


def test_a_hidden_command_is_seen_before_it_is_approved(lab: Lab) -> None:
    _, dashboard = open_hidden(lab, "")
    for words in ("ls -la", "<34 empty lines>", "touch pwned", "y Yes, once"):
        assert words in dashboard.text()
    assert not (lab.project / "pwned").exists()
    dashboard.approve(lab.project / "pwned")


def test_a_command_below_the_screen_is_not_approved(lab: Lab) -> None:
    screen, dashboard = open_hidden(lab, "#")
    assert "touch pwned" not in dashboard.text()
    assert "more lines: PgDn" in dashboard.text()
    dashboard.press("y", "Right", "y", "y")
    assert screen.entry()["status"] == "waiting"
    assert not (lab.project / "pwned").exists()
    dashboard.press("PageDown", "PageDown", "PageDown")
    dashboard.until("touch pwned")
    dashboard.approve(lab.project / "pwned")


def test_no_does_not_run_it(lab: Lab) -> None:
    screen = open_asking(lab, MAKE)
    target = target_of(lab, screen)
    answer_prompt(target, proved(target), Answer.NO)
    screen.until_status("idle")
    assert not (lab.project / "build").exists()
    assert "what should Claude do instead" in screen.text().replace("What", "what")


def test_the_next_prompt_is_another_question(lab: Lab) -> None:
    screen = open_asking(lab, "Run. [[bash:mkdir one&&&bash:mkdir two]] [[say:done]]")
    target = target_of(lab, screen)
    first = proved(target)
    answer_prompt(target, first, Answer.YES)
    second = proved(target, but=first)
    assert "changed since it was shown" in answer_refusal(target, first)
    assert (lab.project / "one").exists()
    assert not (lab.project / "two").exists()
    answer_prompt(target, second, Answer.NO)
    screen.until_status("idle")
    assert not (lab.project / "two").exists()


# What each tool is asked for, and what can be seen once it ran


@dataclass(frozen=True, slots=True)
class Case:
    tool: str
    given: Mapping[str, object]
    has_run: Callable[[Lab], bool]

    @property
    def step(self) -> str:
        return f"[[tool:{self.tool}|{json.dumps(self.given)}]]"


OLD = [f"l{number}" for number in range(1, 21)]
NEW = ["ONE", *OLD[1:10], "between", *OLD[11:]]
CELL: Mapping[str, object] = {
    "cell_type": "code",
    "metadata": {},
    "outputs": [],
    "source": ["x = 1\n", "y"],
}
NOTEBOOK = {
    "cells": [{"id": name, **CELL} for name in ("kept", "gone")],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}
ITEM = {"item": "tea", "note": "a\n  b", "who": {"a-b": [1, None]}, "due": "2026-11-24T10:00:00Z"}


def prepare(lab: Lab) -> list[Case]:
    """Put what the tools work on into the lab."""
    project = lab.project
    (project / "over.txt").write_text("\n".join(OLD) + "\n", encoding="utf-8")
    (project / "edit.txt").write_text("\n".join(OLD) + "\n", encoding="utf-8")
    (project / "n.ipynb").write_text(json.dumps(NOTEBOOK), encoding="utf-8")
    (lab.root / "outside.txt").write_text("first\nwhispered\n", encoding="utf-8")
    lab.define_skill("greet", "Greet $ARGUMENTS.")
    arguments = ["-I", str(Path(mcp_server.__file__)), str(lab.root / "calls")]
    servers = {"shop": {"command": sys.executable, "args": arguments}}
    (lab.root / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    lab.write_settings({"permissions": {"ask": ["Agent", "Skill"]}})

    def reads(name: str, text: str) -> Callable[[Lab], bool]:
        return lambda lab: text in (lab.project / name).read_text(encoding="utf-8")

    def was_sent(text: str) -> Callable[[Lab], bool]:
        return lambda lab: text in json.dumps([*lab.new_exchanges(), *lab.exchanges])

    notebook, new_cell = str(project / "n.ipynb"), {"cell_type": "markdown", "new_source": "# New"}
    prices = lab.root / "calls"
    return [
        Case(
            "WebSearch",
            {"query": "what " * 32, "blocked_domains": ["a.org"]},
            was_sent("web_search_2"),
        ),
        Case("mcp__shop__price", ITEM, lambda _: prices.exists()),
        Case(
            "mcp__shop__stock",
            {},
            lambda _: prices.exists() and "{}" in prices.read_text(encoding="utf-8"),
        ),
        Case(
            "Write",
            {"file_path": str(project / "over.txt"), "content": "\n".join(NEW) + "\n"},
            reads("over.txt", "between"),
        ),
        Case(
            "Edit",
            {
                "file_path": str(project / "edit.txt"),
                "old_string": "l1",
                "new_string": "line 1",
                "replace_all": True,
            },
            reads("edit.txt", "line 19"),
        ),
        Case(
            "NotebookEdit",
            {"notebook_path": notebook, "cell_id": "kept", "new_source": "x = 2\ny"},
            reads("n.ipynb", "x = 2"),
        ),
        Case(
            "NotebookEdit",
            {"notebook_path": notebook, "cell_id": "kept", "edit_mode": "insert"} | new_cell,
            reads("n.ipynb", "# New"),
        ),
        Case(
            "NotebookEdit",
            {"notebook_path": notebook, "cell_id": "gone", "edit_mode": "delete", "new_source": ""},
            lambda lab: "gone" not in (lab.project / "n.ipynb").read_text(encoding="utf-8"),
        ),
        Case("Skill", {"skill": "greet", "args": "Ann"}, was_sent("Greet Ann.")),
        Case(
            "Read", {"file_path": str(lab.root / "outside.txt"), "offset": 2}, was_sent("whispered")
        ),
        Case(
            "Agent",
            {"subagent_type": "general-purpose", "description": "Look", "prompt": "Look around."},
            lambda lab: bool(lab.hooks("SubagentStart")),
        ),
        Case(
            "Monitor",
            {
                "command": "touch seen",
                "description": "Look",
                "timeout_ms": 9000,
                "persistent": False,
            },
            lambda lab: (lab.project / "seen").exists(),
        ),
    ]


READ = "[[read:over.txt]] [[read:edit.txt]] [[read:n.ipynb]]"


def open_to_read(lab: Lab, columns: int) -> Screen:
    """Open a client that has read the files that are changed, and has the tools of a server."""
    servers = str(lab.root / "mcp.json")
    screen = lab.interactive("--mcp-config", servers, "--", f"{READ} [[say:ok]]")
    resize(screen, columns, 60)
    screen.until(lambda: bool(lab.hooks("Stop")), "the reads")
    return screen


def test_yes_runs_each_tool(lab: Lab) -> None:
    cases = prepare(lab)
    screen = open_to_read(lab, 200)
    for case in cases:
        ask(lab, screen, f"Run. {case.step} [[say:done]]")
        target = target_of(lab, screen)
        shown = proved(target)
        assert (shown.call.tool, shown.call.input) == (case.tool, case.given)
        assert not case.has_run(lab), case
        answer_prompt(target, shown, Answer.YES)
        screen.until(partial(case.has_run, lab), case.tool)
        screen.until_status("idle")
    assert not list(lab.project.glob(".claude/settings*"))


def test_no_runs_none_of_them(lab: Lab) -> None:
    cases = prepare(lab)
    screen = open_to_read(lab, 80)
    for case in {case.tool: case for case in cases}.values():
        ask(lab, screen, f"Run. {case.step} [[say:done]]")
        target = target_of(lab, screen)
        shown = proved(target)
        assert (shown.call.tool, shown.call.input) == (case.tool, case.given)
        answer_prompt(target, shown, Answer.NO)
        screen.until_status("idle")
        assert not case.has_run(lab), case


def test_files_and_pages_are_shown_whole(lab: Lab) -> None:
    (lab.project / "old.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    path = lab.project / "old.txt"
    create = tool("Write", file_path=f"{lab.project}/new.txt", content="a\n  b\n")
    screen = open_asking(lab, create)
    target = target_of(lab, screen)
    answer_prompt(target, proved(target), Answer.YES)
    screen.settle()
    assert (lab.project / "new.txt").exists()
    ask(lab, screen, f"Run. [[read:{path}]] [[edit:{path}|two|TWO]] [[say:done]]")
    shown = proved(target)
    assert (shown.call.tool, shown.call.text("new_string")) == ("Edit", "TWO")
    answer_prompt(target, shown, Answer.YES)
    screen.settle()
    assert path.read_text(encoding="utf-8") == "one\nTWO\nthree\n"
    ask(lab, screen, tool("WebFetch", url="http://127.0.0.1:1/x", prompt="what is it"))
    assert dict(proved(target).call.request)["url"] == "http://127.0.0.1:1/x"
    screen.press("Escape")


def test_a_call_of_an_agent_is_found_in_its_own_transcript(lab: Lab) -> None:
    script = "Do <<bash:mkdir fromagent>> <<say:ok>>"
    screen = open_asking(lab, f"Run. [[agent:general-purpose|{script}]] [[say:done]]")
    target = target_of(lab, screen)
    shown = proved(target)
    assert (shown.prompt.agent, shown.call.text("command")) == (
        "general-purpose",
        "mkdir fromagent",
    )
    answer_prompt(target, shown, Answer.YES)
    screen.until((lab.project / "fromagent").exists, "the folder")


def test_a_pane_that_takes_no_keys_or_shows_something_else_is_refused(lab: Lab) -> None:
    screen = open_asking(lab, MAKE)
    target = target_of(lab, screen)
    shown = proved(target)
    screen._tmux("copy-mode", "-t", "lab")
    assert "copy mode" in answer_refusal(target, shown)
    screen._tmux("send-keys", "-t", "lab", "-X", "cancel")
    screen._tmux("set-option", "-w", "-t", "lab", "synchronize-panes", "on")
    assert "synchronize" in answer_refusal(target, shown)
    screen._tmux("set-option", "-w", "-t", "lab", "synchronize-panes", "off")
    screen.press("Tab")
    assert "is typing an answer" in answer_refusal(target, shown)
    screen.press("Escape")
    off = resolve_policy(
        [RawValue("terminal.answer", False, PolicyOrigin.USER_FILE, "policy.toml")]
    )
    assert "terminal.answer is off" in refusal(replace(target, policy=off))
    assert not (lab.project / "build").exists()


def test_a_prompt_that_does_not_fit_its_pane_is_refused(lab: Lab) -> None:
    words = " ".join(f"word{number}" for number in range(60))
    screen = open_asking(lab, f"Run. [[bash:mkdir {words}]] [[say:done]]")
    target = target_of(lab, screen)
    resize(screen, 60, 12)
    screen.until(lambda: "more lines" in screen.text(), "the cut prompt")
    assert "does not fit" in refusal(target)
    resize(screen, 60, 40)
    screen.until(lambda: "more lines" not in screen.text(), "the whole prompt")
    assert proved(target).call.text("command") == f"mkdir {words}"
    screen.press("Escape")


def test_another_call_in_the_transcript_is_refused(lab: Lab) -> None:
    screen = open_asking(lab, MAKE)
    target = target_of(lab, screen)
    assert proved(target)
    text = target.transcript.read_text(encoding="utf-8")
    other = lab.root / "other.jsonl"
    other.write_text(text.replace("touch build/made", "touch build/mode"), encoding="utf-8")
    assert "does not match" in refusal(replace(target, transcript=other))
    screen.press("Escape")


def test_a_question_is_named_and_not_answered(lab: Lab) -> None:
    options = [{"label": "Postgres", "description": "big"}, {"label": "SQLite", "description": "x"}]
    question = {"question": "Which database?", "header": "DB", "multiSelect": False}
    screen = open_asking(lab, tool("AskUserQuestion", questions=[question | {"options": options}]))
    target = target_of(lab, screen)
    screen.until(lambda: bool(read_pending_calls(target.transcript)), "the call")
    session = lab.ctxtop().sessions[screen.session_id]
    assert waiting_text(session) == "asks: Which database?"
    assert session.waiting_for is not None
    assert session.waiting_for.kind is WaitingKind.QUESTION
    assert "answer it there" in refusal(target)
    screen.press("Escape")
    screen.until_status("idle")
    assert "no longer waiting" in refusal(target)


def test_a_pane_that_shows_the_same_screen_is_not_the_client_s(lab: Lab) -> None:
    screen = open_asking(lab, MAKE)
    target = target_of(lab, screen)
    shown = proved(target)
    # Another pane, whose screen shows the very same prompt.
    copy = lab.root / "screen.txt"
    copy.write_text(screen.text(), encoding="utf-8")
    screen._tmux("split-window", "-t", "lab", f"cat {copy}; sleep 600")
    assert proved(target).pane == shown.pane
    assert YES_ROW in screen._tmux("capture-pane", "-p", "-t", shown.pane.pane_id)
    assert Path(shown.pane.socket).name == "lab.sock"
