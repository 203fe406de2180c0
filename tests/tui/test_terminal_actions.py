"""The keys that act on a session's terminal, and the dialogs that they open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.terminal import prompt_answer, session_jump, session_resume
from ctxtop.collectors.terminal.pending_calls import PendingCall
from ctxtop.collectors.terminal.permission_prompt import PermissionPrompt, PromptRefusedError
from ctxtop.collectors.terminal.prompt_answer import Answer, ProvedPrompt
from ctxtop.collectors.terminal.session_jump import ElsewhereError, NoTerminalError
from ctxtop.collectors.terminal.session_resume import (
    NotResumedError,
    ResumeFailure,
    ResumePlace,
    ResumePlan,
)
from ctxtop.collectors.terminal.tmux_panes import TmuxPane
from ctxtop.tui.page_kit.terminal_dialogs import AnswerScreen, ResumeScreen
from ctxtop.tui.screens.session.session_screen import SessionScreen
from ctxtop.tui.screens.summaries.summaries_screen import SummariesScreen
from ctxtop.tui.widgets.header_footer import StatusLine
from msgspec.structs import replace
from textual.widgets import Button

from .support import opened

if TYPE_CHECKING:
    from ctxtop.core.model.session import Session

    from .support import Opened, Stage

WAITS = "Rotate the database password"
COMMAND = "psql -c 'ALTER [bold]USER'\n  rm -rf build"
PROMPT = PermissionPrompt(
    title="Bash command",
    agent="",
    subject="Rotate it",
    body=COMMAND,
    notes="This command requires approval",
    question="Do you want to proceed?",
    options=("Yes", "Yes, and don't ask again", "No"),
)
CALL = PendingCall("toolu_1", "Bash", {"description": "Rotate it", "command": COMMAND})
SHOWN = ProvedPrompt(7, TmuxPane("/none", "%1"), PROMPT, CALL)


HIDDEN = "ls -la" + "\n" * 35 + "touch pwned"


class Client:
    """What the app asks the client for, instead of the client."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.given: list[Answer] = []
        self.shown = SHOWN
        self.refuses = ""
        monkeypatch.setattr(prompt_answer, "prove_prompt", self.prove)
        monkeypatch.setattr(prompt_answer, "answer_prompt", self.answer)

    def prove(self, target: prompt_answer.PromptTarget) -> ProvedPrompt:
        self.asked.append(target.session_id)
        if self.refuses:
            raise PromptRefusedError(self.refuses)
        return self.shown

    def answer(
        self, target: prompt_answer.PromptTarget, shown: ProvedPrompt, answer: Answer
    ) -> None:
        assert shown is self.shown
        if self.refuses:
            raise PromptRefusedError(self.refuses)
        self.given.append(answer)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    return Client(monkeypatch)


async def ask(it: Opened) -> None:
    await it.mark(WAITS)
    await it.press("a")
    await it.until(lambda: isinstance(it.app.screen, AnswerScreen) and it.app.screen.takes_keys)


@pytest.mark.parametrize(("key", "answer"), [("y", Answer.YES), ("n", Answer.NO)])
async def test_a_prompt_is_answered_after_it_was_shown_whole(
    demo: Stage, client: Client, key: str, answer: Answer
) -> None:
    async with opened(demo) as it:
        await ask(it)
        assert client.asked == [demo.titled(WAITS).session_id]
        for words in (WAITS, "psql -c 'ALTER [bold]USER'", "  rm -rf build", "Rotate it"):
            assert words in it.words
        assert PROMPT.notes in it.words
        assert client.given == []
        await it.press(key)
        await it.until(lambda: client.given)
        assert client.given == [answer]
        await it.until(lambda: any(f"answered {answer}: Bash" in each for each in it.toasts))


def asks_for(command: str) -> ProvedPrompt:
    call = replace(CALL, input={"command": command, "description": "Rotate it"})
    return replace(SHOWN, call=call, prompt=replace(PROMPT, body=command))


@pytest.mark.parametrize("columns", [24, 36, 40, 60])
async def test_every_answer_is_whole_in_a_narrow_terminal(
    demo: Stage, client: Client, columns: int
) -> None:
    async with opened(demo, (columns, 24)) as it:
        await it.press("w")
        await ask(it)
        foot = it.app.screen.query_one("#foot").region
        buttons = it.app.screen.query(Button)
        assert [str(each.label) for each in buttons] == ["Esc Cancel", "y Yes, once", "n No"]
        for each in buttons:
            assert foot.contains_region(each.region)
            assert str(each.label) in it.words


