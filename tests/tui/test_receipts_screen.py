"""Every action ever taken on the screen, one of them whole, and taking back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ctxtop.collectors.plugin_files import compact_requests
from ctxtop.collectors.terminal.request_receipts import CompactRequest
from ctxtop.core.actions import session_compaction
from ctxtop.core.actions.session_access import (
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    Via,
)
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.store.automation_records import (
    AutomaticRunRecord,
    begin_automatic_run,
    end_automatic_run,
)
from ctxtop.core.store.writer import Writer
from ctxtop.tui.page_kit.dialogs import ConfirmScreen
from ctxtop.tui.page_kit.page import ReadingScreen
from ctxtop.tui.screens.history.history_screen import ReceiptsScreen
from ctxtop.tui.screens.history.receipt_screen import ReceiptScreen
from ctxtop.tui.widgets.controls import FilterBar
from ctxtop.tui.widgets.row_list import RowList
from msgspec.structs import replace

from .compacting import (
    LARGE,
    LIVE,
    compacting,
    confirmed,
    kept,
    mark_row,
    receipt_shown,
    receipts_shown,
    rows,
    shown,
    transcript,
)
from .support import NOW_MS, opened

if TYPE_CHECKING:
    import pytest

    from .support import Opened, Stage

OLD_S = NOW_MS / 1000 - 3600


async def forked(it: Opened, stage: Stage) -> str:
    """Write a fork and rest it; gives its receipt's id."""
    await it.press("f")
    await receipt_shown(it)
    receipt = kept(stage)[0]
    fork = transcript(stage, LARGE).with_name(f"{receipt.new_session_id}.jsonl")
    os.utime(fork, (OLD_S, OLD_S))
    return receipt.receipt_id


async def test_the_empty_list_says_what_to_do(stage: Stage) -> None:
    async with opened(stage) as it:
        await it.press("R")
        await it.until(lambda: "No changes yet" in it.words)
        assert "c on a session" in it.words
        await it.press("j", "enter", "u", "y", "escape")
        assert it.app.screen is it.app.fleet


async def test_a_fork_stands_in_the_list_and_is_undone_there(demo: Stage) -> None:
    async with compacting(demo) as it:
        receipt_id = await forked(it, demo)
        await it.press("R")
        await receipts_shown(it)
        (row,) = rows(it)
        for words in ("Rewrite the", "fork", "≈", "done"):
            assert words in row
        await it.press("y")
        assert it.app.clipboard == receipt_id
        await it.press("u")
        await it.until(lambda: isinstance(it.app.screen, ConfirmScreen))
        await it.until(lambda: "Both the session and the" in it.words and "are kept." in it.words)
        await it.press("enter")
        assert kept(demo)[0].state == "done"
        await it.press("u")
        await confirmed(it)
        await it.until(lambda: kept(demo)[0].state == "undone")
        await it.until(lambda: "undone" in rows(it)[0])
        await it.press("u")
        await it.until(lambda: any("it is already undone" in toast for toast in it.toasts))
        assert isinstance(it.app.screen, ReceiptsScreen)


async def test_single_operations_are_marked_and_taken_back(demo: Stage) -> None:
    async with compacting(demo) as it:
        await forked(it, demo)
        await it.press("g", "space", "j", "j", "space")
        assert "2 marked" in it.words
        assert [row[:6] for row in rows(it)[:3]] == ["▸ undo", "✓     ", "▸ undo"]
        await it.press("u")
        await confirmed(it)
        await it.until(lambda: kept(demo)[0].state == "partly_undone")
        now = kept(demo)[0].now
        assert now is not None
        assert now.undone == (0, 2)
        await it.until(lambda: rows(it)[2].startswith("undone"))
        assert "2 of" in str(it.app.screen.query_one("#done").render())
        await it.press("g", "space")
        assert "marked" not in str(it.app.screen.query_one(RowList).border_title)


