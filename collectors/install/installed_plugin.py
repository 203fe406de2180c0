"""The plugin's files in Claude Code's folder, with the commands of this machine.

The client loads every plugin in `skills/` of its own folder (seen in 2.1.329): no settings name
it, nothing of it is copied elsewhere, `claude plugin list` shows it, and it is gone with the
folder. A marketplace of a folder does the same through two settings, but the client then keeps
the folder's name for ever.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxtop import __version__

from ...core.files.safe_open import open_regular
from ..plugin.compact_requests import request_folder
from .settings_file import TEMPORARY_NAME, NotSafeError, resolve_links, write_private_file

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable

    from .hook_settings import HookHandler


PLUGIN_NAME: Final = "ctxtop"
MANIFEST_FILE: Final = ".claude-plugin/plugin.json"
HOOKS_FILE: Final = "hooks/hooks.json"
MODULE_SETTINGS_FILE: Final = "hooks/register.json"
"""What register.js reads: how to run ctxtop, and where it is asked."""

SKILLS_FOLDER: Final = "skills"

READ_ATTEMPTS: Final = 3
"""While other processes install and uninstall: each attempt takes about a millisecond."""

MAX_PLUGIN_FILE_BYTES: Final = 1024 * 1024
"""Bytes of one of its files."""


def plugin_folder(config_dir: Path) -> Path:
    """Name the folder in which the client finds the plugin."""
    return config_dir / SKILLS_FOLDER / PLUGIN_NAME


def skills_folder(config_dir: Path) -> Path:
    """Name the folder of skills without links: people keep it among their dotfiles.

    Raises NotSafeError where it leads out of the user's folders.
    """
    folder = config_dir / SKILLS_FOLDER
    real = resolve_links(folder)
    if not any(real.is_relative_to(root.resolve()) for root in (config_dir, Path.home())):
        raise NotSafeError(f"{folder} is a link to {real}, outside of your folders")
    return real


def plugin_files(store: Path, handlers: Mapping[str, HookHandler]) -> dict[str, bytes]:
    """Make the plugin's files, by their names in its folder."""
    made = dict(_shipped_files(files("ctxtop.collectors.plugin") / "shipped", ""))
    manifest = json.loads(made[MANIFEST_FILE]) | {"version": __version__}
    hooks = json.loads(made[HOOKS_FILE])
    hooks["hooks"] = {event: [{"hooks": [handler]}] for event, handler in handlers.items()}
    command = [sys.executable, "-I", "-m", "ctxtop.collectors.plugin.register_command", str(store)]
    module = {"command": command, "folder": request_folder(str(store))}
    texts = {MANIFEST_FILE: manifest, HOOKS_FILE: hooks, MODULE_SETTINGS_FILE: module}
    return made | {name: _json(value) for name, value in texts.items()}


def read_plugin(folder: Path, older: Iterable[str] = ()) -> dict[str, bytes] | None:
    """Read the plugin's files that stand in a folder; None where there is no folder.

    `older` are names of files that an earlier ctxtop had put there.

    Raises NotSafeError where what stands there is not ours, OSError where it cannot be read.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise NotSafeError(f"{folder} is no folder of ctxtop's: move it away")
    if not folder.exists():
        return None
    if any(place.is_symlink() for place in folder.rglob("*")):
        raise NotSafeError(f"{folder} holds a link: remove it")
    names = {*_file_names(), *older}
    found, has_manifest = _read_files(folder, names)
    for _ in range(READ_ATTEMPTS):
        if MANIFEST_FILE in found or not has_manifest:
            break
        # Another process has just written the manifest, which comes last.
        found, has_manifest = _read_files(folder, names)
    if not is_own_plugin(found) and (has_manifest or not _holds_only(folder, names)):
        raise NotSafeError(f"{folder} holds another plugin than ctxtop's: move it away")
    return found


def _read_files(folder: Path, names: Iterable[str]) -> tuple[dict[str, bytes], bool]:
    found = {name: data for name in names if (data := _read(folder / name)) is not None}
    return found, (folder / MANIFEST_FILE).exists()


def is_own_plugin(found: Mapping[str, bytes]) -> bool:
    return read_manifest(found).get("name") == PLUGIN_NAME


def _holds_only(folder: Path, names: Container[str]) -> bool:
    """Return whether a folder without a manifest is what a crash left: our files alone.

    The manifest is written last and removed first.
    """
    # The walk knows what is a folder when it lists it: another process may remove it meanwhile.
    return all(
        (Path(place) / name).relative_to(folder).as_posix() in names
        or TEMPORARY_NAME.fullmatch(name)
        for place, _, found in os.walk(folder)
        for name in found
    )


def read_manifest(found: Mapping[str, bytes]) -> dict[str, Any]:
    """Read the plugin's manifest; empty where there is none that can be read."""
    return _object(found.get(MANIFEST_FILE))


def read_hooks_text(found: Mapping[str, bytes]) -> str:
    """Return the text of the plugin's hooks file; it has the form of a settings file."""
    return found.get(HOOKS_FILE, b"{}").decode("utf-8", "replace")


def write_plugin(folder: Path, wanted: Mapping[str, bytes]) -> None:
    """Write the files; the client knows the plugin by its manifest, which comes last."""
    for name in sorted(wanted, key=lambda each: each == MANIFEST_FILE):
        write_private_file(folder / name, wanted[name])


def remove_plugin(folder: Path, names: Mapping[str, object]) -> None:
    """Remove these files and the folders that are empty then; what a person added stays."""
    for name in sorted(names, key=lambda each: each != MANIFEST_FILE):
        (folder / name).unlink(missing_ok=True)
    for place in folder.rglob("*"):
        if TEMPORARY_NAME.fullmatch(place.name):
            place.unlink(missing_ok=True)
    for place in sorted(folder.rglob("*"), reverse=True):
        if place.is_dir() and not place.is_symlink():
            _remove_empty(place)
    _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def _shipped_files(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _shipped_files(each, f"{prefix}{each.name}/")
        else:
            yield f"{prefix}{each.name}", each.read_bytes()


def _file_names() -> list[str]:
    return [
        *dict(_shipped_files(files("ctxtop.collectors.plugin") / "shipped", "")),
        MODULE_SETTINGS_FILE,
    ]


def _read(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            return file.read(MAX_PLUGIN_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _object(data: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
