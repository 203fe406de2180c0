"""The page of all summaries: its list, its search, its filters, its text."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.tui.page_kit.dialogs import ConfirmScreen, ExportScreen
from ctxtop.tui.screens.summaries.compare_screen import CompareScreen
from ctxtop.tui.screens.summaries.coverage_screen import CoverageScreen
from ctxtop.tui.screens.summaries.summaries_screen import SummariesScreen
from ctxtop.tui.screens.summaries.summary_screen import SummaryScreen
from ctxtop.tui.text.summary_text import summary_name
from ctxtop.tui.widgets.controls import Chips, FilterBar, FilterInput
from textual.widgets import Input, Static

from .comparing import compare, compare_sizes
from .support import opened
from .test_hostile import hostile_session, is_harmless
from .writing import append, launch, prompt, returned, session_file

if TYPE_CHECKING:
    from .support import Opened, Stage


ALL: Final = 28
"""Summaries of the demo."""


def page(it: Opened) -> SummariesScreen:
    screen = it.app.screen
    assert isinstance(screen, SummariesScreen)
    return screen


async def all_summaries(it: Opened) -> SummariesScreen:
    """Open the page and wait until its rows and its text are there."""
    await it.press("S")
    await listed(it)
    return page(it)


async def listed(it: Opened) -> None:
    """Wait until what is in sight was read and judged."""

    def met() -> bool:
        screen = page(it)
        return (
            bool(it.lines)  # What is in sight is asked for when it is drawn.
            and screen._listing is not None
            and not screen.rows._asked
            and screen._verdicts.is_idle
        )

    # The list is answered first; then what it asks for of its rows and of the marked one.
    for _ in range(2):
        await it.answered()
        await it.until(met)


def shown(it: Opened) -> list[str]:
    """Who said the summaries that were read, in the order of the list."""
    rows = page(it).rows
    previews = rows._previews
    return [summary_name(previews[each].row) for each in rows.ids if each in previews]


async def search(it: Opened, words: str) -> None:
    await it.press("slash")
    bar = page(it).query_one(FilterBar)
    bar.query_one(FilterInput).value = words
    await it.calm()
    await it.press("enter")
    await listed(it)


async def test_it_lists_all_by_days_newest_first_and_shows_the_marked_text(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        assert len(screen.rows.ids) == ALL
        assert it.lines[0].strip() == "sessions › summaries"
        assert "Today, Friday 20 November" in it.words
        assert shown(it)[:3] == [
            "general-purpose Survey wishlist analytics",
            "reviewer Review the wishlist",
            "react-frontend Build the wishlist page",
        ]
        assert "Ship the wishlist: API, page, review · shop" in it.words
        assert "41 lines · ≈630 tokens" in it.words
        await it.press("j")
        await listed(it)
        assert "Files reviewed: src/api/wishlist.ts" in it.words
        assert "✓ compliant" in it.words
        await it.press("G")
        await listed(it)
        assert screen.rows.place == ALL - 1
        assert "Sunday 1 November" in it.words
        await it.press("g", "ctrl+d")
        assert screen.rows.place > 5
        await it.press("ctrl+u", "k")
        assert screen.rows.place == 0


async def test_enter_reads_one_whole_and_esc_leads_back_to_its_row(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        await it.press("j", "enter")
        await it.reading()
        assert isinstance(it.app.screen, SummaryScreen)
        assert it.lines[0].strip() == "sessions › summaries › reviewer Review the wishlist"
        await it.press("y")
        assert it.app.clipboard.startswith("[COMPRESSED]")
        await it.press("escape")
        assert screen.rows.place == 1
        await it.press("escape")
        assert it.is_home


async def test_a_search_finds_words_marks_them_and_counts_them(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        await search(it, "terraf")
        assert len(screen.rows.ids) == 2
        report = screen.reader.report
        assert report is not None
        assert report.hits > 1
        assert f"{report.hits} hits · n next, N before" in it.words
        places = []
        for key in ("n", "n", "N", "N", "N"):
            await it.press(key)
            places.append(screen.reader._at)
        assert places == [0, 1, 0, report.hits - 1, report.hits - 2]
        assert f"{report.hits - 1} of {report.hits} hits" in it.words
        await it.press("escape")
        await listed(it)
        assert len(screen.rows.ids) == ALL


@pytest.mark.parametrize("size", [(120, 24), (80, 24)])
async def test_a_text_longer_than_its_pane_is_scrolled_with_the_keys(
    demo: Stage, size: tuple[int, int]
) -> None:
    async with opened(demo, size) as it:
        screen = await all_summaries(it)
        text = screen.reader.text
        assert text.region.bottom <= screen.reader.region.bottom
        assert len(text.lines) > text.size.height
        last = text.lines[-1].plain.strip()
        assert last not in it.words
        await it.press("2", "j", "j")
        assert text.scroll_offset.y == 2
        await it.press("G")
        assert last in it.words


async def test_w_shows_a_text_as_it_is_written(stage: Stage) -> None:
    text = "## Plan\n\n**one**"
    started, ended = launch("t1", "worker", "Plan", 900), returned("t1", "a1", text, 1)
    append(session_file(stage.root, 1), prompt("Go"), started, ended)
    async with opened(stage) as it:
        await all_summaries(it)
        await it.until(lambda: "Plan" in it.words and "**one**" not in it.words)
        await it.press("W")
        await it.until(lambda: "## Plan" in it.words and "**one**" in it.words)
        await it.press("y")
        assert it.app.clipboard == text
        await it.press("enter")
        await it.reading()
        screen = it.app.screen
        assert isinstance(screen, SummaryScreen)
        assert [line.plain.strip() for line in screen.reader.text.lines] == ["Plan", "", "one"]
        await it.press("W")
        await it.until(lambda: screen.reader.text.lines[-1].plain.strip() == "**one**")


async def test_n_brings_the_next_hit_into_sight(demo: Stage) -> None:
    async with opened(demo, (120, 24)) as it:
        screen = await all_summaries(it)
        await search(it, "terraf")
        report = screen.reader.report
        assert report is not None
        for passage in report.wrapped.passages:
            await it.press("n")
            line, text = passage.line, screen.reader.text
            assert text.scroll_offset.y <= line < text.scroll_offset.y + text.size.height


TYPED = {
    '"every five"': 1,
    "kind:b": 6,
    "kind:agent -reviewer type:node": 9,
    "project:infra": 4,
    "since:today": 16,
    "since:nonsense": ALL,
    '" NEAR( * AND ]': 0,
    "nothing-has-this": 0,
    "": ALL,
}


async def test_what_may_be_typed(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        found = {}
        for words in TYPED:
            await search(it, words)
            found[words] = len(screen.rows.ids)
            if "nonsense" in words:
                assert "since:nonsense is not valid" in it.words
            if not screen.rows.ids:
                assert "Nothing matches “" in it.words
        assert found == TYPED


async def test_esc_in_the_bar_clears_the_search(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        await it.press("slash", *"zzz")
        await listed(it)
        assert not screen.rows.ids
        await it.press("escape")
        await listed(it)
        assert len(screen.rows.ids) == ALL
        assert screen.rows.has_focus
        assert not screen.query_one(FilterBar).display


async def test_filters_are_changed_with_arrows_and_clicks(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        await it.press("f", "down")
        await listed(it)
        assert screen._chosen.get("kind") == "agent"
        assert len(screen.rows.ids) == ALL - 7
        await it.press("down")
        await listed(it)
        assert len(screen.rows.ids) == 6
        await it.press("up", "up", "right", "down", "enter")
        await listed(it)
        assert "project" in screen._chosen
        assert screen.rows.has_focus
        await it.press("escape")
        await listed(it)
        assert len(screen.rows.ids) == ALL
        chips = screen.query_one(Chips)
        await it.pilot.click(chips, offset=(3, 0))
        await listed(it)
        assert screen._chosen.get("kind") == "agent"
        await it.press("backspace")
        await listed(it)
        assert "kind" not in screen._chosen


async def test_the_marked_session_alone(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Ship the wishlist")
        screen = await all_summaries(it)
        await it.press("f", "left", "down")
        await listed(it)
        assert len(screen.rows.ids) == 4
        assert "session: “Ship" in it.words


async def test_a_click_marks_the_row_and_a_double_click_reads_it(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        await it.pilot.click(screen.rows, offset=(5, 5))
        await listed(it)
        assert screen.rows.place == 1
        await it.pilot.click(screen.rows, offset=(5, 0))
        assert screen.rows.place == 1
        await it.pilot.click(screen.rows, offset=(5, 8), times=2)
        await it.reading()
        assert "react-frontend" in it.lines[0]


async def test_two_that_are_marked_are_compared(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        await search(it, "terraform")
        await it.press("equals_sign")
        assert it.app.screen is screen
        await it.press("space", "space")
        assert "2 marked" in it.words
        await it.press("equals_sign")
        await compared(it)
        assert "the same 24 lines" in it.words
        await it.press("escape", "escape")
        await listed(it)
        await it.press("escape", "g", "space", "space", "k", "enter")
        await compared(it)
        both = it.app.screen
        assert isinstance(both, CompareScreen)
        assert "1 of " in it.words
        left, right = both.sides
        await it.press("G")
        assert left.scroll_offset.y == right.scroll_offset.y
        await it.press("n", "N", "tab", "y")
        assert it.app.clipboard.startswith("I went through")


async def compared(it: Opened) -> None:
    await it.until(
        lambda: isinstance(it.app.screen, CompareScreen) and it.app.screen._shown is not None
    )


async def test_what_a_boundary_stands_for(demo: Stage) -> None:
    async with opened(demo) as it:
        await all_summaries(it)
        await search(it, "project:notes kind:boundary")
        await it.press("d")
        screen = await replaced(it)
        assert "20 messages, 8 tool uses" in it.words
        assert "names 3 of 6 things · leaves out 3" in it.words
        assert "✗ /home/dev/notes-app/app/editor/Editor.tsx" in it.words
        await it.press("f")
        await it.until(lambda: "merge.ts" not in things(screen))
        await it.press("f", "n", "2", "j", "1", "y")
        assert "- replayJournal (line 23)" in it.app.clipboard
        await it.press("d")
        assert isinstance(it.app.screen, SummariesScreen)


def things(screen: CoverageScreen) -> str:
    assert screen._shown is not None
    return "\n".join(line.plain for line in screen._shown.item_lines)


async def replaced(it: Opened) -> CoverageScreen:
    await it.until(
        lambda: isinstance(it.app.screen, CoverageScreen) and it.app.screen._shown is not None
    )
    screen = it.app.screen
    assert isinstance(screen, CoverageScreen)
    return screen


async def test_a_summary_whose_transcript_is_gone_says_so(demo: Stage) -> None:
    async with opened(demo) as it:
        await all_summaries(it)
        await search(it, "kind:boundary project:infra")
        for path in (demo.root / "projects").rglob("*.jsonl"):
            if "infra" in str(path):
                path.unlink()
        await it.press("d")
        await it.until(lambda: "cannot be read" in " ".join(it.words.split()))  # wraps anywhere
        await it.press("escape")
        assert isinstance(it.app.screen, SummariesScreen)


async def test_newer_summaries_come_while_the_cursor_stays_on_its_row(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        await it.press("j", "j", "j", "j", "j")
        await listed(it)
        before = screen.rows.summary_id
        top = next(n for n, line in enumerate(it.lines) if "Size the connection pool" in line)
        path = session_file(demo.root, 7)
        append(path, prompt("Another"), returned("toolu_9", "abc9", "one more result"))
        await it.until(lambda: len(screen.rows.ids) == ALL + 1)
        await listed(it)
        assert screen.rows.summary_id == before
        assert screen.rows.place == 6
        assert "Size the connection pool" in it.lines[top]


async def test_nothing_yet_says_what_to_do(stage: Stage) -> None:
    async with opened(stage, (80, 24)) as it:
        await all_summaries(it)
        assert "No summaries yet." in it.words
        await it.press("j", "enter", "d", "y", "x", "equals_sign", "n", "space", "z", "z")
        assert isinstance(it.app.screen, SummariesScreen)
        await it.press("escape")
        assert it.is_home


async def test_hostile_words_are_harmless_everywhere(stage: Stage) -> None:
    hostile_session(stage)
    async with opened(stage) as it:
        screen = await all_summaries(it)
        assert len(screen.rows.ids) == 2
        assert is_harmless(it)
        assert "[/foo]" in it.words
        await search(it, "[/foo] [bold")
        assert len(screen.rows.ids) == 2
        assert is_harmless(it)
        await it.press("d")
        await replaced(it)
        assert is_harmless(it)
        await it.press("escape", "j", "d")
        await it.until(lambda: isinstance(it.app.screen, CoverageScreen))
        await it.press("escape", "g", "space", "space", "equals_sign")
        await compared(it)
        assert is_harmless(it)
        await it.press("escape", "x")
        assert is_harmless(it)


async def test_x_writes_a_file_that_was_not_there(demo: Stage) -> None:
    path = demo.root.parent / "out.md"
    async with opened(demo) as it:
        await all_summaries(it)
        await it.press("space", "space", "x")
        screen = it.app.screen
        assert isinstance(screen, ExportScreen)
        assert "● the 2 marked" in it.words
        assert f"○ all {ALL} shown" in it.words
        name = screen.query_one(Input)
        assert name.value.endswith("ctxtop-summaries-20261120-120000.md")
        name.value = str(path)
        await it.press("enter")
        await it.until(lambda: path.exists() and isinstance(it.app.screen, SummariesScreen))
        assert path.read_text().startswith("# Summaries\n\n## general-purpose")
        assert path.read_text().count("```yaml") == 2
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert any(str(path) in toast for toast in it.toasts)

        await it.press("x")
        screen = it.app.screen
        assert isinstance(screen, ExportScreen)
        screen.query_one(Input).value = str(path)
        await it.press("down", "down", "enter")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        assert "already exists" in it.words
        await it.press("enter")
        assert path.read_text().count("```yaml") == 2
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        await it.read_question()
        await it.press("right", "enter")
        await it.until(lambda: path.read_text().count("```yaml") == ALL)
        await it.until(lambda: isinstance(it.app.screen, SummariesScreen))


async def test_x_says_what_is_in_its_way_and_esc_writes_nothing(demo: Stage) -> None:
    async with opened(demo) as it:
        await all_summaries(it)
        await it.press("enter")
        await it.reading()
        await it.press("x")
        screen = it.app.screen
        assert isinstance(screen, ExportScreen)
        assert "○" not in it.words
        name, said = screen.query_one(Input), screen.query_one("#said", Static)
        for typed, words in (
            ("", "type the name of the file"),
            (str(demo.root), "is not a regular file"),
            (f"{demo.root}/none/there.md", "No such file"),
        ):
            name.value = typed
            await it.press("enter")
            await it.until(lambda words=words: words in str(said.content))  # type: ignore[misc]
        assert is_harmless(it)
        await it.press("escape")
        assert isinstance(it.app.screen, SummaryScreen)


@pytest.mark.parametrize("theme", ["ctxtop-dark", "ctxtop-light"])
async def test_a_picture_of_the_question_what_to_export(demo: Stage, theme: str) -> None:
    async with opened(demo) as it:
        it.app.theme = theme
        await all_summaries(it)
        await it.press("space", "space", "x")
        screen = it.app.screen
        assert isinstance(screen, ExportScreen)
        # The folder's name differs from run to run.
        screen.query_one(Input).value = "~/ctxtop-summaries-20261120-120000.md"
        await it.calm()
        await compare(it, f"summaries-export-{theme}")


async def test_it_fits_and_survives_a_change_of_size(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        for size in ((60, 20), (80, 24), (120, 40), (200, 60), (240, 70)):
            await it.press("G")
            await it.resize(size)
            await listed(it)
            assert screen.rows.place == ALL - 1
            last = shown(it)[-1].split()[0]
            assert any(last in line for line in it.lines)
            assert any("≈" in line for line in it.lines)
            await it.press("2", "z")
            await it.resize((90, 30))
            await it.press("escape", "1", "k")
            await listed(it)
            assert screen.rows.place == ALL - 2


async def test_2_shows_the_text_where_only_the_list_fits(demo: Stage) -> None:
    async with opened(demo, (60, 15)) as it:
        screen = await all_summaries(it)
        assert not screen.reader.display
        await it.press("2")
        assert screen.reader.display
        assert screen.reader.text.has_focus
        assert not screen.rows.region
        await it.press("1")
        assert screen.rows.has_focus
        assert screen.rows.region.height > 5
        await it.press("escape")
        assert not screen.reader.display
        assert screen.is_current


async def test_pictures(demo: Stage) -> None:
    async with opened(demo) as it:
        await all_summaries(it)
        await it.press("j", "j", "space", "space")
        await listed(it)
        await compare_sizes(it, "summaries")
        await it.press("escape")
        await search(it, "wishlist -reviewer")
        await it.press("n")
        await compare_sizes(it, "summaries-search")
        await search(it, '"Changed files" type:node')
        await it.press("space", "space", "equals_sign")
        await compared(it)
        await compare_sizes(it, "summaries-compare")
        await it.press("escape")
        await search(it, "project:notes kind:boundary")
        await it.press("d")
        await replaced(it)
        await it.calm()
        await compare_sizes(it, "summaries-replaced")


async def test_rules_are_listed_on_request_pinned_and_dropped(demo: Stage) -> None:
    async with opened(demo) as it:
        screen = await all_summaries(it)
        assert not any(name.startswith("rule") for name in shown(it))
        await search(it, "kind:rule")
        assert len(screen.rows.ids) > 1
        assert set(shown(it)) == {"rule"}
        assert "stated in a prompt · in context" in it.words
        assert "b Pin  D Drop" in it.words
        assert "d Replaced" not in it.words
        await it.press("b")
        await it.until(lambda: "pinned: always carried" in it.words)
        await it.press("D")
        await it.until(lambda: "dropped: ignored until you state it again" in it.words)
        await listed(it)
        assert "§ rule: dropped" in it.words
        await it.press("D")
        await it.until(lambda: "dropped: ignored" not in it.words)
        await listed(it)
        assert "§ rule: in context" in it.words


async def test_other_texts_are_neither_pinned_nor_dropped(demo: Stage) -> None:
    async with opened(demo) as it:
        await all_summaries(it)
        assert "d Replaced" in it.words
        assert "D Drop" not in it.words
