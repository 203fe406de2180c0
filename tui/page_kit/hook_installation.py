"""Installs ctxtop's hooks for the user: plans it, shows the difference, and asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...core.model.problem import Problem
from ..text.settings_text import install_plan_text
from .dialogs import diff_description

if TYPE_CHECKING:
    from ...collectors.install.install_plan import InstallPlan
    from ...collectors.install.settings_file import InstallOptions
    from ...collectors.locations.places import Places
    from ..app_state.dashboard import Dashboard


ALREADY_INSTALLED: Final = "the plugin is already installed: see `ctxtop hooks status`"
NOTHING_CHANGED_TITLE: Final = "nothing was changed"
INSTALL_QUESTION: Final = "Install the plugin?"
INSTALLED_TEXT: Final = "New sessions report their events to ctxtop."
INSTALLED_TITLE: Final = "The plugin is installed"
FEATURES_QUESTION: Final = "change what hooks may do"
FEATURES_TITLE: Final = "hooks changed"


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
    from ...collectors.install.install_status import InstallState, read_status
    from ...collectors.install.settings_file import SettingsScope, settings_locations
    from ...collectors.plugin.installed_commands import FEATURE_EVENTS

    status = read_status(settings_locations(places.config_dir, Path.cwd()), places)
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


@dataclass(frozen=True, slots=True)
class InstallOffer:
    plan: InstallPlan
    summary: str
    diff: tuple[str, ...]


def offer_plugin(places: Places) -> InstallOffer | str:
    """Plan the plugin without answers by hooks; or why not. Raises OSError."""
    from ...collectors.install.settings_file import InstallOptions

    return _offer(places, InstallOptions(places.store, as_plugin=True, status_line=True))


def offer_features(places: Places, features: tuple[str, ...]) -> InstallOffer | str:
    """Plan hooks with these features, in the form that is installed; or why not.

    Raises OSError.
    """
    from ...collectors.install.settings_file import InstallOptions

    hooks = read_installed_hooks(places)
    if hooks.elsewhere:
        return f"ctxtop is already in {hooks.elsewhere}: change it with `ctxtop hooks`"
    options = InstallOptions(
        store=places.store,
        features=features,
        as_plugin=hooks.is_plugin or not hooks.is_installed,
        status_line=hooks.has_status_line or not hooks.is_installed,
    )
    return _offer(places, options)


def _offer(places: Places, options: InstallOptions) -> InstallOffer | str:
    from ...collectors.install.install_plan import install_diff, plan_install
    from ...collectors.install.settings_file import NotSafeError, SettingsScope, settings_location

    location = settings_location(SettingsScope.USER, places.config_dir, Path.cwd())
    try:
        plan = plan_install(location, places.config_dir, options)
    except NotSafeError as error:
        return str(error)
    if plan.changes_nothing:
        return ALREADY_INSTALLED
    notes = "".join(f"\n{note}" for note in plan.notes)
    return InstallOffer(plan, install_plan_text(plan) + notes, tuple(install_diff(plan)))


def _install(offer: InstallOffer, places: Places) -> str:
    """Install; return where the previous settings are, or why not. Raises OSError."""
    from ...collectors.install.install_plan import apply_install
    from ...collectors.install.settings_file import NotSafeError

    try:
        backup = apply_install(offer.plan, places.store)
    except NotSafeError as error:
        return f"nothing was written: {error}"
    return f"backup {backup}" if backup else "there were no settings before"


def install_plugin(app: Dashboard) -> None:
    """Install the plugin if the user agrees."""

    def report(found: str | Problem) -> None:
        if isinstance(found, Problem):
            app.toast(str(found))
        else:
            app.toast(f"{INSTALLED_TEXT} {found}", INSTALLED_TITLE)

    question = (INSTALL_QUESTION, "Install it")
    _ask_and_install(app, lambda: offer_plugin(app.places), question, app.toast, report)


def install_features(app: Dashboard, features: tuple[str, ...], done: Callable[[], None]) -> None:
    """Install hooks with these features if the user agrees; `done` is called after writing."""

    def refuse(why: str) -> None:
        app.toast(why, NOTHING_CHANGED_TITLE, "warning")

    def report(found: str | Problem) -> None:
        app.toast(str(found), FEATURES_TITLE)
        done()

    question = (FEATURES_QUESTION, "Write the files")
    _ask_and_install(app, lambda: offer_features(app.places, features), question, refuse, report)


def _ask_and_install(
    app: Dashboard,
    make_offer: Callable[[], InstallOffer | str],
    question: tuple[str, str],
    refuse: Callable[[str], None],
    report: Callable[[str | Problem], None],
) -> None:
    """Show what the offer changes, and install it if the user agrees.

    `question` is the dialog's title and its action; `refuse` is told why there is no offer.
    """

    def ask(found: InstallOffer | Problem | str) -> None:
        if not isinstance(found, InstallOffer):
            refuse(str(found))
            return
        title, action_label = question
        app.confirm(
            title,
            diff_description(found.summary, found.diff),
            action_label,
            lambda: app.file_worker.submit(lambda: _install(found, app.places), report),
        )

    app.file_worker.submit(make_offer, ask)
