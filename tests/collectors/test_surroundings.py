"""The rounds: who is looked at when, what is refused, and that nothing is done twice."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors import store_update
from ctxtop.collectors.claude_code.config import config_files
from ctxtop.collectors.claude_code.config.config_reader import ClientConfigReader
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.store_update import scan_and_watch
from ctxtop.core.model.config_records import ConfigScope
from ctxtop.core.model.problem import ProblemReporter

from ..dump import dump
from ..surroundings import agent, definitions_of, project, put, put_save, saves_of, settings_of

if TYPE_CHECKING:
    from ctxtop.collectors.claude_code.config.save_files import SystemFolders
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.store.writer import Writer

    from ..recorder import Recorder


def furnish(folder: Path, word: str = "x") -> None:
    """Put one file of each kind below a .claude/."""
    put(folder / "settings.json", {"model": word})
    put(folder / "settings.local.json", {"model": word})
    put(folder / "agents/a.md", agent(word))
    put(folder / "skills/s/SKILL.md", "---\nname: s\n---\n")
    put_save(folder / "memory/.staging/triage-data.json", {"categories": []})
    put(folder / "memory/logs/save/d.jsonl", '{"event_type":"save.start"}\n')


def is_bare(store: Path) -> bool:
    """Whether the store has recorded no client settings, definitions or saves."""
    return not (settings_of(store) or definitions_of(store) or saves_of(store))


def test_a_second_look_reads_and_writes_nothing(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    writer: Writer,
    machine: SystemFolders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    furnish(project(claude, tmp_path / "a") / ".claude")
    furnish(claude.root)
    put(claude.root / "settings.local.json", "{")
    put(machine.managed_folder / "managed-settings.json", {"model": "m"})
    put(claude.root / "agents/bad.md", "no head")
    collector.scan()
    changes = writer.connection.total_changes

    def opened(path: Path) -> None:
        raise AssertionError(path)

    monkeypatch.setattr(config_files, "open_regular", opened)
    for _ in range(2):
        collector.scan()
        collector.read_config()
    Collector(claude, writer, recorder).scan()
    ClientConfigReader(
        claude,
        writer,
        ProblemReporter(recorder.on_problem, recorder.on_resolved, recorder.on_notice),
    ).refresh(60)

    assert writer.connection.total_changes == changes
    assert recorder.troubles == []


def test_every_project_has_its_turn_and_the_newest_has_every_one(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    writer: Writer,
    store: Path,
    tmp_path: Path,
) -> None:
    folders = [
        project(claude, tmp_path / f"p{number}", f"s{number}", at=(number + 1) * 10**18)
        for number in range(5)
    ]
    collector.scan()
    for folder in folders:
        put(folder / ".claude/settings.json", {"model": "first"})
    look = ClientConfigReader(
        claude,
        writer,
        ProblemReporter(recorder.on_problem, recorder.on_resolved, recorder.on_notice),
    ).refresh
    for number in range(1, 6):
        look(0)
        assert len(settings_of(store)) == number

    newest = folders[-1] / ".claude/settings.json"
    for word in ("a", "bb", "ccc"):
        put(newest, {"model": word})
        look(0)
        assert settings_of(store)[str(newest)].values == {"model": word}


def test_changes_are_followed_between_two_scans(
    claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path
) -> None:
    here = project(claude, tmp_path / "a")
    collector.scan()
    furnish(here / ".claude")
    collector.read_config()
    assert len(settings_of(store)) == 2
    assert len(definitions_of(store)) == 2
    assert len(saves_of(store)) == 1

    shutil.rmtree(here)
    collector.read_config()
    assert is_bare(store)


def test_a_claude_folder_that_leads_out_of_its_project_is_refused(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path, tmp_path: Path
) -> None:
    here = project(claude, tmp_path / "a")
    furnish(tmp_path / "elsewhere")
    (here / ".claude").symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        collector.scan()
    assert is_bare(store)
    (trouble,) = recorder.troubles
    assert (trouble.where, trouble.what) == (
        str(here / ".claude"),
        "is a link that leads out of its folder",
    )

    (here / ".claude").unlink()
    furnish(here / "inside")
    (here / ".claude").symlink_to("inside")
    collector.scan()
    assert set(settings_of(store)) == {
        str(here / ".claude" / name) for name in ("settings.json", "settings.local.json")
    }
    assert recorder.ended == [trouble.where]


@pytest.mark.parametrize("name", ["agents", "skills", "memory", "settings.json"])
def test_a_part_of_it_that_leads_out_is_refused(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    tmp_path: Path,
    name: str,
) -> None:
    here = project(claude, tmp_path / "a")
    furnish(tmp_path / "elsewhere", "outside")
    furnish(here / ".claude", "inside")
    path = here / ".claude" / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    path.symlink_to(tmp_path / "elsewhere" / name)
    collector.scan()

    assert b"outside" not in b"".join(each.read_bytes() for each in store.parent.iterdir())
    assert all("elsewhere" not in path for path in (*settings_of(store), *definitions_of(store)))
    if name != "memory":
        assert [trouble.where for trouble in recorder.troubles] == [str(path)]


@pytest.mark.parametrize("kind", ["file", "fifo", "loop"])
def test_a_claude_folder_that_is_none(
    claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path, kind: str
) -> None:
    path = project(claude, tmp_path / "a") / ".claude"
    if kind == "file":
        path.write_text("x")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    collector.scan()

    assert is_bare(store)


def test_a_session_in_the_home_folder_does_not_make_the_users_files_a_projects(
    claude: ClaudeFolder, tmp_path: Path, writer: Writer, recorder: Recorder, store: Path
) -> None:
    home = project(claude, tmp_path / "home")
    shutil.move(claude.root, home / ".claude")
    folder = type(claude)((home / ".claude").resolve())
    furnish(folder.root)
    put(folder.root / ".stop_hook_active", "1")
    put(folder.root / "last-save-result.json", {})
    collector = Collector(folder, writer, recorder)
    for _ in range(3):
        collector.scan()
    found = settings_of(store)

    assert {Path(path).name: fact.scope for path, fact in found.items()} == {
        "settings.json": ConfigScope.USER,
        "settings.local.json": ConfigScope.LOCAL,
    }
    assert {fact.scope for fact in definitions_of(store).values()} == {ConfigScope.USER}
    assert len(saves_of(store)) == 3


def test_what_cannot_be_looked_at_is_told_and_stays(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = project(claude, tmp_path / "a")
    furnish(here / ".claude")
    collector.scan()
    before = dump(store)
    real = config_files.find_child

    def shut(
        parent: config_files.ConfigPath, name: str, root: Path
    ) -> config_files.ConfigPath | None:
        if name == ".claude":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(parent, name, root)

    with monkeypatch.context() as closed:
        closed.setattr("ctxtop.collectors.claude_code.config.config_reader.find_child", shut)
        collector.scan()
        assert [trouble.where for trouble in recorder.troubles] == [str(here)]
        assert dump(store) | {"trouble": []} == before
    collector.scan()

    assert recorder.ended == [str(here)]
    assert dump(store) == before


def test_a_projects_long_name_is_kept_whole(
    claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path
) -> None:
    deep = tmp_path
    while len(str(deep)) < 210:
        deep /= "two  spaces " + "d" * 40
    furnish(project(claude, deep, "long") / ".claude")
    furnish(Path(str(deep)[:200]) / ".claude")
    collector.scan()

    assert {fact.project for fact in settings_of(store).values()} == {str(deep)}


def test_folders_that_are_no_places(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path
) -> None:
    for number, cwd in enumerate(("relative/x", "", "/nowhere/at/all", "/dev/null", "/\x00")):
        put(
            claude.projects / f"-p{number}" / "s.jsonl",
            f'{{"type":"user","cwd":"{cwd}","message":{{"content":"x"}}}}\n'.replace(
                "\0", "\\u0000"
            ),
        )
    collector.scan()

    assert settings_of(store) == {}
    assert recorder.troubles == []


def test_two_ctxtops_on_one_store(
    claude: ClaudeFolder,
    collector: Collector,
    writer: Writer,
    recorder: Recorder,
    store: Path,
    tmp_path: Path,
) -> None:
    other = Collector(claude, writer, recorder)
    here = project(claude, tmp_path / "a")
    furnish(here / ".claude")
    for each in (collector, other, collector):
        each.scan()
    log = here / ".claude/memory/logs/save/d.jsonl"
    with log.open("a") as file:
        file.write('{"event_type":"save.complete"}\n')
    for each in (other, collector, other):
        each.scan()

    assert [row[2:4] for row in dump(store)["save_event"]] == [
        (None, "save.start"),
        (None, "save.complete"),
    ]
    assert recorder.troubles == []


def test_the_watcher_keeps_up_with_them(
    claude: ClaudeFolder,
    writer: Writer,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_update, "SIDECARS_S", 0.0)
    stop, seen = Event(), list[bool]()

    def told(self: Collector, *budget_s: float) -> None:
        looked(self, *budget_s)
        seen.append(bool(settings_of(store)))
        put(claude.root / "settings.json", {"model": "opus"})
        if seen[-1]:
            stop.set()

    looked = Collector.read_config
    monkeypatch.setattr(Collector, "read_config", told)
    monkeypatch.setattr(store_update, "RECONCILE_S", 3600.0)
    scan_and_watch(claude, writer, recorder, stop)

    assert seen == [False, True]
