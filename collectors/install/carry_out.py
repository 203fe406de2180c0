"""Doing what a plan says: backup, write, receipt; and all of it back where a step fails."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.user_lock import HeldError, user_lock
from .plugin_copy import read_plugin, remove_plugin, write_plugin
from .receipts import Records, sha256
from .refused import ChangedError, NotSafeError
from .settings_file import write_settings_file

if TYPE_CHECKING:
    from .plan import Plan


KIND: Final = "install"

WAIT_S: Final = 5.0
"""For another ctxtop that installs at the same time; it takes a few milliseconds."""


def carry_out(plan: Plan, store: Path) -> Path | None:
    """Write what was planned; give the backup of the settings, None where there were none.

    Raises NotSafeError where the settings or the plugin were changed meanwhile, or where another
    ctxtop installs, OSError where something cannot be written.
    """
    try:
        with user_lock(KIND, plan.folder, wait_s=WAIT_S):
            _check_plugin(plan)
            return _write(plan, store)
    except HeldError:
        why = f"another ctxtop installs into {plan.folder}: run it again when that is done"
        raise NotSafeError(why) from None


def _check_plugin(plan: Plan) -> None:
    """Look whether the plugin is as it was when it was planned; the settings' file is, too."""
    names = {*plan.plugin_before, *plan.plugin_after}
    if names and (read_plugin(plan.folder, names) or {}) != dict(plan.plugin_before):
        raise ChangedError(f"{plan.folder} was changed meanwhile: run it again")


def _write(plan: Plan, store: Path) -> Path | None:
    records = Records(store, plan.file.real)
    backup = records.save_backup(plan.file.data) if plan.file.data is not None else None
    _back_up_edited(plan, records)
    try:
        if plan.plugin_after:
            write_plugin(plan.folder, plan.plugin_after)
        if plan.after != plan.file.data:
            write_settings_file(plan.file, plan.after)
    except BaseException:
        _give_plugin_back(plan)
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


def _back_up_edited(plan: Plan, records: Records) -> None:
    """Keep what a person may have changed in the plugin's files."""
    receipt = records.read_receipt()
    known = receipt.files if receipt else {}
    for name, data in plan.plugin_before.items():
        if plan.plugin_after.get(name) != data and known.get(name) != sha256(data):
            records.save_backup(data)


def _give_plugin_back(plan: Plan) -> None:
    with suppress(OSError):
        new = {name: b"" for name in plan.plugin_after if name not in plan.plugin_before}
        remove_plugin(plan.folder, new)
        if plan.plugin_before:
            write_plugin(plan.folder, plan.plugin_before)
