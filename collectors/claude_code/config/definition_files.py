"""Definitions of agents and skills: front matter, size, and the plugins they come from."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from ....core.lazy_pattern import lazy_pattern
from ....core.measure.effective_config import resolve_definitions
from ....core.model.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    PluginRecord,
)
from ....core.transcript.sanitize import sanitize_title
from .config_files import (
    MAX_FOLDER_ENTRIES,
    ConfigPath,
    InvalidJsonError,
    add_content,
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

MAX_FRONT_MATTER_CHARS: Final = 64 * 1024  # descriptions with examples make about 5,000
MAX_YAML_DEPTH: Final = 10  # levels of its lists and objects; hooks make six
_FRONT_MATTER: Final = lazy_pattern(
    r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_UNQUOTED_FIELD: Final = lazy_pattern(
    r"^([A-Za-z_-]+):[ \t]+([^\s\"'|>\[{].*?)[ \t]*$", re.MULTILINE
)
"""A top-level field with an unquoted value on the same line."""

_LIST_COMMA: Final = lazy_pattern(r",(?![^()]*\))")
"""A comma that separates items: `Bash(git add, git commit), Read` has one."""

FrontMatterValue = str | list[Any] | dict[str, Any]


class FrontMatter(msgspec.Struct, frozen=True):
    """A file's front matter, every scalar as text, and the body after it."""

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
            return tuple(part.strip() for part in value if isinstance(part, str) and part.strip())
        return None


def split_front_matter(text: str) -> FrontMatter:
    text = text.removeprefix("\ufeff")
    match = _FRONT_MATTER.match(text)
    if match is None:
        return FrontMatter(text, problem="has no front matter")
    head, body = match[1], text[match.end() :]
    if len(head) > MAX_FRONT_MATTER_CHARS:
        problem = f"has front matter larger than {MAX_FRONT_MATTER_CHARS >> 10} KiB"
        return FrontMatter(body, problem=problem)
    try:
        return FrontMatter(body, _load_lenient(head))
    except _FrontMatterError as error:
        return FrontMatter(body, problem=str(error))


class _FrontMatterError(Exception): ...


class _YamlSyntaxError(_FrontMatterError):
    """Front matter that is not YAML, but may be once a value is quoted."""


def _load_lenient(head: str) -> dict[str, FrontMatterValue]:
    try:
        return _load_yaml(head)
    except _YamlSyntaxError:
        # A colon in an unquoted description: the client quotes it, too.
        repaired = _UNQUOTED_FIELD.sub(lambda field: f"{field[1]}: {_quoted(field[2])}", head)
        if repaired == head:
            raise
        return _load_yaml(repaired)


