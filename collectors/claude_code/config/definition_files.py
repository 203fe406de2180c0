"""Definitions of agents and skills: front matter, size, and the plugins they come from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from ....core.measure.effective_config import resolve_definitions
from ....core.measure.tokens import estimate_tokens
from ....core.store.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    PluginRecord,
)
from ....core.transcript.sanitize import sanitize_title
from .config_files import (
    MAX_FOLDER_ENTRIES,
    ConfigPath,
    FileTooLargeError,
    InvalidJsonError,
    as_list,
    as_object,
    as_title,
    decode_json,
    find_child,
    list_children,
    read_config_file,
    read_problem,
    resolve_folder,
)

MAX_FRONT_MATTER_CHARS: Final = 64 * 1024
"""Characters of a head; descriptions with examples make about 5,000."""

MAX_YAML_DEPTH: Final = 10  # levels of its lists and objects; hooks in a head make six
_FRONT_MATTER: Final = re.compile(
    r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_UNQUOTED_FIELD: Final = re.compile(r"^([A-Za-z_-]+):[ \t]+([^\s\"'|>\[{].*?)[ \t]*$", re.MULTILINE)
"""A field of the first level whose value stands in its line, unquoted."""

_LIST_COMMA: Final = re.compile(r",(?![^()]*\))")
"""One that parts a list: `Bash(git add, git commit), Read` has one."""

FrontMatterValue = str | list[Any] | dict[str, Any]


class FrontMatter(msgspec.Struct, frozen=True):
    """The fields of a head, every scalar as its text, and what follows it."""

    body: str
    fields: dict[str, FrontMatterValue] = {}
    problem: str | None = None

    def text(self, name: str) -> str | None:
        """Return a field that is a single, non-empty text; None for any other."""
        value = self.fields.get(name)
        return value if isinstance(value, str) and value else None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return a field that is a list or comma-separated text; None if it is missing."""
        value = self.fields.get(name)
        if isinstance(value, str):
            return tuple(part.strip() for part in _LIST_COMMA.split(value) if part.strip())
        if isinstance(value, list):
            return tuple(each.strip() for each in value if isinstance(each, str) and each.strip())
        return None

    def flag(self, name: str) -> bool | None:
        """Return a field that is true or false, in any case; None for any other."""
        return {"true": True, "false": False}.get((self.text(name) or "").lower())


def split_front_matter(text: str) -> FrontMatter:
    """Part a file into its head and its body."""
    text = text.removeprefix("\ufeff")
    match = _FRONT_MATTER.match(text)
    if match is None:
        return FrontMatter(text, problem="has no front matter")
    head, body = match[1], text[match.end() :]
    if len(head) > MAX_FRONT_MATTER_CHARS:
        return FrontMatter(
            body, problem=f"has front matter over {MAX_FRONT_MATTER_CHARS >> 10} KiB"
        )
    try:
        return FrontMatter(body, _load_lenient(head))
    except _FrontMatterError as error:
        return FrontMatter(body, problem=str(error))


class _FrontMatterError(Exception):
    """A head that is not read; the message says why."""


class _YamlSyntaxError(_FrontMatterError):
    """A head that is not YAML, and may be when a value is quoted."""


def _load_lenient(head: str) -> dict[str, FrontMatterValue]:
    try:
        return _load_yaml(head)
    except _YamlSyntaxError:
        # A colon in an unquoted description: the client puts quotes around it, too.
        mended = _UNQUOTED_FIELD.sub(lambda found: f"{found[1]}: {_quoted(found[2])}", head)
        if mended == head:
            raise
        return _load_yaml(mended)


