"""Making a session smaller on the screen: the plan, what is switched off, and carrying it out."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors import session_target
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.core.actions import session_compaction
from ctxtop.core.actions.session_access import ActionFailure, SessionAccess
from ctxtop.core.compaction.plan import Severity
from ctxtop.tui.page_kit.dialogs import ConfirmScreen
from ctxtop.tui.page_kit.page import ReadingScreen
from ctxtop.tui.screens.compact.action_page import AskClientScreen
from ctxtop.tui.screens.compact.compact_panes import BY_LEVEL
from ctxtop.tui.screens.compact.compact_screen import CompactScreen
from ctxtop.tui.widgets.controls import Choice, Slider
from ctxtop.tui.widgets.row_list import Rows
from msgspec.structs import replace
from textual.widgets import Button, Input

from .compacting import (
    LARGE,
    LIVE,
    boxes,
    compacting,
    confirmed,
    everything,
    kept,
    mark_row,
    page,
    pane,
    planned,
    receipt_shown,
    rows,
    transcript,
)
from .support import NOW_MS, opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended
    from .support import Opened, Stage

OLD_S = NOW_MS / 1000 - 3600


def sums(it: Opened) -> str:
    return str(it.app.screen.query_one("#sums").render())


def after(it: Opened) -> int:
    shown = page(it)._planned
    assert shown is not None
    return shown.plan.after_tokens


async def test_the_page_shows_the_plan_that_the_command_makes(
    demo: Stage, call_ctxtop: Callable[..., Ended]
) -> None:
    before = everything(demo)
    async with compacting(demo) as it:
        found = page(it)._planned
        assert found is not None
        shown = found.plan
        assert "not applied yet" in it.words
        assert f"plan {shown.plan_id}" in it.words
        assert "now " in sums(it)
        assert "after " in sums(it)
        assert "breaks even" in sums(it)
        assert "Operations: 12 of 12 on" in it.words
    assert everything(demo) == before
    session_id = demo.titled(LARGE).session_id
    places = ("--config-dir", str(demo.root), "--db", str(demo.places.store))
    ended = call_ctxtop("compact", session_id, *places, "--json")
    plan = json.loads(ended.out)
    assert plan["plan_id"] == shown.plan_id
    assert plan["after_tokens"] == shown.after_tokens


async def test_space_switches_an_operation_and_the_sums_follow(demo: Stage) -> None:
    async with compacting(demo) as it:
        whole = after(it)
        places = [n for n, row in enumerate(rows(it)) if row.startswith("[x]") and "  " in row]
        await it.press("g", "j", "space")
        await planned(it)
        item = pane(it).marked
        assert item is not None
        (operation,) = item.operations
        # Thinking stays too that only this change would have made invalid.
        assert after(it) >= whole + operation.tokens_saved
        assert boxes(it)[1] == " "
        assert "Operations: 11 of 12 on" in it.words
        assert len(places) > 12
        await it.press("space")
        await planned(it)
        assert after(it) == whole
        assert "Operations: 12 of 12 on" in it.words


async def test_a_strategy_is_switched_as_a_whole_and_a_switches_all(demo: Stage) -> None:
    async with compacting(demo) as it:
        whole = after(it)
        await it.press("g")
        head = pane(it).marked
        assert head is not None
        assert head.is_header
        await it.press("space")
        await planned(it)
        assert after(it) >= whole + sum(each.tokens_saved for each in head.operations)
        await it.press("j", "space")
        await planned(it)
        assert boxes(it)[0] in {"-", "x"}
        await it.press("a")
        await planned(it)
        assert after(it) == whole
        await it.press("a")
        await planned(it)
        assert "x" not in boxes(it)
        assert it.app.screen.query_one("#fork", Button).disabled
        await it.press("f")
        assert "nothing to do" in "\n".join(it.toasts)


async def test_what_follows_or_is_protected_says_why_it_stays(demo: Stage) -> None:
    async with compacting(demo) as it:
        await mark_row(it, "protected: newest turns")
        await it.press("space")
        assert "protected: newest turns" in "\n".join(it.toasts)
        await mark_row(it, "the newest answer's usage")
        await it.press("space")
        assert "depends on the others" in "\n".join(it.toasts)


async def test_a_click_on_a_box_switches_and_one_beside_it_marks(demo: Stage) -> None:
    async with compacting(demo) as it:
        listed = it.app.screen.query_one(Rows)
        await it.pilot.click(listed, offset=(1, 2))
        await planned(it)
        assert boxes(it)[2] == " "
        await it.pilot.click(listed, offset=(30, 1))
        await planned(it)
        assert listed.highlighted == 1
        assert boxes(it)[1] == "x"


async def test_enter_shows_the_text_and_what_stands_in_its_place(demo: Stage) -> None:
    async with compacting(demo) as it:
        await mark_row(it, "  Read ")
        item = pane(it).marked
        assert item is not None
        await it.until(lambda: " - " in str(it.app.screen.query_one("#change").render()))
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ReadingScreen))
        screen = it.app.screen
        assert isinstance(screen, ReadingScreen)
        words = screen._content.plain
        assert item.operations[0].what in words
        assert "  - " in words
        assert "  + " in words
        await it.press("escape")
        await it.press("right")
        await it.until(lambda: isinstance(it.app.screen, ReadingScreen))


async def test_the_sliders_plan_anew_with_keys_from_anywhere(demo: Stage) -> None:
    async with compacting(demo) as it:
        before = after(it)
        await it.press("minus", "minus", "minus", "minus")
        await planned(it)
        level = it.app.screen.query_one("#level", Slider)
        assert level.value == 0
        assert after(it) > before
        found = page(it)._planned
        assert found is not None
        assert found.plan.harm is Severity.FILE_ONLY
        await it.press("plus", "comma")
        await planned(it)
        assert it.app.screen.query_one("#target", Slider).value == 45


async def test_a_slider_is_moved_by_keys_click_and_drag(demo: Stage) -> None:
    async with compacting(demo) as it:
        keep = it.app.screen.query_one("#keep", Slider)
        keep.focus()
        for key, value in (
            ("right", 6),
            ("l", 7),
            ("h", 6),
            ("left", 5),
            ("shift+right", 10),
            ("home", 0),
            ("end", 40),
        ):
            await it.press(key)
            assert keep.value == value
        level = it.app.screen.query_one("#level", Slider)
        start = len("level ")
        await it.pilot.click(level, offset=(start + 1, 0))
        assert level.value == 1
        await it.pilot.mouse_down(level, offset=(start, 0))
        await it.pilot.hover(level, offset=(start + 4, 0))
        await it.pilot.mouse_up(level, offset=(start + 4, 0))
        assert level.value == 4
        await it.pilot.hover(level, offset=(start + 1, 0))
        assert level.value == 4
        await planned(it)


def is_planned(it: Opened, strategy: str) -> bool:
    """The plan of a strategy stands, and takes something."""
    found = page(it)._planned
    return (
        found is not None
        and not page(it).is_stale
        and (found.request.options.whole_strategy or BY_LEVEL) == strategy
        and bool(found.plan.operations)
    )


async def test_each_strategy_has_its_own_sliders(demo: Stage) -> None:
    async with compacting(demo) as it:
        choice = it.app.screen.query_one(Choice)
        choice.focus()
        seen = {}
        for _ in range(6):
            await it.until(lambda: is_planned(it, choice.value))
            shown = [each.id for each in it.app.screen.query(Slider) if each.display]
            found = page(it)._planned
            assert found is not None
            seen[choice.value] = (shown, {each.strategy for each in found.plan.operations})
            await it.press("right")
        assert seen == {
            "by level": (["level", "target", "keep"], seen["by level"][1]),
            "condense": (["target"], seen["condense"][1]),
            "summarize": (["keep"], {"summarize"}),
            "cut": (["turns"], {"cut"}),
            "revert": (["back"], {"revert"}),
            "rollover": ([], {"rollover"}),
        }
        await it.press("left")
        await planned(it)
        back = it.app.screen.query_one("#back", Slider)
        assert "“" in str(back.render())


@pytest.mark.parametrize(
    ("said", "strategy", "slider", "value"),
    [
        ("summary", "summarize", "keep", 3),
        ("head_tail", "cut", "turns", 2),
        ("condense", "condense", "target", 50),
        ("native", "by level", "keep", 5),
        ("ladder", "by level", "keep", 5),
    ],
)
async def test_the_page_begins_with_the_policy_s_strategy(
    demo: Stage, said: str, strategy: str, slider: str, value: int
) -> None:
    words = (("compact.strategy", said), ("compact.preserve_recent", "3"))
    demo.places = replace(demo.places, policy=PolicySources(command_line=words))
    async with compacting(demo) as it:
        assert it.app.screen.query_one(Choice).value == strategy
        await it.until(lambda: is_planned(it, strategy))
        shown = it.app.screen.query_one(f"#{slider}", Slider)
        assert shown.display
        assert shown.value == value


async def test_a_strategy_is_chosen_by_a_click(demo: Stage) -> None:
    async with compacting(demo) as it:
        choice = it.app.screen.query_one(Choice)
        await it.pilot.click(choice, offset=(len("strategy [by level]  condense  s"), 0))
        assert choice.value == "summarize"
        await planned(it)
        assert "replaces the past with a summary" in sums(it)


async def test_a_fork_is_written_verified_and_taken_back(demo: Stage) -> None:
    before = transcript(demo, LARGE).read_bytes()
    async with compacting(demo) as it:
        await it.press("g", "j", "space", "j", "space")
        await planned(it)
        found = page(it)._planned
        assert found is not None
        await it.press("f")
        screen = await receipt_shown(it)
        (receipt,) = kept(demo)
        assert receipt.plan.plan_id == found.plan.plan_id
        assert len(receipt.plan.operations) == len(found.plan.operations)
        assert "✓ V1 " in it.words
        assert "✓ V24" in it.words
        assert receipt.resume_command in it.words
        await it.press("y")
        assert it.app.clipboard == receipt.resume_command
        assert any("fork: ≈" in toast for toast in it.toasts)
        fork = transcript(demo, LARGE).with_name(f"{receipt.new_session_id}.jsonl")
        smaller = fork.read_bytes()
        assert transcript(demo, LARGE).read_bytes() == before
        os.utime(fork, (OLD_S, OLD_S))
        await it.press("u")
        await confirmed(it)
        await it.until(lambda: kept(demo)[0].state == "undone")
        await it.until(lambda: "undone" in str(screen.query_one("#done").render()))
        assert fork.exists()
        assert len(fork.read_bytes()) > len(smaller)
        assert transcript(demo, LARGE).read_bytes() == before
        await it.press("escape")
        await planned(it)
        assert isinstance(it.app.screen, CompactScreen)


async def test_in_place_asks_first_and_undo_gives_the_same_bytes(demo: Stage) -> None:
    path = transcript(demo, LARGE)
    os.utime(path, (OLD_S, OLD_S))
    before = path.read_bytes()
    async with compacting(demo) as it:
        await it.press("i")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        assert "itself is changed:" in it.words
        await it.press("enter")
        await it.until(lambda: not isinstance(it.app.screen, ConfirmScreen))
        assert path.read_bytes() == before
        await it.press("i")
        await confirmed(it)
        await receipt_shown(it)
        assert len(path.read_bytes()) < len(before)
        await it.press("escape", "escape")
        assert it.is_home
        await it.press("u")
        await confirmed(it)
        await it.until(lambda: kept(demo)[0].state == "undone")
        assert path.read_bytes() == before
        await it.until(lambda: any("undid" in toast for toast in it.toasts))


async def test_a_session_that_is_open_is_not_changed_in_place(demo: Stage) -> None:
    async with compacting(demo, LIVE) as it:
        assert it.app.screen.query_one("#in_place", Button).disabled
        assert not it.app.screen.query_one("#fork", Button).disabled
        assert "not in place: the session is open in process 4242" in it.words
        await it.press("i")
        assert "close it there, or write a fork" in "\n".join(it.toasts)
        assert isinstance(it.app.screen, CompactScreen)


async def test_a_session_that_grows_is_planned_anew(demo: Stage) -> None:
    path = transcript(demo, LARGE)
    async with compacting(demo) as it:
        await it.press("g", "j", "space")
        await planned(it)
        first = page(it)._planned
        assert first is not None
        line = {"type": "user", "uuid": "u-new", "message": {"role": "user", "content": "go on"}}
        line |= {"sessionId": path.stem, "timestamp": "2026-11-20T12:00:01.000Z"}
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        await it.until(lambda: page(it).is_stale)
        await it.press("f")
        assert "the plan is not ready yet: wait a moment" in "\n".join(it.toasts)
        await planned(it)
        anew = page(it)._planned
        assert anew is not None
        assert anew.plan.base_sha256 != first.plan.base_sha256
        assert "Operations: 11 of 12 on" in it.words


async def test_what_grew_after_the_plan_is_refused_by_the_engine(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = transcript(demo, LARGE)
    before = sorted(path.parent.iterdir())
    real = session_target.session_target

    def grown(*found: object) -> object:
        with path.open("a") as file:
            file.write("{}\n")
        return real(*found)  # type: ignore[arg-type]

    async with compacting(demo) as it:
        monkeypatch.setattr(session_target, "session_target", grown)
        await it.press("f")
        await it.until(lambda: "has changed since the plan was made" in "\n".join(it.toasts))
        assert kept(demo) == []
        assert sorted(path.parent.iterdir()) == before


async def test_a_session_that_disappears_is_told_and_nothing_breaks(demo: Stage) -> None:
    async with compacting(demo) as it:
        path = transcript(demo, LARGE)
        path.unlink()
        await it.press("minus")
        # Not on any "No such file": the preview of the change says so too, before the plan does.
        await it.until(lambda: "no plan" in it.words)
        await it.press("f")
        assert "No such file" in "\n".join(it.toasts)
        await it.press("escape")
        assert it.app.screen is it.app.fleet


async def test_leaving_the_page_does_not_stop_it_and_it_cannot_be_begun_twice(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    from ctxtop.core.compaction import apply as engine

    go_on = threading.Event()
    real = engine.apply_plan

    def slow(*found: object) -> object:
        assert go_on.wait(20)
        return real(*found)  # type: ignore[arg-type]

    monkeypatch.setattr(session_compaction, "apply_plan", slow)
    async with compacting(demo) as it:
        await it.press("f")
        assert it.app.screen.query_one("#fork", Button).disabled
        await it.press("f")
        assert "wait: being written" in "\n".join(it.toasts)
        await it.press("escape", "c")
        await it.press("f")
        assert it.app.screen.query_one("#fork", Button).disabled
        await it.press("escape")
        go_on.set()
        await it.until(lambda: any("checks passed" in toast for toast in it.toasts))
        assert len(kept(demo)) == 1


async def test_a_full_disk_is_a_line_and_everything_is_as_it_was(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:

    before = everything(demo)

    def full(*_: object) -> object:
        raise OSError(28, "No space left on device", str(demo.root))

    monkeypatch.setattr(session_compaction, "apply_plan", full)
    async with compacting(demo) as it:
        await it.press("f")
        await it.until(lambda: "free some space and try again" in "\n".join(it.toasts))
        why = " ".join(str(it.app.screen.query_one("#why").render()).split())
        assert "nothing was changed; free some space" in why
    assert everything(demo) == before


async def test_asking_the_client_says_what_it_does_and_has_the_safe_choice_focused(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def ask(access: SessionAccess, _via: object, words: str) -> ActionFailure:
        asked.append((access.session.title, words))
        return ActionFailure(("it is busy: wait until it is idle",))

    monkeypatch.setattr(session_compaction, "compact_with_client", ask)
    async with compacting(demo, LIVE) as it:
        await it.press("d", "enter")
        assert asked == []
        await it.press("d")
        assert isinstance(it.app.screen, AskClientScreen)
        assert "cannot undo it" in " ".join(it.words.split())
        it.app.screen.query_one(Input).focus()
        await it.press(*"taxes", "enter")
        assert it.app.screen.query_one("#safe", Button).has_focus
        await it.press("down", "enter")
        await it.until(lambda: asked)
        assert asked == [("Fix the flaky checkout tests", "taxes")]
        await it.until(lambda: "it is busy: wait until it is idle" in "\n".join(it.toasts))


async def test_hostile_words_of_an_operation_stay_words(demo: Stage, tmp_path: Path) -> None:
    path = transcript(demo, LARGE)
    data = path.read_bytes()
    hostile = b"[bold red]x[/] \\u001b[31m \\u202e evil"
    at = data.index(b'"file_path":"')
    end = data.index(b'"', at + 13)
    path.write_bytes(data[: at + 13] + b"/a/" + hostile + data[end:])
    async with compacting(demo) as it:
        assert "\x1b" not in it.words
        assert "\u202e" not in it.words
        for row in range(len(rows(it))):
            await it.press("j")
            assert row >= 0
        await it.answered()
        assert "\x1b" not in it.words


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (240, 70)])
async def test_every_size_shows_the_sums_the_list_and_the_buttons(
    demo: Stage, size: tuple[int, int]
) -> None:
    async with compacting(demo, size=size) as it:
        words = it.words
        for needed in ("now ", "after ", "frees", "[x]", "Write a fork", "strategy"):
            assert needed in words
        await it.resize((100, 30))
        assert "[x]" in it.words


async def test_c_opens_nothing_where_no_session_is(stage: Stage) -> None:
    async with opened(stage) as it:
        await it.press("c", "r", "u")
        await it.answered()
        assert it.app.screen is it.app.fleet
        assert "nothing to undo" in "\n".join(it.toasts)
