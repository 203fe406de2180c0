"""What is in the dashboard's way: it says so in one line, lives on, and recovers."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code import reader_pool
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.store.writer import Writer
from ctxtop.tui.app_state import feed as feed_module
from ctxtop.tui.app_state.feed import Feed
from ctxtop.tui.app_state.notifier import Notifier
from ctxtop.tui.screens.fleet import fleet_panes, session_table
from ctxtop.tui.screens.fleet.session_filter import SessionFilter
from ctxtop.tui.text import session_text

from .support import ROOMY, just_opened, opened
from .writing import answer, append, prompt, session_file

if TYPE_CHECKING:
    from pathlib import Path

    from .support import Opened, Stage


def sqlite_error(code: int, words: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code
    return error


async def is_told(it: Opened, *words: str) -> None:
    """Wait for the words on the screen, whole, and find nothing of Python's beside them."""
    await it.until(lambda: all(one in it.trouble for one in words))
    assert "Traceback" not in it.words
    assert it.app.is_running


async def is_noted(it: Opened, *words: str) -> None:
    """Wait for a toast that says something happened which needs nothing."""
    await it.until(lambda: any(all(one in toast for one in words) for toast in it.toasts))
    assert it.trouble == ""


async def test_no_sessions_at_all(stage: Stage) -> None:
    async with opened(stage, ROOMY) as it:
        assert (
            f"No sessions yet in {stage.root}." in "".join(line.strip("│ ") for line in it.lines)
            or str(stage.root)[:40] in it.words
        )
        assert "Start `claude` in a project" in it.words
        assert "ctxtop demo" in it.words
        assert "0 sessions" in it.status
        await it.press(*"jkgGyz", "z", "enter", "2", "enter", "y", "3", "enter", "y", "escape")
        assert it.app.screen is it.app.fleet


async def test_no_folder_at_all(stage: Stage) -> None:
    (stage.root / "projects").rmdir()
    stage.root.rmdir()
    async with opened(stage, ROOMY) as it:
        assert "No sessions yet" in it.words
        append(session_file(stage.root, 1), prompt("Fix the parser"), answer(9_000))
        await it.until(lambda: it.titles() == ["Fix the parser"])


