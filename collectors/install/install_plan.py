"""Plans an installation or its removal, shows it as a diff, and applies it with a receipt."""

from __future__ import annotations

import difflib
import hashlib
import time
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from ctxtop import __version__

from ...core.files.file_operations import LockHeldError, user_lock, write_file_atomically
from ...core.files.json_edit import JsonTextError, decode_utf8
from ...core.files.safe_open import open_regular
from ...core.transcript.sanitize import sanitize_text
from ..claude_code.config.client_settings import mask_secrets
from ..plugin.installed_commands import statusline_command
from . import install_status
from .hook_settings import (
    HookSettings,
    InstallOptions,
    SettingsLocation,
    SettingsScope,
    hook_handlers,
    parse_hook_settings,
    with_hooks,
    with_status_line,
    without_hooks,
    without_status_line,
)
from .install_status import read_plugin, remove_plugin, write_plugin
from .settings_file import (
    ChangedError,
    NotSafeError,
    SettingsFile,
    read_settings_file,
    write_settings_file,
)

MAX_BACKUPS: Final = 10
"""Backups of one settings file; those that are a way back are kept beside them."""

_RECEIPT_FILE: Final = "receipt.json"
_BACKUPS_FOLDER: Final = "backups"

MAX_RECEIPT_BYTES: Final = 64 * 1024  # bytes of a receipt; it has about 1,000


class InstallReceipt(msgspec.Struct, frozen=True):
    """An installation, so that it can be taken back byte for byte."""

    settings: str
    version: str  # of the ctxtop that did it
    at_ms: int
    form: str  # plugin or hooks
    features: tuple[str, ...]
    original: str | None
    """Name of the backup that holds what was there before ctxtop; None where nothing was."""
    after: str  # SHA-256 of the settings as ctxtop left them; empty where it left none
    made_folders: tuple[str, ...] = ()  # what was not there before, the innermost first
    files: dict[str, str] = {}  # the plugin's files by name, each with its SHA-256


def install_folder(store: Path) -> Path:
    """Name the folder of a store's receipts and backups."""
    return store.with_name(f"{store.name}.install")


def read_install_receipts(store: Path) -> Iterator[tuple[Path, InstallReceipt | None]]:
    """Read a store's receipts, by the path of each; None where it cannot be read as one."""
    for path in sorted(install_folder(store).glob(f"*/{_RECEIPT_FILE}")):
        try:
            yield path, _decode_receipt(path)
        except (OSError, msgspec.DecodeError):
            yield path, None


def _decode_receipt(path: Path) -> InstallReceipt:
    with open_regular(path) as file:
        return msgspec.json.decode(file.read(MAX_RECEIPT_BYTES), type=InstallReceipt)


class InstallRecords:
    """The receipt and the backups of one settings file."""

    def __init__(self, store: Path, settings: Path) -> None:
        mark = hashlib.blake2b(str(settings).encode("utf-8", "surrogateescape"), digest_size=6)
        self._folder: Final = install_folder(store) / mark.hexdigest()

    def read_receipt(self) -> InstallReceipt | None:
        """Read the receipt; None where there is none that can be read as one."""
        try:
            return _decode_receipt(self._folder / _RECEIPT_FILE)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def save_backup(self, data: bytes) -> str:
        """Keep bytes, under a name of their time and hash; give the name."""
        digest = sha256(data)
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        for path in self._backups():
            if path.stem.endswith(digest[:12]) and self.read_backup(path.name) == data:
                return path.name
        name = f"{moment}-{digest[:12]}.json"
        write_file_atomically(self.backup_path(name), data)
        return name

    def backup_path(self, backup: str) -> Path:
        return self._folder / _BACKUPS_FOLDER / backup

    def read_backup(self, backup: str) -> bytes | None:
        """Read a backup; None where it is gone."""
        try:
            with open_regular(self.backup_path(backup)) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write_receipt(self, receipt: InstallReceipt) -> None:
        write_file_atomically(
            self._folder / _RECEIPT_FILE, msgspec.json.format(msgspec.json.encode(receipt))
        )

    def remove_receipt(self) -> None:
        """Remove the receipt; the backups stay for a person to look at."""
        (self._folder / _RECEIPT_FILE).unlink(missing_ok=True)

    def prune_backups(self, needed: Container[str | None]) -> None:
        """Remove old backups, but none that is needed for a way back."""
        for path in self._backups()[:-MAX_BACKUPS]:
            if path.name not in needed:
                path.unlink(missing_ok=True)

    def _backups(self) -> list[Path]:
        return sorted((self._folder / _BACKUPS_FOLDER).glob("*.json"))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_DEV_NULL: Final = "/dev/null"


