"""One session, and every place that writes a percentage of its context: each is of the window."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.tui.screens.compact.compact_panes import PlanOptionsBar
from ctxtop.tui.screens.session.session_tabs import SessionTab
from ctxtop.tui.widgets.controls import Slider

from tests import transcripts as made
from tests.sessions_on_disk import rest
from tests.worked import WORDS, Session, numbered

from .compacting import page, planned
from .support import ROOMY, opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended
    from .support import Stage

WINDOW = 200_000
TRIGGER = 167_000
LEVELS = (70, 80, 85, 90, 95, 100)  # percent of the window, by default
FIRST_TOKENS = 12_300
OTHER_BASE = re.compile(
    r"[\d.]+ % (?:less|of the context|of compact)|-?[\d.]+ %$|–\d+ % of compact", re.MULTILINE
)
"""Percentages that say what else they are of: how much smaller a context becomes."""


@pytest.fixture
def transcript(stage: Stage) -> Path:
    """A session that read 15 files twice: a plan by levels frees half of it."""
    session = Session("claude-sonnet-4-6")  # which auto-compacts by default
    session.ask("mend the decoder")
    for number in [*range(15), *range(15), *range(20, 36)]:
        words = f"{WORDS} part {number}"
        session.use("Read", numbered(60, words=words), file_path=f"/src/{number}.py")
    session.say("Done.")
    path = session.write(stage.root / "projects" / made.PROJECT / f"{made.SESSION}.jsonl")
    rest(path)
    return path


@pytest.fixture
def run(stage: Stage, transcript: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    assert transcript.exists()
    places = ("--config-dir", str(stage.root), "--db", str(stage.places.store))
    return partial(call_ctxtop, *places)


def whole(size: float) -> int:
    return int(100 * size / WINDOW + 0.5)


def percents(text: str) -> set[int]:
    return {int(each) for each in re.findall(r"(\d+) ?%", OTHER_BASE.sub("", text))}


def test_a_target_is_understood_as_people_write_it(run: Callable[..., Ended]) -> None:
    wanted = {"tokens": 100_000, "window_tokens": WINDOW, "trigger_tokens": TRIGGER}
    for word in ("0.5", "50%", "50", "100k", "100000", "0.1m"):
        assert run("compact", made.SESSION, "--target", word, "--json").json["target"] == wanted
    assert run("compact", made.SESSION, "--json").json["target"] == wanted
    assert run("compact", made.SESSION, "--level", "3", "--json").json["target"] is None
    for word in ("half", "150%", "300", "-5", "0.5k", ""):
        refused = run("compact", made.SESSION, "--target", word)
        assert refused.code == 2
        assert "neither a share of the window, e.g. 50% or 0.5, nor a size" in refused.err
    assert "more than its window of 200,000" in run("compact", made.SESSION, "--target", "1m").err


async def test_every_place_means_the_window(run: Callable[..., Ended], stage: Stage) -> None:
    plan = run("compact", made.SESSION, "--target", "30%", "--json").json
    (session,) = run("sessions", "--json").json
    now, before, after = (
        whole(size)
        for size in (session["context_tokens"], plan["before_tokens"], plan["after_tokens"])
    )
    parts = {
        whole(each["tokens"])
        for category in run("context", made.SESSION, "--json").json["categories"]
        for each in (category, *category["parts"])
    }
    assert session["limit_ratio"] == session["context_tokens"] / WINDOW
    marks = {whole(TRIGGER), *LEVELS}
    said: dict[str, tuple[str, set[int]]] = {
        "sessions": (run("sessions").out, {now}),
        "context": (run("context", made.SESSION).out, parts | {0, 1}),
        "timeline": (run("timeline", made.SESSION).out, {now, whole(FIRST_TOKENS), *marks}),
        "compact": (
            run("compact", made.SESSION, "--target", "30%").out, {before, after, 30, *marks},
        ),
        "fork": (run("compact", made.SESSION, "--target", "30%", "--apply").out, {30}),
    }  # fmt: skip
    (receipt,) = run("history", "--json").json
    said["receipt"] = (run("history", receipt["receipt_id"]).out, {30})
    async with opened(stage, ROOMY) as it:
        row = next(each for key, each in it.rows().items() if made.SESSION in key)
        said["the list"] = (row, {now})
        await it.press("4")
        await it.until(lambda: "tool results" in it.words)
        said["the breakdown below it"] = ("\n".join(it.rows("fills").values()), parts | {0, 1})
        await it.mark("mend the decoder")
        await it.press("enter")
        await it.reading()
        for tab in (SessionTab.BREAKDOWN, SessionTab.SOURCES):
            said[f"the tab {tab}"] = ("\n".join(it.part(tab)), parts | {0, 1, now, *marks})
        await it.press("c")
        await planned(it)
        sums = str(it.app.screen.query_one("#sums").render())
        slider = it.app.screen.query_one(PlanOptionsBar).query_one("#target", Slider)
        shown = page(it)._planned
        assert shown is not None
        then = whole(shown.plan.after_tokens)
        assert then < 50
        assert "target: 50 % of the window (100 k) is reached" in sums
        said["the plan"] = (f"{sums}\n{slider.render()}", {before, then, 50, *marks})
    wrong = {place: (percents(text) - fits, fits) for place, (text, fits) in said.items()}
    assert {place: each for place, each in wrong.items() if each[0]} == {}
    silent = {place for place, (text, _) in said.items() if not percents(text)}
    assert silent == set()


def test_a_plan_says_whether_it_reaches_its_target(run: Callable[..., Ended]) -> None:
    def lines(*words: str) -> dict[str, Any]:
        plan: dict[str, Any] = run("compact", made.SESSION, *words, "--json").json
        return plan | {"said": " ".join(run("compact", made.SESSION, *words).out.split())}

    least = lines("--level", "4")
    size = -(-least["after_tokens"] // 1000) * 1000
    reached = lines("--target", str(size))
    assert f"% of the window ({size // 1000} k) is reached" in reached["said"]
    assert "above" not in reached["said"]
    assert "compact.target_reduction" not in reached["said"]
    missed = lines("--target", str(size - 5_000))
    assert re.search(r"target +≈ [\d.]+ k above \d+ % of the window", missed["said"])
    assert "--strategy condense goes further" in missed["said"]
