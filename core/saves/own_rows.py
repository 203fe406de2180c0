"""The rows of saves, read once and sorted by the project that each belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..store import save_queries
from ..store import surroundings_queries as surroundings
from ..store.surroundings_facts import Generation
from .bands import BandVerdict, judge
from .blocks import read_block
from .compat import Compat, judge_plugin
from .flow import whose
from .noise import Noise, unpack
from .told import Told, read_note

if TYPE_CHECKING:
    import sqlite3

    from ..store.save_queries import BlockRow, NoteRow
    from ..store.surroundings_facts import SaveEventFact, SaveFileFact

NO_PROJECT: Final = ""
"""The project of a global result that names none."""


class MeasuredSave(msgspec.Struct, frozen=True):
    """One save that a transcript tells of; a place is the file's, below the projects folder."""

    session_id: str
    path: str
    offset: int
    noise: Noise
    bands: tuple[BandVerdict, ...]


class SaveRows(msgspec.Struct, frozen=True):
    """What the store holds of saves, as rows."""

    files: list[SaveFileFact]
    earlier_files: list[SaveFileFact]
    blocks: list[BlockRow]
    notes: list[NoteRow]
    events: dict[str, list[SaveEventFact]]
    plugins: tuple[Compat, ...]


class OwnRows(msgspec.Struct):
    """What belongs to one project."""

    files: list[SaveFileFact] = []
    earlier_files: list[SaveFileFact] = []
    blocks: list[BlockRow] = []
    """Of the plugin's hook alone."""
    saves: list[MeasuredSave] = []
    """Oldest first."""
    notes: list[Told] = []
    """Oldest first."""
    events: list[SaveEventFact] = []


class SortedRows(msgspec.Struct, frozen=True):
    """All rows, by project; what every project sees stands beside them."""

    projects: dict[str, OwnRows]
    shared_files: list[SaveFileFact]
    """Files of the oldest place, which is one for all projects."""
    all_noise: list[Noise]
    plugins: tuple[Compat, ...]


def read_rows(db: sqlite3.Connection) -> SortedRows:
    """Read them at one commit."""
    logs = {log.project for log, _ in surroundings.save_logs(db).values()}
    return sort_rows(
        SaveRows(
            files=surroundings.save_files(db),
            earlier_files=surroundings.past_save_files(db),
            blocks=save_queries.stop_blocks(db),
            notes=save_queries.memory_notes(db),
            events={project: surroundings.save_events(db, project) for project in sorted(logs)},
            plugins=tuple(map(judge_plugin, surroundings.save_plugins(db))),
        )
    )


def sort_rows(rows: SaveRows) -> SortedRows:
    """Give each row to its project; a block's is the folder that its session works in."""
    found: dict[str, OwnRows] = {}

    def own(name: str) -> OwnRows:
        return found.setdefault(name, OwnRows())

    for file in rows.files:
        mine = _named(file)
        own(mine[0]).files.append(mine[1])
    for file in rows.earlier_files:
        mine = _named(file)
        own(mine[0]).earlier_files.append(mine[1])
    for block in rows.blocks:
        if block.cwd is None or read_block(block.text) is None:
            continue
        own(block.cwd).blocks.append(block)
        noise = unpack(block.noise)
        if noise:
            save = MeasuredSave(block.session_id, block.path, block.offset, noise, judge(noise))
            own(block.cwd).saves.append(save)
    for note in rows.notes:
        told = read_note(note.text, note.at)
        if told and note.cwd is not None:
            own(note.cwd).notes.append(told)
    for name, events in rows.events.items():
        own(name).events.extend(events)
    for each in found.values():
        each.saves.sort(key=lambda save: (save.noise.at or 0, save.path, save.offset))
    return SortedRows(
        projects=found,
        shared_files=[each for each in rows.files if each.generation is Generation.GLOBAL],
        all_noise=[save.noise for each in found.values() for save in each.saves],
        plugins=rows.plugins,
    )


def _named(file: SaveFileFact) -> tuple[str, SaveFileFact]:
    """Name a file's project; a global one that names none is given to the one without a name."""
    name = whose(file)
    return (NO_PROJECT, replace(file, project=NO_PROJECT)) if name is None else (name, file)
