"""The policy's settings of the dashboard itself; a project's file cannot change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..collectors.standard_paths import PolicySources
    from ..core.policy.policy import Policy
    from .keymap import Keymap


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """How the dashboard looks, and which keys it has."""

    theme: str = ""
    """Empty: the one that was chosen last."""
    ascii: bool = False
    welcome: bool = True
    keymap: Mapping[str, str] = field(default_factory=dict)
    """Keys by the binding's id."""
    notices: tuple[str, ...] = ()
    """What was said of keys and does not hold."""


def read_dashboard_settings(sources: PolicySources) -> DashboardSettings:
    """Read them; looks into files and imports much, so it is a worker's."""
    from ..collectors.policy_files import PolicyFiles
    from ..core.policy.schema import LAST_CHOSEN

    policy = PolicyFiles(sources).policies.common
    theme = policy.text("ui.theme")
    settings = DashboardSettings(
        "" if theme == LAST_CHOSEN else theme, policy.flag("ui.ascii"), policy.flag("ui.welcome")
    )
    found = policy_keymap(policy)
    notices = tuple(str(each) for each in found.notices) if found else ()
    return replace(settings, keymap=found.keys if found else {}, notices=notices)


def policy_keymap(policy: Policy) -> Keymap | None:
    """Return the policy's key bindings; None if it has none, without importing the keymap."""
    from ..core.policy.schema import KEY_BINDING_PREFIX

    if not policy.with_prefix(KEY_BINDING_PREFIX):
        return None
    from .keymap import all_bindings, read_keymap

    return read_keymap(policy, all_bindings())


def asks_for_ascii(sources: PolicySources) -> bool:
    """Whether the command line or CTXTOP_ASCII asks for ASCII.

    Reads no file, so the answer is known before the first frame.
    """
    said = [value for key, value in sources.command_line if key == "ui.ascii"]
    said = said[-1:] or [sources.environ.get("CTXTOP_ASCII", "")]
    return said[0].lower() not in {"", "0", "no", "off", "false"}
