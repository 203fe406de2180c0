"""What the page reads from disk beside the policy: models, backups, and what hooks may do."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ....core.compaction.receipts import BackupStore, ReceiptStore
from ....core.store.database import state_folder
from ....core.store.queries.activity_queries import model_usage
from ....core.transcript.sanitize import one_line
from ...dashboard import Dashboard
from ..dialogs import diff_content
from ..welcome_screen import InstallOffer, install_plugin, offer_install
from .common_settings import MachineFacts

if TYPE_CHECKING:
    from ....collectors.places import Places
    from ....core.model.problem import Problem


@dataclass(frozen=True, slots=True)
class InstalledHooks:
    """The hooks of the user's own settings, and of the current folder's project."""

    features: tuple[str, ...] = ()
    is_installed: bool = False
    is_plugin: bool = False
    has_status_line: bool = False
    elsewhere: str = ""  # a project's settings file that contains hooks


def read_installed_hooks(places: Places) -> InstalledHooks:
    """Read which features the installed hooks have. Raises OSError."""
    from ....collectors.install.install_status import InstallState
    from ....collectors.install.settings_file import SettingsScope
    from ....collectors.plugin.installed_commands import FEATURE_EVENTS
    from ...cli.hooks_commands import read_status, settings_locations

    status = read_status(settings_locations(places, None), places)
    own = [each for each in status.hooks if each.scope is SettingsScope.USER]
    others = [each for each in status.hooks if each.scope is not SettingsScope.USER]
    chosen = {name for each in own for name in each.own_command.features}
    return InstalledHooks(
        features=tuple(name for name in FEATURE_EVENTS if name in chosen),
        is_installed=status.state is not InstallState.ABSENT,
        is_plugin=status.plugin is not None,
        has_status_line=status.status_line is not None,
        elsewhere=str(others[0].path) if others else "",
    )


def read_machine_facts(db: sqlite3.Connection, places: Places) -> MachineFacts:
    """Read the facts. Raises OSError."""
    state, hooks = state_folder(places.store), read_installed_hooks(places)
    note = "" if hooks.is_installed else "no hooks are installed"
    if hooks.elsewhere:
        note = f"hooks are in {one_line(hooks.elsewhere)}: use `ctxtop hooks`"
    return MachineFacts(
        models=tuple(sorted({each.model for each in model_usage(db)})),
        receipts=tuple(ReceiptStore(state).all()),
        backup_bytes=BackupStore(state).total_bytes(),
        features=hooks.features,
        hooks_note=note,
    )


def offer_features(places: Places, features: tuple[str, ...]) -> InstallOffer | str:
    """Plan hooks with these features, in the form that is installed; or why not.

    Raises OSError.
    """
    from ....collectors.install.settings_file import InstallOptions

    hooks = read_installed_hooks(places)
    if hooks.elsewhere:
        return f"ctxtop is already in {hooks.elsewhere}: change it with `ctxtop hooks`"
    options = InstallOptions(
        store=places.store,
        features=features,
        as_plugin=hooks.is_plugin or not hooks.is_installed,
        status_line=hooks.has_status_line or not hooks.is_installed,
    )
    return offer_install(places, options)


FEATURES_QUESTION: Final = "change what hooks may do"
FEATURES_TITLE: Final = "hooks changed"


class FeatureInstaller:
    """Shows what other features change in Claude Code's settings, and writes it if confirmed."""

    def __init__(self, app: Dashboard, done: Callable[[], None]) -> None:
        """`done` is called after writing."""
        self._app: Final = app
        self._done: Final = done

    def save(self, features: tuple[str, ...]) -> None:
        places = self._app.places
        self._app.file_worker.submit(lambda: offer_features(places, features), self._ask)

    def _ask(self, found: InstallOffer | Problem | str) -> None:
        if not isinstance(found, InstallOffer):
            self._app.toast(str(found), "nothing was changed", "warning")
            return
        app, what = self._app, diff_content(Content(found.summary), found.diff)

        def install() -> None:
            app.file_worker.submit(lambda: install_plugin(found, app.places), self._report)

        app.confirm(FEATURES_QUESTION, what, "Write the files", install)

    def _report(self, found: str | Problem) -> None:
        self._app.toast(str(found), FEATURES_TITLE)
        self._done()