async def test_enter_shows_the_text_before_and_after(demo: Stage) -> None:
    async with compacting(demo) as it:
        await forked(it, demo)
        await mark_row(it, "Bash pytest -q")
        await it.until(lambda: "  - " in str(it.app.screen.query_one("#change").render()))
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ReadingScreen))
        screen = it.app.screen
        assert isinstance(screen, ReadingScreen)
        assert "  - " in screen._content.plain
        assert "  + " in screen._content.plain
        await it.press("escape")
        assert isinstance(it.app.screen, ReceiptScreen)


async def test_texts_of_what_was_done_in_place_come_from_the_copy(demo: Stage) -> None:
    os.utime(transcript(demo, LARGE), (OLD_S, OLD_S))
    async with compacting(demo) as it:
        await it.press("i")
        await confirmed(it)
        await receipt_shown(it)
        await mark_row(it, "Bash pytest -q")
        await it.until(lambda: "  - " in str(it.app.screen.query_one("#change").render()))
        assert "not there any more" not in str(it.app.screen.query_one("#change").render())


async def test_v_tries_out_whether_they_can_be_taken_back(demo: Stage) -> None:
    async with compacting(demo) as it:
        receipt_id = await forked(it, demo)
        await it.press("v")
        await it.until(lambda: any("byte for byte" in toast for toast in it.toasts))
        await it.press("R")
        await receipts_shown(it)
        await it.press("v")
        await it.until(lambda: any("0 cannot be undone" in toast for toast in it.toasts))
        assert rows(it)[0].rstrip().endswith("ok")
        receipt = kept(demo)[0]
        transcript(demo, LARGE).with_name(f"{receipt.new_session_id}.jsonl").unlink()
        await it.press("v")
        await it.until(lambda: any("1 cannot be undone" in toast for toast in it.toasts))
        await it.press("u")
        await it.until(lambda: any("is gone" in toast for toast in it.toasts))
        assert receipt_id == receipt.receipt_id


async def test_a_filter_shows_those_with_some_words(demo: Stage) -> None:
    async with compacting(demo) as it:
        receipt_id = await forked(it, demo)
        await it.press("R")
        await receipts_shown(it)
        await it.press("slash", *"nothing-has-this")
        assert rows(it) == []
        assert "no receipt matches “nothing-has-this”" in it.words
        await it.press("escape")
        assert len(rows(it)) == 1
        await it.press("slash", *receipt_id, "enter")
        assert len(rows(it)) == 1
        assert it.app.screen.query_one(FilterBar).display
        await it.press("escape")
        assert isinstance(it.app.screen, ReceiptsScreen)
        assert not it.app.screen.query_one(FilterBar).display
        await it.press("escape")
        assert not isinstance(it.app.screen, ReceiptsScreen)


async def test_what_was_asked_and_what_was_done_by_itself_stand_there_too(demo: Stage) -> None:
    session_id = demo.titled(LIVE).session_id
    async with opened(demo) as it:
        asking = CompactRequest(demo.places.store, session_id, "")
        compact_requests.make_request_folders(str(demo.places.store))
        asking.begin(Via.TMUX)
        asking.fail(NotCompactedError(CompactFailure.LIVE, "it is busy: wait until it is idle"))
        writer = Writer(demo.places.store)
        run = AutomaticRunRecord(
            session_id, NOW_MS - 60_000, "emergency at 95 %", "price: too dear"
        )
        begin_automatic_run(writer.connection, run, 0)
        writer.connection.execute("UPDATE automatic_run SET outcome = 'price: too dear'")
        writer.connection.commit()
        writer.close()
        await it.press("R")
        await receipts_shown(it)
        words = "\n".join(rows(it))
        assert "/compact, tmux" in words
        assert "refused" in words
        assert "automatic" in words
        assert "emergency at 95 %" in words
        await mark_row(it, "/compact, tmux")
        await it.press("u")
        assert "ctxtop cannot undo it" in "\n".join(it.toasts)
        await it.press("enter")
        assert isinstance(it.app.screen, ReceiptsScreen)


