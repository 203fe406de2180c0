"""A folder of the client's, an empty store, and a listener."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.config import config_reader
from ctxtop.collectors.claude_code.config.save_files import SystemFolders
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.model.config_records import StagingLocation
from ctxtop.core.store.bulkhead import take_faults
from ctxtop.core.store.writer import Writer

from .recorder import Recorder
from .seed import SEED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The real client is large and takes its time: `make test-client` names this folder.
collect_ignore = ["client"]


YOUNG = 50_000
"""New objects after which Python looks for garbage: after each 700, as usual, it looked through all
modules and what pytest keeps of a whole run, a twentieth of the tests' processor time."""

# As ctxtop is imported it takes this for what is usual, and comes back to it.
gc.set_threshold(YOUNG, *gc.get_threshold()[1:])


def pytest_report_header() -> str:
    """Print the seed that repeats this run's random histories and kills."""
    return f"CTXTOP_SEED={SEED}"


@pytest.fixture
def claude(tmp_path: Path) -> ClaudeFolder:
    """A folder as the client keeps it, with nothing in it."""
    root = tmp_path / "claude"
    (root / "projects").mkdir(parents=True)
    return ClaudeFolder(root)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where a test's store is."""
    return tmp_path / "state" / "ctxtop.db"


@pytest.fixture
def writer(store: Path) -> Iterator[Writer]:
    """An empty store."""
    with closing(Writer(store)) as opened:
        yield opened


@pytest.fixture
def recorder() -> Recorder:
    """A listener that remembers."""
    return Recorder()


@pytest.fixture
def collector(claude: ClaudeFolder, writer: Writer, recorder: Recorder) -> Collector:
    """A collector that has not looked yet."""
    return Collector(claude, writer, recorder)


@pytest.fixture
def child_env() -> dict[str, str]:
    """An environment in which a child imports what this process imports."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.fixture(autouse=True)
def no_fault_contained() -> Iterator[None]:
    """No fault of ours may hide behind a bulkhead; a test that plants one takes it."""
    yield
    assert [each.traceback for each in take_faults()] == []


@pytest.fixture
def plants_faults() -> Iterator[None]:
    """For a test that plants faults of ours."""
    yield
    list(take_faults())


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks that no other test, and nothing of this machine's user, holds."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".user"))


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemFolders:
    """A machine of the test's own: no administrator's settings, no staging folders."""
    own = tmp_path / "machine"
    bases = (
        (StagingLocation.TMP, "tmp"),
        (StagingLocation.TMP_OF_USER, "tmp"),
        (StagingLocation.CACHE, "cache"),
    )
    staging = tuple((generation, own / name) for generation, name in bases)
    made = SystemFolders(own / "managed", staging, os.geteuid())
    monkeypatch.setattr(config_reader, "find_system_folders", lambda *_: made)
    return made


@pytest.fixture(autouse=True)
def nothing_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who trusts no project yet, whoever runs the tests and from where."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "person"))
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
