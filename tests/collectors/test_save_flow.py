"""claude-memory's files: every place and version of them, as facts without an opinion."""

from __future__ import annotations

import hashlib
import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.config.config_reader import ClientConfigReader
from ctxtop.collectors.claude_code.config.save_files import SystemFolders, find_system_folders
from ctxtop.core.model.config_records import (
    SaveError,
    SaveFileContent,
    SaveFileKind,
    StagingLocation,
    TriageCategory,
)
from ctxtop.core.model.problem import ProblemReporter
from ctxtop.core.store.config_writer import MAX_VERSIONS
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import config_queries as queries

from ..surroundings import project, put, put_save, saves_of

if TYPE_CHECKING:
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.config_records import SaveFileRecord
    from ctxtop.core.store.writer import Writer

    from ..recorder import Recorder

STAMP = "2026-11-20T10:00:00Z"
STAMP_MS = 1_795_168_800_000
STAMP_S = STAMP_MS / 1000


def staging(machine: SystemFolders, generation: StagingLocation, folder: Path) -> Path:
    """Name a project's staging folder as that version of claude-memory does."""
    if generation is StagingLocation.PROJECT:
        return folder / ".claude/memory/.staging"
    seed = os.path.realpath(folder)
    if generation is not StagingLocation.TMP:
        seed = f"{os.geteuid()}:{seed}"
    mark = hashlib.sha256(seed.encode()).hexdigest()[:12]
    return dict(machine.staging_roots)[generation] / f".claude-memory-staging-{mark}"


@pytest.fixture
def here(claude: ClaudeFolder, tmp_path: Path) -> Path:
    """A project that a session worked in."""
    return project(claude, tmp_path / "a")


@pytest.fixture
def place(here: Path, machine: SystemFolders) -> Path:
    """Its newest staging folder, not made yet."""
    return staging(machine, StagingLocation.CACHE, here)


@dataclass(frozen=True)
class Desk:
    """Writes one file of the save flow, and gives what the store knows of it then."""

    place: Path
    collector: Collector
    store: Path

    def __call__(self, name: str, content: str | bytes | dict[str, Any]) -> SaveFileRecord:
        path = put_save(self.place / name, content)
        self.collector.scan()
        return saves_of(self.store)[str(path)]


@pytest.fixture
def read(place: Path, collector: Collector, store: Path) -> Desk:
    return Desk(place, collector, store)


def test_every_generation_of_places_is_looked_at(
    claude: ClaudeFolder, here: Path, machine: SystemFolders, collector: Collector, store: Path
) -> None:
    result = {"saved_at": STAMP, "categories": ["decision"]}
    put(claude.root / "last-save-result.json", result | {"project": str(here)})
    for generation in (StagingLocation.PROJECT, *dict(machine.staging_roots)):
        put_save(staging(machine, generation, here) / "last-save-result.json", result)
    collector.scan()
    found = saves_of(store).values()

    assert {(fact.generation, fact.project) for fact in found} == {
        (StagingLocation.GLOBAL, None),
        (StagingLocation.PROJECT, str(here)),
        (StagingLocation.TMP, str(here)),
        (StagingLocation.TMP_OF_USER, str(here)),
        (StagingLocation.CACHE, str(here)),
    }
    assert {fact.content.at for fact in found if fact.content} == {STAMP_MS}
    named = [fact.content.project for fact in found if fact.content and fact.content.project]
    assert named == [str(here)]


