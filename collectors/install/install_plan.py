"""Plans an installation or its removal, shows it as a diff, and applies it with a receipt."""

from __future__ import annotations

import difflib
import hashlib
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from ctxtop import __version__

from ...core.files.file_operations import LockHeldError, user_lock, write_file_atomically
from ...core.files.json_edit import JsonTextError, decode_utf8
from ...core.files.safe_open import open_regular
from ...core.transcript.sanitize import reveal_text
from ..claude_code.config.hook_settings import mask_secrets
from ..plugin.installed_commands import statusline_command
from . import install_status
from .install_status import read_plugin, remove_plugin, write_plugin
from .settings_file import (
    ChangedError,
    HookSettings,
    InstallOptions,
    NotSafeError,
    SettingsFile,
    SettingsLocation,
    SettingsScope,
    hook_handlers,
    parse_hook_settings,
    read_settings_file,
    shown_lines,
    with_hooks,
    with_status_line,
    without_hooks,
    without_status_line,
    write_settings_file,
)

MAX_BACKUPS: Final = 10  # of one settings file; those that an undo needs are kept besides
MAX_RECEIPT_BYTES: Final = 64 * 1024  # a receipt has about 1,000


class InstallReceipt(msgspec.Struct, frozen=True):
    """An installation, so that it can be taken back byte for byte."""

    settings: str
    version: str  # of the ctxtop that did it
    at_ms: int
    form: str  # plugin or hooks
    features: tuple[str, ...]
    original: str | None  # name of the backup of the settings before ctxtop; None if none existed
    after: str  # SHA-256 of the settings as ctxtop left them; empty if it left none
    made_folders: tuple[str, ...] = ()  # that did not exist before, the innermost first
    files: dict[str, str] = {}  # the plugin's files by name, each with its SHA-256


def install_folder(store: Path) -> Path:
    """Return the folder of a store's receipts and backups."""
    return store.with_name(f"{store.name}.install")


