"""Five hundred agents of one session: keys answer, and only what changed is drawn."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from ctxtop.tui.screens.agents.agents_screen import AgentsScreen

from .support import opened
from .writing import agent_files, answer, append, launch, prompt, returned, session_file

if TYPE_CHECKING:
    from .support import Stage

AGENTS = 500
KEYS = 40
MOST_S = 0.2
"""Of the screen's own thread: for a key and all frames that follow it."""


async def test_five_hundred_agents_of_one_session_stay_smooth(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Many"))
    for number in range(AGENTS):
        call, agent_id = f"t{number}", f"a{number:03}"
        append(path, launch(call, "worker", f"Task {number}", 20_000, number))
        agent_files(path, agent_id, {"agentType": "worker", "toolUseId": call}, answer(9_000))
        if number < AGENTS - 1:
            append(path, returned(call, agent_id, f"Result {number}.\nDone.", number + 0.5))
    async with opened(stage) as it:
        await it.press("A")
        screen = it.app.screen
        assert isinstance(screen, AgentsScreen)
        pane = screen._pane
        await it.until(lambda: len(pane.shown) == AGENTS + 1, 30)
        took = []
        for key in (["j"] * 10 + ["ctrl+d"] * 10 + ["G", "g"] * 10)[:KEYS]:
            began = time.thread_time()
            await it.press(key)
            took.append(time.thread_time() - began)
        assert median(took) < MOST_S
        before = {row.key: row for row in pane.shown}
        append(path, returned(f"t{AGENTS - 1}", f"a{AGENTS - 1}", "The last.", AGENTS + 9))
        await it.until(lambda: "running" not in pane.shown[-1].content.plain, 30)
        same = sum(before[row.key] is row for row in pane.shown)
        assert same >= AGENTS - 1
