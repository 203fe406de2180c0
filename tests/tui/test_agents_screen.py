"""The agents' page: its tabs, every key of it, the mouse, and what happens while one looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.tui.page_kit.dialogs import ConfirmScreen, ExportScreen
from ctxtop.tui.screens.agents.agents_overview import AgentScope
from ctxtop.tui.screens.agents.agents_screen import AgentScreen, AgentsScreen
from ctxtop.tui.screens.session.session_screen import SessionScreen
from ctxtop.tui.widgets.controls import FilterBar
from ctxtop.tui.widgets.header_footer import TabBar
from textual.widgets import Input, Static

from .comparing import compare, compare_sizes, counted
from .support import opened
from .test_hostile import HOSTILE, hostile_session, is_harmless
from .writing import agent_files, answer, append, launch, prompt, returned, session_file

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.tui.screens.agents.agent_tabs import TabPane

    from .support import Opened, Stage

LEADER = "Ship the wishlist"
NESTED = "Show [/foo]"
BROKEN = "Search p95"


def page(it: Opened) -> AgentsScreen:
    screen = it.app.screen
    assert isinstance(screen, AgentsScreen)
    return screen


def pane(it: Opened) -> TabPane:
    return page(it)._pane


def rows(it: Opened) -> list[str]:
    """The words of the shown tab's rows."""
    return [row.content.plain for row in pane(it).shown]


def marked(it: Opened) -> str:
    place = pane(it).rows.highlighted
    assert place is not None
    return rows(it)[place]


def report(it: Opened) -> str:
    content = page(it).query_one("#report", Static).content
    return getattr(content, "plain", str(content))


async def read(it: Opened) -> None:
    """Wait until the tab shows what its scope holds."""
    await it.until(lambda: page(it)._arrangement.scope in page(it)._overviews)
    await it.calm()


async def on_page(it: Opened, title: str, *keys: str) -> None:
    await it.mark(title)
    await it.press("A")
    await read(it)
    for key in keys:
        await it.press(key)
        await read(it)


async def test_the_tree_has_every_agent_with_its_own_gauge(demo: Stage) -> None:
    async with opened(demo, (200, 60)) as it:
        await counted(it)
        await on_page(it, LEADER)
        assert f"sessions › {LEADER}: API, page, review › agents" in it.lines[0]
        shown = rows(it)
        assert len(shown) == 5
        assert shown[0].startswith("▾ Ship the wishlist")
        for row, words in zip(
            shown[1:],
            (
                ("├─ ✓ node-backend", "6 lines ≈134"),
                ("├─ ✓ react-frontend", "forced", "5 lines"),
                ("├─ ✓ reviewer", "FAIL 1/2", "7 lines"),
                ("└─ ✓ general-purpose", "41 lines"),
            ),
            strict=True,
        ):
            assert all(word in row for word in ("2 % of 1 M", *words)), row
        # The first agent is marked: its session's page lies below this one.
        assert marked(it) == shown[1]
        assert "Result\n1 │ [COMPRESSED] agent_type: node-backend" in report(it)
        await it.until(lambda: "Add GET, POST and DELETE /api/wishlist" in report(it))


async def test_the_reports_follow_the_mark(demo: Stage) -> None:
    async with opened(demo, (200, 60)) as it:
        await on_page(it, BROKEN)
        for words in (
            "✓ compliant",
            "1 ▌ I have completed the load test.\n  ▌ └ V02",
            "✗ exhausted",
            "✗ clobbered",
        ):
            assert words in report(it)
            await it.press("j")
        await it.press("g")
        assert "complied      1 of 4" in report(it)


async def test_helpers_of_helpers_are_folded_and_unfolded(demo: Stage) -> None:
    async with opened(demo) as it:
        await on_page(it, NESTED)
        assert [row[:12] for row in rows(it)[1:4]] == [
            "├▾ ✓ general",
            "│ ├─ ✓ Explo",
            "│ └─ ✗ node-",
        ]
        await it.press("left")
        assert "├▸ ✓ general" in marked(it)
        assert " +2" in marked(it)
        assert len(rows(it)) == 4
        await it.press("right")
        assert len(rows(it)) == 6
        # On what cannot be folded: to what it stands below.
        await it.press("j", "j", "left")
        assert "general-purpose" in marked(it)
        await it.press("left", "left")
        assert marked(it).startswith("▾ Show [/foo]")
        await it.press("left")
        assert len(rows(it)) == 1
        assert marked(it).startswith("▸ Show [/foo]")
        await it.press("right")
        assert len(rows(it)) == 4


