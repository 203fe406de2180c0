"""One session's page: its timeline, what fills it, its compactions, and how ctxtop knows."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.claude_code import transcript_details
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.tui.entities.compactions import READING_RETAINED
from ctxtop.tui.page_kit.page import ReadingScreen
from ctxtop.tui.screens.session.compaction_screen import CompactionDetailScreen
from ctxtop.tui.screens.session.session_screen import SessionScreen
from ctxtop.tui.screens.session.session_tabs import READING_TRANSCRIPT, SessionTab
from ctxtop.tui.widgets.header_footer import TabBar
from ctxtop.tui.widgets.row_list import RowList
from ctxtop.tui.widgets.timeline_view import EMPTY, TimelineView
from rich.cells import cell_len
from textual import events

from ..logs import lines, log_file
from .comparing import compare_sizes
from .support import NOW, opened
from .test_hostile import HOSTILE, hostile_session, is_harmless
from .writing import answer, append, boundary, line, prompt, session_file

if TYPE_CHECKING:
    from .support import Opened, Stage

STORY: Final = "Staging cluster"
"""Of the demo: two compactions, and every level on the way."""


def page(it: Opened) -> SessionScreen:
    screen = it.app.screen
    assert isinstance(screen, SessionScreen)
    return screen


def graph(it: Opened) -> TimelineView:
    return page(it).query_one(TimelineView)


def listed(it: Opened) -> list[str]:
    """The rows of the part that is open."""
    return [row.content.plain for row in page(it).query_one("#rows", RowList).shown]


def has_looked_up(it: Opened) -> bool:
    screen = it.app.screen
    return isinstance(screen, CompactionDetailScreen) and screen._note != READING_RETAINED


async def open_page(it: Opened, title: str) -> None:
    await it.mark(title)
    await it.press("enter")
    await it.reading()


async def test_what_fills_it_adds_up_and_names_the_largest(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, "Fix the flaky")
        head, *rows = it.part(SessionTab.BREAKDOWN)
        assert head.startswith("163 k tokens in context (measured), from the transcript, plus ≈")
        names = [" ".join(row.split()[:2]) for row in rows]
        assert names[0] == "tool results"
        assert {"Bash", "Read"} <= {name.split()[0] for name in names[1:3]}
        # Of 82 % of the window.
        assert sum(percents(rows, "tool results", "unexplained", "system tools")) > 69
        await it.press("2")
        largest = listed(it)
        assert len(largest) > 20
        assert "Bash npm test -- --run" in largest[0]
        assert "✂" in largest[0]
        assert "same call again" in page(it).query_one("#detail").render().plain  # type: ignore[union-attr]


def percents(rows: list[str], *names: str) -> list[int]:
    """What the categories of these names take of the window."""
    found = {name: row for row in reversed(rows) for name in names if row.startswith(name)}
    return [int(row.split("%")[0].split()[-1]) for row in found.values() if "%" in row]


async def test_what_a_compaction_forgot_stands_beside_it(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        told = "\n".join(it.part(SessionTab.COMPACTIONS))
        assert "auto: 172 k → 11 k" in told
        assert "manual: 151 k → 15 k" in told
        assert "lost files" in told


async def test_the_page_is_there_before_what_fills_it_is_read(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, go_on = transcript_details.read_composition, threading.Event()

    def slow(*given: Any, **named: Any) -> Any:  # noqa: ANN401
        assert go_on.wait(10)
        return real(*given, **named)

    monkeypatch.setattr(transcript_details, "read_composition", slow)
    async with opened(demo) as it:
        await it.mark("Fix the flaky")
        await it.press("enter")
        await it.until(lambda: READING_TRANSCRIPT in it.words and "163,412 tokens" in it.words)
        append(demo.titled("Move checkout").transcript, answer(134_000))
        await it.until(
            lambda: (
                it.app.view and 134_000 in {each.context.tokens for each in it.app.view.sessions}
            )
        )
        await it.press("escape")
        await it.mark("Move checkout")
        await it.press("enter")
        await it.until(lambda: READING_TRANSCRIPT in it.words)
        go_on.set()
        await it.reading()
        assert "sessions › Move checkout" in it.lines[0]
        assert it.part(SessionTab.BREAKDOWN)[0].startswith("128 k tokens")


async def test_a_transcript_that_is_gone_is_one_line(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Fill it", 0), answer(100_000, 0))
    async with opened(stage) as it:
        path.unlink()
        await it.press("enter")
        await it.reading()
        assert "cannot be read: No such file" in " ".join(it.part(SessionTab.BREAKDOWN))
        assert "cannot be read" in it.words


async def test_a_fault_is_told_where_the_answer_would_stand(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:  # noqa: ANN401
        raise RuntimeError("[/foo] is broken")

    monkeypatch.setattr(transcript_details, "read_composition", broken)
    async with opened(demo) as it:
        await it.press("enter")
        await it.reading()
        words = " ".join(it.part(SessionTab.BREAKDOWN))
        assert "[/foo] is broken" in words
        assert "please report it" in words
        assert "[/foo] is broken" in it.words
        assert it.app.lookup_worker._thread is not None
        assert it.app.lookup_worker._thread.is_alive()


async def test_what_a_compaction_was_asked_to_keep_stands_beside_it(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("You must never push."), answer(150_000, 1))
    asked = {"session_id": path.stem, "kind": "constraint", "text": '"You must never push."'}
    at = int(NOW.timestamp() * 1000) + 5_000
    record = {"v": 1, "at": at, "pid": 7, "event": "steer", "given": asked}
    log_file(stage.places.store, LogKind.ANSWERS).write_bytes(lines([json.dumps(record).encode()]))
    append(path, boundary(9_000, 6), prompt("Go on", 7), answer(12_000, 8))
    async with opened(stage) as it:
        await it.mark("You must")
        await it.press("enter")
        await it.reading()
        told = "\n".join(it.part(SessionTab.COMPACTIONS))
        assert "asked to keep 1 thing" in told


# The timeline.


async def test_left_and_right_go_back_and_on_and_the_page_follows(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        assert "now: turn 46" in it.words
        assert graph(it).turn is None
        await it.press("left", "left", "left", "left", "left")
        await it.reading()
        assert graph(it).turn == 40
        assert "turn 41 of 46" in it.words
        assert "as it was; now 13 %" in it.words
        assert "172,300 tokens  86 % high" in it.words
        assert "Breakdown at this turn" in it.words
        assert it.part(SessionTab.BREAKDOWN)[0].startswith("172 k tokens")
        await it.press("right")
        await it.reading()
        assert "↻ compacted before (auto): 172 k → 11 k" in it.words
        await it.press("end")
        assert graph(it).turn is None
        assert "Breakdown" in it.words
        await it.press("home")
        assert graph(it).turn == 0
        await it.press("shift+right")
        assert graph(it).turn == 10
        await it.press("shift+left")
        assert graph(it).turn == 0


async def test_the_brackets_go_to_what_happened(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        timeline = graph(it).timeline
        assert timeline
        places = sorted(
            {cut.turns_before for cut in timeline.compactions}
            | {one.turn for one in timeline.events}
        )
        seen = []
        for _ in places:
            await it.press("left_square_bracket")
            seen.append(graph(it).turn)
        assert seen == list(reversed(places))
        await it.press("right_square_bracket")
        assert graph(it).turn == places[1]


async def test_plus_and_minus_zoom_and_0_shows_all(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        await it.press("plus")
        assert graph(it).viewport.visible == 23
        assert graph(it).viewport.stop == 46
        await it.press("home")
        assert graph(it).viewport.start == 0
        await it.press("plus", "plus", "plus")
        assert graph(it).viewport.visible == 8
        await it.press("minus", "equals_sign", "0")
        assert graph(it).viewport.visible == 46


async def test_the_mouse_clicks_drags_and_turns_its_wheel(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        view = graph(it)
        await it.pilot.click(view, offset=(9, 6))
        assert view.turn == 0
        await it.pilot.mouse_down(view, offset=(9, 6))
        await it.pilot.hover(view, offset=(60, 6))
        await it.calm()
        dragged = view.turn
        assert dragged
        assert dragged > 15
        await it.pilot.mouse_up(view, offset=(60, 6))
        await it.pilot.hover(view, offset=(9, 6))
        assert view.turn == dragged
        await it.pilot.click(page(it).query_one(TabBar), offset=(14, 0))
        await it.calm()
        assert page(it).tab is SessionTab.ITEMS


def wheel(
    kind: type[events.MouseScrollUp | events.MouseScrollDown],
    view: TimelineView,
    *,
    ctrl: bool = False,
) -> Any:  # noqa: ANN401
    return kind(view, 30, 5, 0, 0, 0, shift=False, meta=False, ctrl=ctrl)


async def test_the_wheel_goes_along_and_zooms_with_ctrl(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        view = graph(it)
        view.on_mouse_scroll_up(wheel(events.MouseScrollUp, view))
        assert view.viewport.cursor == 40
        view.on_mouse_scroll_up(wheel(events.MouseScrollUp, view, ctrl=True))
        assert view.viewport.visible == 23
        before = view.viewport.start
        view.on_mouse_scroll_up(wheel(events.MouseScrollUp, view))
        assert view.viewport.start == before - 2
        view.on_mouse_scroll_down(wheel(events.MouseScrollDown, view, ctrl=True))
        assert view.viewport.visible == 46


async def test_rows_stay_while_another_turn_is_looked_up(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, go_on = transcript_details.read_composition, threading.Event()

    def slow(*given: Any, **named: Any) -> Any:  # noqa: ANN401
        assert named["until_offset"] is None or go_on.wait(10)
        return real(*given, **named)

    monkeypatch.setattr(transcript_details, "read_composition", slow)
    async with opened(demo) as it:
        await open_page(it, STORY)
        await it.press("j", "j")
        rows = listed(it)
        await it.press("left", "left", "left", "left", "left")
        assert listed(it) == rows
        assert READING_TRANSCRIPT in it.words
        assert page(it).query_one("#rows", RowList).rows.highlighted == 2
        go_on.set()
        await it.reading()
        assert listed(it) != rows
        assert READING_TRANSCRIPT not in it.words


async def test_now_sticks_to_the_end_and_a_past_turn_stays(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Grow"), *(answer(10_000 * n, n) for n in range(1, 6)))
    async with opened(stage) as it:
        await it.press("enter")
        await it.reading()
        append(path, answer(77_000, 9))
        await it.until(lambda: "now: turn 6" in it.words)
        await it.until(lambda: "77 k tokens in context" in it.words)
        await it.press("left", "left")
        append(path, answer(88_000, 10))
        await it.until(lambda: "turn 4 of 7" in it.words)
        assert graph(it).turn == 3
        await it.press("end")
        await it.until(lambda: "88 k tokens in context" in it.words)


async def test_a_session_without_an_answer_says_so(stage: Stage) -> None:
    append(session_file(stage.root, 1), prompt("Only asked"))
    async with opened(stage) as it:
        await it.press("enter")
        await it.reading()
        assert EMPTY in it.words
        await it.press("left", "plus", "end", "left_square_bracket", "3", "4", "5", "6", "y")
        assert it.app.is_running
        assert listed(it)


# The parts.


async def test_keys_and_tab_open_the_parts_and_the_mark_stays(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        for number, part in enumerate(SessionTab, 1):
            await it.press(str(number))
            assert page(it).tab is part
            assert listed(it)
        await it.press("2", "j", "j", "tab", "shift+tab")
        assert page(it).tab is SessionTab.ITEMS
        assert page(it).query_one("#rows", RowList).rows.highlighted == 2


async def test_enter_on_a_category_goes_to_its_largest_item(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, "Fix the flaky")
        await it.press("enter")
        assert page(it).tab is SessionTab.ITEMS
        key = page(it).query_one("#rows", RowList).key
        assert key
        assert "Bash" in key


async def test_an_item_shows_how_it_begins_beside_it_and_whole(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, "Fix the flaky")
        await it.press("2")
        await it.until(lambda: "ok 1 - taxFor keeps" in it.words)
        await it.press("enter")
        assert isinstance(it.app.screen, ReadingScreen)
        assert "ok 1 - taxFor keeps" in it.words
        await it.press("escape")
        assert page(it).tab is SessionTab.ITEMS


async def test_enter_on_a_warning_goes_to_its_turn(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        await it.press("4", "enter")
        await it.reading()
        assert graph(it).turn == 40
        assert "▲ reached high at 86 %" in it.words


async def test_the_evidence_names_every_claim_and_what_contradicts_it(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, "Explain the invoice run")
        await it.press("5")
        table = "\n".join(listed(it))
        for words in ("in context", "counter", "hooks notified", "/context says", "window"):
            assert words in table
        assert "✗ compacts at" in table
        assert "never" in table
        page(it)._rows.highlight("trigger session_compaction")
        await it.calm()
        beside = page(it).query_one("#detail").render()
        assert "What contradicts it" in str(beside)
        await it.press("enter")
        assert isinstance(it.app.screen, ReadingScreen)
        assert "ctxtop uses this value" in it.text


async def test_y_copies_what_the_mark_stands_for(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        await it.press("y")
        assert "tool results" in it.app.clipboard
        await it.press("2", "y")
        assert it.app.clipboard.startswith("Bash")
        await it.press("3", "y")
        assert "Our conversation was compacted" in it.app.clipboard
        await it.press("6", "j", "y")
        assert it.app.clipboard == demo.titled(STORY).session_id


# The lens.


async def test_the_page_shows_what_was_kept_and_what_was_lost(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        await it.press("3", "enter")
        screen = it.app.screen
        assert isinstance(screen, CompactionDetailScreen)
        await it.until(lambda: has_looked_up(it))
        assert "› compaction of" in it.lines[0]
        assert "before" in it.words
        assert "172 k → 11 k" in it.words
        signs = [row.content.plain.strip()[:1] for row in screen.query_one("#rows", RowList).shown]
        assert "✗" in signs
        assert "✓" in signs
        await it.press("y")
        assert it.app.clipboard.startswith("Our conversation was compacted")
        assert "\n> " in it.app.clipboard
        await it.press("j", "enter")
        assert isinstance(it.app.screen, ReadingScreen)
        await it.press("escape", "2")
        assert screen.query_one("#beside").has_focus
        await it.press("1", "escape")
        assert page(it).tab is SessionTab.COMPACTIONS


async def test_the_lens_reads_the_summary_whole_where_it_has_no_room(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:
        await open_page(it, STORY)
        await it.press("3", "enter", "2")
        assert isinstance(it.app.screen, ReadingScreen)
        await it.press("escape")
        assert isinstance(it.app.screen, CompactionDetailScreen)


# Every size, hostile words, many turns.


async def test_every_size_fills_its_lines_and_cuts_no_number(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        for size in ((40, 10), (60, 20), (80, 24), (120, 40), (200, 60), (240, 70)):
            await it.resize(size)
            for key in ("1", "2", "3", "4", "5", "6", "left", "plus"):
                await it.press(key)
                await it.until(lambda: fits(it), 2)
                assert {cell_len(one) for one in it.lines} == {size[0]}
                assert len(it.lines) == size[1]
            await it.press("0", "end", "1")
            assert "26,140 tokens  13 %" in it.words, size


def fits(it: Opened) -> bool:
    """Whether no row is wider than the list and every line of the graph fills its width."""
    rows = page(it).query_one("#rows", RowList)
    view = graph(it)
    drawn = view.render().split("\n")
    return all(row.content.cell_length <= rows.row_width for row in rows.shown) and all(
        one.cell_length == view.size.width for one in drawn
    )


async def test_the_page_is_resized_while_it_is_open(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        await it.press("left", "left")
        for size in ((60, 20), (200, 60), (40, 10), (120, 40)):
            await it.resize(size)
            await it.until(lambda: fits(it), 2)
            assert graph(it).turn == 43


async def test_hostile_words_are_shown_and_never_obeyed(stage: Stage) -> None:
    hostile_session(stage)
    path = session_file(stage.root, 1, "-home-[bold]")
    call = {"type": "tool_use", "id": "t9", "name": HOSTILE, "input": {"command": HOSTILE}}
    result = {"type": "tool_result", "tool_use_id": "t9", "content": HOSTILE}
    append(
        path,
        answer(120_000, content=[call]),
        line("user", message={"role": "user", "content": [result]}),
        answer(150_000),
    )
    async with opened(stage, (200, 60)) as it:
        await it.press("enter")
        await it.reading()
        for key in ("1", "2", "3", "4", "5", "6", "left", "left", "left", "home"):
            await it.press(key)
            await it.reading()
            assert is_harmless(it)
        await it.press("2", "G", "enter")
        assert is_harmless(it)
        await it.press("escape", "3", "enter")
        assert isinstance(it.app.screen, CompactionDetailScreen)
        await it.until(lambda: has_looked_up(it))
        assert is_harmless(it)
        await it.press("y")
        assert "\x1b" not in it.app.clipboard


@pytest.mark.parametrize(
    ("name", "title", "keys"),
    [
        ("session", STORY, ""),
        ("session-past", "Fix the flaky", "2 left left left left"),
        ("session-evidence", "Explain the invoice run", "5 j j j j j j"),
        ("session-compactions", STORY, "3"),
        ("session-cache", STORY, "8 j"),
    ],
)
async def test_the_page_as_a_picture(demo: Stage, name: str, title: str, keys: str) -> None:
    async with opened(demo) as it:
        await open_page(it, title)
        # A key that comes before the rows marks none of them.
        for key in ("", *keys.split()):
            await it.press(*key.split())
            await it.reading()
            await it.until(lambda: READING_TRANSCRIPT not in it.words)
        await compare_sizes(it, name)


async def test_the_lens_as_a_picture(demo: Stage) -> None:
    async with opened(demo) as it:
        await open_page(it, STORY)
        await it.press("3", "enter")
        await it.until(lambda: has_looked_up(it))
        await compare_sizes(it, "lens")