def _load_yaml(head: str) -> dict[str, FrontMatterValue]:
    import yaml  # takes 20 ms, and most looks find nothing that changed

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        _check_yaml_events(yaml, head, loader)
        # No constructor runs: this loader knows texts, lists and mappings alone.
        said = yaml.load(head, Loader=loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise _YamlSyntaxError(
            f"has front matter that is not YAML{line}: {error.problem}"
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise _YamlSyntaxError("has front matter that is not YAML") from error
    if not isinstance(said, dict):
        if not said:
            return {}
        raise _FrontMatterError("has front matter that is not a mapping")
    return {key: value for key, value in said.items() if isinstance(key, str)}


def _check_yaml_events(yaml: Any, head: str, loader: Any) -> None:  # noqa: ANN401 -- a module, imported late
    """Refuse what grows when it is composed: aliases, and deep nesting."""
    depth = 0
    for event in yaml.parse(head, Loader=loader):
        if isinstance(event, yaml.AliasEvent):
            raise _FrontMatterError("has front matter with YAML aliases, which are not followed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_YAML_DEPTH:
                raise _FrontMatterError("has front matter that is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


MAX_DEFINITION_BYTES: Final = 512 * 1024
"""Bytes; a skill of more would fill a quarter of a window by itself."""

MAX_DEFINITIONS: Final = 1000
"""Definitions of one folder; the largest public collections have about 600."""

MAX_AGENT_FOLDER_DEPTH: Final = 5
"""Levels of folders below agents/; the client nests them by subject."""

SKILL_FILE: Final = "SKILL.md"
_AGENT_SUFFIX: Final = ".md"
_MAX_NUMBER_DIGITS: Final = 12  # digits of a number of tokens; a longer one is none


class DefinitionFolder(msgspec.Struct, frozen=True):
    """A folder of definitions, and whose they are."""

    folder: Path
    kind: DefinitionKind
    scope: ConfigScope
    project: str | None = None
    plugin_id: str | None = None


def find_definitions(kind: DefinitionKind, top: ConfigPath, root: Path) -> Iterator[ConfigPath]:
    """List the definitions in a folder; raises OSError where it cannot be looked into."""
    if kind is DefinitionKind.AGENT:
        return _AgentSearch(root, {_identity(top)}).below(top, MAX_AGENT_FOLDER_DEPTH)
    return _find_skills(top, root)


def read_definition(found: ConfigPath, home: DefinitionFolder) -> DefinitionRecord:
    """Read one definition; one with a problem is still known by its name.

    Raises OSError where it cannot be read now.
    """
    fact = DefinitionRecord(
        path=str(found.path),
        folder=str(home.folder),
        kind=home.kind,
        scope=home.scope,
        project=home.project,
        plugin_id=home.plugin_id,
        mark=found.mark,
        name=_with_plugin_prefix(_name_of_path(found, home), home),
        problem=read_problem(found),
    )
    if fact.problem:
        return fact
    try:
        data = read_config_file(found, MAX_DEFINITION_BYTES)
    except FileTooLargeError as error:
        return msgspec.structs.replace(fact, problem=error.strerror)
    head = split_front_matter(data.decode("utf-8", "replace"))
    return msgspec.structs.replace(
        fact,
        name=_with_plugin_prefix(_definition_name(found, head, home), home),
        description=sanitize_title(head.text("description") or ""),
        model=_title_field(head, "model"),
        skills=_titles_field(head, "skills") or (),
        tools=_titles_field(
            head, "allowed-tools" if home.kind is DefinitionKind.SKILL else "tools"
        ),
        color=_title_field(head, "color"),
        background=head.flag("background"),
        auto_compact_window=_number_field(head, "autoCompactWindow"),
        body_bytes=len(head.body.encode()),
        body_estimated_tokens=estimate_tokens(head.body),
        sha256=hashlib.sha256(data).hexdigest(),
        problem=_definition_problem(data, head, home.kind),
    )


class _AgentSearch:
    """One search; what it may still look at is for the whole tree."""

    def __init__(self, root: Path, entered: set[tuple[int, int]]) -> None:
        self._root: Final = root
        self._entered: Final = entered
        self._left = MAX_FOLDER_ENTRIES

    def below(self, folder: ConfigPath, levels: int) -> Iterator[ConfigPath]:
        found = list_children(folder, self._root, self._left)
        self._left -= len(found)
        for each in found:
            if each.is_folder:
                # A link may lead to a folder that holds it.
                if levels > 1 and _identity(each) not in self._entered:
                    self._entered.add(_identity(each))
                    yield from self.below(each, levels - 1)
            elif each.path.suffix == _AGENT_SUFFIX:
                yield each


def _find_skills(folder: ConfigPath, root: Path) -> Iterator[ConfigPath]:
    for found in list_children(folder, root):
        if found.problem:
            # It cannot be seen whether it is a skill's folder.
            yield found
        elif found.is_folder and (skill := find_child(found, SKILL_FILE, root)):
            yield skill


def _identity(found: ConfigPath) -> tuple[int, int]:
    return found.status.st_dev, found.status.st_ino


def _name_of_path(found: ConfigPath, home: DefinitionFolder) -> str:
    """Name a definition by its path: a skill's folder is its name (claude-code-formats 6.3)."""
    if home.kind is DefinitionKind.AGENT:
        return found.path.stem
    return (found.path.parent if found.path.name == SKILL_FILE else found.path).name


def _definition_name(found: ConfigPath, head: FrontMatter, home: DefinitionFolder) -> str:
    said = head.text("name") if home.kind is DefinitionKind.AGENT else None
    return said or _name_of_path(found, home)


def _with_plugin_prefix(name: str, home: DefinitionFolder) -> str:
    name = sanitize_title(name)
    return f"{home.plugin_id.partition('@')[0]}:{name}" if home.plugin_id else name


def _definition_problem(data: bytes, head: FrontMatter, kind: DefinitionKind) -> str | None:
    if head.problem:
        # A skill may do without; the client takes no agent whose head says nothing.
        plain = kind is DefinitionKind.SKILL and not data.startswith((b"---", b"\xef\xbb\xbf---"))
        return None if plain else sanitize_title(head.problem)
    if kind is DefinitionKind.AGENT:
        for field in ("name", "description"):
            if not head.text(field):
                return f"has front matter without `{field}`"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "is not UTF-8"
    return None


def _title_field(head: FrontMatter, name: str) -> str | None:
    value = head.text(name)
    return sanitize_title(value) if value else None


def _titles_field(head: FrontMatter, name: str) -> tuple[str, ...] | None:
    values = head.texts(name)
    return (
        None
        if values is None
        else tuple(sanitize_title(value) for value in values[:MAX_DEFINITIONS])
    )


def _number_field(head: FrontMatter, name: str) -> int | None:
    value = (head.text(name) or "").replace("_", "")
    return int(value) if value.isdecimal() and len(value) <= _MAX_NUMBER_DIGITS else None


MAX_PLUGIN_LIST_BYTES: Final = 1024 * 1024  # bytes; an entry has about 400
MAX_INSTALLED_PLUGINS: Final = 500  # installations; a person has about 20
PLUGIN_LIST_FILES: Final = ("installed_plugins.json", "installed_plugins_v2.json")
"""Below plugins/; the client wrote the second one beside a first of version 1 for a while."""


def read_plugin_list(found: ConfigPath) -> list[PluginRecord]:
    """Read a list of installed plugins, of version 1 or 2.

    Raises InvalidJsonError where it is no such list, OSError where it cannot be read.
    """
    said = as_object(
        as_object(decode_json(read_config_file(found, MAX_PLUGIN_LIST_BYTES))).get("plugins")
    )
    installed: dict[tuple[str, str, str], PluginRecord] = {}
    for plugin_id, entries in said.items():
        # Version 1 has one entry a plugin, version 2 a list: one for each scope and project.
        for entry in as_list(entries) or [entries]:
            fact = _to_plugin_fact(plugin_id, as_object(entry))
            if fact:
                installed.setdefault((fact.plugin_id, fact.scope, fact.project), fact)
    return list(installed.values())[:MAX_INSTALLED_PLUGINS]


def _to_plugin_fact(plugin_id: str, entry: dict[str, Any]) -> PluginRecord | None:
    place, name = entry.get("installPath"), as_title(plugin_id)
    if not name or not isinstance(place, str) or not Path(place).is_absolute() or "\0" in place:
        return None
    project = entry.get("projectPath")
    return PluginRecord(
        plugin_id=name,
        scope=as_title(entry.get("scope")) or "user",
        project=project if isinstance(project, str) else "",
        install_path=place,
        version=as_title(entry.get("version")),
    )


SKILLS_MARKETPLACE: Final = "skills-dir"
"""What the client calls the place that they come from (seen in 2.1.329)."""

MANIFEST_FOLDER: Final = ".claude-plugin"
MANIFEST_FILE: Final = "plugin.json"

MAX_MANIFEST_BYTES: Final = 64 * 1024  # bytes of a manifest; it has about 400


class SkillPlugin(msgspec.Struct, frozen=True):
    """A folder of a plugin, and its manifest."""

    folder: ConfigPath
    manifest: ConfigPath


def find_skill_plugins(skills: ConfigPath, root: Path) -> list[SkillPlugin]:
    """Look for plugins among the skills; raises OSError where that is not possible."""
    found = []
    for folder in list_children(skills, root):
        inner = find_child(folder, MANIFEST_FOLDER, root)
        manifest = find_child(inner, MANIFEST_FILE, root) if inner else None
        if manifest and not manifest.problem:
            found.append(SkillPlugin(folder, manifest))
    return found


def read_skill_plugin(found: SkillPlugin) -> PluginRecord:
    """Read a manifest. Raises InvalidJsonError where it is none, OSError if it is unreadable."""
    said = as_object(decode_json(read_config_file(found.manifest, MAX_MANIFEST_BYTES)))
    return PluginRecord(
        plugin_id=f"{as_title(said.get('name')) or found.folder.path.name}@{SKILLS_MARKETPLACE}",
        scope="user",
        project="",
        install_path=str(found.folder.path),
        version=as_title(said.get("version")),
    )


AGENTS_FOLDER = "agents"


def declared_skills(agent_type: str, project: Path, config: Path) -> tuple[str, ...] | None:
    """Name the skills of an agent's definition: the project's, the user's, then the plugins'.

    None where nobody defines it, or its definition cannot be used. Raises OSError where a
    folder cannot be looked into.
    """
    user = resolve_folder(config)
    facts = list(_project_agents(project, user))
    if user:
        facts += _agents_in(
            user,
            DefinitionFolder(config / AGENTS_FOLDER, DefinitionKind.AGENT, ConfigScope.USER),
            user.real,
        )
        if ":" in agent_type:
            facts += _plugin_agents(agent_type.partition(":")[0], user)
    plugins = frozenset(each.plugin_id for each in facts if each.plugin_id)
    found = resolve_definitions(facts, str(project), plugins)
    fact = found.get((DefinitionKind.AGENT, agent_type))
    return None if fact is None or fact.problem else fact.skills


def _project_agents(project: Path, user: ConfigPath | None) -> Iterator[DefinitionRecord]:
    folder = resolve_folder(project)
    claude = find_child(folder, ".claude", folder.real) if folder else None
    if folder and claude and not (user and claude.real == user.real):
        place = project / ".claude" / AGENTS_FOLDER
        home = DefinitionFolder(place, DefinitionKind.AGENT, ConfigScope.PROJECT, str(project))
        yield from _agents_in(claude, home, folder.real)


def _plugin_agents(name: str, user: ConfigPath) -> Iterator[DefinitionRecord]:
    folder = find_child(user, "plugins", user.real)
    for listed in PLUGIN_LIST_FILES:
        found = find_child(folder, listed, user.real) if folder else None
        try:
            plugins = read_plugin_list(found) if found else []
        except InvalidJsonError:
            continue
        for plugin in plugins:
            place = resolve_folder(Path(plugin.install_path))
            if place is None or plugin.plugin_id.partition("@")[0] != name:
                continue
            if place.real.is_relative_to(user.real):
                home = DefinitionFolder(
                    Path(plugin.install_path, AGENTS_FOLDER),
                    DefinitionKind.AGENT,
                    ConfigScope.PLUGIN,
                    None,
                    plugin.plugin_id,
                )
                yield from _agents_in(place, home, place.real)


def _agents_in(parent: ConfigPath, home: DefinitionFolder, root: Path) -> list[DefinitionRecord]:
    folder = find_child(parent, AGENTS_FOLDER, root)
    if folder is None:
        return []
    found = find_definitions(DefinitionKind.AGENT, folder, root)
    return [read_definition(each, home) for each in islice(found, MAX_DEFINITIONS)]