def test_the_bases_of_this_machine(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": "/run/x", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    places = dict(find_system_folders(environ, tmp_path).staging_roots)

    assert (
        places[StagingLocation.TMP] == places[StagingLocation.TMP_OF_USER] == Path("/tmp").resolve()
    )
    assert places[StagingLocation.XDG_RUNTIME] == Path("/run/x")
    assert places[StagingLocation.CACHE] == tmp_path / "cache/claude-memory/staging"

    same = {"XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}", "XDG_CACHE_HOME": "relative"}
    places = dict(find_system_folders(same, tmp_path).staging_roots)
    assert StagingLocation.RUN_USER not in places
    assert places[StagingLocation.CACHE] == tmp_path / ".cache/claude-memory/staging"
    assert StagingLocation.XDG_RUNTIME not in dict(find_system_folders({}, tmp_path).staging_roots)


def test_a_result_of_the_newest_version(read: Desk) -> None:
    fact = read(
        "last-save-result.json",
        {
            "saved_at": STAMP,
            "session_id": "abc",
            "categories": ["decision", "runbook"],
            "titles": ["Use\x1b JWT", "Restart\nit"],
            "errors": [{"category": "constraint", "error": "WRITE_ERROR: x"}, "odd", {}],
            "phase_timing": {"triage_ms": 12.5, "draft_ms": None, "total_ms": 900},
            "new_field": [1],
        },
    )

    assert (fact.kind, fact.problem) == (SaveFileKind.RESULT, None)
    assert fact.content == SaveFileContent(
        at=STAMP_MS,
        session_id="abc",
        categories=("decision", "runbook"),
        titles=("Use JWT", "Restart it"),
        errors=(
            SaveError("constraint", "WRITE_ERROR: x"),
            SaveError("", "odd"),
            SaveError("", ""),
        ),
        phase_ms={"triage_ms": 12.5, "total_ms": 900.0},
    )


def test_triage_data(read: Desk) -> None:
    fact = read(
        "triage-data.json",
        {
            "categories": [
                {"category": "decision", "score": 0.72, "context_file": "/x/context-decision.txt"},
                {"category": "runbook", "score": "high", "description": "how to"},
                {"score": 1},
                "preference",
            ],
            "triage_start_ts": STAMP_S,
        },
    )

    assert fact.content == SaveFileContent(
        at=STAMP_MS,
        categories=("decision", "runbook", "preference"),
        triage=(
            TriageCategory("decision", 0.72),
            TriageCategory("runbook", None, "how to"),
        ),
    )


@pytest.mark.parametrize("categories", [[], ["all"], ["decision", "runbook"]])
def test_what_is_pending_is_kept_as_it_is_written(read: Desk, categories: list[str]) -> None:
    said = {
        "timestamp": STAMP,
        "categories": categories,
        "reason": "partial_failure",
        "succeeded_categories": ["constraint"],
        "errors": [],
    }
    assert read(".triage-pending.json", said).content == SaveFileContent(
        at=STAMP_MS,
        categories=tuple(categories),
        reason="partial_failure",
        succeeded=("constraint",),
        errors=(),
    )


def test_a_pending_file_without_categories_is_another_thing_than_none(read: Desk) -> None:
    assert read(".triage-pending.json", {"reason": "subagent_error"}).content == SaveFileContent(
        reason="subagent_error"
    )


@pytest.mark.parametrize("state", ["pending", "saving", "saved", "failed", "never seen"])
def test_the_sentinel_of_the_state_machine(read: Desk, state: str) -> None:
    said = {"session_id": "abc", "state": state, "timestamp": STAMP_S, "pid": 42}

    assert read(".triage-handled", said).content == SaveFileContent(
        at=STAMP_MS, session_id="abc", state=state, pid=42
    )


@pytest.mark.parametrize(
    ("plain", "at"), [(str(STAMP_S), STAMP_MS), (STAMP, STAMP_MS), ("", None), ("1\n", 1000)]
)
@pytest.mark.parametrize("name", [".triage-handled", ".stop_hook_lock"])
def test_the_plain_form_of_earlier_versions(
    read: Desk, name: str, plain: str, at: int | None
) -> None:
    fact = read(name, plain)

    assert (fact.content, fact.problem) == (SaveFileContent(at=at), None)


def test_the_lock_the_flag_and_the_counter(
    here: Path, place: Path, collector: Collector, store: Path
) -> None:
    put_save(place / ".stop_hook_lock", {"session_id": "abc", "pid": 42, "timestamp": STAMP_S})
    put_save(place / ".triage-fire-count", "3")
    put(here / ".claude/.stop_hook_active", str(STAMP_S))
    collector.scan()

    assert {fact.kind: fact.content for fact in saves_of(store).values()} == {
        SaveFileKind.LOCK: SaveFileContent(at=STAMP_MS, session_id="abc", pid=42),
        SaveFileKind.FIRE_COUNT: SaveFileContent(count=3),
        SaveFileKind.STOP_FLAG: SaveFileContent(at=STAMP_MS),
    }


def test_of_a_context_file_only_that_it_is_there(read: Desk, store: Path, place: Path) -> None:
    fact = read("context-decision.txt", "what was said in private")

    assert (fact.kind, fact.content, fact.mark.size) == (SaveFileKind.CONTEXT, None, 24)
    assert all(b"in private" not in each.read_bytes() for each in store.parent.iterdir())
    put(place / "intent-decision.json", "{}")
    assert len(saves_of(store)) == 1


TORN = [
    (b'{"saved_at": "2026', "is not JSON"),
    (b"", "is not JSON"),
    (b"[]", "is not a JSON object"),
    (b"\xff\xfe", "is not JSON"),
    (b"[" * 5000, "is nested too deeply"),
    (b"{" + b" " * 300_000 + b"}", "is larger than 256 KiB"),
]


@pytest.mark.parametrize(("data", "reason"), TORN)
@pytest.mark.parametrize("name", ["last-save-result.json", "triage-data.json"])
def test_a_torn_file_is_kept_as_that_until_it_is_whole(
    read: Desk, name: str, data: bytes, reason: str
) -> None:
    fact = read(name, data)
    assert fact.content is None
    assert reason in (fact.problem or "")

    assert read(name, {"categories": []}).problem is None


def test_a_counter_that_is_no_number(read: Desk) -> None:
    assert read(".triage-fire-count", '"x"').problem == "is not a number"


@pytest.mark.parametrize(
    "said",
    [
        {"saved_at": 3.5, "categories": "all", "titles": {}, "errors": 7, "phase_timing": []},
        {"saved_at": "yesterday", "categories": [None, 1, True, {"x": 1}], "session_id": []},
        {"saved_at": -1, "categories": [["nested"]], "phase_timing": {"a": "b"}},
    ],
)
def test_any_schema_is_taken(read: Desk, said: dict[str, Any]) -> None:
    assert read("last-save-result.json", said).problem is None


def test_what_is_gone_keeps_its_last_facts(
    place: Path, read: Desk, collector: Collector, store: Path
) -> None:
    read("last-save-result.json", {"titles": ["first"]})
    read("last-save-result.json", {"titles": ["second one"]})
    (place / "last-save-result.json").unlink()
    collector.scan()

    assert saves_of(store) == {}
    with closing(open_reader(store)) as db:
        past = [fact.content for fact in queries.earlier_save_files(db)]
    assert past == [SaveFileContent(titles=("first",)), SaveFileContent(titles=("second one",))]

    assert read("last-save-result.json", {"titles": ["the third"]}).content is not None


def test_only_the_newest_versions_are_kept(place: Path, read: Desk, store: Path) -> None:
    for number in range(MAX_VERSIONS + 5):
        path = put_save(place / ".triage-fire-count", str(number))
        os.utime(path, ns=(number, number))
        read("triage-data.json", {})
    with closing(open_reader(store)) as db:
        past = [
            fact for fact in queries.earlier_save_files(db) if fact.kind is SaveFileKind.FIRE_COUNT
        ]
    assert len(past) == MAX_VERSIONS - 1


def places_of(store: Path) -> dict[str, str | None]:
    with closing(open_reader(store)) as db:
        return {fact.path: fact.problem for fact in queries.staging_folders(db)}


def test_a_place_that_lets_others_in_is_refused_and_told(
    place: Path, read: Desk, collector: Collector, recorder: Recorder, store: Path
) -> None:
    path = put_save(place / "triage-data.json", {})
    place.chmod(0o755)
    collector.scan()
    assert saves_of(store) == {}
    assert places_of(store) == {str(place): "is accessible to other users (mode 0755)"}
    assert [trouble.where for trouble in recorder.troubles] == [str(place)]

    place.chmod(0o700)
    collector.scan()
    assert list(saves_of(store)) == [str(path)]
    assert places_of(store) == {str(place): None}
    assert recorder.ended == [str(place)]


def test_the_folder_in_a_project_has_the_projects_permissions(
    here: Path, machine: SystemFolders, collector: Collector, store: Path
) -> None:
    place = staging(machine, StagingLocation.PROJECT, here)
    put(place / "triage-data.json", {})
    place.chmod(0o755)
    collector.scan()

    assert len(saves_of(store)) == 1


def test_a_link_is_refused(
    place: Path, tmp_path: Path, collector: Collector, recorder: Recorder, store: Path
) -> None:
    put_save(tmp_path / "elsewhere/triage-data.json", {})
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "elsewhere")
    collector.scan()

    assert saves_of(store) == {}
    assert places_of(store) == {str(place): "is a link"}
    assert len(recorder.troubles) == 1

    place.unlink()
    collector.scan()
    assert places_of(store) == {}
    assert recorder.ended == [str(place)]


