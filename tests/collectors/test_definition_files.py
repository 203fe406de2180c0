"""Definitions of agents and skills: found in every scope, read, and followed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code.config import definition_files
from ctxtop.core.model.config_records import ConfigScope, DefinitionKind

from ..surroundings import agent, definitions_of, project, put
from .test_front_matter import BOMB

if TYPE_CHECKING:
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder

    from ..recorder import Recorder

AGENT, SKILL = DefinitionKind.AGENT, DefinitionKind.SKILL


def names(store: Path) -> set[tuple[str, str, str]]:
    """Every definition's kind, scope and name."""
    found = definitions_of(store).values()
    return {(fact.kind.value, fact.scope.value, fact.name) for fact in found}


def install(claude: ClaudeFolder, *places: Path, **fields: Any) -> None:  # noqa: ANN401
    """List plugins as the client does, each by the folder that its files are in."""
    entries = [{"scope": "user", "installPath": str(place)} | fields for place in places]
    listed = {f"kit{number}@market": [entry] for number, entry in enumerate(entries)}
    put(claude.root / "plugins" / "installed_plugins.json", {"version": 2, "plugins": listed})


def test_what_is_kept_of_an_agent(claude: ClaudeFolder, collector: Collector, store: Path) -> None:
    text = agent(
        "node-backend",
        body="You build.\nSmall changes.\n",
        model="haiku",
        skills="\n  - compress-output\n  - lint",
        tools="Read, Bash(git add, git commit)",
        color=r'"blue\e[2J"',
        background="true",
        autoCompactWindow="150_000",
    )
    path = put(claude.root / "agents" / "team" / "backend.md", text)
    collector.scan()
    (fact,) = definitions_of(store).values()

    assert (fact.path, fact.kind, fact.scope) == (str(path), AGENT, ConfigScope.USER)
    assert fact.name == "node-backend"
    assert fact.skills == ("compress-output", "lint")
    assert (fact.auto_compact_window, fact.problem) == (150_000, None)


def test_every_scope_is_found(
    claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path
) -> None:
    here = project(claude, tmp_path / "a")
    kit = claude.root / "plugins/cache/market/kit0/1.0.0"
    for place in (claude.root, here / ".claude", kit):
        put(place / "agents/reviewer.md", agent())
        put(place / "skills/lint/SKILL.md", "---\nname: other\n---\nlint\n")
        put(place / "skills/lint/agents/no.md", agent("no"))
        put(place / "skills/empty/readme.md", "no skill")
        put(place / "skills/SKILL.md", "no skill either")
        put(place / "agents/notes.txt", "no agent")
    install(claude, kit)
    collector.scan()

    assert names(store) == {
        (kind, scope, prefix + name)
        for scope, prefix in (("user", ""), ("project", ""), ("plugin", "kit0:"))
        for kind, name in (("agent", "reviewer"), ("skill", "lint"))
    }
    projects = {fact.project for fact in definitions_of(store).values()}
    assert projects == {None, str(here)}


def test_changes_are_followed(claude: ClaudeFolder, collector: Collector, store: Path) -> None:
    path = put(claude.root / "agents/a.md", agent("first"))
    collector.scan()
    put(path, agent("second"))
    put(claude.root / "agents/b.md", agent("third"))
    collector.scan()
    assert names(store) == {("agent", "user", "second"), ("agent", "user", "third")}

    path.unlink()
    collector.scan()
    assert names(store) == {("agent", "user", "third")}

    put(path, agent("first"))
    collector.scan()
    assert names(store) == {("agent", "user", "first"), ("agent", "user", "third")}

    shutil.rmtree(claude.root / "agents")
    collector.scan()
    assert names(store) == set()