async def test_the_mouse_folds_marks_opens_and_turns_tabs(demo: Stage) -> None:
    async with opened(demo) as it:
        await on_page(it, NESTED)
        tree = pane(it).rows
        await it.pilot.click(tree, offset=(1, 1))
        await it.calm()
        assert len(rows(it)) == 4
        await it.pilot.click(tree, offset=(1, 1))
        await it.calm()
        assert len(rows(it)) == 6
        await it.pilot.click(tree, offset=(20, 2))
        await it.calm()
        assert "Explore" in marked(it)
        assert len(rows(it)) == 6
        tabs = page(it).query_one(TabBar)
        await it.pilot.click(tabs, offset=(16, 0))
        await read(it)
        assert pane(it).id == "types"
        await it.pilot.click(tabs, offset=(2, 0))
        await it.calm()
        await it.pilot.click(tree, offset=(20, 2), times=2)
        await it.calm()
        assert isinstance(it.app.screen, AgentScreen)


async def test_enter_opens_an_agent_or_its_session_and_esc_comes_back(demo: Stage) -> None:
    async with opened(demo) as it:
        await on_page(it, LEADER)
        await it.press("j", "enter")
        assert isinstance(it.app.screen, AgentScreen)
        await it.reading()
        assert "Build the wishlist page" in it.text
        await it.press("escape")
        assert "react-frontend" in marked(it)
        await it.press("g", "enter")
        await it.until(lambda: isinstance(it.app.screen, SessionScreen))
        await it.press("escape", "escape")
        assert it.is_home


async def test_a_goes_from_this_session_to_the_live_ones_to_all(demo: Stage) -> None:
    async with opened(demo) as it:
        await on_page(it, LEADER)
        counts = [len(rows(it))]
        for scope in (AgentScope.LIVE, AgentScope.ALL):
            await it.press("a")
            await read(it)
            assert scope.value in it.lines[1]
            counts.append(len(rows(it)))
        assert counts[0] < counts[1] < counts[2]
        assert sum(row.startswith("▾ ") for row in rows(it)) > 5
        await it.press("a")
        assert len(rows(it)) == counts[0]


async def test_a_filter_v_and_the_sort(demo: Stage) -> None:
    async with opened(demo) as it:
        await on_page(it, BROKEN)
        await it.press("v")
        assert len(rows(it)) == 4
        assert "3 of 4" in it.lines[1]
        assert "/noncompliant:" in it.lines[1]
        await it.press("v")
        assert len(rows(it)) == 5
        await it.press("slash", *"type:docs")
        assert [row[5:16] for row in rows(it)[1:]] == ["docs-writer"]
        await it.press("enter")
        assert pane(it).rows.has_focus
        assert not page(it).query_one(FilterBar).display
        await it.press("escape")
        assert len(rows(it)) == 5
        await it.press("slash", *"verdict:V02", "escape")
        assert len(rows(it)) == 5
        await it.press("slash", *"zzz", "down")
        assert "no agent matches “zzz”; Esc shows all" in it.words
        await it.press("escape")
        for order, first in (
            ("newest", "clobbered"),
            ("fullest", ""),
            ("largest result", "docs-writer"),
        ):
            await it.press("s")
            assert order in it.lines[1]
            assert first in rows(it)[1]
        await it.press("s")
        assert "as started" in it.lines[1]


async def test_y_copies_what_is_marked(demo: Stage) -> None:
    async with opened(demo) as it:
        await on_page(it, LEADER, "y")
        assert it.app.clipboard.startswith("[COMPRESSED] agent_type: node-backend\nChanged files")
        await it.press("g", "y")
        assert it.app.clipboard == demo.titled(LEADER).session_id
        await it.press("3", "j", "j", "y")
        assert it.app.clipboard.startswith("- **critical** `src/api/wishlist.ts:48`: DELETE trusts")
        await it.press("g", "y")
        assert it.app.clipboard.startswith("# Findings of reviewers\n\n## Critical (1)")
        await it.press("2")
        await read(it)
        await it.press("y")
        assert "node-backend" in it.app.clipboard


