"""The dashboard's settings in the policy, and its own state, which survives a restart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import asdict, replace

from ...core.files.safe_open import open_regular

if TYPE_CHECKING:
    from ...collectors.locations.places import PolicySources
    from ...core.policy.policy import Policy
    from .keymap import Keymap


MAX_STATE_BYTES: Final = 1 << 20  # a larger file is not ours


class UiState(msgspec.Struct, frozen=True):
    """What is restored at the next start."""

    theme: str = ""
    order: str = ""
    grouped: bool = False
    ended_folded: bool | None = None  # None until somebody folded or unfolded the ended sessions
    pins: tuple[str, ...] = ()  # sessions that stay on top, the newest last
    welcomed: bool = False  # the first-run screen was seen


class UiStateFile:
    """A file beside the store; it is written as a whole, with what another ctxtop changed."""

    def __init__(self, store: Path) -> None:
        self._path: Final = store.with_name(f"{store.name}.screen.json")

    def read(self) -> UiState:
        """Read the state; the default if the file is missing or invalid."""
        try:
            with open_regular(self._path) as file:
                return msgspec.json.decode(file.read(MAX_STATE_BYTES), type=UiState)
        except (OSError, msgspec.DecodeError):
            return UiState()

    def write_changes(self, before: UiState, after: UiState) -> UiState:
        """Apply the user's change to the state that is in the file by now; raises OSError."""
        from ...core.files.file_operations import file_lock, write_file_atomically

        with file_lock(self._path.with_suffix(".lock"), math.inf):
            merged = _merge_state(self.read(), before, after)
            write_file_atomically(self._path, msgspec.json.encode(merged))
        return merged


def _merge_state(current: UiState, before: UiState, after: UiState) -> UiState:
    """Apply the changes from `before` to `after` to the current state."""
    old, new = asdict(before), asdict(after)
    changes = {name: value for name, value in new.items() if value != old[name]}
    if "pins" in changes:
        removed = set(before.pins) - set(after.pins)
        pins = [pin for pin in current.pins if pin not in removed]
        known = {*before.pins, *pins}
        changes["pins"] = (*pins, *(pin for pin in after.pins if pin not in known))
    return replace(current, **changes)


class DashboardSettings(msgspec.Struct, frozen=True):
    """Appearance and keys, as the policy sets them."""

    theme: str = ""  # empty: the one that was chosen last
    ascii: bool = False
    welcome: bool = True
    keymap: Mapping[str, str] = msgspec.field(default_factory=dict)  # keys by binding id
    notices: tuple[str, ...] = ()  # about invalid keys


def read_dashboard_settings(sources: PolicySources) -> DashboardSettings:
    """Read the settings; a worker does it, because it reads files and imports much."""
    from ...collectors.locations.policy_files import PolicyFiles
    from ...core.policy.schema import LAST_CHOSEN

    policy = PolicyFiles(sources).policies.common
    theme = policy.text("ui.theme")
    keymap = policy_keymap(policy)
    return DashboardSettings(
        theme="" if theme == LAST_CHOSEN else theme,
        ascii=policy.flag("ui.ascii"),
        welcome=policy.flag("ui.welcome"),
        keymap=keymap.keys if keymap else {},
        notices=tuple(map(str, keymap.notices)) if keymap else (),
    )


def policy_keymap(policy: Policy) -> Keymap | None:
    """Return the policy's key bindings; None if it has none, without importing the keymap."""
    from ...core.policy.schema import KEY_BINDING_PREFIX

    if not policy.with_prefix(KEY_BINDING_PREFIX):
        return None
    from .keymap import all_bindings, read_keymap

    return read_keymap(policy, all_bindings())


def asks_for_ascii(sources: PolicySources) -> bool:
    """Whether the command line or CTXTOP_ASCII asks for ASCII; reads no file."""
    values = [value for key, value in sources.command_line if key == "ui.ascii"]
    value = values[-1] if values else sources.environ.get("CTXTOP_ASCII", "")
    return value.lower() not in {"", "0", "no", "off", "false"}
