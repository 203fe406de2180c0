"""What an agent returned, and below it what it was given at its start."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ctxtop.collectors.plugin.kept import keep
from ctxtop.tui.screens.agent import GIVEN

from .support import opened
from .writing import agent_files, answer, append, launch, prompt, returned, session_file

if TYPE_CHECKING:
    from .support import Stage


async def test_what_it_was_given_stands_below_what_it_returned(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Live"), launch("t1", "worker", "Build it", 20_000))
    agent_files(path, "a1", {"agentType": "worker", "toolUseId": "t1"}, answer(9_000))
    append(path, returned("t1", "a1", "Built."), answer(21_000))
    keep(
        stage.places.store,
        "inject",
        session_id=path.stem,
        agent_id="a1",
        kind="same_type",
        text="of the same type, earlier",
        tokens=120,
        from_session_id="s0",
        from_agent_id="b7",
    )
    async with opened(stage) as it:
        await it.mark("Live")
        await it.press("tab", "j", "enter")
        await it.reading()
        await it.until(lambda: GIVEN in it.text)
        assert it.text.startswith("Built.")
        assert "\n  same type: b7, of the same type, earlier, at most 120 tokens" in it.text


async def test_of_an_agent_that_was_given_nothing_nothing_is_said(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Live"), launch("t1", "worker", "Build it", 20_000))
    append(path, returned("t1", "a1", "Built."), answer(21_000))
    async with opened(stage) as it:
        await it.mark("Live")
        await it.press("tab", "j", "enter")
        await it.reading()
        asked = threading.Event()
        it.app.feed.lookup.ask(lambda _: asked.set(), lambda _: None)
        await it.until(asked.is_set)
        assert it.text == "Built."
