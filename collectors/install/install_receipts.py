"""The receipt of an installation and the backups of its settings file."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from ...core.files.file_operations import write_file_atomically
from ...core.files.safe_open import open_regular

MAX_BACKUPS: Final = 10
"""Backups of one settings file; those that are a way back are kept beside them."""

_RECEIPT_FILE: Final = "receipt.json"
_BACKUPS_FOLDER: Final = "backups"

MAX_RECEIPT_BYTES: Final = 64 * 1024
"""Bytes of a receipt; it has about 1,000."""


class InstallReceipt(msgspec.Struct, frozen=True):
    """An installation, so that it can be taken back byte for byte."""

    settings: str
    version: str
    """Of the ctxtop that did it."""
    at_ms: int
    form: str
    """plugin or hooks."""
    features: tuple[str, ...]
    original: str | None
    """Name of the backup that holds what was there before ctxtop; None where nothing was."""
    after: str
    """SHA-256 of the settings as ctxtop left them; empty where it left none."""
    made_folders: tuple[str, ...] = ()
    """What was not there before, the innermost first."""
    files: dict[str, str] = {}
    """The plugin's files by name, each with its SHA-256."""


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