def read_install_receipts(store: Path) -> Iterator[tuple[Path, InstallReceipt | None]]:
    """Read a store's receipts, each with its path; None for one that cannot be read."""
    for path in sorted(install_folder(store).glob("*/receipt.json")):
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
        folder = install_folder(store) / mark.hexdigest()
        self._receipt: Final = folder / "receipt.json"
        self._folder: Final = folder / "backups"

    def read_receipt(self) -> InstallReceipt | None:
        """Read the receipt; None if there is none that can be decoded."""
        try:
            return _decode_receipt(self._receipt)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def save_backup(self, data: bytes) -> str:
        """Save bytes under a name of their time and hash; return the name."""
        digest = sha256(data)[:12]
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        for path in self._backups():
            if path.stem.endswith(digest) and self.read_backup(path.name) == data:
                return path.name
        name = f"{moment}-{digest}.json"
        write_file_atomically(self.backup_path(name), data)
        return name

    def backup_path(self, backup: str) -> Path:
        return self._folder / backup

    def read_backup(self, backup: str) -> bytes | None:
        """Read a backup; None if it is gone."""
        try:
            with open_regular(self.backup_path(backup)) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write_receipt(self, receipt: InstallReceipt) -> None:
        write_file_atomically(self._receipt, msgspec.json.format(msgspec.json.encode(receipt)))

    def remove_receipt(self) -> None:
        """Remove the receipt; the backups stay for a person to look at."""
        self._receipt.unlink(missing_ok=True)

    def prune_backups(self, needed: Container[str | None]) -> None:
        """Remove old backups that are not needed for an undo."""
        for path in self._backups()[:-MAX_BACKUPS]:
            if path.name not in needed:
                path.unlink(missing_ok=True)

    def _backups(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def install_diff(plan: InstallPlan) -> list[str]:
    """Return the change as a unified diff, with codes for what is not seen.

    Secrets in its context lines are masked.
    """
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
    return [reveal_text(line) for line in lines]


def _unified_diff(name: str, before: bytes | None, after: bytes | None) -> list[str]:
    old_name, new_name = ("/dev/null" if data is None else name for data in (before, after))
    old, new = shown_lines(before), shown_lines(after)
    lines = difflib.unified_diff(old, new, old_name, new_name, lineterm="")
    return [mask_secrets(line) if line.startswith(" ") else line for line in lines]


def _command_lines(settings: HookSettings) -> dict[tuple[str, str], str]:
    """Describe the commands of hooks and of the status line, without secrets."""
    commands = [(f"hook {hook.event}", hook.command) for hook in settings.hooks]
    if settings.status_command:
        commands.append(("status line", settings.status_command))
    return {(what, command): f"{what}: {mask_secrets(command)}" for what, command in commands}


PLUGIN_FORM: Final = "plugin"
HOOKS_FORM: Final = "hooks"


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """What is done when a person agrees."""

    file: SettingsFile
    after: bytes | None  # the settings file's new content; None if it will be gone
    folder: Path  # of the plugin
    plugin_before: Mapping[str, bytes]
    plugin_after: Mapping[str, bytes]
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what a person should know before saying yes
    original: bytes | None = None  # what an uninstall restores
    receipt: InstallReceipt | None = None  # None if ctxtop is removed
    receipt_before: InstallReceipt | None = None
    made_folders: tuple[str, ...] = ()  # an uninstall removes those that are empty

    @property
    def changes_nothing(self) -> bool:
        return self.after == self.file.data and self.plugin_after == self.plugin_before


def plan_install(
    location: SettingsLocation, config_dir: Path, options: InstallOptions
) -> InstallPlan:
    """Plan an installation.

    Raises NotSafeError if it would not be safe, OSError if something cannot be read.
    """
    if options.as_plugin and location.scope is not SettingsScope.USER:
        raise NotSafeError("a plugin applies to all of your projects: use --as hooks here")
    current = _CurrentInstall(location, config_dir, options.store)
    handlers = hook_handlers(options)
    try:
        text = with_hooks(current.text, {} if options.as_plugin else handlers)
        if options.status_line:
            text = with_status_line(text, partial(statusline_command, options.store))
        else:
            text = without_status_line(text)
    except NotSafeError as error:
        raise NotSafeError(f"{location.settings} {error}") from error
    value = parse_hook_settings(text).value
    is_unchanged = not value if current.file.data is None else value == current.settings.value
    after = current.file.data if is_unchanged else text.encode()
    plugin = install_status.plugin_files(options.store, handlers) if options.as_plugin else {}
    receipt = InstallReceipt(
        settings=str(current.file.real),
        version=__version__,
        at_ms=time.time_ns() // 1_000_000,
        form=PLUGIN_FORM if options.as_plugin else HOOKS_FORM,
        features=options.features,
        original=None,
        after=sha256(after) if after is not None else "",
        made_folders=current.made_folders(plugin, after),
        files={name: sha256(data) for name, data in plugin.items()},
    )
    return current.plan(after, plugin, current.original(), receipt)


def plan_uninstall(location: SettingsLocation, config_dir: Path, store: Path) -> InstallPlan:
    """Plan the removal of ctxtop. Raises as plan_install does.

    If nothing else has changed, the settings are restored byte for byte.
    """
    current = _CurrentInstall(location, config_dir, store)
    return current.plan(current.original(), {}, None, None)


class _CurrentInstall:
    def __init__(self, location: SettingsLocation, config_dir: Path, store: Path) -> None:
        self.file: Final = read_settings_file(location.settings, location.roots)
        self.records: Final = InstallRecords(store, self.file.real)
        self.receipt: Final = self.records.read_receipt()
        self.folder: Final = install_status.plugin_folder(config_dir)
        self.skills = self.folder.parent
        self.plugin: Mapping[str, bytes] = {}
        self.scope: Final = location.scope
        if self.scope is SettingsScope.USER:
            self.skills = install_status.skills_folder(config_dir)
            self.plugin = read_plugin(self.folder, self.receipt.files if self.receipt else {}) or {}
        try:
            self.text: Final = decode_utf8(self.file.data or b"")
            self.settings: Final = parse_hook_settings(self.text)
        except JsonTextError as error:
            raise NotSafeError(
                f"{location.settings} is not valid JSON ({error}): correct it"
            ) from error
        except NotSafeError as error:
            raise NotSafeError(f"{location.settings} {error}") from error

    def made_folders(self, plugin: Mapping[str, bytes], after: bytes | None) -> tuple[str, ...]:
        """Name the folders that were made for ctxtop, and those that will be made."""
        needed = [self.skills] if plugin else []
        needed += [self.file.real.parent] if after is not None else []
        before = self.receipt.made_folders if self.receipt else ()
        return (*before, *(str(folder) for folder in needed if not folder.exists()))

    def original(self) -> bytes | None:
        """Return the settings file before ctxtop: the backup, or the file without our entries.

        None if there was no file.
        """
        receipt, data = self.receipt, self.file.data
        if receipt and receipt.after == (sha256(data) if data is not None else ""):
            if receipt.original is None:
                return None
            backup = self.records.read_backup(receipt.original)
            if backup is not None:
                return backup
        if data is None:
            return None
        text = without_status_line(without_hooks(self.text, self._before_ctxtop()))
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
        settings = parse_hook_settings((after or b"").decode())
        old, new = _command_lines(self.settings), _command_lines(settings)
        written = {name for name, data in plugin.items() if self.plugin.get(name) != data}
        removed = set(self.plugin) - set(plugin)
        return InstallPlan(
            file=self.file,
            after=after,
            folder=self.folder,
            plugin_before=self.plugin,
            plugin_after=plugin,
            added=(*(new[key] for key in new if key not in old), *self._file_lines(written)),
            removed=(*(old[key] for key in old if key not in new), *self._file_lines(removed)),
            unchanged=tuple(new[key] for key in new if key in old),
            notes=tuple(self._notes(receipt, settings.status_command)),
            original=original,
            receipt=receipt,
            receipt_before=self.receipt,
            made_folders=self.receipt.made_folders if self.receipt else (),
        )

    def _file_lines(self, names: set[str]) -> list[str]:
        return [f"file {self.folder / name}" for name in sorted(names)]

    def _before_ctxtop(self) -> Mapping[str, object]:
        if self.receipt and self.receipt.original:
            backup = self.records.read_backup(self.receipt.original)
            with suppress(JsonTextError, NotSafeError):
                return parse_hook_settings(decode_utf8(backup or b"")).value
        return {}

    def _notes(self, receipt: InstallReceipt | None, line: str | None) -> list[str]:
        """List what the user may not expect; `line` is the new status line command, if any."""
        path, is_link = self.file.path, self.file.is_link
        notes = [f"{path} is a link: {self.file.real} is written instead"] if is_link else []
        if receipt is None:
            return notes
        if receipt.form == PLUGIN_FORM and self.folder.parent.is_symlink():
            notes.append(f"{self.folder.parent} is a link: the plugin goes to {self.skills}")
        if not self.settings.is_strict:
            notes.append(
                f"{path} has comments or trailing commas: Claude Code ignores the whole file"
                " until they are removed"
            )
        if self.settings.value.get("disableAllHooks") is True:
            notes.append(f"{path} has disableAllHooks: no hook runs until it is removed")
        if self.scope is SettingsScope.PROJECT:
            notes.append(
                "the commands contain paths of this machine; with --scope "
                "local the file is not shared"
            )
        if self.scope is not SettingsScope.USER and line and not self.settings.status_command:
            notes.append("in this project, the status line from your own settings is not shown")
        return notes


LOCK_TIMEOUT_S: Final = 5.0  # another ctxtop that installs takes a few milliseconds


def apply_install(plan: InstallPlan, store: Path) -> Path | None:
    """Write what was planned; return the backup of the settings, None if there were none.

    Raises NotSafeError if the settings or the plugin were changed meanwhile, or if another
    ctxtop installs, OSError if something cannot be written.
    """
    try:
        with user_lock("install", plan.folder, wait_s=LOCK_TIMEOUT_S):
            # The settings are checked when they are written.
            names = {*plan.plugin_before, *plan.plugin_after}
            if names and (read_plugin(plan.folder, names) or {}) != dict(plan.plugin_before):
                raise ChangedError(f"{plan.folder} was changed meanwhile: run the command again")
            return _write(plan, store)
    except LockHeldError:
        why = f"another ctxtop is installing into {plan.folder}: try again when it is done"
        raise NotSafeError(why) from None


def _write(plan: InstallPlan, store: Path) -> Path | None:
    records = InstallRecords(store, plan.file.real)
    if records.read_receipt() != plan.receipt_before:
        # Its folders and backups would be forgotten.
        raise ChangedError(f"{plan.file.path} was changed meanwhile: run the command again")
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
    gone = set(plan.plugin_before) - set(plan.plugin_after)
    if gone:
        remove_plugin(plan.folder, gone)
    original = None if plan.original is None else records.save_backup(plan.original)
    if plan.receipt is not None:
        records.write_receipt(msgspec.structs.replace(plan.receipt, original=original))
    else:
        records.remove_receipt()
        _remove_empty_folders(plan.made_folders)
    records.prune_backups({original, backup})
    return records.backup_path(backup) if backup else None


def _back_up_edited(plan: InstallPlan, records: InstallRecords) -> None:
    """Back up plugin files that a person may have changed."""
    receipt = records.read_receipt()
    known = receipt.files if receipt else {}
    for name, data in plan.plugin_before.items():
        if plan.plugin_after.get(name) != data and known.get(name) != sha256(data):
            records.save_backup(data)


def _remove_empty_folders(folders: Iterable[str]) -> None:
    for folder in folders:
        with suppress(OSError):  # it may be in use by now
            Path(folder).rmdir()


def _restore_plugin(plan: InstallPlan) -> None:
    with suppress(OSError):
        remove_plugin(plan.folder, set(plan.plugin_after) - set(plan.plugin_before))
        if plan.plugin_before:
            write_plugin(plan.folder, plan.plugin_before)
    if plan.receipt is not None:
        made = plan.receipt.made_folders
        _remove_empty_folders(each for each in made if each not in plan.made_folders)
