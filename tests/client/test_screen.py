"""The client in a terminal: its status line, its registry, and what a person does to it."""

from __future__ import annotations

import os
import shutil
import signal
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.own_files import own_log_folder
from ctxtop.collectors.plugin.fresh_compaction import find_fresh_compaction
from ctxtop.collectors.plugin.statusline import render_status_line
from ctxtop.core.measure.session_building import ACTIVE_MS
from ctxtop.core.model.context import ContextState
from ctxtop.core.model.context_window import ClaimSource
from ctxtop.core.model.session import SessionStatus
from ctxtop.core.model.transcript_records import LogKind

from .lab import LARGE, SMALL

if TYPE_CHECKING:
    from .lab import Lab
    from .ledger import Judge

pytestmark = pytest.mark.usefixtures("terminal")

FETCH = 'tool:WebFetch|{"url": "http://127.0.0.1:1/x", "prompt": "?"}'


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_the_status_line_says_the_same(lab: Lab, judge: Judge, model: str) -> None:
    screen = lab.interactive(model=model)
    # Halves, and what stands just below them: the client rounds half up.
    for usage in (29_000, 57_499, 57_500, 145_000, 155_000):
        status = screen.ask(f"Next. [[bash:echo hi&&&usage:20000]] [[say:ok&&&usage:{usage}/12]]")
        assert judge.status(status).context.tokens == usage
    # The second in one process has written earlier lines again in some versions.
    for usage in (17_000, 19_000):
        reported = screen.compact()
        session = judge.status(reported)
        assert session.context.state is ContextState.ESTIMATED
        compacted = find_fresh_compaction(reported["transcript_path"])
        assert render_status_line(reported, {}, None, compacted).startswith("context ≈")
        judge.status(screen.ask(f"Again. [[say:ok&&&usage:{usage}]]"))
    store = lab.root / "beside" / "ctxtop.db"
    own_log_folder(store).mkdir(parents=True)
    shutil.copy(lab.status_log, own_log_folder(store) / LogKind.STATUS_LINE)
    window = lab.ctxtop(store).sessions[session.session_id].context.window
    assert (window.tokens, window.source) == (
        session.context.window.tokens,
        ClaimSource.STATUS_LINE,
    )


def test_the_registry_says_what_it_is_doing(lab: Lab, judge: Judge) -> None:
    screen = lab.interactive()
    session_id = screen.session_id

    def status() -> SessionStatus:
        return lab.ctxtop().sessions[session_id].status

    judge.status(screen.ask("Hi. [[say:ok&&&usage:21000]]"))
    assert status() is SessionStatus.IDLE
    screen.type(f"Think. [[held:{lab.go}&&&say:ok&&&usage:22000]]")
    screen.until_status("busy")
    assert status() is SessionStatus.BUSY
    lab.let_go()
    judge.status(screen.settle())
    screen.type(f"Fetch. [[{FETCH}&&&usage:23000]] [[say:ok&&&usage:24000]]")
    screen.until_status("waiting")
    assert status() is SessionStatus.WAITING
    assert lab.ctxtop().sessions[session_id].tmux == screen.entry()["tmux"]
    screen.press("Escape")
    screen.settle()
    screen.leave()
    assert status() not in {SessionStatus.IDLE, SessionStatus.BUSY, SessionStatus.WAITING}
    after = lab.ctxtop(later_ms=ACTIVE_MS).sessions[session_id]
    assert (after.status, after.live, after.tmux) == (SessionStatus.ENDED, False, None)


def test_an_entry_that_a_killed_client_leaves_is_not_believed(lab: Lab) -> None:
    screen = lab.interactive()
    session_id = screen.session_id
    screen.ask("Hi. [[say:ok&&&usage:21000]]")
    os.kill(screen.entry()["pid"], signal.SIGKILL)
    screen.until(
        lambda: lab.ctxtop(later_ms=ACTIVE_MS).sessions[session_id].status is SessionStatus.ENDED,
        "the end",
    )
    assert screen.entry()


def test_what_has_ended_is_not_live(lab: Lab) -> None:
    screen = lab.interactive()
    session_id = screen.session_id
    screen.ask("Hi. [[say:ok&&&usage:21000]]")
    screen.leave()
    assert not lab.ctxtop().sessions[session_id].live


def test_a_prompt_that_is_interrupted(lab: Lab, judge: Judge) -> None:
    screen = lab.interactive()
    judge.status(screen.ask("Hi. [[say:ok&&&usage:21000]]"))
    screen.type(f"Slow. [[held:{lab.go}&&&say:never&&&usage:90000]]")
    screen.until_status("busy")
    screen.press("Escape")
    status = screen.settle()
    session = lab.ctxtop().sessions[screen.session_id]
    used = status["context_window"]["current_usage"]
    assert session.context.tokens == sum(used.values()) - used["output_tokens"] == 21_000


