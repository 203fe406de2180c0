"""The dashboard's settings in the policy, and its own state, which survives a restart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec
from msgspec.structs import asdict, replace

from ..core.files.file_operations import file_lock, write_file_atomically
from ..core.files.safe_open import open_regular

if TYPE_CHECKING:
    from ..collectors.places import PolicySources
    from ..core.model.problem import Problem
    from ..core.policy.policy import Policy
    from .background_queries import WorkerThread
    from .keymap import Keymap


MAX_STATE_BYTES: Final = 1 << 20  # bytes; a larger file is not ours


class UiState(msgspec.Struct, frozen=True):
    """All of it; a field that is not in the file has its default."""

    theme: str = ""
    order: str = ""
    grouped: bool = False
    pins: tuple[str, ...] = ()  # sessions that stay on top, the newest last
    welcomed: bool = False  # the first-run screen was seen


class UiStateFile:
    """A file beside the store; every write is a whole file, and keeps what others wrote."""

    def __init__(self, store: Path) -> None:
        self._path: Final = store.with_name(f"{store.name}.screen.json")

    def read(self) -> UiState:
        """Read it; what is missing or cannot be understood is as on the first day."""
        try:
            with open_regular(self._path) as file:
                return msgspec.json.decode(file.read(MAX_STATE_BYTES), type=UiState)
        except (OSError, msgspec.DecodeError):
            return UiState()

    def write_changes(self, before: UiState, after: UiState) -> UiState:
        """Write what a person changed into what the file has by now; raises OSError.

        Another ctxtop may have written meanwhile: its pins stay, and what it changed beside.
        """
        with file_lock(self._path.with_suffix(".lock"), math.inf):
            merged = merge_state(self.read(), before, after)
            write_file_atomically(self._path, msgspec.json.encode(merged))
        return merged


class UiStateManager:
    """Holds what is kept for the screen's thread; a worker reads and writes the file."""

    def __init__(
        self, file: UiStateFile, worker: WorkerThread, report: Callable[[Problem], None]
    ) -> None:
        self._file: Final = file
        self._works: Final = worker
        self._tell: Final = report
        self.state = UiState()

    def update(self, **changes: object) -> None:
        """Change the state at once, and write the file in the background."""
        before, self.state = self.state, replace(self.state, **changes)
        after = self.state
        if after != before:
            self._works.submit(lambda: self._file.write_changes(before, after), self._check_result)

    def _check_result(self, found: UiState | Problem) -> None:
        # What is on the screen stays: a newer change may be on its way already.
        if not isinstance(found, UiState):
            self._tell(found)


def merge_state(current: UiState, before: UiState, after: UiState) -> UiState:
    """Apply the step from `before` to `after` to what holds now."""
    was, will = asdict(before), asdict(after)
    changes = {name: will[name] for name in will if will[name] != was[name]}
    if "pins" in changes:
        changes["pins"] = _merge_pins(current.pins, before.pins, after.pins)
    return replace(current, **changes)


def _merge_pins(now: Sequence[str], before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    gone = set(before) - set(after)
    stay = [pin for pin in now if pin not in gone]
    return (*stay, *(pin for pin in after if pin not in before and pin not in stay))


class CycleEnum(Enum):
    """Its members are in the order in which the key leads through them."""

    @property
    def next(self) -> Self:
        members = list(type(self))
        return members[(members.index(self) + 1) % len(members)]


@dataclass(frozen=True, slots=True)
class DashboardSettings:
    """How the dashboard looks, and which keys it has."""

    theme: str = ""  # empty: the one that was chosen last
    ascii: bool = False
    welcome: bool = True
    keymap: Mapping[str, str] = field(default_factory=dict)  # keys by the binding's id
    notices: tuple[str, ...] = ()  # what was said of keys and does not hold


def read_dashboard_settings(sources: PolicySources) -> DashboardSettings:
    """Read them; looks into files and imports much, so it is a worker's."""
    from ..collectors.policy_files import PolicyFiles
    from ..core.policy.schema import LAST_CHOSEN

    policy = PolicyFiles(sources).policies.common
    theme = policy.text("ui.theme")
    found = policy_keymap(policy)
    return DashboardSettings(
        theme="" if theme == LAST_CHOSEN else theme,
        ascii=policy.flag("ui.ascii"),
        welcome=policy.flag("ui.welcome"),
        keymap=found.keys if found else {},
        notices=tuple(str(each) for each in found.notices) if found else (),
    )


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
