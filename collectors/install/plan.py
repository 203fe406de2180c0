"""An installation before it is done: what it would write, add, remove and leave alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ctxtop import __version__

from ..plugin.command_line import statusline_command
from . import plugin_copy
from .difference import compare
from .json_text import JsonTextError, decode_text
from .places import SettingsScope
from .receipts import Receipt, Records, sha256
from .refused import NotSafeError
from .settings_file import read_settings_file
from .settings_text import (
    read_settings,
    with_hooks,
    with_line,
    without_hooks,
    without_line,
)
from .wanted import handlers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .places import Place
    from .settings_file import SettingsFile
    from .wanted import Wanted

PLUGIN: Final = "plugin"
PLAIN: Final = "hooks"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done when a person agrees; nothing of it is done yet."""

    file: SettingsFile
    after: bytes | None
    """What the settings file will hold; None where it will be gone."""
    folder: Path
    """Where the plugin stands."""
    plugin_before: Mapping[str, bytes]
    plugin_after: Mapping[str, bytes]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What a person should know before saying yes."""
    original: bytes | None = None
    """What an uninstall brings back."""
    receipt: Receipt | None = None
    """What is kept of it; None where ctxtop is taken out."""
    made_folders: tuple[str, ...] = ()
    """Folders that were made for ctxtop: an uninstall removes those that are empty."""

    @property
    def changes_nothing(self) -> bool:
        """Everything is already as it is to be."""
        return self.after == self.file.data and self.plugin_after == self.plugin_before


def plan_install(location: Place, config_dir: Path, options: Wanted) -> Plan:
    """Say what an installation would do.

    Raises NotSafeError where it would not be safe, OSError where something cannot be read.
    """
    if options.as_plugin and location.scope is not SettingsScope.USER:
        raise NotSafeError("a plugin is for all of a user's projects: give --as hooks here")
    now = _Now(location, config_dir, options.store)
    made = handlers(options)
    try:
        text = with_hooks(now.text, {} if options.as_plugin else made)
        text = _line_of(text, options)
    except NotSafeError as error:
        raise NotSafeError(f"{location.settings} {error}") from error
    if now.file.data is None and not read_settings(text).value:
        after = None
    elif read_settings(text).value == now.settings.value:
        after = now.file.data
    else:
        after = text.encode()
    plugin = plugin_copy.plugin_files(options.store, made) if options.as_plugin else {}
    original = now.original()
    receipt = Receipt(
        settings=str(now.file.real),
        version=__version__,
        at_ms=time.time_ns() // 1_000_000,
        form=PLUGIN if options.as_plugin else PLAIN,
        features=options.features,
        original=None,
        after=sha256(after) if after is not None else "",
        made_folders=now.made_folders(plugin, after),
        files={name: sha256(data) for name, data in plugin.items()},
    )
    return now.plan(after, plugin, original, receipt)


def plan_uninstall(location: Place, config_dir: Path, store: Path) -> Plan:
    """Say what taking ctxtop out would do; raises as plan_install does.

    Where nothing else changed, the settings are as they were, byte for byte.
    """
    now = _Now(location, config_dir, store)
    return now.plan(now.original(), {}, None, None)


class _Now:
    """What there is."""

    def __init__(self, place: Place, config_dir: Path, store: Path) -> None:
        self.file: Final = read_settings_file(place.settings, place.roots)
        self.records: Final = Records(store, self.file.real)
        self.receipt: Final = self.records.read_receipt()
        self.folder: Final = plugin_copy.plugin_folder(config_dir)
        self.skills = self.folder.parent
        self.plugin: Mapping[str, bytes] = {}
        self.scope: Final = place.scope
        if self.scope is SettingsScope.USER:
            self.skills = plugin_copy.skills_folder(config_dir)
            older = self.receipt.files if self.receipt else {}
            self.plugin = plugin_copy.read_plugin(self.folder, older) or {}
        try:
            self.text: Final = decode_text(self.file.data or b"")
            self.settings: Final = read_settings(self.text)
        except JsonTextError as error:
            raise NotSafeError(f"{place.settings} is no JSON, {error}: correct it") from error
        except NotSafeError as error:
            raise NotSafeError(f"{place.settings} {error}") from error

    def made_folders(self, plugin: Mapping[str, bytes], after: bytes | None) -> tuple[str, ...]:
        """Name the folders that were made for ctxtop, and those that will be."""
        needed = [self.skills] if plugin else []
        needed += [self.file.real.parent] if after is not None else []
        before = self.receipt.made_folders if self.receipt else ()
        return (*before, *(str(folder) for folder in needed if not folder.exists()))

    def original(self) -> bytes | None:
        """Give what stood there before ctxtop: from the backup, or without what is ours."""
        receipt = self.receipt
        data = self.file.data
        if receipt and receipt.after == (sha256(data) if data is not None else ""):
            if receipt.original is None:
                return None
            kept = self.records.read_backup(receipt.original)
            if kept is not None:
                return kept
        if data is None:
            return None
        before = self._before_ctxtop()
        text = without_line(without_hooks(self.text, before))
        if receipt and receipt.original is None and not read_settings(text).value:
            return None
        return data if text == self.text else text.encode()

    def plan(
        self,
        after: bytes | None,
        plugin: Mapping[str, bytes],
        original: bytes | None,
        receipt: Receipt | None,
    ) -> Plan:
        will = read_settings((after or b"").decode())
        added, removed, kept = compare(self.settings, will)
        there, wanted = set(self.plugin), set(plugin)
        changed = {name for name in there & wanted if self.plugin[name] != plugin[name]}
        return Plan(
            file=self.file,
            after=after,
            folder=self.folder,
            plugin_before=self.plugin,
            plugin_after=plugin,
            added=(*added, *self._files(wanted - there | changed)),
            removed=(*removed, *self._files(there - wanted)),
            unchanged=kept,
            notes=tuple(self._notes(receipt, will.status_command)),
            original=original,
            receipt=receipt,
            made_folders=self.receipt.made_folders if self.receipt else (),
        )

    def _files(self, names: set[str]) -> list[str]:
        return [f"file {self.folder / name}" for name in sorted(names)]

    def _before_ctxtop(self) -> Mapping[str, object]:
        if self.receipt and self.receipt.original:
            try:
                kept = self.records.read_backup(self.receipt.original)
                return read_settings(decode_text(kept or b"")).value
            except (JsonTextError, NotSafeError):
                return {}
        return {}

    def _notes(self, receipt: Receipt | None, line: str | None) -> list[str]:
        """Say what a person may not expect; `line` is the status line's command to come."""
        path, is_link = self.file.path, self.file.is_link
        notes = [f"{path} is a link: {self.file.real} is written"] if is_link else []
        if receipt is None:
            return notes
        if receipt.form == PLUGIN and self.folder.parent.is_symlink():
            notes.append(f"{self.folder.parent} is a link: the plugin is put into {self.skills}")
        if not self.settings.is_strict:
            notes.append(
                f"{path} has comments or trailing commas: Claude Code ignores the whole file"
                " until they are out"
            )
        if self.settings.value.get("disableAllHooks") is True:
            notes.append(f"{path} has disableAllHooks: no hook runs until it is out")
        if self.scope is SettingsScope.PROJECT:
            notes.append("the commands name this machine's files: --scope local is not shared")
        if self.scope is not SettingsScope.USER and line and not self.settings.status_command:
            notes.append("in this project the status line of your own settings is not shown")
        return notes


def _line_of(text: str, options: Wanted) -> str:
    if options.status_line:
        return with_line(text, lambda wrapped: statusline_command(options.store, wrapped))
    return without_line(text)