def install_diff(plan: InstallPlan) -> list[str]:
    """Show the change as a unified diff; what it leaves alone is shown without secrets."""
    lines = _unified_diff(str(plan.file.path), plan.file.data, plan.after)
    for name in sorted({*plan.plugin_before, *plan.plugin_after}):
        path = str(plan.folder / name)
        old, new = plan.plugin_before.get(name), plan.plugin_after.get(name)
        if old is None and new is not None:
            lines.append(f"new file {path}: {len(new):,} bytes")
        elif new is None:
            lines.append(f"removed file {path}")
        else:
            lines += _unified_diff(path, old, new)
    return [sanitize_text(line) for line in lines]


def _unified_diff(name: str, before: bytes | None, after: bytes | None) -> list[str]:
    old, new = (_DEV_NULL if data is None else name for data in (before, after))
    lines = difflib.unified_diff(_lines(before), _lines(after), old, new, lineterm="")
    return [mask_secrets(line) if line.startswith(" ") else line for line in lines]


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines()


def diff_hook_settings(
    before: HookSettings, after: HookSettings
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Name what of ours comes and goes, and what of others stays."""
    old = {(hook.event, hook.command) for hook in before.hooks}
    new = {(hook.event, hook.command) for hook in after.hooks}
    added = [_hook_line(*each) for each in _in_order_of(after, new - old)]
    removed = [_hook_line(*each) for each in _in_order_of(before, old - new)]
    kept = [_hook_line(*each) for each in _in_order_of(after, old & new)]
    if before.status_command == after.status_command:
        kept += _status_lines(after)
    else:
        added += _status_lines(after)
        removed += _status_lines(before)
    return tuple(added), tuple(removed), tuple(kept)


def _status_lines(settings: HookSettings) -> list[str]:
    command = settings.status_command
    return [f"status line: {mask_secrets(command)}"] if command else []


def _in_order_of(settings: HookSettings, wanted: set[tuple[str, str]]) -> list[tuple[str, str]]:
    pairs = [(hook.event, hook.command) for hook in settings.hooks]
    return list(dict.fromkeys(pair for pair in pairs if pair in wanted))


def _hook_line(event: str, command: str) -> str:
    return f"hook {event}: {mask_secrets(command)}"


PLUGIN_FORM: Final = "plugin"
HOOKS_FORM: Final = "hooks"


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """What is done when a person agrees; nothing of it is done yet."""

    file: SettingsFile
    after: bytes | None  # what the settings file will hold; None where it will be gone
    folder: Path  # where the plugin stands
    plugin_before: Mapping[str, bytes]
    plugin_after: Mapping[str, bytes]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what a person should know before saying yes
    original: bytes | None = None  # what an uninstall brings back
    receipt: InstallReceipt | None = None  # what is kept of it; None where ctxtop is taken out
    made_folders: tuple[str, ...] = ()
    """Folders that were made for ctxtop: an uninstall removes those that are empty."""

    @property
    def changes_nothing(self) -> bool:
        """Everything is already as it is to be."""
        return self.after == self.file.data and self.plugin_after == self.plugin_before


def plan_install(
    location: SettingsLocation, config_dir: Path, options: InstallOptions
) -> InstallPlan:
    """Plan an installation; nothing is written.

    Raises NotSafeError if it would not be safe, OSError if something cannot be read.
    """
    if options.as_plugin and location.scope is not SettingsScope.USER:
        raise NotSafeError("a plugin is for all of a user's projects: give --as hooks here")
    now = _CurrentInstall(location, config_dir, options.store)
    made = hook_handlers(options)
    try:
        text = with_hooks(now.text, {} if options.as_plugin else made)
        text = _with_own_status_line(text, options)
    except NotSafeError as error:
        raise NotSafeError(f"{location.settings} {error}") from error
    if now.file.data is None and not parse_hook_settings(text).value:
        after = None
    elif parse_hook_settings(text).value == now.settings.value:
        after = now.file.data
    else:
        after = text.encode()
    plugin = install_status.plugin_files(options.store, made) if options.as_plugin else {}
    original = now.original()
    receipt = InstallReceipt(
        settings=str(now.file.real),
        version=__version__,
        at_ms=time.time_ns() // 1_000_000,
        form=PLUGIN_FORM if options.as_plugin else HOOKS_FORM,
        features=options.features,
        original=None,
        after=sha256(after) if after is not None else "",
        made_folders=now.made_folders(plugin, after),
        files={name: sha256(data) for name, data in plugin.items()},
    )
    return now.plan(after, plugin, original, receipt)


def plan_uninstall(location: SettingsLocation, config_dir: Path, store: Path) -> InstallPlan:
    """Plan the removal of ctxtop; nothing is written. Raises as plan_install does.

    If nothing else has changed, the settings are restored byte for byte.
    """
    now = _CurrentInstall(location, config_dir, store)
    return now.plan(now.original(), {}, None, None)


class _CurrentInstall:
    def __init__(self, place: SettingsLocation, config_dir: Path, store: Path) -> None:
        self.file: Final = read_settings_file(place.settings, place.roots)
        self.records: Final = InstallRecords(store, self.file.real)
        self.receipt: Final = self.records.read_receipt()
        self.folder: Final = install_status.plugin_folder(config_dir)
        self.skills = self.folder.parent
        self.plugin: Mapping[str, bytes] = {}
        self.scope: Final = place.scope
        if self.scope is SettingsScope.USER:
            self.skills = install_status.skills_folder(config_dir)
            older = self.receipt.files if self.receipt else {}
            self.plugin = install_status.read_plugin(self.folder, older) or {}
        try:
            self.text: Final = decode_utf8(self.file.data or b"")
            self.settings: Final = parse_hook_settings(self.text)
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
        """Return the settings file before ctxtop: the backup, or the file without our entries.

        None if there was no file.
        """
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
        text = without_status_line(without_hooks(self.text, before))
        if receipt and receipt.original is None and not parse_hook_settings(text).value:
            return None
        return data if text == self.text else text.encode()

    def plan(
        self,
        after: bytes | None,
        plugin: Mapping[str, bytes],
        original: bytes | None,
        receipt: InstallReceipt | None,
    ) -> InstallPlan:
        will = parse_hook_settings((after or b"").decode())
        added, removed, kept = diff_hook_settings(self.settings, will)
        there, wanted = set(self.plugin), set(plugin)
        changed = {name for name in there & wanted if self.plugin[name] != plugin[name]}
        return InstallPlan(
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
                return parse_hook_settings(decode_utf8(kept or b"")).value
            except (JsonTextError, NotSafeError):
                return {}
        return {}

    def _notes(self, receipt: InstallReceipt | None, line: str | None) -> list[str]:
        """List what the user may not expect; `line` is the new status line command, if any."""
        path, is_link = self.file.path, self.file.is_link
        notes = [f"{path} is a link: {self.file.real} is written"] if is_link else []
        if receipt is None:
            return notes
        if receipt.form == PLUGIN_FORM and self.folder.parent.is_symlink():
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


def _with_own_status_line(text: str, options: InstallOptions) -> str:
    if options.status_line:
        return with_status_line(text, lambda wrapped: statusline_command(options.store, wrapped))
    return without_status_line(text)


INSTALL_LOCK: Final = "install"

LOCK_TIMEOUT_S: Final = 5.0
"""For another ctxtop that installs at the same time; it takes a few milliseconds."""


def apply_install(plan: InstallPlan, store: Path) -> Path | None:
    """Write what was planned; give the backup of the settings, None where there were none.

    Raises NotSafeError where the settings or the plugin were changed meanwhile, or where another
    ctxtop installs, OSError where something cannot be written.
    """
    try:
        with user_lock(INSTALL_LOCK, plan.folder, wait_s=LOCK_TIMEOUT_S):
            _check_plugin(plan)
            return _write(plan, store)
    except LockHeldError:
        why = f"another ctxtop installs into {plan.folder}: run it again when that is done"
        raise NotSafeError(why) from None


def _check_plugin(plan: InstallPlan) -> None:
    """Look whether the plugin is as it was when it was planned; the settings' file is, too."""
    names = {*plan.plugin_before, *plan.plugin_after}
    if names and (read_plugin(plan.folder, names) or {}) != dict(plan.plugin_before):
        raise ChangedError(f"{plan.folder} was changed meanwhile: run it again")


def _write(plan: InstallPlan, store: Path) -> Path | None:
    records = InstallRecords(store, plan.file.real)
    backup = records.save_backup(plan.file.data) if plan.file.data is not None else None
    _back_up_edited(plan, records)
    try:
        if plan.plugin_after:
            write_plugin(plan.folder, plan.plugin_after)
        if plan.after != plan.file.data:
            write_settings_file(plan.file, plan.after)
    except BaseException:
        _restore_plugin(plan)
        raise
    gone = {name: b"" for name in plan.plugin_before if name not in plan.plugin_after}
    if gone:
        remove_plugin(plan.folder, gone)
    original = None if plan.original is None else records.save_backup(plan.original)
    if plan.receipt is not None:
        records.write_receipt(msgspec.structs.replace(plan.receipt, original=original))
    else:
        records.remove_receipt()
        for folder in plan.made_folders:
            with suppress(OSError):  # somebody else uses it by now
                Path(folder).rmdir()
    records.prune_backups({original, backup})
    return records.backup_path(backup) if backup else None


def _back_up_edited(plan: InstallPlan, records: InstallRecords) -> None:
    """Keep what a person may have changed in the plugin's files."""
    receipt = records.read_receipt()
    known = receipt.files if receipt else {}
    for name, data in plan.plugin_before.items():
        if plan.plugin_after.get(name) != data and known.get(name) != sha256(data):
            records.save_backup(data)


def _restore_plugin(plan: InstallPlan) -> None:
    with suppress(OSError):
        new = {name: b"" for name in plan.plugin_after if name not in plan.plugin_before}
        remove_plugin(plan.folder, new)
        if plan.plugin_before:
            write_plugin(plan.folder, plan.plugin_before)