async def test_an_automatic_run_of_the_client_stands_there_once_with_its_reason(
    demo: Stage,
) -> None:
    session_id, reason = demo.titled(LIVE).session_id, "emergency at 95 %"
    async with opened(demo) as it:
        compact_requests.make_request_folders(str(demo.places.store))
        request = CompactRequest(demo.places.store, session_id, "", reason)
        run = AutomaticRunRecord(session_id, request.requested_at - 1, reason)
        writer = Writer(demo.places.store)
        begin_automatic_run(writer.connection, run, 0)
        request.begin(Via.CLI)
        request.finish(
            ClientCompactResult(
                session_id,
                Via.CLI,
                request.requested_at,
                "b-1",
                160_400,
                3_000,
                1.0,
                estimated_next_tokens=24_000,
            )
        )
        ended_at = request.requested_at + 1
        end_automatic_run(writer.connection, replace(run, outcome="compacted", ended_at=ended_at))
        writer.close()
        await it.press("R")
        await receipts_shown(it)
        (row,) = rows(it)
        assert "/compact, cli" in row
        assert reason in row
        assert "136 k" in row, "with the system prompt and the tools"


async def test_undo_of_a_receipt_that_went_away_says_so(demo: Stage) -> None:
    async with compacting(demo) as it:
        receipt_id = await forked(it, demo)
        await it.press("R")
        screen = await receipts_shown(it)
        state = demo.places.store.with_name(f"{demo.places.store.name}.compaction")
        (state / "receipts" / f"{receipt_id}.json").write_text("{")
        screen.action_undo()
        await it.until(lambda: any("can no longer be read" in each for each in it.toasts))


async def test_what_another_ctxtop_does_appears_and_the_mark_stays(demo: Stage) -> None:
    async with compacting(demo) as it:
        await forked(it, demo)
        await it.press("escape", "R")
        screen = await receipts_shown(it)
        before = screen.query_one(RowList).key
        plan_page = next(
            each for each in it.app.screen_stack if type(each).__name__ == "CompactScreen"
        )
        found = plan_page._planned  # type: ignore[attr-defined]
        from ctxtop.collectors.session_target import session_target

        session = plan_page.session  # type: ignore[attr-defined]
        places, policy = demo.places, it.app.feed.policies.common
        target = session_target(places.folder, places.store, session, policy)
        apply_plan(found.plan, ApplyMode.FORK, target)
        await it.until(lambda: len(rows(it)) == 2)
        assert screen.query_one(RowList).key == before


async def test_a_hostile_title_stays_words(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Show [/foo]")
        await it.press("c")
        await it.until(lambda: "[/foo] and [bold red]" in it.lines[0])
        await it.press("escape")


async def test_u_says_that_there_is_nothing_to_undo(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("u")
        await it.answered()
        await it.until(lambda: any("nothing to undo" in toast for toast in it.toasts))


async def test_a_damaged_receipt_is_listed_as_one(demo: Stage) -> None:
    async with compacting(demo) as it:
        await forked(it, demo)
        folder = demo.places.store.with_name(f"{demo.places.store.name}.compaction") / "receipts"
        (folder / "0badc0de.json").write_text("{")
        await it.press("R")
        await shown(it, ReceiptsScreen)
        await it.until(lambda: len(rows(it)) == 2)
        assert any("cannot be read" in row for row in rows(it))


async def test_a_store_that_cannot_be_written_is_told(
    demo: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with compacting(demo) as it:
        await forked(it, demo)

        def shut(*_: object) -> object:
            raise PermissionError(13, "Permission denied", str(demo.places.store))

        monkeypatch.setattr(session_compaction, "undo", shut)
        await it.press("u")
        await confirmed(it)
        await it.until(lambda: any("Permission denied" in toast for toast in it.toasts))
        assert any("nothing was changed" in toast for toast in it.toasts)


async def test_the_ticks_of_what_was_just_done_come_one_by_one(demo: Stage) -> None:
    async with compacting(demo) as it:
        it.app.animation_level = "full"
        await it.press("f")
        screen = await receipt_shown(it)
        seen = set()

        def all_ticked() -> bool:
            count = str(screen.query_one("#ticks").render()).count("✓")
            seen.add(count)
            return count == 24

        await it.until(all_ticked)
        assert len(seen) > 2