async def test_a_command_below_empty_lines_is_seen_before_it_is_approved(
    demo: Stage, client: Client
) -> None:
    client.shown = asks_for(HIDDEN)
    async with opened(demo, (80, 24)) as it:
        await ask(it)
        for words in ("ls -la", "<34 empty lines>", "touch pwned", PROMPT.question):
            assert words in it.words
        await it.press("y")
        await it.until(lambda: client.given == [Answer.YES])


async def test_a_command_below_many_lines_is_not_approved_unseen(
    demo: Stage, client: Client
) -> None:
    client.shown = asks_for("\n".join(["ls -la", *("#" for _ in range(34)), "touch pwned"]))
    async with opened(demo, (80, 24)) as it:
        await it.press("w")
        await ask(it)
        assert "touch pwned" not in it.words
        await it.press("y")
        assert client.given == []
        await it.press("space", "space", "space")
        assert "touch pwned" in it.words
        dialog = it.app.screen
        assert isinstance(dialog, AnswerScreen)
        await it.until(lambda: dialog.takes_keys)
        await it.press("y")
        await it.until(lambda: client.given == [Answer.YES])


async def test_characters_that_are_not_seen_are_named(demo: Stage, client: Client) -> None:
    client.shown = asks_for("cat a\u202etxt.exe\u200b\nrm\u00a0b")
    async with opened(demo, (80, 24)) as it:
        await ask(it)
        assert "cat a<U+202E>txt.exe<U+200B>" in it.words
        assert "rm<U+00A0>b" in it.words


@pytest.mark.parametrize("key", ["escape", "q", "enter"])
async def test_nothing_is_answered_without_a_choice(demo: Stage, client: Client, key: str) -> None:
    async with opened(demo) as it:
        await ask(it)
        await it.press(key)
        assert it.is_home
        assert client.given == []


async def test_a_refusal_is_one_line(demo: Stage, client: Client) -> None:
    async with opened(demo) as it:
        client.refuses = "the pane %1 is in copy mode: leave that mode first"
        await it.mark(WAITS)
        await it.press("a")
        await it.until(lambda: it.toasts)
        assert it.toasts == [f"{WAITS}\nnot answered: {client.refuses}"]
        client.refuses = ""
        await ask(it)
        client.refuses = "its prompt has changed since it was shown"
        await it.press("y")
        await it.until(lambda: any(client.refuses in each for each in it.toasts))
        assert client.given == []


async def test_the_first_that_waits_is_a_key_and_a_click_away(demo: Stage) -> None:
    async with opened(demo) as it:
        waiting = demo.titled(WAITS).session_id
        await it.press("g", "j", "j", "w")
        assert it.app.fleet.marked == waiting
        await it.press("j", "enter")
        await it.until(lambda: isinstance(it.app.screen, SessionScreen))
        await it.press("w")
        assert it.is_home
        assert it.app.fleet.marked == waiting
        await it.press("j")
        place = it.status.index("waits for you")
        await it.pilot.click(it.app.screen.query_one(StatusLine), offset=(place, 0))
        await it.until(lambda: it.app.fleet.marked == waiting)
        await it.press("j")
        await it.pilot.click(it.app.screen.query_one(StatusLine), offset=(2, 0))
        await it.calm()
        assert it.app.fleet.marked != waiting


