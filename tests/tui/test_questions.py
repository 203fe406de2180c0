"""Questions over a page: which key answers, when it counts, and leaving a dialog by mouse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from ctxtop.tui.base.keymap import all_bindings
from ctxtop.tui.page_kit import dialogs
from ctxtop.tui.page_kit.dialogs import (
    CANCEL_ID,
    ChoiceScreen,
    ConfirmScreen,
    DialogChoice,
    QuestionScreen,
)
from ctxtop.tui.screens.help_and_commands import HelpScreen, question_keys
from ctxtop.tui.widgets.whole_text_pane import WholeTextPane
from textual.app import App
from textual.binding import Binding
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Button
from textual.widgets._toast import Toast

from .support import Opened, Stage, opened

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
        question = ConfirmScreen("Undo", "All of it comes back.", "Undo")
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


LINES = "\n".join(f"line {number}" for number in range(1, 61))


class Answers(ChoiceScreen):
    """A question as that for a permission, with the answers that the tests gave."""

    def __init__(self, description: str, question: str = "Do you want to proceed?") -> None:
        choices = (DialogChoice("yes", "y Yes, once"), DialogChoice("no", "n No", approves=False))
        super().__init__("Answer “Fix it”", description, choices, question)
        self.given: list[str | None] = []

    async def open(self, it: Opened) -> None:
        it.app.push_screen(self, self.given.append)
        await it.until(lambda: self.takes_keys)

    async def choose(self, it: Opened, choice_id: str) -> None:
        """Choose with its key, after a while in which a person could have read."""
        await it.until(lambda: self.takes_keys)
        self.action_choose(choice_id)
        await it.calm()

    @property
    def pane(self) -> WholeTextPane:
        return self.query_one(WholeTextPane)


def is_inside(it: Opened, screen: QuestionScreen[str], selector: str) -> bool:
    """Whether a widget is whole on the screen, and painted there."""
    found = screen.query_one(selector)
    place = screen.find_widget(found)
    return bool(place.region.area) and place.visible_region == place.region


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 16), (40, 10)])
async def test_nothing_is_approved_before_its_last_line_was_shown(
    stage: Stage, size: tuple[int, int]
) -> None:
    async with opened(stage, size) as it:
        question = Answers(LINES)
        await question.open(it)
        assert "line 60" not in it.words
        left: list[int] = []
        while not question.pane.is_seen:
            assert "more line" in it.words
            left.append(question.pane.rows_left)
            await question.choose(it, "yes")
            await it.pilot.click("#yes")
            assert question.given == []
            await it.press("pagedown")
        assert left == sorted(left, reverse=True)
        assert left[0] >= 60 - size[1]
        assert "line 60" in it.words
        assert "all of it was shown" in it.words
        # The moment for reading begins again with the last line.
        await it.press("y")
        await question.choose(it, "yes")
        assert question.given == ["yes"]


async def test_declining_needs_no_reading(stage: Stage) -> None:
    async with opened(stage, (80, 24)) as it:
        question = Answers(LINES)
        await question.open(it)
        await question.choose(it, "no")
        assert question.given == ["no"]


async def test_a_jump_to_the_end_leaves_lines_unread(stage: Stage) -> None:
    async with opened(stage, (80, 24)) as it:
        question = Answers(LINES)
        await question.open(it)
        # As a drag of the scrollbar does.
        question.pane.scroll_end(animate=False)
        await it.until(lambda: "line 60" in it.words)
        await question.choose(it, "yes")
        assert not question.pane.is_seen
        assert question.given == []


async def test_another_width_has_other_lines(stage: Stage) -> None:
    async with opened(stage, (80, 24)) as it:
        question = Answers("\n".join(f"{n} {'word ' * 30}" for n in range(40)))
        await question.open(it)
        for _ in range(3):
            await it.press("pagedown")
        await it.resize((60, 24))
        await it.press("pagedown")
        assert question.pane.rows_left > question.pane.size.height
        await question.choose(it, "yes")
        assert question.given == []


@pytest.mark.parametrize("size", [(200, 60), (80, 24), (60, 12), (40, 10)])
@pytest.mark.parametrize("text", ["a line", LINES, "x" * 5_000, LINES.replace("\n", "\n" * 40)])
async def test_the_question_and_its_buttons_are_always_on_the_screen(
    stage: Stage, size: tuple[int, int], text: str
) -> None:
    async with opened(stage, size) as it:
        question = Answers(text, f"Do you want to create {'name' * 20}?")
        await question.open(it)
        for selector in ("#question", *(f"#{each}" for each in (CANCEL_ID, "yes", "no"))):
            assert is_inside(it, question, selector), (selector, it.lines)
        assert question.pane.size.height >= 1


async def test_a_notice_does_not_cover_what_is_approved(stage: Stage) -> None:
    async with opened(stage, (80, 24)) as it:
        question = Answers(LINES)
        await question.open(it)
        it.app.notify("a session reached 80 %", timeout=LONG_S)
        await it.calm()
        assert not any(each.region.area for each in question.query(Toast))
        await it.press("escape")
        await it.until(lambda: any(each.region.area for each in it.app.screen.query(Toast)))


ASKS_FOR_NO_CHANGE = {
    "Dialog",
    "HelpScreen",
    "ExportScreen",  # writes where the person types; replacing a file is a question
    "ValueScreen",  # its change is shown in a question
}


def test_whatever_approves_is_the_one_question() -> None:
    """A new dialog is a QuestionScreen, or its name is added above with the reason."""
    declared = {each.declared_in for each in all_bindings()}
    modal = {each for each in declared if issubclass(each, ModalScreen)}
    others = {each.__name__ for each in modal if not issubclass(each, QuestionScreen)}
    assert others <= ASKS_FOR_NO_CHANGE
    assert {each.__name__ for each in modal} >= {"AnswerScreen", "YesNoScreen", "ResumeScreen"}


async def test_a_question_that_another_screen_covered_can_be_answered(stage: Stage) -> None:
    async with opened(stage, (80, 24)) as it:
        question = Answers("a line")
        it.app.push_screen(question, question.given.append)
        it.app.push_screen(HelpScreen("sessions", ()))
        await it.until(lambda: isinstance(it.app.screen, HelpScreen))
        await it.press("escape")
        await it.until(lambda: question.pane.is_seen)
        await question.choose(it, "yes")
        assert question.given == ["yes"]
