"""The Conversation tab: a session's turns, folded calls, jumps to the timeline, and the search."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from ctxtop.collectors.claude_code.transcript_details import read_composition
from ctxtop.core.store.database import open_reader
from ctxtop.tui.base.messages import OpenConversation
from ctxtop.tui.conversation import conversation_pane
from ctxtop.tui.conversation.conversation_pane import ConversationPane
from ctxtop.tui.conversation.conversation_reading import ConversationPlace
from ctxtop.tui.conversation.step_text_screen import StepTextScreen
from ctxtop.tui.screens.session.session_screen import SessionScreen
from ctxtop.tui.screens.session.session_tabs import SessionTab
from ctxtop.tui.widgets.controls import FilterBar
from ctxtop.tui.widgets.timeline_view import TimelineView

from .support import opened
from .test_hostile import HOSTILE, is_harmless
from .writing import agent_files, answer, append, boundary, line, prompt, session_file

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from .support import Opened, Stage


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(number: int, command: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}


def result(number: int, words: str, second: float = 0) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": words}
    return line("user", second, message={"role": "user", "content": [block]})


def turn(number: int, words: str = "") -> list[dict[str, Any]]:
    """A prompt, a call with three lines of result, and an answer."""
    return [
        prompt(f"question {number}", number),
        answer(10_000 + number * 1_000, number, content=[call(number, f"make {number}")]),
        result(number, f"made\nall of\nit {number}", number),
        answer(10_500 + number * 1_000, number, content=[text(f"**answer** {number} {words}")]),
    ]


def write_turns(stage: Stage, *numbers: int) -> Path:
    path = session_file(stage.root, 1)
    before: str | None = None
    for each in [each for number in numbers for each in turn(number)]:
        append(path, each | {"parentUuid": before})
        before = each["uuid"]
    return path


def read_size(stage: Stage, number: int) -> int:
    """Return the size of a turn's result in the breakdown of the stage's session."""
    projects, name = stage.places.folder.projects, f"Bash make {number}"
    with closing(open_reader(stage.places.store)) as db:
        found = read_composition(db, projects, session_file(stage.root, 1).stem)
    return next(
        each.tokens for each in found.largest if (each.kind, each.name) == ("tool results", name)
    )


def page(it: Opened) -> SessionScreen:
    screen = it.app.screen
    assert isinstance(screen, SessionScreen)
    return screen


def pane(it: Opened) -> ConversationPane:
    return page(it).query_one(ConversationPane)


async def open_tab(it: Opened, *keys: str) -> None:
    await it.press(*(keys or ("v",)))
    await it.until(lambda: _is_idle(it))


async def press(it: Opened, *keys: str) -> None:
    await it.press(*keys)
    await it.until(lambda: _is_idle(it))


def _is_idle(it: Opened) -> bool:
    screen = it.app.screen
    if not isinstance(screen, SessionScreen):
        return False
    found = next(iter(screen.query(ConversationPane)), None)
    if found is None or not found.is_mounted or found._is_reading or not found.view.size.height:
        return False
    return bool(found.view.rows or found.note) and (found.search is None or found.search.is_over)


def current(it: Opened) -> str:
    """The row under the cursor."""
    row = pane(it).view.row
    return row.content.plain.strip() if row else ""


async def test_v_on_the_fleet_shows_the_last_prompt_and_answer(stage: Stage) -> None:
    write_turns(stage, 1, 2)
    async with opened(stage) as it:
        await open_tab(it)
        assert "❯ question 2" in it.words
        assert "answer 2" in it.words
        assert "**" not in it.words
        # Sizes are those of the breakdown, and are drawn once they are known.
        await it.until(lambda: "tokens)" in it.words)
        size = read_size(stage, 2)
        assert f"▸ Bash  make 2  (3 lines, ≈ {size} tokens)" in it.words
        assert any("12 k" in one and "6 %" in one for one in it.lines)
        assert "answer 2" in current(it)
        await it.press("escape")
        assert it.is_home


async def test_a_marked_message_is_an_anchor_with_its_importance(stage: Stage) -> None:
    """003-05: the marker itself is not seen in a drawn answer."""
    path = write_turns(stage, 1)
    append(path, prompt("the port is 8080 <!-- anchor -->", 2))
    append(path, answer(12_000, 2, content=[text("It was the buffer. <!-- anchor -->")]))
    append(path, *turn(3))
    async with opened(stage) as it:
        await open_tab(it)
        lines = [one.strip(" │") for one in it.lines if "anchor" in one]
        note = "anchor, importance 1.00: it stays word for word"
        assert sum(note in one for one in lines) == 2
        assert it.words.index("It was the buffer.") < it.words.rindex(note)


async def test_enter_and_a_click_unfold_a_call(stage: Stage) -> None:
    write_turns(stage, 1)
    async with opened(stage) as it:
        await open_tab(it)
        assert "all of" not in it.words
        while "Bash" not in current(it):
            await press(it, "k")
        await press(it, "enter")
        assert "▾ Bash" in it.words
        assert "all of" in it.words
        await press(it, "enter")
        assert "all of" not in it.words
        view = pane(it).view
        await it.pilot.click(view, offset=(6, view.cursor - view.top))
        await it.until(lambda: "all of" in it.words)


async def test_new_turns_appear_while_the_end_is_shown(stage: Stage) -> None:
    path = write_turns(stage, 1)
    async with opened(stage) as it:
        await open_tab(it)
        append(path, *turn(2))
        await it.until(lambda: "answer 2" in it.words)
        assert "answer 2" in current(it)
        await press(it, "g")
        append(path, *turn(3))
        await it.until(lambda: any("question 3" in row.content.plain for row in pane(it).view.rows))
        assert pane(it).view.cursor == 0


async def test_home_end_and_prompts_reach_every_turn_of_a_long_session(stage: Stage) -> None:
    write_turns(stage, *range(1, 400))
    async with opened(stage) as it:
        await open_tab(it)
        await press(it, "home")
        await it.until(lambda: "question 1 " in f"{it.words} ")
        assert "Whole" not in it.words
        await press(it, "n", "n")
        assert "question 2" in current(it) or "question 3" in current(it)
        for _ in range(40):
            await press(it, "pagedown")
        rows = pane(it).view.rows
        numbers = [
            int(row.content.plain.split()[2])
            for row in rows
            if row.content.plain.startswith("❯ question")
        ]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[-1] > 100
        await press(it, "end")
        assert "answer 399" in current(it)


async def test_the_timeline_and_the_conversation_lead_to_each_other(stage: Stage) -> None:
    write_turns(stage, *range(1, 60))
    async with opened(stage) as it:
        await it.press("enter")
        await it.reading()
        assert "v Conversation" in it.lines[-1]
        await it.press("left", "left", "left", "left", "left")
        await it.reading()
        wanted = page(it)._past
        assert wanted is not None
        await open_tab(it)
        step = pane(it).step
        assert step is not None
        assert step.offset == wanted.offset
        assert "v Timeline" in it.lines[-1]
        await press(it, "N", "N", "N")
        shown = pane(it).step
        assert shown is not None
        await it.press("v")
        assert page(it).tab is SessionTab.BREAKDOWN
        past = page(it)._past
        assert past is not None
        assert past.offset >= shown.offset
        before = [turn for turn in page(it)._timeline.turns if turn.offset >= shown.offset]  # type: ignore[union-attr]
        assert past.offset == before[0].offset
        assert page(it).query_one(TimelineView).turn is not None


async def test_a_search_goes_from_match_to_match_and_escape_ends_it(stage: Stage) -> None:
    path = write_turns(stage, *range(1, 300))
    append(path, *turn(300, "Nadel here"))
    append(path, *turn(301))
    append(path, answer(311_500, 301, content=[call(900, "make all")]))
    append(path, result(900, "a nadel folded", 301))
    append(path, *turn(302))
    async with opened(stage) as it:
        await open_tab(it)
        await it.press("slash", *"nadel")
        await press(it, "enter")
        await it.until(lambda: "match 2 of 2" in it.words)
        assert "nadel folded" in current(it)
        await press(it, "N")
        assert "Nadel here" in current(it)
        assert "match 1 of 2" in it.words
        await press(it, "N")
        assert "match 2 of 2" in it.words
        await press(it, "escape")
        assert "match" not in it.words
        assert isinstance(it.app.screen, SessionScreen)
        await it.press("slash", *"question 7")
        await press(it, "enter")
        await it.until(lambda: "question 7" in current(it))
        await it.press("slash", *"zzz")
        await press(it, "enter")
        await it.until(lambda: "no match" in it.words)
        assert not page(it).query_one(FilterBar).display


async def test_a_compaction_and_a_rewritten_file_are_shown(stage: Stage) -> None:
    path = write_turns(stage, 1)
    summary = {"role": "user", "content": "This session is being continued: all was made"}
    append(path, boundary(9_000, 5), line("user", 6, message=summary, isCompactSummary=True))
    append(path, *turn(2))
    async with opened(stage) as it:
        await open_tab(it)
        # As on the timeline: Claude Code's 9 k are the messages alone.
        await it.until(lambda: "compacted (auto) 190 k → 12 k ─" in it.words)
        assert "▸ Summary" in it.words
        other = path.with_suffix(".tmp")
        other.write_bytes(path.read_bytes().replace(b"question 2", b"question X"))
        other.replace(path)
        append(path, *turn(3))
        await it.until(lambda: any("question X" in row.content.plain for row in pane(it).view.rows))


async def test_a_compaction_shows_the_estimate_of_the_next_request_until_its_answer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation_pane, "SIZES_EVERY_S", 0.01)
    path = write_turns(stage, 1)
    summary = {"role": "user", "content": "This session is being continued: all was made"}
    append(path, boundary(9_000, 5), line("user", 6, message=summary, isCompactSummary=True))
    async with opened(stage) as it:
        await open_tab(it)
        # 11 k of the first request came before the messages.
        await it.until(lambda: "compacted (auto) 190 k → ≈20 k ─" in it.words)
        append(path, *turn(2))
        await it.until(lambda: "compacted (auto) 190 k → 12 k ─" in it.words)


async def test_a_place_is_opened_from_elsewhere(stage: Stage) -> None:
    path = write_turns(stage, *range(1, 200))
    data = path.read_bytes()
    offset = data.index(b"question 77")
    start = data.rindex(b"\n", 0, offset) + 1
    async with opened(stage) as it:
        it.app.screen.post_message(OpenConversation(path.stem, None, start))
        await it.until(lambda: _is_idle(it))
        assert current(it).startswith("❯ question 77")
        it.app.screen.post_message(OpenConversation(path.stem, None, None))
        await it.until(lambda: _is_idle(it) and "answer 199" in current(it))
        it.app.screen.post_message(OpenConversation("unknown", None, None))
        await it.until(lambda: any("session is unknown" in toast for toast in it.toasts))


async def test_an_agents_conversation_is_shown_alone(stage: Stage) -> None:
    path = write_turns(stage, 1)
    meta = {"agentType": "reviewer", "description": "look", "toolUseId": "t9"}
    asked = prompt("agent's task") | {"isSidechain": True, "agentId": "a1"}
    said = answer(5_000, 3, content=[text("agent's answer")]) | {"isSidechain": True}
    agent_files(path, "a1", meta, asked, said)
    other = prompt("other's task") | {"isSidechain": True, "agentId": "a2"}
    agent_files(path, "a2", meta | {"toolUseId": "t10"}, other, said)
    async with opened(stage) as it:
        it.app.screen.post_message(OpenConversation(path.stem, "a1", None))
        await it.until(lambda: _is_idle(it))
        assert "agent's task" in it.words
        assert "agent's answer" in it.words
        assert "❯ question 1" not in it.words
        # Lines of both files begin at the same offset.
        page(it).open_conversation(ConversationPlace(path.stem, "a2"))
        await it.until(lambda: "other's task" in it.words)
        assert "agent's task" not in it.words
        await it.press("escape")
        it.app.screen.post_message(OpenConversation(path.stem, "a-unknown", None))
        await it.until(lambda: "no transcript of its own" in it.words)


async def test_a_long_text_is_cut_and_opens_whole(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    long = "word " * 6_000 + "the-end"
    append(path, prompt("say much"), answer(9_000, 1, content=[text(long)]))
    async with opened(stage) as it:
        await open_tab(it)
        assert "o opens all of it" in it.words
        assert "the-end" not in it.words
        await it.press("o")
        await it.until(lambda: isinstance(it.app.screen, StepTextScreen) and "word" in it.words)
        await it.press("G")
        await it.until(lambda: "the-end" in it.words)


async def test_hostile_texts_act_on_nothing(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(
        path,
        prompt(HOSTILE),
        answer(9_000, 1, content=[text(HOSTILE), call(1, HOSTILE)]),
        result(1, HOSTILE, 1),
        answer(9_100, 2, content=[{"type": "thinking", "thinking": HOSTILE}]),
    )
    async with opened(stage) as it:
        await open_tab(it)
        await press(it, "g")
        for _ in range(30):
            await press(it, "enter", "j")
        assert is_harmless(it)
        assert "[" in it.words


async def test_a_transcript_that_cannot_be_read_is_one_line(stage: Stage) -> None:
    path = write_turns(stage, 1)
    async with opened(stage) as it:
        path.unlink()
        await open_tab(it)
        assert "cannot be read: No such file" in it.words


async def test_sizes_from_narrow_to_wide_show_the_answer(stage: Stage) -> None:
    write_turns(stage, *range(1, 30))
    async with opened(stage, (80, 24)) as it:
        await open_tab(it)
        for size in ((80, 24), (200, 60), (46, 16), (120, 40)):
            await it.resize(size)
            await it.until(lambda: _is_idle(it) and "answer 29" in it.words)
            assert max(map(len, it.lines)) <= size[0]
        assert "all of" not in it.words
        await it.resize((200, 60))
        # The text of the last call, which is folded, stands beside the conversation.
        await it.until(lambda: "all of" in it.words and _is_idle(it))
        await press(it, "z")
        assert not page(it).query_one(TimelineView).display or page(it).has_class("-reading")