async def test_a_folded_project_is_opened_for_the_one_that_waits(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark(WAITS)
        await it.press("o", "left")
        assert it.app.fleet.arrangement.folded
        await it.press("w")
        assert it.app.fleet.marked == demo.titled(WAITS).session_id
        # A filter hides it: its page is opened instead.
        await it.press("slash", *"ledger", "enter", "w")
        await it.until(lambda: isinstance(it.app.screen, SessionScreen))
        session = it.app.current_session
        assert session is not None
        assert session.session_id == demo.titled(WAITS).session_id


async def test_the_terminal_is_shown_or_named(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers: list[str | Exception] = [
        "work:3.1",
        ElsewhereError("work:3.1", "tmux attach -t work:3.1"),
        NoTerminalError("it is not open in Claude Code: resume it instead"),
    ]

    def jump(_folder: object, session_id: str) -> str:
        asked.append(session_id)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(session_jump, "jump_to_session", jump)
    async with opened(demo) as it:
        await it.mark(WAITS)
        await it.press("T")
        await it.until(lambda: len(asked) == 1)
        assert it.toasts == []
        await it.press("T")
        await it.until(lambda: it.toasts)
        assert "it is in the tmux pane work:3.1: tmux attach -t work:3.1 (copied)" in it.toasts[0]
        assert it.app.clipboard == "tmux attach -t work:3.1"
        await it.press("T")
        await it.until(lambda: len(it.toasts) == 2)
        assert "resume it instead" in it.toasts[1]
        assert set(asked) == {demo.titled(WAITS).session_id}


@pytest.fixture
def plan(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> ResumePlan:
    made = ResumePlan("11111111-1111-4111-8111-111111111111", "/it's [x]", None)
    monkeypatch.setattr(session_resume, "plan_resume", lambda _folder, _session: made)
    return made


async def offer(it: Opened) -> None:
    await it.press("e")
    await it.until(lambda: isinstance(it.app.screen, ResumeScreen) and it.app.screen.takes_keys)


async def test_the_command_is_shown_and_copied(
    demo: Stage, plan: ResumePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    async with opened(demo) as it:
        await offer(it)
        assert plan.command in it.words
        assert "New window" not in it.words
        # There is no tmux to open a window in.
        await it.press("w")
        assert isinstance(it.app.screen, ResumeScreen)
        await it.press("y")
        assert it.app.clipboard == plan.command
        assert it.is_home


async def test_the_dialog_says_what_a_resume_rewrites(stage: Stage, plan: ResumePlan) -> None:
    async with opened(stage) as it:
        cost = "cold: a resume rewrites 225 k, ≈$2.30"
        it.app.push_screen(ResumeScreen("Fix it", plan, cost, in_tmux=False))
        await it.until(lambda: cost in it.words)


async def test_a_window_or_a_split_is_opened_by_choice(
    demo: Stage, plan: ResumePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[ResumePlace] = []

    def open_in_tmux(given: ResumePlan, place: ResumePlace) -> str:
        assert given is plan
        places.append(place)
        if place is ResumePlace.SPLIT:
            raise NotResumedError(ResumeFailure.FAILED, "tmux refused: no space for new pane")
        return "work:4.0"

    monkeypatch.setattr(session_resume, "resume_in_tmux", open_in_tmux)
    monkeypatch.setattr("ctxtop.collectors.terminal.tmux_panes.own_pane", lambda: SHOWN.pane)
    async with opened(demo) as it:
        await offer(it)
        await it.press("w")
        await it.until(lambda: any("resumed in the tmux pane work:4.0" in one for one in it.toasts))
        await it.press("S")
        await offer(it)
        await it.press("s")
        await it.until(lambda: any("no space for new pane" in one for one in it.toasts))
        assert places == [ResumePlace.WINDOW, ResumePlace.SPLIT]


async def test_a_summary_s_own_session_is_resumed(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuse(_folder: object, session: Session) -> ResumePlan:
        asked.append(session.session_id)
        raise NotResumedError(ResumeFailure.NOTHING, "nothing")

    monkeypatch.setattr(session_resume, "plan_resume", refuse)
    async with opened(demo) as it:
        await it.press("S")
        await it.until(lambda: getattr(it.app.screen, "listed_session_id", None))
        page = it.app.screen
        assert isinstance(page, SummariesScreen)
        for _ in range(3):
            await it.press("j")
            await it.answered()
        await it.press("e")
        await it.until(lambda: asked)
        assert asked == [page.listed_session_id]


async def test_what_is_open_is_not_resumed(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_folder: object, _session: object) -> ResumePlan:
        raise NotResumedError(ResumeFailure.LIVE, "it is open in process 7: go to its terminal")

    monkeypatch.setattr(session_resume, "plan_resume", refuse)
    async with opened(demo) as it:
        await it.press("e")
        await it.until(lambda: it.toasts)
        assert "not resumed: it is open in process 7" in it.toasts[0]
