"""Mending a session that is too long on the screen."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ctxtop.core.actions import session_recovery
from ctxtop.tui.page_kit.dialogs import ConfirmScreen
from ctxtop.tui.screens.recover_screen import RecoverScreen
from textual.widgets import Button

from ..transcripts import PROJECT, SESSION
from .compacting import everything, kept, receipt_shown, receipts_shown, rows, transcript
from .support import opened
from .test_cli_recover import reverting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest
    from ctxtop.core.model.session import Session

    from .support import Opened, Stage

TITLE = "Explain the invoice run"


@asynccontextmanager
async def recovering(stage: Stage) -> AsyncIterator[Opened]:
    async with opened(stage) as it:
        await it.mark(TITLE)
        await it.press("r")
        await it.until(lambda: isinstance(it.app.screen, RecoverScreen))
        await it.answered()
        yield it


async def test_the_steps_are_shown_and_nothing_is_written(demo: Stage) -> None:
    before = everything(demo)
    async with recovering(demo) as it:
        for words in (
            "ended in a prompt that is too long",
            "210 k of 200 k, 10 k too many",
            "✗ fix_empty",
            "✓ truncate_largest",
            "· summarize         not needed",
            "the session is unchanged",
        ):
            assert words in it.words
        await it.press("j", "k", "y")
        assert "truncate_largest" in it.app.clipboard
        await it.press("a")
        assert "no step needs confirmation" in "\n".join(it.toasts)
        await it.press("escape")
        assert it.app.screen is it.app.fleet
    assert everything(demo) == before


async def test_it_is_mended_in_a_fork(demo: Stage) -> None:
    before = transcript(demo, TITLE).read_bytes()
    async with recovering(demo) as it:
        await it.press("f")
        await receipt_shown(it)
        (receipt,) = kept(demo)
        assert transcript(demo, TITLE).read_bytes() == before
        assert transcript(demo, TITLE).with_name(f"{receipt.new_session_id}.jsonl").exists()
        assert any("recovered with truncate_largest" in toast for toast in it.toasts)
        await it.press("R")
        await receipts_shown(it)
        assert "recover" in rows(it)[0]
        await it.press("escape", "escape")
        await it.answered()
        await it.until(lambda: shown(it).recovered_in == receipt.new_session_id)
        await it.press("f")
        await it.until(lambda: any("it was recovered already" in toast for toast in it.toasts))
        assert len(kept(demo)) == 1
        await it.until(lambda: any("continue in the fork" in toast for toast in it.toasts))
        await it.press("escape", "r")
        assert it.app.screen is it.app.fleet
        assert any("resume the fork" in toast for toast in it.toasts)
        # Without its fork it is to be recovered again, although nothing of its own has changed.
        transcript(demo, TITLE).with_name(f"{receipt.new_session_id}.jsonl").unlink()
        await it.until(lambda: shown(it).too_long is not None, 20)


def shown(it: Opened) -> Session:
    """The session in the newest view."""
    assert it.app.view
    return next(each for each in it.app.view.sessions if each.title == TITLE)


async def test_a_step_that_loses_something_asks_first(stage: Stage) -> None:
    path = reverting(stage.root / "projects" / PROJECT / f"{SESSION}.jsonl")
    before = path.read_bytes()
    async with opened(stage) as it:
        await it.press("r")
        await it.until(lambda: isinstance(it.app.screen, RecoverScreen))
        await it.until(lambda: "? revert" in it.words)
        assert it.app.screen.query_one("#mend", Button).disabled
        await it.press("f")
        assert "no recovery step frees enough yet" in "\n".join(it.toasts)
        await it.press("a")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        assert "removes your last prompt" in " ".join(it.words.split())
        await it.press("enter")
        assert "? revert" in it.words
        await it.press("a")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        await it.read_question()
        await it.press("right", "enter")
        await it.until(lambda: "✓ revert" in it.words)
        assert "to ask again there:" in it.words
        await it.press("f")
        await receipt_shown(it)
        assert any("recovered with revert" in toast for toast in it.toasts)
    assert path.read_bytes() == before


async def test_what_cannot_be_read_is_a_line(demo: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def shut(*_: object) -> object:
        raise PermissionError(13, "Permission denied", "/x")

    monkeypatch.setattr(session_recovery, "preview_recovery", shut)
    async with recovering(demo) as it:
        assert "/x: Permission denied: nothing was changed" in it.words
        assert it.app.screen.query_one("#mend", Button).disabled


async def test_r_on_a_session_that_is_well_says_why_not(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Fix the flaky")
        await it.press("r")
        assert it.app.screen is it.app.fleet
        assert "only a session that is too long can be recovered" in "\n".join(it.toasts)
