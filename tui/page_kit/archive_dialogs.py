"""Asks what to keep of sessions that Claude Code deletes, and whether to restore one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import BindingType

from ...core.archive.archive_mode import ArchiveMode
from ..app_state.dashboard import Dashboard, short_title
from ..base.keymap import bind_hidden
from ..widgets.whole_text_pane import StyledText
from .dialogs import ChoiceScreen, ConfirmScreen, DialogChoice

if TYPE_CHECKING:
    from ...core.archive.restoring import RestoredSession
    from ...core.model.problem import Problem
    from ...core.model.session import Session
    from ..base.background_queries import WorkerThread

ARCHIVE_MODE_KEY: Final = "archive.mode"
ARCHIVE_EFFECTS: Final = {
    ArchiveMode.OFF: "nothing is kept: what Claude Code deletes is gone",
    ArchiveMode.SUMMARIES: "summaries, agents' results, plans and rules are kept, with the numbers",
    ArchiveMode.ALL: "whole sessions are kept, compressed; they can be restored and resumed",
}


class ArchiveModeScreen(ChoiceScreen):
    """Returns an `ArchiveMode`; empty if the user cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind_hidden("a", f"choose('{ArchiveMode.ALL}')", "All", "keep whole sessions", "keep_all"),
        bind_hidden(
            "s",
            f"choose('{ArchiveMode.SUMMARIES}')",
            "Summaries",
            "keep summaries",
            "keep_summaries",
        ),
        bind_hidden("o", f"choose('{ArchiveMode.OFF}')", "Off", "keep nothing", "keep_nothing"),
    ]

    def __init__(self) -> None:
        what = (
            "Claude Code deletes sessions that were not written to for 30 days, or for its setting"
            " cleanupPeriodDays. ctxtop can copy them first, beside its store and readable"
            " only by you. They hold all that the sessions hold, secrets too.\n"
        )
        description: list[StyledText] = [what]
        for mode, effect in ARCHIVE_EFFECTS.items():
            description += [(f"\n{mode.value:<10}", "bold $accent"), effect]
        choices = [
            DialogChoice(ArchiveMode.OFF, "o Off"),
            DialogChoice(ArchiveMode.SUMMARIES, "s Summaries"),
            DialogChoice(ArchiveMode.ALL, "a All"),
        ]
        super().__init__("Keep old sessions", description, choices)


def choose_archive_mode(app: Dashboard) -> None:
    """Ask what to keep, show what that writes to the settings, and write it if confirmed."""
    from .setting_editor import PolicyEditor

    def save(chosen: str | None) -> None:
        value = app.feed.policies.common.values[ARCHIVE_MODE_KEY]
        if chosen and chosen != value.value:
            PolicyEditor(app, None, lambda: None).save(value, chosen)

    app.push_screen(ArchiveModeScreen(), save)


def offer_restore(app: Dashboard, worker: WorkerThread, session: Session) -> None:
    """Ask whether to bring a session's files back, and do it in the worker's thread."""
    what = (
        "Claude Code deleted this session; the archive has it whole. Its files are written where"
        " they were, and nothing else is changed. Claude Code then keeps it for a whole period."
    )
    title = f"Restore “{short_title(session)}”"
    work = partial(_restore, app, session)
    report = partial(_report, app, session)

    def answer(confirmed: bool | None) -> None:  # noqa: FBT001 -- what the screen returns
        if confirmed:
            worker.submit(work, report)

    app.push_screen(ConfirmScreen(title, what, "Restore"), answer)


def _restore(app: Dashboard, session: Session) -> RestoredSession | Exception:
    from ...core.archive.archive_index import TranscriptArchive
    from ...core.archive.restoring import NotRestoredError, restore_session
    from ...core.store.database import state_folder

    archive = TranscriptArchive(state_folder(app.places.store))
    try:
        return restore_session(archive, app.places.folder.projects, session.session_id)
    except (NotRestoredError, OSError) as error:
        return error


def _report(app: Dashboard, session: Session, found: RestoredSession | Exception | Problem) -> None:
    from ...core.archive.restoring import RestoredSession
    from ..text.formats import plural

    title = short_title(session)
    if isinstance(found, RestoredSession):
        text = f"restored: {plural(len(found.restored), 'file')}; e resumes it"
        app.toast(text, title, "information")
    else:
        app.toast(f"not restored: {found}", title, "error")