async def test_types_have_their_history_and_enter_lists_their_runs(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await on_page(it, LEADER, "2")
        await it.press("g")
        assert "all sessions" in it.lines[1]
        assert marked(it).startswith("node-backend")
        assert "60 % of 10" in marked(it)
        assert "✗" in marked(it)
        for words in ("by day", "p90", "V02", "a grep", "noncompliant", "1 of 2"):
            assert words in report(it)
        await it.press("v")
        assert [row.split()[0] for row in rows(it)] == ["node-backend", "docs-writer"]
        await it.press("v", "enter")
        await read(it)
        assert "agents › runs of node-backend" in it.lines[0]
        runs = [row for row in rows(it) if "node-backend" in row]
        assert len(runs) == 10
        assert sum(row.startswith("▾ ") for row in rows(it)) > 3
        await it.press("slash", *" is:done", "enter", "escape")
        assert "runs of node-backend" in it.lines[0]
        await it.press("escape")
        assert marked(it).startswith("node-backend")
        assert pane(it).id == "types"


async def test_findings_are_grouped_by_severity_and_file(demo: Stage) -> None:
    async with opened(demo, (200, 60)) as it:
        await on_page(it, LEADER, "3")
        assert [row.split()[-1] for row in rows(it) if row.startswith("▾")] == ["1", "2", "1"]
        assert "DELETE trusts the customer id" in rows(it)[2]
        await it.press("a", "a")
        await read(it)
        assert [row.split()[-1] for row in rows(it) if row.startswith("▾")] == ["3", "4", "4"]
        twice = next(row for row in rows(it) if ":77-84" in row)
        assert "reviewer +1" in twice
        await it.press("slash", *"file:gateway", "enter", "G")
        assert len(rows(it)) == 3
        assert "Reported by\n  reviewer" in report(it)
        assert report(it).count("修复支付网关") == 2
        await it.press("enter")
        assert isinstance(it.app.screen, AgentScreen)
        await it.press("escape", "escape", "g", "enter")
        assert rows(it)[0].startswith("▸ ✗ critical")
        assert rows(it)[1].startswith("▾ ▲ warning")
        await it.press("right", "j", "j", "left")
        assert marked(it).startswith("  ▾ src/")


async def test_x_writes_a_new_file_or_copies(demo: Stage, tmp_path: Path) -> None:
    async with opened(demo) as it:
        await on_page(it, LEADER, "3")
        await it.press("x")
        assert isinstance(it.app.screen, ExportScreen)
        path = tmp_path / "found.md"
        await write_to(it, path)
        await it.until(path.exists)
        await it.until(lambda: not isinstance(it.app.screen, ExportScreen))
        text = path.read_text(encoding="utf-8")
        assert "## Critical (1)" in text
        assert "- **48** DELETE trusts the customer id in the body _(reviewer, 2026-11-20" in text
        assert path.stat().st_mode & 0o777 == 0o600
        await it.press("x")
        await write_to(it, path)
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        assert "already exists" in it.words
        await it.press("escape")
        assert path.read_text(encoding="utf-8") == text
        await it.press("ctrl+y")
        await it.until(lambda: it.app.clipboard == text)
        for tab, words in (("1", "# Agents"), ("2", "# Types of agents")):
            await it.press(tab)
            await read(it)
            await it.press("x", "ctrl+y")
            await it.until(lambda start=words: it.app.clipboard.startswith(start))  # type: ignore[misc]
        await it.press("x", "escape")
        assert isinstance(it.app.screen, AgentsScreen)


async def write_to(it: Opened, path: Path) -> None:
    it.app.screen.query_one(Input).value = str(path)
    await it.press("enter")


async def test_z_shows_the_report_alone_where_both_do_not_fit(demo: Stage) -> None:
    async with opened(demo, (80, 24)) as it:
        await on_page(it, LEADER)
        detail = page(it).query_one("#detail")
        assert not detail.display
        await it.press("z")
        assert detail.display
        assert detail.region.width == 80
        assert "Changed files: src/api/wishlist.ts" in it.words
        await it.press("escape")
        assert not detail.display
        assert pane(it).rows.has_focus
        await it.resize((80, 40))
        await it.until(lambda: detail.display and detail.region.y > pane(it).region.y + 5)
        await it.resize((140, 40))
        await it.until(lambda: detail.region.x > 60)


async def test_no_number_is_cut_at_any_size(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await on_page(it, LEADER)
        for size in ((60, 20), (80, 24), (120, 40), (200, 60), (240, 70)):
            await it.resize(size)
            await it.press("1")
            await read(it)
            assert all(number in it.words for number in ("2 %", "6 lines ≈134", "41 lines ≈630"))
            assert {row.content.cell_length for row in pane(it).shown} == {pane(it).row_width}
            for tab in "23":
                await it.press(tab, "a", "a")
                await read(it)
                assert {row.content.cell_length for row in pane(it).shown} == {pane(it).row_width}


async def test_it_follows_what_happens_and_keeps_its_place(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Live"), launch("t1", "worker", "First", 20_000))
    agent_files(path, "a1", {"agentType": "worker", "toolUseId": "t1"}, answer(9_000))
    append(path, launch("t2", "docs", "Second", 21_000))
    agent_files(path, "a2", {"agentType": "docs", "toolUseId": "t2"}, answer(9_500))
    async with opened(stage) as it:
        await on_page(it, "Live", "j")
        assert "docs" in marked(it)
        assert "running" in marked(it)
        append(path, returned("t2", "a2", "Written."), launch("t3", "worker", "Third", 22_000))
        await it.until(lambda: len(rows(it)) == 4)
        assert "docs" in marked(it)
        await it.until(lambda: "1 line" in marked(it))
        await it.until(lambda: "\nWritten." in report(it))
        assert it.app.view is not None


async def test_a_silent_agent_is_closed_with_a_key(stage: Stage) -> None:
    path = session_file(stage.root, 1)
    append(path, prompt("Live", -3_000), launch("t1", "worker", "First", 20_000, -2_900))
    meta = {"agentType": "worker", "toolUseId": "t1"}
    agent_files(path, "a1", meta, answer(9_000, -1_900))
    append(path, prompt("Are you there?"), answer(20_000))
    async with opened(stage) as it:
        await on_page(it, "Live")
        assert "└─ ◌ worker" in marked(it)
        assert "silent 31 min" in marked(it)
        assert "zombie, silent for 31 min" in report(it)
        await it.press("X")
        await it.until(lambda: "└─ □ worker" in marked(it))
        assert "closed" in marked(it)
        assert any("closed worker" in toast for toast in it.toasts)
        await it.press("X")
        assert any("only a zombie is closed" in toast for toast in it.toasts)


async def test_a_session_without_agents_says_what_to_do(demo: Stage) -> None:
    async with opened(demo) as it:
        await on_page(it, "Search offline", "a", "a")
        assert "this session" in it.lines[1]
        assert "No agents here yet" in it.words
        await it.press("y", "left", "right", "enter", "z", "z")
        assert page(it).is_current
        await it.press("x")
        assert any("nothing to export" in toast for toast in it.toasts)
        await it.press("3", "a", "a")
        await read(it)
        assert "No findings here" in it.words


async def test_where_this_session_has_none_it_shows_those_of_others(
    demo: Stage,
) -> None:
    async with opened(demo) as it:
        await on_page(it, "Search offline")
        assert "live sessions (none in this session)" in it.lines[1]
        assert len(rows(it)) > 1
        await it.press("3")
        await read(it)
        assert "live sessions (none in this session)" in it.lines[1]
        await it.press("1", "a")
        await read(it)
        assert "all sessions" in it.lines[1]
        assert "none in" not in it.lines[1]
        await it.press("a")
        await read(it)
        assert "No agents here yet" in it.words


async def test_without_any_session_it_shows_that_there_are_none(stage: Stage) -> None:
    async with opened(stage) as it:
        await it.press("A")
        await read(it)
        assert "all sessions (none in live sessions)" in it.lines[1]
        assert "No agents here yet" in it.words
        await it.press("2")
        await read(it)
        assert "no agent has run yet" in it.words


async def test_hostile_words_are_shown_as_they_are(stage: Stage) -> None:
    hostile_session(stage)
    path = session_file(stage.root, 1, "-home-[bold]")
    review = (
        "[COMPRESSED] agent_type: reviewer\nFiles reviewed: a\n"
        f"Critical: a[/b].ts:1 — {HOSTILE}\nVerdict: FAIL (1/0)"
    )
    (stage.root / "agents").mkdir()
    head = "---\nname: reviewer\ndescription: r\nskills: [compress-review]\n---\n"
    (stage.root / "agents" / "reviewer.md").write_text(head)
    skill = stage.root / "skills" / "compress-review" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Begin with [COMPRESSED].\n")
    append(path, launch("t9", "reviewer", HOSTILE, 22_000), returned("t9", "a9", review))
    async with opened(stage, (200, 60)) as it:
        await it.until(lambda: len(it.rows("agents")) == 3)
        await it.press("A")
        await read(it)
        for keys in (("G",), ("2",), ("3", "G"), ("enter",)):
            await it.press(*keys)
            await it.calm()
            assert is_harmless(it)
            assert "[/" in it.words
            await it.press("y")
            assert "\x1b" not in it.app.clipboard
        await it.press("escape", "x")
        assert is_harmless(it)
        await it.press("ctrl+y")
        await it.until(lambda: "\\[link=http://e.x\\]" in it.app.clipboard)


async def test_how_the_tree_looks(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await on_page(it, BROKEN, "j")
        await it.until(lambda: "Replay the afternoon" in report(it))
        await compare_sizes(it, "agents")


async def test_how_the_types_look(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await on_page(it, LEADER, "2")
        await compare_sizes(it, "agent-types")


async def test_how_the_findings_look(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await on_page(it, LEADER, "3", "a", "a", "j", "j")
        await compare_sizes(it, "agent-findings")


async def test_how_an_agent_looks(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await on_page(it, BROKEN, "j")
        await it.press("enter")
        # What there was to give is read after the agent itself.
        await it.until(lambda: "could have been injected" in it.text)
        await compare_sizes(it, "agent")


async def test_how_all_agents_look(demo: Stage) -> None:
    async with opened(demo) as it:
        await counted(it)
        await on_page(it, NESTED, "a", "a")
        await compare(it, "agents-all")
