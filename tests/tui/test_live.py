"""What is written while the dashboard looks."""

from __future__ import annotations

import asyncio
import os
import re
import time
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors import store_update
from ctxtop.collectors.demo import DemoFolder, DemoWriter
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.search_queries import search_progress
from ctxtop.tui.app_state.feed import Feed
from ctxtop.tui.base.messages import ViewChanged
from msgspec.structs import replace

from .support import NOW, opened
from .writing import agent_files, answer, append, boundary, launch, prompt, returned, session_file

if TYPE_CHECKING:
    from ctxtop.collectors.demo import DemoSession
    from ctxtop.core.store.queries.search_queries import SearchProgress

    from .support import Opened, Stage

ROOMY = (240, 40)  # as wide as the column of tokens needs
LARGE = "claude-opus-5-5"


def row_of(it: Opened, session: DemoSession) -> str:
    return it.rows()[session.session_id]


async def test_a_new_answer_changes_its_row(untold: Stage) -> None:
    climbs = untold.titled("Move checkout")
    async with opened(untold, ROOMY) as it:
        assert "128 k of 200 k" in row_of(it, climbs)
        append(climbs.transcript, answer(133_700))
        await it.until(lambda: "134 k of 200 k" in row_of(it, climbs))
        assert " 67 %" in row_of(it, climbs)
        assert "67 %" in it.words
        assert "lag " in it.status


