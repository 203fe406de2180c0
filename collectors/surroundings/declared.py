"""The skills that one agent's definition declares, read now; for a hook, without the store."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.definitions import resolve_definitions
from ...core.store.surroundings_facts import DefinitionKind, Scope
from .contained import child, top
from .definitions import MOST, Home, find_definitions, read_definition
from .loose import BadJsonError
from .plugins import INSTALLED, read_plugins

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.store.surroundings_facts import DefinitionFact
    from .contained import Found

AGENTS = "agents"


def declared_skills(agent_type: str, project: Path, config: Path) -> tuple[str, ...] | None:
    """Name the skills of an agent's definition: the project's, the user's, then the plugins'.

    None where nobody defines it, or its definition cannot be used. Raises OSError where a
    folder cannot be looked into.
    """
    user = top(config)
    facts = list(_project(project, user))
    if user:
        facts += _agents(user, Home(config / AGENTS, DefinitionKind.AGENT, Scope.USER), user.real)
        if ":" in agent_type:
            facts += _plugins(agent_type.partition(":")[0], user)
    plugins = frozenset(each.plugin_id for each in facts if each.plugin_id)
    found = resolve_definitions(facts, str(project), plugins)
    fact = found.get((DefinitionKind.AGENT, agent_type))
    return None if fact is None or fact.problem else fact.skills


def _project(project: Path, user: Found | None) -> Iterator[DefinitionFact]:
    folder = top(project)
    claude = child(folder, ".claude", folder.real) if folder else None
    if folder and claude and not (user and claude.real == user.real):
        place = project / ".claude" / AGENTS
        home = Home(place, DefinitionKind.AGENT, Scope.PROJECT, str(project))
        yield from _agents(claude, home, folder.real)


def _plugins(name: str, user: Found) -> Iterator[DefinitionFact]:
    folder = child(user, "plugins", user.real)
    for listed in INSTALLED:
        found = child(folder, listed, user.real) if folder else None
        try:
            plugins = read_plugins(found) if found else []
        except BadJsonError:
            continue
        for plugin in plugins:
            place = top(Path(plugin.install_path))
            if place is None or plugin.plugin_id.partition("@")[0] != name:
                continue
            if place.real.is_relative_to(user.real):
                home = Home(
                    Path(plugin.install_path, AGENTS),
                    DefinitionKind.AGENT,
                    Scope.PLUGIN,
                    None,
                    plugin.plugin_id,
                )
                yield from _agents(place, home, place.real)


def _agents(parent: Found, home: Home, root: Path) -> list[DefinitionFact]:
    folder = child(parent, AGENTS, root)
    if folder is None:
        return []
    found = find_definitions(DefinitionKind.AGENT, folder, root)
    return [read_definition(each, home) for each in islice(found, MOST)]