async def test_a_store_that_another_program_holds(
    untold: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxtop.core.store.database.BUSY_TIMEOUT_S", 0.05)
    monkeypatch.setattr("ctxtop.collectors.store_update.RETRY_S", 0.05)
    async with opened(untold, ROOMY) as it:
        with sqlite3.connect(untold.places.store, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            append(untold.titled("Move checkout").transcript, answer(134_000))
            await is_told(
                it, "another program has it locked", "close that program", "retries automatically"
            )
            other.execute("ROLLBACK")
        other.close()
        await it.until(lambda: "67 %" in it.words)
        await it.until(lambda: "another program" not in it.trouble)


async def test_leaving_while_another_program_holds_the_store(untold: Stage) -> None:
    async with opened(untold, ROOMY) as it:
        with sqlite3.connect(untold.places.store, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            append(untold.titled("Move checkout").transcript, answer(134_000))
            await it.press("q")
            await it.until(lambda: not it.app.is_running, 5)
            other.execute("ROLLBACK")
        other.close()
    assert it.app.return_code == 0


async def test_a_full_disk_is_waited_for(untold: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxtop.collectors.store_update.RETRY_S", 0.05)
    real = Writer.append

    def full(*_: Any) -> None:  # noqa: ANN401 -- whatever append takes
        raise sqlite_error(sqlite3.SQLITE_FULL, "database or disk is full")

    async with opened(untold, ROOMY) as it:
        monkeypatch.setattr(Writer, "append", full)
        append(untold.titled("Move checkout").transcript, answer(134_000))
        await is_told(it, "the disk is full", "free some space; nothing is lost")
        monkeypatch.setattr(Writer, "append", real)
        await it.until(lambda: "67 %" in it.words)
        await it.until(lambda: "disk is full" not in it.trouble)


async def test_a_store_that_gets_damaged_is_made_again(
    untold: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Writer.append
    raised: list[bool] = []

    def damaged(self: Writer, *facts: Any) -> None:  # noqa: ANN401
        if not raised:
            raised.append(True)
            raise sqlite_error(sqlite3.SQLITE_CORRUPT, "database disk image is malformed")
        real(self, *facts)

    async with opened(untold, ROOMY) as it:
        monkeypatch.setattr(Writer, "append", damaged)
        append(untold.titled("Move checkout").transcript, answer(134_000))
        await is_noted(it, "was damaged: moved to", "rebuilt")
        await it.until(lambda: "67 %" in it.words and len(it.titles()) == 19)


async def test_a_store_that_can_never_be_written(
    untold: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def readonly(*_: Any) -> None:  # noqa: ANN401
        raise sqlite_error(sqlite3.SQLITE_READONLY, "attempt to write a readonly database")

    async with opened(untold, ROOMY) as it:
        monkeypatch.setattr(Writer, "append", readonly)
        append(untold.titled("Move checkout").transcript, answer(134_000))
        await is_told(it, "it cannot be written", "--db", "restart ctxtop")
        await it.until(lambda: "ctxtop stopped" in it.status)
        await it.press("j", "enter")
        await it.reading()


async def test_a_store_of_a_newer_version_is_moved_aside(untold: Stage) -> None:
    Writer(untold.places.store).close()
    with sqlite3.connect(untold.places.store) as newer:
        newer.execute("PRAGMA user_version = 999")
    newer.close()
    async with opened(untold, ROOMY) as it:
        await is_noted(it, "written by a newer ctxtop", "rebuilt")
        assert len(it.titles()) == 19


async def test_a_store_that_is_none_is_moved_aside(untold: Stage) -> None:
    untold.places.store.parent.mkdir()
    untold.places.store.write_bytes(b"garbage, and a lot of it. " * 1_000)
    async with opened(untold, ROOMY) as it:
        await is_noted(it, "damaged", "rebuilt")
        assert len(it.titles()) == 19
    (aside,) = untold.places.store.parent.glob("*.aside-*")
    assert aside.read_bytes().startswith(b"garbage")


async def test_a_store_of_another_folder_is_refused(untold: Stage) -> None:
    writer = Writer(untold.places.store)
    writer.claim_folder(untold.root / "another")
    writer.close()
    async with just_opened(untold, ROOMY) as it:
        await is_told(it, "not live: the store", "belongs to", "choose another file with --db")
        await it.until(lambda: "ctxtop stopped" in it.status)
        assert "reading what" not in it.words


async def test_a_store_that_cannot_be_made(untold: Stage) -> None:
    untold.places.store.parent.write_text("a file where a folder should be")
    async with just_opened(untold, ROOMY) as it:
        await is_told(it, "not live: cannot create the store", "choose another file with --db")
        await it.until(lambda: "ctxtop stopped" in it.status)
        assert "reading what" not in it.words


async def test_a_folder_that_cannot_be_read(untold: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = next(path for path in (untold.root / "projects").iterdir() if "shop" in path.name)
    real = os.scandir
    shut = [True]

    def scandir(path: Any = ".") -> Any:  # noqa: ANN401 -- as os.scandir
        if shut and str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr("ctxtop.collectors.store_update.RECONCILE_S", 0.2)
    async with opened(untold, ROOMY) as it:
        await is_told(it, "cannot be read (Permission denied)", "check its permissions")
        assert 0 < len(it.titles()) < 19
        shut.clear()
        await it.until(lambda: len(it.titles()) == 19)
        await it.until(lambda: "cannot be read" not in it.trouble)


async def test_a_transcript_that_cannot_be_read(
    untold: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = untold.titled("Move checkout").transcript
    real = os.open
    shut = [True]

    def opener(path: Any, *more: Any, **named: Any) -> int:  # noqa: ANN401 -- as os.open
        if shut and str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *more, **named)

    monkeypatch.setattr(os, "open", opener)
    monkeypatch.setattr("ctxtop.collectors.store_update.RECONCILE_S", 0.2)
    async with opened(untold, ROOMY) as it:
        await is_told(it, "cannot be read (Permission denied)")
        # The registry alone tells of it.
        assert len(it.titles()) == 19
        assert not any(title.startswith("Move checkout") for title in it.titles())
        shut.clear()
        await it.until(lambda: any(title.startswith("Move checkout") for title in it.titles()))
        await it.until(lambda: "cannot be read" not in it.trouble)


async def test_bad_lines_stop_nothing(untold: Stage) -> None:
    async with opened(untold, ROOMY) as it:
        append(
            untold.titled("Move checkout").transcript,
            b"not json at all\n",
            b'{"type":"assistant","message":7}\n',
            b"[1,2]\n",
            b"\xff\xfe\x00\n",
            b"[" * 5_000 + b"\n",
            answer(134_000),
        )
        await it.until(lambda: "67 %" in it.words)
        assert it.app.is_running


@pytest.mark.usefixtures("plants_faults")
async def test_a_fault_of_ours_in_the_collector_is_told_and_it_goes_on(
    untold: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Collector) -> None:
        raise ValueError("a [/foo] fault of ours")

    monkeypatch.setattr(Collector, "scan", broken)
    async with just_opened(untold, ROOMY) as it:
        await it.until(lambda: "look at all files: failed (ValueError: a [/foo] fault" in it.words)
        await it.until(lambda: "ctxtop live" in it.status and len(it.titles()) == 8)
        await it.press("question_mark", "escape")
        assert it.app.screen is it.app.fleet


@pytest.mark.usefixtures("plants_faults")
async def test_a_fault_of_ours_in_the_reader_is_told(
    untold: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(untold, ROOMY) as it:

        def broken(*_: Any) -> None:  # noqa: ANN401
            raise ValueError("a fault of the reader")

        monkeypatch.setattr(Feed, "_post_view", broken)
        await it.press("j")
        await is_told(it, "ValueError: a fault of the reader", "please report it")


async def test_a_store_that_is_removed_under_us(
    untold: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "POLL_S", 0.1)
    async with opened(untold, ROOMY) as it:
        for path in untold.places.store.parent.iterdir():
            path.unlink()
        append(untold.titled("Move checkout").transcript, answer(134_000))
        # It is made again, and all is read into it once more.
        await it.until(lambda: "67 %" in it.words and len(it.titles()) == 19)


async def test_two_troubles_are_told_one_after_the_other(stage: Stage) -> None:
    from ctxtop.core.model.problem import Problem

    async with opened(stage, ROOMY) as it:
        fleet = it.app.fleet
        fleet.show_problem(Problem("a", "first", "do this"))
        fleet.show_problem(Problem("b", "second", "do that"))
        await it.calm()
        assert it.trouble == "✗ b: second; do that (and 1 more)"
        fleet.resolve_problem("b")
        await it.calm()
        assert it.trouble == "✗ a: first; do this"
        fleet.resolve_problem("a")
        await it.calm()
        assert it.trouble == ""


# Faults of ours: each costs only what it is met in.


def fail(*_: object, **__: object) -> Any:  # noqa: ANN401 -- in place of anything
    raise LookupError("planted")


@pytest.mark.usefixtures("plants_faults")
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_session_whose_file_cannot_be_read_is_shown_as_that(
    untold: Stage, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    session_id = untold.titled("Move checkout").session_id
    real = reader_pool.index_next_block

    def index_or_fail(path: Path, *rest: Any) -> Any:  # noqa: ANN401 -- as index_next_block
        return fail() if path.stem == session_id else real(path, *rest)

    monkeypatch.setattr(reader_pool, "index_next_block", index_or_fail)
    async with opened(untold, size) as it:
        await is_told(it, "not read (LookupError: planted", "this is a bug in ctxtop")
        await it.until(lambda: len(it.titles()) == 19)
        (row,) = (text for key, text in it.rows().items() if key == session_id)
        assert row.startswith("!")
        assert "not read" in row
        assert "%" not in row
        assert sum("not read" in text for text in it.rows().values()) == 1
        await it.press("L")
        await it.until(lambda: any("not read" in line for line in it.lines))
        problem = next(each for each in it.app.event_log.all if "not read" in each.text)
        assert "Traceback (most recent call last)" in problem.detail
        assert "in index_or_fail" in problem.detail
        await it.press("escape")
        monkeypatch.setattr(reader_pool, "index_next_block", real)
        append(untold.titled("Move checkout").transcript, answer(134_000))
        await it.until(lambda: it.trouble == "" and "not read" not in it.words)


@pytest.mark.usefixtures("plants_faults")
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (session_table, "session_line"),
        (session_text, "state_text"),
        (session_text, "doing_age"),
        (fleet_panes, "attention"),
    ],
)
async def test_a_row_that_cannot_be_drawn_costs_no_other_row(
    untold: Stage,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,  # noqa: ANN401 -- a module
    name: str,
) -> None:
    session_id = untold.titled("Move checkout").session_id
    real = getattr(owner, name)

    def draw_or_fail(of: Any, *rest: Any) -> Any:  # noqa: ANN401 -- a session or its line
        return fail() if getattr(of, "session", of).session_id == session_id else real(of, *rest)

    monkeypatch.setattr(owner, name, draw_or_fail)
    async with opened(untold, ROOMY) as it:
        await it.until(lambda: "not shown" in it.rows().get(session_id, ""))
        await is_told(it, "(LookupError: planted", "this is a bug in ctxtop")
        assert sum("not shown" in text for text in it.rows().values()) == 1
        assert len(it.titles()) == 19


@pytest.mark.usefixtures("plants_faults")
async def test_a_session_that_cannot_be_filtered_costs_no_other(
    untold: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = untold.titled("Move checkout").session_id
    real = SessionFilter.matches

    def match_or_fail(self: SessionFilter, session: Any, *rest: Any) -> Any:  # noqa: ANN401
        return fail() if session.session_id == session_id else real(self, session, *rest)

    async with opened(untold, ROOMY) as it:
        monkeypatch.setattr(SessionFilter, "matches", match_or_fail)
        await it.press("slash", *"checkout", "enter")
        await is_told(it, "not shown (LookupError: planted", "this is a bug in ctxtop")
        assert it.app.is_running
        assert it.rows()


@pytest.mark.usefixtures("plants_faults")
async def test_a_notification_that_fails_costs_no_view(
    untold: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(untold, ROOMY) as it:
        monkeypatch.setattr(Notifier, "compare_view", fail)
        append(untold.titled("Move checkout").transcript, answer(134_000))
        await it.until(lambda: "67 %" in it.words)
        await is_told(it, "notifications: failed (LookupError: planted")
