"""Projects with a .claude/ of their own, made by hand, and what the store knows of them."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.model.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    FileMark,
    SettingsFileRecord,
)
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import config_queries as queries

from .transcripts import user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.config_records import SaveFileRecord, SettingValue

MARK: Final = FileMark(1, 1, 1)


def project(claude: ClaudeFolder, folder: Path, session: str = "s", at: int = 10**18) -> Path:
    """Make a folder, and a session that worked in it at the time `at`."""
    folder.mkdir(parents=True, exist_ok=True)
    slug = "".join(char if char.isalnum() else "-" for char in str(folder))
    path = write(claude.projects / slug / f"{session}.jsonl", [user(cwd=str(folder))])
    os.utime(path, ns=(at, at))
    return folder


def put(path: Path, content: str | bytes | dict[str, Any]) -> Path:
    """Write a file with its folders; an object as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content) if isinstance(content, dict) else content
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def put_save(path: Path, content: str | bytes | dict[str, Any]) -> Path:
    """Write a file of the save flow into a folder that is its owner's alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    return put(path, content)


def agent(name: str = "reviewer", body: str = "You review.\n", **fields: str) -> str:
    """Text of an agent's definition."""
    head = {"name": name, "description": "reads a change"} | fields
    lines = "\n".join(f"{key}: {value}" for key, value in head.items())
    return f"---\n{lines}\n---\n{body}"


def settings_of(store: Path) -> dict[str, SettingsFileRecord]:
    """The settings files that the store knows, by path."""
    with closing(open_reader(store)) as db:
        return {fact.path: fact for fact in queries.settings_files(db)}


def definitions_of(store: Path) -> dict[str, DefinitionRecord]:
    """The definitions that the store knows, by path."""
    with closing(open_reader(store)) as db:
        return {fact.path: fact for fact in queries.definitions(db)}


def saves_of(store: Path) -> dict[str, SaveFileRecord]:
    """The files of the save flow that are there, by path."""
    with closing(open_reader(store)) as db:
        return {fact.path: fact for fact in queries.current_save_files(db)}


def settings_fact(
    path: str,
    scope: ConfigScope,
    project: str | None = None,
    **values: SettingValue,
) -> SettingsFileRecord:
    """A settings file as the store gives it back."""
    folder = path.rpartition("/")[0]
    return SettingsFileRecord(path, folder, scope, project, MARK, dict(values))


def definition(
    name: str,
    scope: ConfigScope = ConfigScope.USER,
    kind: DefinitionKind = DefinitionKind.AGENT,
    path: str | None = None,
    **fields: Any,
) -> DefinitionRecord:
    """A definition as the store gives it back."""
    place = path or f"/{scope.value}/{kind.value}/{name}"
    row: dict[str, Any] = {"project": None, "plugin_id": None} | fields
    return DefinitionRecord(place, "/", kind, scope, mark=MARK, name=name, **row)
