"""What an agent returned, and below it what it was given at its start."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ctxtop.collectors.plugin_files.state_files import record_answer
from ctxtop.tui.screens.agents.agent_report import INJECTABLE_TITLE, INJECTED_TITLE

from .support import opened
from .writing import agent_files, answer, append, launch, prompt, returned, session_file

if TYPE_CHECKING:
    from .support import Stage


async def test_what_it_was_given_stands_below_what_it_returned(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Live"), launch("t1", "worker", "Build it", 20_000))
    agent_files(path, "a1", {"agentType": "worker", "toolUseId": "t1"}, answer(9_000))
    append(path, returned("t1", "a1", "Built."), answer(21_000))
    record_answer(
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
        await it.until(lambda: INJECTED_TITLE in it.text)
        assert "Result: 1 line, no format asked for\nBuilt." in it.text
        assert "\n  same type: b7, of the same type, earlier, at most 120 tokens" in it.text
        assert "─ Conversation ─" not in it.words
        await it.resize((200, 60))
        await it.until(lambda: "─ Conversation ─" in it.words and "9 k" in it.words)


async def test_of_an_agent_that_was_given_nothing_nothing_is_said(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Live"), launch("t1", "worker", "Build it", 20_000))
    append(path, returned("t1", "a1", "Built."), answer(21_000))
    async with opened(stage) as it:
        await it.mark("Live")
        await it.press("tab", "j", "enter")
        await it.reading()
        asked = threading.Event()
        it.app.lookup_worker.submit(asked.set, lambda _: None)
        await it.until(asked.is_set)
        assert INJECTED_TITLE not in it.text
        assert INJECTABLE_TITLE not in it.text


async def test_what_there_was_for_it_is_worked_out_again(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Live"))
    for number, kind in enumerate(("worker", "docs", "worker")):
        append(path, launch(f"t{number}", kind, f"Task {number}", 20_000, 60 * number))
        own = [prompt(f"Do {number}.", 60 * number), answer(9_000, 60 * number + 20)]
        meta = {"agentType": kind, "toolUseId": f"t{number}"}
        agent_files(path, f"a{number}", meta, *own)
        append(path, returned(f"t{number}", f"a{number}", f"Built {number}.", 60 * number + 30))
    async with opened(stage) as it:
        await it.mark("Live")
        await it.press("tab", "G", "enter")
        await it.reading()
        await it.until(lambda: "Do 2." in it.text)
        await it.until(lambda: INJECTABLE_TITLE in it.text)
        assert "a0" in it.text.partition(INJECTABLE_TITLE)[2]


async def test_it_follows_the_agent_and_y_copies_the_result(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Live"), launch("t1", "worker", "Build it", 20_000))
    agent_files(path, "a1", {"agentType": "worker", "toolUseId": "t1"}, answer(9_000))
    async with opened(stage) as it:
        await it.mark("Live")
        await it.press("tab", "j", "enter")
        await it.reading()
        assert "Last message\ndone" in it.text
        append(path, returned("t1", "a1", "Built.\nAll of it."), answer(21_000))
        await it.until(lambda: "no format asked for\nBuilt.\nAll of it." in it.text)
        await it.press("y")
        assert it.app.clipboard == "Built.\nAll of it."
        await it.resize((60, 20))
        await it.until(lambda: max(map(len, it.text.split("\n"))) <= 54)