def test_an_answer_that_is_interrupted(lab: Lab) -> None:
    screen = lab.interactive()
    screen.type("Slow. [[pause:1&&&say:one&&&say:two&&&say:three&&&say:four&&&usage:66000/90]]")
    screen.until(lambda: "● one" in screen.text(), "the first words")
    screen.press("Escape")
    status = screen.settle()
    session = lab.ctxtop().sessions[screen.session_id]
    used = status["context_window"]["current_usage"]
    assert session.context.tokens == sum(used.values()) - used["output_tokens"] == 66_000


def test_branches_and_a_clear(lab: Lab, judge: Judge) -> None:
    screen = lab.interactive()
    first = screen.session_id
    judge.status(screen.ask("Hi. [[say:ok&&&usage:21000]]"))
    screen.type("/branch other")
    screen.until(lambda: screen.session_id != first, "the branch")
    judge.status(screen.ask("There. [[say:ok&&&usage:24000]]"), resumed=first)
    second = screen.session_id
    screen.type("/clear")
    screen.until(lambda: screen.session_id != second, "the new session")
    assert lab.ctxtop().sessions[screen.session_id].context.state is ContextState.UNKNOWN
    judge.status(screen.ask("Anew. [[say:ok&&&usage:14000]]"))
    tokens = [session.context.tokens for session in lab.ctxtop().sessions.values()]
    assert sorted(map(int, filter(None, tokens))) == [14_000, 21_000, 24_000]


def test_a_rewind_shows_what_the_client_shows(lab: Lab) -> None:
    logs = own_log_folder(lab.store)
    screen = lab.interactive(model=LARGE)
    session_id = screen.session_id
    for usage in (30_000, 300_000, 500_000):
        screen.ask(f"Next {usage}. [[say:ok&&&usage:{usage}]]")
    screen.type("/rewind")
    screen.until(lambda: "(current)" in screen.text(), "the list")
    screen.press("Up", "Up", "Enter")
    screen.until(lambda: "Restore conversation" in screen.text(), "the question")
    screen.press("Enter")
    screen.until(lambda: "Next 500000" not in screen.text(), "the rewind")
    status = screen.settle()
    assert status["context_window"]["used_percentage"] == 3
    logs.mkdir(parents=True)
    shutil.copy(lab.status_log, logs / LogKind.STATUS_LINE)
    context = lab.ctxtop().sessions[session_id].context
    assert (context.tokens, context.state) == (30_000, ContextState.MEASURED)
    screen.press("C-u")
    screen.ask("Other. [[say:ok&&&usage:31000]]")
    assert lab.ctxtop().sessions[session_id].context.tokens == 31_000


def test_right_after_a_compaction_the_estimate_is_near_what_is_sent_next(lab: Lab) -> None:
    file = lab.project / "shop.py"
    file.write_text("".join(f"price_{n} = {n} * RATE\n" for n in range(100)), encoding="utf-8")
    screen = lab.interactive(model=LARGE)
    counted = "&&&usage:counted"
    screen.ask(f"One. [[read:{file}{counted}]] [[bash:seq 1 900{counted}]] [[say:ok{counted}]]")
    screen.compact()
    estimated = lab.ctxtop().sessions[screen.session_id].context
    screen.ask(f"Two. [[say:ok{counted}]]")
    sent = lab.ctxtop().sessions[screen.session_id].context
    print(f"estimated {estimated.tokens:,}, sent {sent.tokens:,}")
    assert estimated.state is ContextState.ESTIMATED
    assert estimated.tokens == pytest.approx(sent.tokens, rel=0.15)


def test_a_session_that_is_opened_again(lab: Lab, judge: Judge) -> None:
    turn = lab.turn("Hi. [[bash:seq 1 9&&&usage:20000]] [[say:ok&&&usage:57500/12]]")
    judge.turn(turn)
    screen = lab.interactive("--resume", turn.session_id)
    screen.until(lambda: bool(lab.statuses(turn.session_id)), "the status line")
    judge.status(screen.settle())
    judge.status(screen.ask("On. [[say:ok&&&usage:58000]]"))


def test_another_model_is_chosen(lab: Lab, judge: Judge) -> None:
    screen = lab.interactive(model=SMALL)
    judge.status(screen.ask("Hi. [[say:ok&&&usage:33000]]"))
    screen.type(f"/model {LARGE}")
    screen.until_status("waiting")
    screen.press("Enter")
    judge.status(screen.settle())
