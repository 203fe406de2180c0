"""The plugin as it is put into Claude Code's folder, with the commands of this machine.

The client loads every plugin that stands in `skills/` of its own folder (seen in 2.1.329):
no settings name it, nothing of it is copied elsewhere, `claude plugin list` shows it, and
with the folder it is gone. A marketplace of a folder does the same through two settings,
but the client then keeps the folder's name for ever.
"""

from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ctxtop import __version__

from ..plugin.exchange import asking_folder
from ..regular import open_regular
from .refused import NotSafeError
from .settings_file import LEFTOVER, resolve, write_new

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable

    from .wanted import Handler

NAME: Final = "ctxtop"
MANIFEST: Final = ".claude-plugin/plugin.json"
HOOKS: Final = "hooks/hooks.json"
MODULE_SETTINGS: Final = "hooks/register.json"
"""What register.js reads: how to run ctxtop, and where it is asked."""

SKILLS: Final = "skills"

LARGEST: Final = 1024 * 1024
"""Bytes of one of its files."""


def plugin_folder(config_dir: Path) -> Path:
    """Name the folder in which the client finds the plugin."""
    return config_dir / SKILLS / NAME


def skills_folder(config_dir: Path) -> Path:
    """Name the folder of skills without links: people keep it among their dotfiles.

    Raises NotSafeError where it leads out of the user's folders.
    """
    folder = config_dir / SKILLS
    real = resolve(folder)
    if not any(real.is_relative_to(root.resolve()) for root in (config_dir, Path.home())):
        raise NotSafeError(f"{folder} is a link to {real}, outside of your folders")
    return real


def plugin_files(store: Path, handlers: Mapping[str, Handler]) -> dict[str, bytes]:
    """Make the plugin's files, by their names in its folder."""
    made = dict(_shipped(files("ctxtop.collectors.plugin") / "shipped", ""))
    manifest = json.loads(made[MANIFEST]) | {"version": __version__}
    hooks = json.loads(made[HOOKS])
    hooks["hooks"] = {event: [{"hooks": [handler]}] for event, handler in handlers.items()}
    command = [sys.executable, "-I", "-m", "ctxtop.collectors.plugin.module", str(store)]
    module = {"command": command, "folder": asking_folder(str(store))}
    texts = {MANIFEST: manifest, HOOKS: hooks, MODULE_SETTINGS: module}
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
    found = {
        name: data for name in {*_names(), *older} if (data := _read(folder / name)) is not None
    }
    if not is_ours(found) and not _is_half_of_ours(folder, {*_names(), *older}):
        raise NotSafeError(f"{folder} holds another plugin than ctxtop's: move it away")
    return found


def is_ours(found: Mapping[str, bytes]) -> bool:
    """Say whether these files are a plugin of ours."""
    return manifest(found).get("name") == NAME


def _is_half_of_ours(folder: Path, names: Container[str]) -> bool:
    """Return whether what stands there is what a crash left: our files alone, without the manifest.

    The manifest is written last and removed first.
    """
    if (folder / MANIFEST).exists():
        return False
    return all(
        each.relative_to(folder).as_posix() in names or LEFTOVER.fullmatch(each.name)
        for each in folder.rglob("*")
        if not each.is_dir()
    )


def manifest(found: Mapping[str, bytes]) -> dict[str, Any]:
    """Read the plugin's manifest; empty where there is none that can be read."""
    return _object(found.get(MANIFEST))


def hooks_text(found: Mapping[str, bytes]) -> str:
    """Give the text that names the plugin's hooks; it has the form of a settings file."""
    return found.get(HOOKS, b"{}").decode("utf-8", "replace")


def write_plugin(folder: Path, wanted: Mapping[str, bytes]) -> None:
    """Write the files; the client knows the plugin by its manifest, which comes last."""
    for name in sorted(wanted, key=lambda each: each == MANIFEST):
        write_new(folder / name, wanted[name])


def remove_plugin(folder: Path, names: Mapping[str, object]) -> None:
    """Remove these files and the folders that are empty then; what a person added stays."""
    for name in sorted(names, key=lambda each: each != MANIFEST):
        (folder / name).unlink(missing_ok=True)
    for place in folder.rglob("*"):
        if LEFTOVER.fullmatch(place.name):
            place.unlink(missing_ok=True)
    for place in sorted(folder.rglob("*"), reverse=True):
        if place.is_dir() and not place.is_symlink():
            _remove_empty(place)
    _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def _shipped(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _shipped(each, f"{prefix}{each.name}/")
        else:
            yield f"{prefix}{each.name}", each.read_bytes()


def _names() -> list[str]:
    return [*dict(_shipped(files("ctxtop.collectors.plugin") / "shipped", "")), MODULE_SETTINGS]


def _read(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            return file.read(LARGEST)
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
