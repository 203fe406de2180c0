"""The order in which an answer is proved and given, and how old a proof may be."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.terminal import prompt_answer
from ctxtop.collectors.terminal.permission_prompt import PromptRefusedError, read_permission_prompt
from ctxtop.collectors.terminal.prompt_answer import (
    MAX_PRESSES,
    MAX_SCREEN_AGE_S,
    Answer,
    PromptTarget,
    ProvedPrompt,
    answer_prompt,
)
from ctxtop.collectors.terminal.shown_calls import find_shown_call
from ctxtop.collectors.terminal.tmux_panes import PaneScreen, TmuxPane
from ctxtop.core.model.transcript_records import LiveSession
from ctxtop.core.policy.resolve import BUILT_IN_POLICY

from ..transcripts import SESSION, assistant, user, write
from ..unit.recorded_prompts import CWD, screen_of

COMMAND: Final = "mkdir -p build && touch build/made"


class Pane:
    """A client with its prompt; says in which order it was asked, and how long a look takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, transcript: Path) -> None:
        self.seen: list[str] = []
        self.now_s = 0.0
        self.look_s = 0.01
        self.screen = screen_of("bash")
        self.is_moved = False
        self._transcript = transcript
        waits_for = prompt_answer.PERMISSION_WORDS
        live = LiveSession(SESSION, 7, "waiting", None, None, None, waits_for, CWD)
        pane = TmuxPane("/none", "%1")
        monkeypatch.setattr(prompt_answer, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(prompt_answer, "_client_of", lambda _: live)
        monkeypatch.setattr(prompt_answer, "find_pane", lambda _: pane)
        monkeypatch.setattr(prompt_answer, "is_in_foreground", lambda _: True)
        monkeypatch.setattr(prompt_answer, "find_shown_call", self.read_transcript)
        monkeypatch.setattr(prompt_answer, "wait_for", lambda *_: True)
        monkeypatch.setattr(TmuxPane, "read_screen", lambda _: self.look())
        monkeypatch.setattr(TmuxPane, "press_at", lambda _, cursor, key: self.press(cursor, key))

    def read_transcript(self, *given: object) -> object:
        self.seen.append("transcript")
        return find_shown_call(*given)  # type: ignore[arg-type]

    def look(self) -> PaneScreen:
        self.seen.append("screen")
        self.now_s += self.look_s
        return self.screen

    def press(self, cursor: tuple[int, int], key: str) -> bool:
        assert cursor == self.screen.cursor
        self.seen.append(f"key {key}")
        return not self.is_moved

    @property
    def target(self) -> PromptTarget:
        folder = ClaudeFolder(self._transcript.parent)
        return PromptTarget(SESSION, self._transcript, folder, BUILT_IN_POLICY)

    def prove(self) -> ProvedPrompt:
        shown = prompt_answer.prove_prompt(self.target)
        self.seen.clear()
        return shown


@pytest.fixture
def pane(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pane:
    given = {"command": COMMAND, "description": "Run it"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": given}
    answer = assistant()
    answer["message"] |= {"content": [call]}
    path = tmp_path / f"{SESSION}.jsonl"
    write(path, [user(), answer])
    return Pane(monkeypatch, path)


def test_the_screen_is_looked_at_last(pane: Pane) -> None:
    shown = pane.prove()
    answer_prompt(pane.target, shown, Answer.YES)
    assert pane.seen == ["screen", "transcript", "screen", "key 1"]


def test_a_screen_that_is_too_old_gets_no_key(pane: Pane) -> None:
    shown = pane.prove()
    pane.look_s = MAX_SCREEN_AGE_S + 0.001
    with pytest.raises(PromptRefusedError, match="its screen was 101 ms old, more than 100 ms"):
        answer_prompt(pane.target, shown, Answer.YES)
    assert pane.seen == ["screen", "transcript", "screen"] * MAX_PRESSES
    pane.look_s = MAX_SCREEN_AGE_S - 0.001
    answer_prompt(pane.target, shown, Answer.NO)
    assert pane.seen[-1] == "key 3"


def test_a_prompt_that_changes_after_the_transcript_was_read_gets_no_key(
    pane: Pane, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = pane.prove()

    def change(*given: object) -> object:
        found = find_shown_call(*given)  # type: ignore[arg-type]
        pane.screen = screen_of("monitor")
        return found

    monkeypatch.setattr(prompt_answer, "find_shown_call", change)
    with pytest.raises(PromptRefusedError, match="changed since it was shown"):
        answer_prompt(pane.target, shown, Answer.YES)
    assert read_permission_prompt(pane.screen) != shown.prompt
    assert not any("key" in each for each in pane.seen)


def test_a_cursor_that_moved_at_the_last_moment_is_a_change(pane: Pane) -> None:
    shown = pane.prove()
    pane.is_moved = True
    with pytest.raises(PromptRefusedError, match="changed since it was shown"):
        answer_prompt(pane.target, shown, Answer.YES)