def test_a_plugin_that_is_removed_takes_its_definitions_along(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    old, new = (claude.root / "plugins/cache/market/kit0" / version for version in ("1", "2"))
    put(old / "agents/a.md", agent("old"))
    put(new / "agents/a.md", agent("new"))
    install(claude, old)
    collector.scan()
    assert names(store) == {("agent", "plugin", "kit0:old")}

    install(claude, new)
    collector.scan()
    assert names(store) == {("agent", "plugin", "kit0:new")}


def test_a_plugin_among_the_skills_is_one_until_it_is_gone(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path
) -> None:
    kit = claude.root / "skills" / "kit"
    put(kit / "skills/polish/SKILL.md", "---\nname: polish\ndescription: d\n---\nPolish.\n")
    collector.scan()
    assert names(store) == set()

    put(kit / ".claude-plugin/plugin.json", {"name": "tool", "version": "1.2"})
    collector.scan()
    assert names(store) == {("skill", "plugin", "tool:polish")}

    put(kit / ".claude-plugin/plugin.json", "{")
    collector.scan()
    assert names(store) == {("skill", "plugin", "tool:polish")}
    assert [each.where for each in recorder.troubles] == [str(kit / ".claude-plugin/plugin.json")]

    shutil.rmtree(kit)
    collector.scan()
    assert names(store) == set()


def test_a_plugin_list_of_version_1_and_entries_that_are_none(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    kit = claude.root / "plugins/cache/kit"
    put(kit / "agents/a.md", agent("a"))
    listed = {
        "kit@m": {"version": "1", "installPath": str(kit)},
        "b@m": {"installPath": "relative"},
        "c@m": [{"installPath": 3}, None, "x"],
        "d@m": "x",
        "": [{"installPath": str(kit)}],
        "e@m": [{"installPath": str(kit / "gone")}],
    }
    put(claude.root / "plugins/installed_plugins.json", {"version": 1, "plugins": listed})
    collector.scan()

    assert names(store) == {("agent", "plugin", "kit:a")}


def test_a_plugin_list_that_is_being_written_changes_nothing(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path
) -> None:
    kit = claude.root / "plugins/cache/kit"
    put(kit / "agents/a.md", agent("a"))
    install(claude, kit)
    collector.scan()
    path = claude.root / "plugins/installed_plugins.json"
    whole = path.read_bytes()
    put(path, whole[:40])
    collector.scan()
    assert names(store) == {("agent", "plugin", "kit0:a")}
    assert [trouble.where for trouble in recorder.troubles] == [str(path)]

    put(path, whole)
    collector.scan()
    assert names(store) == {("agent", "plugin", "kit0:a")}
    assert recorder.ended == [str(path)]


@pytest.mark.parametrize("data", ["{", "[]", '{"plugins":[]}', ""])
def test_a_plugin_list_that_is_none(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path, data: str
) -> None:
    put(claude.root / "plugins/installed_plugins.json", data)
    put(claude.root / "agents/a.md", agent("a"))
    collector.scan()

    assert names(store) == {("agent", "user", "a")}
    assert len(recorder.troubles) == (data in {"{", ""})


def test_a_plugin_outside_of_the_folder_is_left_alone(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, store: Path, tmp_path: Path
) -> None:
    put(tmp_path / "outside/agents/a.md", agent("a"))
    (claude.root / "plugins").mkdir()
    (claude.root / "plugins/link").symlink_to(tmp_path / "outside")
    install(claude, tmp_path / "outside", claude.root / "plugins/link")
    collector.scan()

    assert names(store) == set()
    assert [trouble.where for trouble in recorder.troubles] == ["kit0@market", "kit1@market"]

    install(claude)
    collector.scan()
    assert recorder.ended == ["kit0@market", "kit1@market"]


BAD = [
    (b"no head at all", "has no front matter"),
    (f"---\n{BOMB}\n---\nx".encode(), "aliases"),
    (b"---\nname: a\n---\nx", "without `description`"),
    (b"---\ndescription: x\n---\nx", "without `name`"),
    (b"---\nname: 'x\n---\nx", "not YAML"),
    (b"---\nname: a\ndescription: \xff\n---\n", "is not UTF-8"),
    (b"x" * (definition_files.MAX_DEFINITION_BYTES + 1), "larger than 512 KiB"),
]


@pytest.mark.parametrize(("data", "reason"), BAD)
def test_an_agent_with_a_problem_is_known_by_its_name(
    claude: ClaudeFolder, collector: Collector, store: Path, data: bytes, reason: str
) -> None:
    put(claude.root / "agents/odd.md", data)
    collector.scan()
    (fact,) = definitions_of(store).values()

    assert fact.name in {"odd", "a"}
    assert fact.problem is not None
    assert reason in fact.problem
    assert "\n" not in fact.problem


def test_a_skill_needs_no_head(claude: ClaudeFolder, collector: Collector, store: Path) -> None:
    put(claude.root / "skills/plain/SKILL.md", "Just do it.\n")
    collector.scan()
    (fact,) = definitions_of(store).values()

    assert (fact.name, fact.problem) == ("plain", None)


def test_links_stay_inside_of_their_project(
    claude: ClaudeFolder, collector: Collector, store: Path, tmp_path: Path
) -> None:
    here = project(claude, tmp_path / "a")
    put(tmp_path / "outside/x.md", agent("outside"))
    put(tmp_path / "outside/lint/SKILL.md", "---\nname: x\n---\n")
    put(here / "shared/x.md", agent("inside"))
    agents, skills = here / ".claude/agents", here / ".claude/skills"
    for folder in (agents, skills):
        folder.mkdir(parents=True)
    (agents / "out.md").symlink_to(tmp_path / "outside/x.md")
    (agents / "in.md").symlink_to(here / "shared/x.md")
    (agents / "out").symlink_to(tmp_path / "outside")
    (agents / "loop").symlink_to(agents)
    (agents / "self.md").symlink_to(agents / "self.md")
    (agents / "nowhere.md").symlink_to(here / "nothing")
    (skills / "lint").symlink_to(tmp_path / "outside/lint")
    os.mkfifo(agents / "pipe.md")
    collector.scan()
    found = {Path(path).name: fact for path, fact in definitions_of(store).items()}

    assert {name: fact.problem for name, fact in found.items()} == {
        "out.md": "is a link that leads out of its folder",
        "in.md": None,
        "self.md": "is a link that leads out of its folder",
        "lint": "is a link that leads out of its folder",
        "pipe.md": "is not a regular file",
    }
    assert found["in.md"].name == "inside"
    assert {fact.name for fact in found.values()} == {"out", "inside", "self", "lint", "pipe"}


def test_a_folder_that_holds_too_many(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ctxtop.collectors.claude_code.config.config_reader.MAX_DEFINITIONS", 3)
    for number in range(5):
        put(claude.root / f"agents/{number}.md", agent(str(number)))
    put(claude.root / "agents/a/b/c/d/e/f/deep.md", agent("deep"))
    collector.scan()

    assert len(names(store)) == 3
    assert [trouble.what for trouble in recorder.troubles] == ["contains more than 3 definitions"]


@pytest.mark.parametrize("target", ["/", ".."])
def test_a_link_is_no_way_to_the_whole_disk(
    claude: ClaudeFolder,
    collector: Collector,
    recorder: Recorder,
    store: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
) -> None:
    """Out of the project it is not followed; inside of it, it is followed so far and no further."""
    monkeypatch.setattr(definition_files, "MAX_FOLDER_ENTRIES", 40)
    here = project(claude, tmp_path / "a")
    for number in range(60):
        put(here / f"src/{number}/x.txt", "x")
    put(claude.root / "agents/own.md", agent("own"))
    (here / ".claude").mkdir()
    (here / ".claude/agents").symlink_to(target)
    looked: list[str] = []
    scandir = os.scandir

    def counted(path: str) -> object:
        looked.append(str(path))
        return scandir(path)

    monkeypatch.setattr("ctxtop.collectors.claude_code.config.config_files.os.scandir", counted)
    collector.scan()
    assert names(store) == {("agent", "user", "own")}
    (trouble,) = recorder.troubles
    out = "is a link that leads out of its folder"
    assert (trouble.what == out) if target == "/" else ("contains more than" in trouble.what)
    assert len(looked) < 20
    assert not {each for each in looked if not each.startswith(str(tmp_path))}


def test_a_name_that_is_no_text(claude: ClaudeFolder, collector: Collector, store: Path) -> None:
    folder = claude.root / "agents"
    folder.mkdir()
    try:
        (Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md"))).write_text(agent())
    except OSError:
        pytest.skip("this disk takes only names that are text")
    collector.scan()
    (fact,) = definitions_of(store).values()

    assert (fact.name, fact.problem) == ("\ufffd", "has a name that is not UTF-8")


CORPUS = os.environ.get("CTXTOP_SHARED")


@pytest.mark.skipif(not CORPUS, reason="CTXTOP_SHARED does not name the shared folder")
def test_the_definitions_of_the_real_clients_folder(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    config = Path(CORPUS or "") / "corpus" / "current" / "config"
    for name in ("agents", "skills"):
        shutil.copytree(config / name, claude.root / name)
    collector.scan()
    found = {(fact.kind, fact.name): fact for fact in definitions_of(store).values()}

    assert {name for kind, name in found if kind is SKILL} == {"compress-output", "compress-review"}
    assert found[AGENT, "reviewer"].skills == ("compress-review",)
    assert all(fact.problem is None for fact in found.values())