async def test_what_grew_before_the_start_says_nothing_of_the_lag(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Fill it", 0), answer(100_000, 0))
    async with opened(stage, ROOMY):
        pass
    append(path, answer(120_000, 1))
    an_hour_ago = path.stat().st_mtime - 3_600
    os.utime(path, (an_hour_ago, an_hour_ago))
    async with opened(stage, ROOMY) as it:
        assert "120 k of 200 k" in it.words
        assert "lag" not in it.status
        append(path, answer(130_000, 2))
        await it.until(lambda: "130 k of 200 k" in it.words)
        seconds = re.search(r"lag ([\d.]+) s", it.status)
        assert seconds
        assert float(seconds[1]) < 60, "not of the hour before"


async def test_a_half_written_line_is_waited_for(untold: Stage) -> None:
    climbs = untold.titled("Move checkout")
    async with opened(untold, ROOMY) as it:
        half = '{"type":"assistant","message":{"id":"x","model":"claude-haiku-4-5"'
        append(climbs.transcript, half.encode())
        append(untold.titled("Fix the flaky").transcript, answer(174_000))
        await it.until(lambda: "174 k" in it.words)
        assert "128 k of 200 k" in row_of(it, climbs)


async def test_each_level_is_told_once(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Fill [/foo] it", 0), answer(100_000, 0))
    async with opened(stage, ROOMY) as it:
        levels = ("notice: 70 %", "warning: 80 %", "high: 85 %", "emergency: 95 %")
        for number, tokens in enumerate((140_000, 160_000, 170_000, 190_000), start=1):
            append(path, answer(tokens))
            await told(it, *levels[:number])
        assert all("Fill [/foo] it" in toast for toast in it.toasts)
        assert "emergency: 95 % reached" in it.words
        append(path, answer(191_000))
        await it.until(lambda: "191 k" in it.words)
        await nothing_more(it)
        assert len(it.toasts) == 4


async def test_of_several_levels_at_once_the_highest_is_told(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Fill it", 0), answer(100_000, 0))
    async with opened(stage, ROOMY) as it:
        append(path, answer(192_000))
        await it.until(lambda: it.toasts)
        await nothing_more(it)
        (toast,) = it.toasts
        assert toast.startswith("emergency: 95 % reached")
        assert "96 % of the window is in use" in toast


async def test_what_was_reached_before_the_start_is_not_told(untold: Stage) -> None:
    full = untold.titled("Fix the flaky")
    async with opened(untold, ROOMY) as it:
        append(full.transcript, answer(163_900))
        await it.until(lambda: "164 k" in row_of(it, full))
        append(full.transcript, answer(165_900))
        await it.until(lambda: "166 k" in row_of(it, full))
        await nothing_more(it)
        assert it.toasts == []


async def test_a_compaction_lets_a_level_be_told_again(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Fill it", 0), answer(100_000, 0))
    async with opened(stage, ROOMY) as it:
        append(path, answer(150_000, 1))
        await it.until(lambda: len(it.toasts) == 1)
        append(path, boundary(8_000, 2))
        await it.until(lambda: "≈54 %" in it.words)
        await it.until(lambda: len(it.toasts) == 2)
        append(path, answer(151_000, 3))
        await it.until(lambda: len(it.toasts) == 3)
        heads = [toast.partition("\n")[0] for toast in it.toasts]
        assert heads == ["notice: 70 % reached", "compacted", "notice: 70 % reached"]


async def test_a_level_is_told_when_another_ctxtop_stored_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Fill it", 0), answer(100_000, 0))
    async with opened(stage, ROOMY) as it:
        # Its collector was faster: ours says nothing, and the store has changed.
        monkeypatch.setattr(Feed, "on_change", lambda *_: None)
        append(path, answer(165_000))
        await it.until(lambda: "83 %" in it.words)
        await it.until(lambda: it.toasts)
        assert it.toasts[0].startswith("warning: 80 % reached")


async def test_a_very_large_window_and_an_agent_have_words_of_their_own(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Fill it", 0), answer(100_000, 0, LARGE))
    async with opened(stage, ROOMY) as it:
        append(path, answer(410_000, 1, LARGE))
        await it.until(lambda: it.toasts)
        assert it.toasts == ["notice: 400 k tokens reached\nFill it\n41 % of the window is in use"]
        agent_files(path, "a1", {"agentType": "reviewer"}, prompt("?", 2), answer(150_000, 3))
        await it.until(lambda: len(it.toasts) == 2)
        assert it.toasts[1].startswith("notice: 70 % reached\nan agent of Fill it")


NOT_AGENT = (("preset", "not-agent"), ("usage.source", "api_last"))


async def test_a_limit_of_the_settings_is_what_shares_are_of(stage: Stage) -> None:
    """The preset says: above 80 % of 100,000 tokens. The window has 200,000."""
    path = session_file(stage.root, 1)
    append(path, prompt("Fill it", 0), answer(70_000, 0))
    stage.places = replace(stage.places, policy=PolicySources(command_line=NOT_AGENT))
    async with opened(stage, ROOMY) as it:
        assert "of limit" in it.lines[2]
        assert "70 k of 100 k" in it.words
        for tokens, level, share, of_window in (
            (75_000, "high: 75 %", "75 %", "38 %"),
            (80_001, "high: 75 %", "80 %", "40 %"),  # it is more urgent than the notice
            (100_001, "overflow: 100 %", "100 %", "50 %"),
        ):
            append(path, answer(tokens, tokens))

            said = f"{share} of the limit of 100,000 tokens, {of_window} of the window is in use"

            def told(level: str = level, said: str = said) -> list[str]:
                return [each for each in it.toasts if each.startswith(level) and said in each]

            await it.until(told)
            newest = told()[-1]
            assert newest.startswith(f"{level} of the limit of 100,000 tokens reached\nFill it\n")
            assert f" {share} " in it.rows()[path.stem]
        await it.press("L")
        await it.until(lambda: "overflow reached at 100 % of the limit of 100,000" in it.words)


async def test_a_new_session_appears(stage: Stage) -> None:
    async with opened(stage, ROOMY) as it:
        assert "No sessions yet" in it.words
        append(session_file(stage.root, 1), prompt("First of all"), answer(20_000))
        await it.until(lambda: it.titles() == ["First of all"])
        assert "1 session " in it.status
        assert "No sessions yet" not in it.words
        append(session_file(stage.root, 2, "-home-dev-b"), prompt("Second"), answer(90_000))
        await it.until(lambda: set(it.titles()) == {"First of all", "Second"})
        await it.settle()
        assert it.pane("sessions").key == "00000001-0000-4000-8000-000000000000"


async def test_an_agent_appears_in_the_tree_and_its_result_below_summaries(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Lead", 0), answer(20_000, 0))
    async with opened(stage, ROOMY) as it:
        assert "no agents in this session" in it.words
        meta = {"agentType": "reviewer", "description": "look twice", "toolUseId": "toolu_1"}
        append(path, launch("toolu_1", "reviewer", "look twice", 21_000))
        agent_files(path, "abc1", meta, prompt("do it"), answer(30_000))
        await it.until(lambda: "└ ● reviewer" in it.words)
        await it.until(lambda: "15 %" in "".join(it.rows("agents").values()))
        assert "running" in it.words
        append(path, returned("toolu_1", "abc1", "kolibri found\nand more"))
        await it.until(lambda: "└ ✓ reviewer" in it.words)
        await it.until(lambda: "2 lines ≈" in it.words)
        await it.until(lambda: "kolibri found" in "".join(it.rows("summaries").values()))
        await it.until(lambda: "2 lines ≈" in "".join(it.rows("summaries").values()))
        await it.press("2", "j", "enter")
        await it.reading()
        assert "kolibri found" in it.words


async def test_a_name_of_the_same_agent_twice_is_shown_twice(stage: Stage) -> None:
    meta = {"agentType": "reviewer", "description": "look", "toolUseId": "toolu_1"}
    for project in ("-home-dev-a", "-home-dev-b"):
        path = session_file(stage.root, 1, project)
        append(path, prompt("Moved", 0), launch("toolu_1", "reviewer", "look", 21_000))
        agent_files(path, "leader", meta, prompt("do it"), answer(30_000))
    async with opened(stage, ROOMY) as it:
        assert it.titles() == ["Moved"]
        await it.until(lambda: "reviewer" in it.words)
        await it.press("2", "j", "enter")
        await it.reading()
        assert "reviewer" in it.lines[0]


async def test_the_mark_stays_on_its_session_while_the_order_changes(untold: Stage) -> None:
    climbs, marked = untold.titled("Move checkout"), untold.titled("Split the ingest worker from")
    async with opened(untold, ROOMY) as it:
        await it.mark("Split the ingest worker from")
        before = it.pane("sessions").rows.highlighted
        append(marked.transcript, answer(990_000, model="claude-opus-5-5"))
        await it.until(lambda: it.titles()[1] == marked.title)
        await it.settle()
        assert it.pane("sessions").key == marked.session_id
        assert it.pane("sessions").rows.highlighted == 1 != before
        append(climbs.transcript, answer(199_000))
        await it.until(lambda: climbs.title in it.titles()[1:3])
        assert it.pane("sessions").key == marked.session_id


async def test_the_mark_goes_to_the_first_when_its_session_is_filtered_out(untold: Stage) -> None:
    async with opened(untold, ROOMY) as it:
        await it.mark("Ship the wishlist")
        await it.press("slash", *"notes", "enter")
        await it.settle()
        assert it.pane("sessions").rows.highlighted == 0


async def test_paused_it_stands_still_and_then_shows_what_came(untold: Stage) -> None:
    climbs = untold.titled("Move checkout")
    async with opened(untold, ROOMY) as it:
        await it.press("p")
        assert "paused" in it.status
        append(climbs.transcript, answer(139_000))
        fleet = it.app.fleet
        await it.until(
            lambda: (
                fleet._waiting
                and any(session.context.tokens == 139_000 for session in fleet._waiting.sessions)
            )
        )
        assert "128 k of 200 k" in row_of(it, climbs)
        assert "139 k" not in it.words
        await it.press("p")
        assert "139 k of 200 k" in row_of(it, climbs)
        assert "live" in it.status


async def test_paused_one_may_still_look_around(untold: Stage) -> None:
    async with opened(untold, ROOMY) as it:
        await it.press("p")
        await it.press(*"jjjjj")
        await it.until(lambda: "▾ Ship the" in "".join(it.rows("agents").values()))
        await it.press("3", "slash", *"terraf", "enter")
        await it.until(lambda: 0 < len(it.rows("summaries")) < 15)


async def test_ages_go_on_while_nothing_happens(untold: Stage) -> None:
    async with opened(untold, ROOMY) as it:
        assert " 38 s" in row_of(it, untold.titled("Ship the wishlist"))
        untold.clock.ms += 3_600_000
        it.app.fleet._refresh_ages()
        await it.calm()
        assert " 1 h" in row_of(it, untold.titled("Ship the wishlist"))


async def test_it_comes_to_rest_when_nothing_happens(untold: Stage) -> None:
    async with opened(untold, ROOMY) as it:
        before, spent = -1, 0.0
        for _ in range(10):  # a slow machine has not yet done what it began
            if before == len(it.messages):
                break
            before, spent = len(it.messages), time.process_time()
            await asyncio.sleep(0.5)
        await asyncio.sleep(2.5)
        views = [one for one in it.messages[before:] if isinstance(one, ViewChanged)]
        assert views == []
        assert time.process_time() - spent < 0.5


@pytest.mark.slow
async def test_the_demo_s_own_writer_is_followed_for_a_round(untold: Stage) -> None:
    writer = DemoWriter(DemoFolder(untold.root, untold.sessions))
    async with opened(untold, ROOMY) as it:
        for _ in range(40):
            writer.step(NOW + timedelta(seconds=1))
        await it.until(lambda: it.toasts)
        for _ in range(90):
            writer.step(NOW + timedelta(seconds=1))
        await it.until(lambda: agents_of(it, untold.titled("Search p95")) > 3)
        compacted = untold.titled("Move checkout").session_id
        await it.until(lambda: compactions_of(it)[compacted] == 1)
        await it.mark("Search p95")
        await it.until(lambda: len(it.rows("agents")) > 2)


def agents_of(it: Opened, session: DemoSession) -> int:
    return next(one.agents for one in it.app.fleet.shown if one.session_id == session.session_id)


def compactions_of(it: Opened) -> dict[str, int]:
    return {one.session_id: one.compactions for one in it.app.fleet.shown}


async def told(it: Opened, *levels: str) -> None:
    await it.until(lambda: len(it.toasts) >= len(levels))
    assert [toast.split(" reached")[0] for toast in it.toasts] == list(levels)


async def nothing_more(it: Opened) -> None:
    """Wait long enough for an unwanted toast to appear."""
    await asyncio.sleep(0.3)
    await it.calm()


async def test_what_may_wait_begins_by_itself(
    untold: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INDEX_AFTER_S", "CALIBRATE_AFTER_S"):
        monkeypatch.setattr(store_update, name, 0.0)
    async with opened(untold) as it:
        await it.until(lambda: read_progress(untold).is_complete)
        await it.until(lambda: has_learned(untold))


def read_progress(stage: Stage) -> SearchProgress:
    with closing(open_reader(stage.places.store)) as db:
        return search_progress(db)


def has_learned(stage: Stage) -> bool:
    with closing(open_reader(stage.places.store)) as db:
        return db.execute("SELECT 1 FROM growth").fetchone() is not None