def _load_yaml(head: str) -> dict[str, FrontMatterValue]:
    import yaml  # takes 20 ms, and most refreshes find no change

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        _check_yaml_events(yaml, head, loader)
        # No constructor runs: this loader only knows texts, lists and mappings.
        fields = yaml.load(head, Loader=loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        line = f" on line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise _YamlSyntaxError(
            f"has front matter that is not YAML{line}: {error.problem}"
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise _YamlSyntaxError("has front matter that is not YAML") from error
    if fields and not isinstance(fields, dict):
        raise _FrontMatterError("has front matter that is not a mapping")
    return {key: value for key, value in (fields or {}).items() if isinstance(key, str)}


def _check_yaml_events(yaml: Any, head: str, loader: Any) -> None:  # noqa: ANN401 -- a module, imported late
    """Refuse what grows when it is loaded: aliases, and deep nesting."""
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


MAX_DEFINITION_BYTES: Final = 512 * 1024  # a larger skill would fill a quarter of a window
MAX_DEFINITIONS: Final = 1000  # in a folder; the largest public collections have about 600
MAX_AGENT_FOLDER_DEPTH: Final = 5  # levels below agents/; the client nests by subject
SKILL_FILE: Final = "SKILL.md"


class DefinitionFolder(msgspec.Struct, frozen=True):
    folder: Path
    kind: DefinitionKind
    scope: ConfigScope
    project: str | None = None
    plugin_id: str | None = None


def find_definitions(kind: DefinitionKind, top: ConfigPath, root: Path) -> Iterator[ConfigPath]:
    if kind is DefinitionKind.AGENT:
        return _AgentSearch(root, {_identity(top)}).below(top, MAX_AGENT_FOLDER_DEPTH)
    return _find_skills(top, root)


def read_definition(found: ConfigPath, home: DefinitionFolder) -> DefinitionRecord:
    """Read a definition; with a problem it keeps the name of its path. Raises OSError."""
    record = DefinitionRecord(
        path=str(found.path),
        folder=str(home.folder),
        kind=home.kind,
        scope=home.scope,
        project=home.project,
        plugin_id=home.plugin_id,
        mark=found.mark,
        name=_with_plugin_prefix(_name_of_path(found, home.kind), home),
        problem=read_problem(found),
    )
    return add_content(
        record, found, MAX_DEFINITION_BYTES, lambda data: _read_fields(data, found, home)
    )


def _read_fields(data: bytes, found: ConfigPath, home: DefinitionFolder) -> dict[str, Any]:
    head = split_front_matter(data.decode("utf-8", "replace"))
    is_agent = home.kind is DefinitionKind.AGENT
    name = (head.text("name") if is_agent else None) or _name_of_path(found, home.kind)
    model = head.text("model") if is_agent else None
    digits = (head.text("autoCompactWindow") or "").replace("_", "")
    return {
        "name": _with_plugin_prefix(name, home),
        "skills": _titles_field(head, "skills") or (),
        "auto_compact_window": int(digits) if digits.isdecimal() and len(digits) <= 12 else None,
        "model": sanitize_title(model) if model else None,
        "problem": _definition_problem(data, head, home.kind),
    }


class _AgentSearch:
    def __init__(self, root: Path, entered: set[tuple[int, int]]) -> None:
        self._root: Final = root
        self._entered: Final = entered
        self._left = MAX_FOLDER_ENTRIES

    def below(self, folder: ConfigPath, levels: int) -> Iterator[ConfigPath]:
        found = list_children(folder, self._root, self._left)
        self._left -= len(found)
        for child in found:
            if child.is_folder:
                # A link may lead to a folder that contains it.
                if levels > 1 and _identity(child) not in self._entered:
                    self._entered.add(_identity(child))
                    yield from self.below(child, levels - 1)
            elif child.path.suffix == ".md":
                yield child


def _find_skills(folder: ConfigPath, root: Path) -> Iterator[ConfigPath]:
    for found in list_children(folder, root):
        if found.problem:
            # It may be a skill's folder.
            yield found
        elif found.is_folder and (skill := find_child(found, SKILL_FILE, root)):
            yield skill


def _identity(found: ConfigPath) -> tuple[int, int]:
    return found.status.st_dev, found.status.st_ino


def _name_of_path(found: ConfigPath, kind: DefinitionKind) -> str:
    """Return a definition's name by its path (claude-code-formats 6.3)."""
    if kind is DefinitionKind.AGENT:
        return found.path.stem
    return (found.path.parent if found.path.name == SKILL_FILE else found.path).name


def _with_plugin_prefix(name: str, home: DefinitionFolder) -> str:
    name = sanitize_title(name)
    return f"{home.plugin_id.partition('@')[0]}:{name}" if home.plugin_id else name


def _definition_problem(data: bytes, head: FrontMatter, kind: DefinitionKind) -> str | None:
    if head.problem:
        # A skill needs no front matter; the client ignores an agent without it.
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


def _titles_field(head: FrontMatter, name: str) -> tuple[str, ...] | None:
    values = head.texts(name)
    return None if values is None else tuple(map(sanitize_title, values[:MAX_DEFINITIONS]))


MAX_PLUGIN_LIST_BYTES: Final = 1024 * 1024  # bytes; an entry has about 400
MAX_INSTALLED_PLUGINS: Final = 500  # installations; a person has about 20
PLUGIN_LIST_FILES: Final = ("installed_plugins.json", "installed_plugins_v2.json")
"""Below plugins/; the client wrote the second one beside a first of version 1 for a while."""


def read_plugin_list(found: ConfigPath) -> list[PluginRecord]:
    """Read a list of plugins, of version 1 or 2; raises InvalidJsonError or OSError."""
    content = as_object(decode_json(read_config_file(found, MAX_PLUGIN_LIST_BYTES)))
    installed: dict[tuple[str, str, str], PluginRecord] = {}
    for plugin_id, entries in as_object(content.get("plugins")).items():
        # Version 1 has one entry a plugin, version 2 a list: one for each scope and project.
        for entry in as_list(entries) or [entries]:
            plugin = _to_plugin(plugin_id, as_object(entry))
            if plugin:
                installed.setdefault((plugin.plugin_id, plugin.scope, plugin.project), plugin)
    return list(installed.values())[:MAX_INSTALLED_PLUGINS]


def _to_plugin(plugin_id: str, entry: dict[str, Any]) -> PluginRecord | None:
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
"""The client's name for the source of plugins among the skills (seen in 2.1.329)."""

MAX_MANIFEST_BYTES: Final = 64 * 1024  # bytes of a manifest; it has about 400


def find_skill_plugins(skills: ConfigPath | None, root: Path) -> list[ConfigPath]:
    manifests = []
    for folder in list_children(skills, root):
        manifest = find_child(find_child(folder, ".claude-plugin", root), "plugin.json", root)
        if manifest and not manifest.problem:
            manifests.append(manifest)
    return manifests


def read_skill_plugin(manifest: ConfigPath) -> list[PluginRecord]:
    content = as_object(decode_json(read_config_file(manifest, MAX_MANIFEST_BYTES)))
    folder = manifest.path.parent.parent
    name = as_title(content.get("name")) or folder.name
    plugin_id, version = f"{name}@{SKILLS_MARKETPLACE}", as_title(content.get("version"))
    return [PluginRecord(plugin_id, "user", "", str(folder), version)]


def declared_skills(agent_type: str, project: Path, config: Path) -> tuple[str, ...] | None:
    """Return the installed skills that an agent's definition declares; raises OSError.

    None if no usable definition is found.
    """
    user = resolve_folder(config)
    folder = resolve_folder(project)
    root = folder.real if folder else project
    claude = find_child(folder, ".claude", root)
    agents: list[DefinitionRecord] = []
    if claude and not (user and claude.real == user.real):
        agents += _agents_in(claude, project / ".claude", ConfigScope.PROJECT, root, str(project))
    if user:
        agents += _agents_in(user, config, ConfigScope.USER, user.real)

    @cache  # most agents need none, and several skills need them once
    def plugin_folders() -> list[tuple[str, ConfigPath]]:
        return [*_plugin_folders(user)] if user else []

    if ":" in agent_type:
        for plugin_id, place in plugin_folders():
            if plugin_id.partition("@")[0] == agent_type.partition(":")[0]:
                agents += _agents_in(
                    place, place.path, ConfigScope.PLUGIN, place.real, plugin_id=plugin_id
                )
    plugins = frozenset(agent.plugin_id for agent in agents if agent.plugin_id)
    resolved = resolve_definitions(agents, str(project), plugins)
    agent = resolved.get((DefinitionKind.AGENT, agent_type))
    if agent is None or agent.problem:
        return None
    homes = [(claude, root), *([(user, user.real)] if user else [])]
    return tuple(name for name in agent.skills if _is_installed(name, homes, plugin_folders))


def _is_installed(
    skill: str,
    homes: Iterable[tuple[ConfigPath | None, Path]],
    plugin_folders: Callable[[], Iterable[tuple[str, ConfigPath]]],
) -> bool:
    """Whether a skill is in the project's or the user's folder, or in a plugin."""
    plugin, _, name = skill.rpartition(":")
    if not plugin and any(_has_skill(home, name, root) for home, root in homes):
        return True
    return any(
        plugin in {"", plugin_id.partition("@")[0]} and _has_skill(place, name, place.real)
        for plugin_id, place in plugin_folders()
    )


def _has_skill(parent: ConfigPath | None, name: str, root: Path) -> bool:
    if Path(name).name != name:
        return False
    found = find_child(find_child(parent, "skills", root), name, root)
    return find_child(found, SKILL_FILE, root) is not None


def _plugin_folders(user: ConfigPath) -> Iterator[tuple[str, ConfigPath]]:
    """Yield the plugins below the user's folder, by their ids; raises OSError."""
    folder = find_child(user, "plugins", user.real)
    lists = (find_child(folder, name, user.real) for name in PLUGIN_LIST_FILES)
    manifests = find_skill_plugins(find_child(user, "skills", user.real), user.real)
    reads = [partial(read_plugin_list, found) for found in lists if found]
    for read in (*reads, *(partial(read_skill_plugin, found) for found in manifests)):
        try:
            plugins = read()
        except InvalidJsonError:
            continue
        for plugin in plugins:
            place = resolve_folder(Path(plugin.install_path))
            if place and place.real.is_relative_to(user.real):
                yield plugin.plugin_id, place


def _agents_in(
    parent: ConfigPath,
    place: Path,
    scope: ConfigScope,
    root: Path,
    project: str | None = None,
    plugin_id: str | None = None,
) -> list[DefinitionRecord]:
    home = DefinitionFolder(place / "agents", DefinitionKind.AGENT, scope, project, plugin_id)
    folder = find_child(parent, "agents", root)
    if folder is None:
        return []
    found = find_definitions(DefinitionKind.AGENT, folder, root)
    return [read_definition(each, home) for each in islice(found, MAX_DEFINITIONS)]
