"""Whatever happens to the files, the rows end as those of one clean look at them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript.raw_lines import complete_line_length
from hypothesis import HealthCheck, Phase, given, note, seed, settings

from ..dump import FILE_STATE, dump
from ..effort import tries
from ..histories import Folder, History, cut, histories, look_once
from ..seed import SEED

if TYPE_CHECKING:
    from ctxtop.collectors.locations.discover import ClaudeFolder

    from ..dump import Rows

HISTORIES: Final = tries(250, proving=2_000)

MOMENT: Final = FILE_STATE - {"anchor", "gone"}
"""Columns that tell when a file was read; where reading stands and what is gone is compared."""

INDEXED: Final = "words"
"""The index of all texts together cannot be told apart by file."""


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without rows: to copy it is quicker than to make one."""
    store = tmp_path_factory.mktemp("empty") / "ctxtop.db"
    Writer(store).close()
    return store


OF_ALL_FILES: Final = frozenset({INDEXED, "shared_response"})
"""What these tables hold of one file follows from others too, also from those that are gone."""


def of_files_that_are_there(rows: Rows, claude: ClaudeFolder) -> Rows:
    """Leave out what is kept of files that are gone, or that say nothing any more."""
    names = [str(row[0]) for row in rows["file"]]
    gone = {name for name in names if not says_something(claude.projects / name)}
    left_out = {"trouble", *OF_ALL_FILES} if gone else {"trouble"}
    return {
        name: [row for row in found if not gone.intersection(map(str, row))]
        for name, found in rows.items()
        if name not in left_out
    }


def says_something(path: Path) -> bool:
    """A file of the old layout is none before its first line names its session."""
    if path.name == "agent-old.jsonl":
        data = path.read_bytes() if path.exists() else b""
        return b"\n" in data or complete_line_length(data) > 0
    return path.exists()


@seed(SEED)
@settings(
    max_examples=HISTORIES,
    deadline=None,
    database=None,
    # What fails is shown as it was found where it cannot be made shorter soon.
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(histories)
def test_rows_are_those_of_one_clean_look(empty_store: Path, history: History) -> None:
    note(f"CTXTOP_SEED={SEED}")
    place = Path(tempfile.mkdtemp(dir=empty_store.parent))
    folder = Folder(place, empty_store)
    try:
        with cut(history.block_bytes, history.commit_bytes):
            for step in history.steps:
                folder.step(*step)
            gone = folder.end()
        look_once(folder.claude, place / "clean.db", empty_store)
        kept = dump(folder.store, MOMENT)
        named = {str(row[0]) for row in kept["file"]}
        missing = {name for name in named if not (folder.claude.projects / name).exists()}
        silent = {name for name in named if not says_something(folder.claude.projects / name)}
        assert missing <= gone <= silent
        found = of_files_that_are_there(kept, folder.claude)
        clean = of_files_that_are_there(dump(place / "clean.db", MOMENT), folder.claude)
        for table in OF_ALL_FILES - found.keys():
            clean.pop(table, None)

        assert found == clean
    finally:
        folder.drop()
        shutil.rmtree(place)
