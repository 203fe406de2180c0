"""Questions over a page: which key answers, when it counts, and leaving a dialog by mouse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from ctxtop.tui.screens import dialogs
from ctxtop.tui.screens.dialogs import ConfirmScreen
from ctxtop.tui.screens.help_and_commands import HelpScreen, question_keys
from textual.app import App
from textual.binding import Binding
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Button

SHORT_S, LONG_S = 0.01, 3_600.0


class Host(App[None]):
    CSS = """
    QuestionScreen, HelpScreen {
        align: center middle;
        #confirm, #help { width: 60; height: 16; border: round white; }
        #what { height: 2; }
        #answers { height: 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bool | None] = []

    def ask(self) -> ConfirmScreen:
        question = ConfirmScreen("Undo", Content("All of it comes back."), "Undo")
        self.push_screen(question, self.answers.append)
        return question


@asynccontextmanager
async def asked() -> AsyncIterator[tuple[Host, Pilot[None], ConfirmScreen]]:
    app = Host()
    async with app.run_test() as pilot:
        question = app.ask()
        await pilot.pause()
        yield app, pilot, question


async def until(pilot: Pilot[None], is_met: Callable[[], bool]) -> None:
    for _ in range(500):
        if is_met():
            return
        await pilot.pause(SHORT_S)
    raise AssertionError("it never happened")


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["y"], True),
        (["right", "enter"], True),
        (["n"], False),
        (["q"], False),
        (["escape"], False),
        (["enter"], False),
    ],
)
async def test_each_key_answers_as_its_button_says(
    monkeypatch: pytest.MonkeyPatch, keys: list[str], answer: bool
) -> None:
    monkeypatch.setattr(dialogs, "READING_S", SHORT_S)
    async with asked() as (app, pilot, question):
        await until(pilot, lambda: question.takes_keys)
        assert [str(each.label) for each in question.query(Button)] == ["n Cancel", "y Undo"]
        await pilot.press(*keys)
        await until(pilot, lambda: bool(app.answers))
        assert app.answers == [answer]


async def test_a_key_that_is_held_or_was_typed_ahead_confirms_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialogs, "READING_S", LONG_S)
    app = Host()
    async with app.run_test() as pilot:
        question = app.ask()
        # Before it is painted, and as long as the key repeats.
        await pilot.press("y", "y", "y")
        assert app.answers == []
        assert app.screen is question
        # The button and cancelling need no reading.
        await pilot.press("n")
        await until(pilot, lambda: bool(app.answers))
        assert app.answers == [False]


async def test_each_repetition_of_a_held_key_starts_the_wait_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialogs, "READING_S", SHORT_S)
    async with asked() as (app, pilot, question):
        await until(pilot, lambda: question.takes_keys)
        question.takes_keys = False
        monkeypatch.setattr(dialogs, "READING_S", LONG_S)
        question.action_choose("action")
        await pilot.pause()
        assert not question.takes_keys
        assert app.answers == []


async def test_a_click_answers_and_one_beside_the_box_cancels() -> None:
    async with asked() as (app, pilot, question):
        assert await pilot.click("#what Static")
        assert app.screen is question
        assert await pilot.click(offset=(0, 0))
        await until(pilot, lambda: bool(app.answers))
        assert app.answers == [False]
        app.ask()
        await pilot.pause()
        assert await pilot.click("#action")
        await until(pilot, lambda: len(app.answers) > 1)
        assert app.answers == [False, True]


async def test_the_keys_on_a_dialog_s_border_are_clickable() -> None:
    app = Host()
    async with app.run_test() as pilot:
        await app.push_screen(HelpScreen("sessions", ()))
        box = app.screen.query_one("#help")
        await pilot.pause()
        line = box.region
        words = box.render_lines(line.reset_offset)[-1].text
        assert await pilot.click("#help", offset=(words.index("/ search"), line.height - 1))
        assert app.screen.query_one("#find").display
        assert await pilot.click("#help", offset=(words.index("Esc close"), line.height - 1))
        await until(pilot, lambda: len(app.screen_stack) == 1)


def test_the_help_explains_the_keys_of_questions() -> None:
    def display(binding: Binding) -> str:
        return binding.key

    rows = {each.keys: each.what for each in question_keys(display)}
    assert rows[("y",)] == "yes, do it"
    assert rows[("n",)] == "no, change nothing"
    assert rows[("⏎",)].endswith("at first Cancel")