def test_what_belongs_to_another_is_refused(
    claude: ClaudeFolder,
    here: Path,
    machine: SystemFolders,
    writer: Writer,
    recorder: Recorder,
    store: Path,
    collector: Collector,
) -> None:
    place = staging(machine, StagingLocation.TMP, here)
    put_save(place / "triage-data.json", {})
    put(here / ".claude/.stop_hook_active", "1")
    collector.scan()
    other = SystemFolders(machine.managed_folder, machine.staging_roots, os.geteuid() + 1)
    tell = ProblemReporter(recorder.on_problem, recorder.on_resolved, recorder.on_notice)
    ClientConfigReader(claude, writer, tell, other).refresh(60)

    assert (
        places_of(store)[str(place)] == f"belongs to user {os.geteuid()}, not to {os.geteuid() + 1}"
    )
    assert str(place / "triage-data.json") not in saves_of(store)


def test_pipes_and_links_in_a_place_are_not_read(
    place: Path, tmp_path: Path, collector: Collector, store: Path
) -> None:
    put(tmp_path / "secret.json", {"titles": ["secret"]})
    place.mkdir(parents=True, mode=0o700)
    os.mkfifo(place / "triage-data.json")
    (place / "last-save-result.json").symlink_to(tmp_path / "secret.json")
    (place / ".triage-pending.json").mkdir()
    collector.scan()

    assert {fact.kind: fact.problem for fact in saves_of(store).values()} == {
        SaveFileKind.TRIAGE: "is not a regular file",
        SaveFileKind.RESULT: "is a link that leads out of its folder",
        SaveFileKind.PENDING: "is not a regular file",
    }


def test_nothing_of_it_is_changed(place: Path, read: Desk) -> None:
    read("last-save-result.json", {"titles": ["x"]})
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()}
    read("triage-data.json", "{")

    assert (
        before.items()
        <= {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()}.items()
    )


def test_two_names_of_one_project_have_one_staging_folder(
    claude: ClaudeFolder,
    here: Path,
    place: Path,
    read: Desk,
    tmp_path: Path,
    collector: Collector,
    store: Path,
) -> None:
    (tmp_path / "alias").symlink_to(here)
    project(claude, tmp_path / "alias", "t", at=2 * 10**18)
    fact = read("triage-data.json", {})
    version = store.stat().st_mtime_ns, store.stat().st_size
    for _ in range(3):
        collector.scan()

    assert fact.project in {str(here), str(tmp_path / "alias")}
    assert saves_of(store) == {fact.path: fact}
    assert (store.stat().st_mtime_ns, store.stat().st_size) == version
