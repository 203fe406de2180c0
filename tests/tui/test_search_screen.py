"""The search page: what is typed is found, highlighted and opened, and the index is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ctxtop.collectors.claude_code.search_jobs import SearchIndexJob
from ctxtop.core.store.writer import Writer
from ctxtop.tui.base.messages import OpenConversation
from ctxtop.tui.conversation.conversation_pane import ConversationPane
from ctxtop.tui.screens.search.search_screen import EMPTY_TEXT, SearchScreen
from ctxtop.tui.screens.session.session_screen import SessionScreen
from ctxtop.tui.widgets.controls import FilterBar, FilterInput
from ctxtop.tui.widgets.conversation_view import ConversationView
from ctxtop.tui.widgets.row_list import RowList

from .comparing import compare
from .support import Stage, opened
from .writing import answer, append, prompt, session_file

if TYPE_CHECKING:
    import pytest

    from .support import Opened


def index(stage: Stage) -> None:
    """Index what the dashboard has scanned; it begins by itself some seconds later."""
    writer = Writer(stage.places.store)
    try:
        SearchIndexJob(stage.places.folder.projects, writer).run_all()
    finally:
        writer.close()


async def open_search(it: Opened, stage: Stage) -> SearchScreen:
    await it.until(lambda: it.app.view and it.app.view.scanned)
    index(stage)
    await it.press("F")
    await it.until(lambda: isinstance(it.app.screen, SearchScreen))
    screen = it.app.screen
    assert isinstance(screen, SearchScreen)
    return screen


def rows_of(it: Opened) -> list[str]:
    screen = it.app.screen
    return rows(screen) if isinstance(screen, SearchScreen) else []


def rows(screen: SearchScreen) -> list[str]:
    return [row.content.plain for row in screen.query_one(RowList).shown]


def finds(screen: SearchScreen, word: str) -> bool:
    """Whether the results are of the whole word: the first ones may be of its first letter."""
    shown = rows(screen)
    return bool(shown) and all(word in row.lower() for row in shown)


def shows_hit(screen: SearchScreen) -> bool:
    """Whether the conversation beside the list is at the marked hit."""
    hit = screen._hits[screen.query_one(RowList).key or ""]
    panes = [*screen.query(ConversationPane)]
    steps = [pane.step for pane in panes if pane.is_mounted and not pane._is_reading]
    return any(step is not None and step.offset == hit.offset for step in steps)


async def test_what_is_typed_is_found_and_opened(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[OpenConversation] = []
    async with opened(demo) as it:
        screen = await open_search(it, demo)
        monkeypatch.setattr(
            it.app, "open_conversation", lambda *words: asked.append(OpenConversation(*words))
        )
        assert EMPTY_TEXT in it.words
        assert isinstance(it.app.focused, FilterInput)
        await it.press(*"wish")
        await it.until(lambda: finds(screen, "wish"))
        styles = {str(span.style) for span in screen.query_one(RowList).shown[0].content.spans}
        assert any("$level-notice" in style for style in styles)
        await it.press("space")
        await it.until(lambda: not rows(screen))
        assert "Nothing matches “wish”." in it.words
        await it.press("backspace", "enter")
        await it.until(lambda: rows(screen))
        await it.press("enter")
        await it.until(lambda: asked)
        hit = screen._hits[screen.query_one(RowList).key or ""]
        assert (asked[0].session_id, asked[0].line_offset) == (hit.session_id, hit.offset)
        await it.press("escape")
        await it.until(lambda: not rows(screen))
        assert screen.query_one(FilterBar).display
        await it.press("escape")
        assert it.app.screen is it.app.fleet


async def test_a_hit_opens_the_page_of_its_session(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await open_search(it, demo)
        await it.press(*"wish")
        await it.until(lambda: finds(screen, "wish"))
        assert "─ Conversation ─" not in it.words
        await it.resize((200, 60))
        await it.press("enter", "j")
        await it.until(lambda: shows_hit(screen))
        await compare(it, "search-200x60-ctxtop-dark")
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, SessionScreen))


async def test_the_match_is_in_sight_and_highlighted_in_a_long_answer(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    far = "\n\n".join(["a line before it"] * 90)
    append(path, prompt("What is it?", 1))
    append(path, answer(10_000, 2, content=[{"type": "text", "text": f"{far}\n\na Lantern"}]))
    append(path, prompt("Thanks.", 3))
    async with opened(stage, (80, 24)) as it:
        screen = await open_search(it, stage)
        await it.press(*"lanter")
        await it.until(lambda: finds(screen, "lantern"))
        await it.press("enter", "enter")
        await it.until(lambda: it.app.screen.query(ConversationView))
        await it.until(lambda: "a Lantern" in it.words)
        view = it.app.screen.query_one(ConversationView)
        row = view.row
        assert row is not None
        assert "a Lantern" in row.content.plain
        drawn = view.render_line(view.cursor - view.top)
        assert "Lantern" in [segment.text for segment in drawn], "a style of its own"


async def test_turns_that_were_not_read_are_told(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxtop.tui.screens.search.search_screen.FIRST_TURNS", 1)
    monkeypatch.setattr("ctxtop.tui.screens.search.search_screen.MAX_TURNS", 2)
    async with opened(demo) as it:
        await open_search(it, demo)
        await it.press(*"the")
        await it.until(lambda: "only the newest turns searched: add words" in it.words)
        monkeypatch.setattr("ctxtop.tui.screens.search.search_screen.MAX_TURNS", 50_000)
        await it.press("space")
        await it.until(lambda: "only the newest" not in it.words)
        await it.until(lambda: len(rows_of(it)) > 3)


async def test_an_unknown_filter_and_an_unfinished_index_are_told(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.until(lambda: it.app.view and it.app.view.scanned)
        await it.press("F")
        await it.until(lambda: isinstance(it.app.screen, SearchScreen))
        await it.until(lambda: "indexing 0 of " in it.words)
        await it.press(*"lvel:high")
        await it.until(lambda: 'unknown filter "lvel:". Use project:, since:' in it.words)


async def test_a_prompt_of_a_deleted_session_is_marked_and_opens_nothing(stage: Stage) -> None:
    entry = {"display": "oil the hinges", "timestamp": 1_795_168_800_000, "project": "/d/depot"}
    entry["sessionId"] = "22222222-3333-4444-8555-666666666666"
    (stage.root / "history.jsonl").write_text(json.dumps(entry) + "\n")
    append(session_file(stage.root, 1), prompt("Hello.", 1))
    async with opened(stage, (200, 40)) as it:
        screen = await open_search(it, stage)
        await it.press(*"hinges", "enter")
        # While the last letters are searched for, the list is that of the first ones.
        await it.until(lambda: len(rows(screen)) == 1)
        assert "deleted session 22222222 · depot" in rows(screen)[0]
        await it.press("enter")
        await it.until(lambda: "has only what was typed" in " ".join(it.words.split()))
        assert it.app.screen is screen
