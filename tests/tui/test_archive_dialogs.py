"""What the dashboard asks about old sessions, and how it brings one back."""

from __future__ import annotations

import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.collectors.claude_code.archive_job import SessionArchiver
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.collectors.store_update import update_store
from ctxtop.core.archive.archive_index import TranscriptArchive
from ctxtop.core.archive.archive_mode import ArchiveMode
from ctxtop.core.model.session import SessionStatus
from ctxtop.core.store.database import open_reader, state_folder
from ctxtop.core.store.queries.archive_queries import archivable_sessions
from ctxtop.tui.app import CtxtopApp
from ctxtop.tui.page_kit.archive_dialogs import ARCHIVE_EFFECTS, ArchiveModeScreen
from ctxtop.tui.page_kit.dialogs import ConfirmScreen
from ctxtop.tui.screens.fleet.session_filter import FilterContext, parse_filter
from ctxtop.tui.screens.welcome_screen import WelcomeScreen
from ctxtop.tui.text.session_text import state_text
from msgspec.structs import replace

from .makers import session
from .support import NOW_MS, opened, run

if TYPE_CHECKING:
    from .support import Opened, Stage

DAY_MS: Final = 86_400_000


def confirms(it: Opened) -> bool:
    return isinstance(it.app.screen, ConfirmScreen)


@pytest.mark.parametrize(("key", "chosen"), [("a", "all"), ("s", "summaries")])
async def test_the_first_page_asks_what_to_keep(stage: Stage, key: str, chosen: str) -> None:
    config = stage.root.parent / "own" / "config.toml"
    sources = PolicySources(user_file=config)
    app = CtxtopApp(replace(stage.places, policy=sources), welcomes=True)
    async with run(app, stage) as it:
        await it.until(lambda: isinstance(app.screen, WelcomeScreen))
        await it.press("o")
        await it.until(lambda: isinstance(app.screen, ArchiveModeScreen))
        for effect in ARCHIVE_EFFECTS.values():
            assert effect.split(",")[0] in it.words
        dialog = app.screen
        assert isinstance(dialog, ArchiveModeScreen)
        await it.until(lambda: dialog.takes_keys)
        await it.press(key)
        await it.until(lambda: confirms(it))
        assert not config.exists()
        question = app.screen
        assert isinstance(question, ConfirmScreen)
        await it.until(lambda: question.takes_keys)
        await it.press("y")
        await it.until(config.exists)
        assert f'mode = "{chosen}"' in config.read_text()
        await it.until(lambda: isinstance(app.screen, WelcomeScreen))


def archive_all(stage: Stage) -> None:
    update_store(stage.places)
    archive = TranscriptArchive(state_folder(stage.places.store))
    with closing(open_reader(stage.places.store)) as db:
        archiver = SessionArchiver(archive, stage.places.folder.projects, db, NOW_MS)
        for row in archivable_sessions(db):
            for _ in archiver.archive(row, ArchiveMode.ALL):
                pass


async def test_a_deleted_session_is_brought_back_from_its_page(demo: Stage) -> None:
    archive_all(demo)
    ended = demo.titled("Rewrite the OpenAPI")
    (path,) = demo.places.folder.projects.glob(f"*/{ended.session_id}.jsonl")
    before = path.read_bytes()
    path.unlink()
    shutil.rmtree(path.with_suffix(""), ignore_errors=True)
    async with opened(demo) as it:
        await it.until(lambda: status(it, ended.session_id) == "archived")
        found = it.app.find_session(ended.session_id)
        assert found is not None
        it.app.open_session(found)
        await it.press("e")
        await it.until(lambda: confirms(it))
        assert not path.exists()
        question = it.app.screen
        assert isinstance(question, ConfirmScreen)
        await it.until(lambda: question.takes_keys)
        await it.press("y")
        await it.until(lambda: any("restored" in toast for toast in it.toasts))
    assert path.read_bytes() == before


def status(it: Opened, session_id: str) -> str | None:
    found = it.app.find_session(session_id)
    return found.status.value if found else None


@pytest.mark.parametrize(
    ("left_ms", "cells", "shown"),
    [
        (8 * DAY_MS, 20, "ended"),
        (7 * DAY_MS + 1, 20, "deleted in 7 d"),
        (1 * DAY_MS + 1, 20, "deleted in 1 d"),
        (DAY_MS - 1, 20, "deleted today"),
        (-DAY_MS, 20, "deleted today"),
        (2 * DAY_MS, 10, "ended"),
    ],
)
def test_the_list_says_when_few_days_are_left(left_ms: int, cells: int, shown: str) -> None:
    ended = session(status=SessionStatus.ENDED, live=False, deleted_at=NOW_MS + left_ms)
    assert state_text(ended, cells, NOW_MS) == shown


def test_an_open_session_says_what_it_does() -> None:
    busy = session(status=SessionStatus.BUSY, live=True, deleted_at=NOW_MS + DAY_MS)
    assert state_text(busy, 20, NOW_MS) == "working"


def test_a_filter_finds_archived_sessions() -> None:
    is_archived = parse_filter("is:archived")
    found = [session(archived=kept) for kept in ("", "all", "summaries")]
    chosen = [each.archived for each in found if is_archived.matches(each, FilterContext())]
    assert chosen == ["all", "summaries"]
