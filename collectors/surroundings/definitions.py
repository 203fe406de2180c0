"""Definitions of agents and skills: what the front matter says, and how large the body is."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.store.surroundings_facts import DefinitionFact, DefinitionKind, Scope
from ...core.tokens import estimate_tokens
from ..clean import clean_title
from .contained import MOST_ENTRIES, TooLargeError, child, children, read_found, why_not
from .front_matter import FrontMatter, split_front_matter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .contained import Found

LARGEST: Final = 512 * 1024
"""Bytes; a skill of more would fill a quarter of a window by itself."""

MOST: Final = 1000
"""Definitions of one folder; the largest public collections have about 600."""

DEEPEST: Final = 5
"""Levels of folders below agents/; the client nests them by subject."""

SKILL: Final = "SKILL.md"
_AGENT: Final = ".md"
_SHORT_NUMBER: Final = 12
"""Digits of a number of tokens; a longer one is none."""


class Home(msgspec.Struct, frozen=True):
    """A folder of definitions, and whose they are."""

    folder: Path
    kind: DefinitionKind
    scope: Scope
    project: str | None = None
    plugin_id: str | None = None


def find_definitions(kind: DefinitionKind, top: Found, root: Path) -> Iterator[Found]:
    """List the definitions in a folder; raises OSError where it cannot be looked into."""
    if kind is DefinitionKind.AGENT:
        return _Agents(root, {_identity(top)}).below(top, DEEPEST)
    return _skills(top, root)


def read_definition(found: Found, home: Home) -> DefinitionFact:
    """Read one definition; one with a problem is still known by its name.

    Raises OSError where it cannot be read now.
    """
    fact = DefinitionFact(
        path=str(found.path),
        folder=str(home.folder),
        kind=home.kind,
        scope=home.scope,
        project=home.project,
        plugin_id=home.plugin_id,
        mark=found.mark,
        name=_scoped(_file_name(found, home), home),
        problem=why_not(found),
    )
    if fact.problem:
        return fact
    try:
        data = read_found(found, LARGEST)
    except TooLargeError as error:
        return msgspec.structs.replace(fact, problem=error.strerror)
    head = split_front_matter(data.decode("utf-8", "replace"))
    return msgspec.structs.replace(
        fact,
        name=_scoped(_name(found, head, home), home),
        description=clean_title(head.text("description") or ""),
        model=_title(head, "model"),
        skills=_titles(head, "skills") or (),
        tools=_titles(head, "allowed-tools" if home.kind is DefinitionKind.SKILL else "tools"),
        color=_title(head, "color"),
        background=head.flag("background"),
        auto_compact_window=_number(head, "autoCompactWindow"),
        body_bytes=len(head.body.encode()),
        body_estimated_tokens=estimate_tokens(head.body),
        sha256=hashlib.sha256(data).hexdigest(),
        problem=_problem(data, head, home.kind),
    )


class _Agents:
    """One search; what it may still look at is for the whole tree."""

    def __init__(self, root: Path, entered: set[tuple[int, int]]) -> None:
        self._root: Final = root
        self._entered: Final = entered
        self._left = MOST_ENTRIES

    def below(self, folder: Found, levels: int) -> Iterator[Found]:
        found = children(folder, self._root, self._left)
        self._left -= len(found)
        for each in found:
            if each.is_folder:
                # A link may lead to a folder that holds it.
                if levels > 1 and _identity(each) not in self._entered:
                    self._entered.add(_identity(each))
                    yield from self.below(each, levels - 1)
            elif each.path.suffix == _AGENT:
                yield each


def _skills(folder: Found, root: Path) -> Iterator[Found]:
    for found in children(folder, root):
        if found.problem:
            # It cannot be seen whether it is a skill's folder.
            yield found
        elif found.is_folder and (skill := child(found, SKILL, root)):
            yield skill


def _identity(found: Found) -> tuple[int, int]:
    return found.status.st_dev, found.status.st_ino


def _file_name(found: Found, home: Home) -> str:
    """Name a definition by its path: a skill's folder is its name (claude-code-formats 6.3)."""
    if home.kind is DefinitionKind.AGENT:
        return found.path.stem
    return (found.path.parent if found.path.name == SKILL else found.path).name


def _name(found: Found, head: FrontMatter, home: Home) -> str:
    said = head.text("name") if home.kind is DefinitionKind.AGENT else None
    return said or _file_name(found, home)


def _scoped(name: str, home: Home) -> str:
    name = clean_title(name)
    return f"{home.plugin_id.partition('@')[0]}:{name}" if home.plugin_id else name


def _problem(data: bytes, head: FrontMatter, kind: DefinitionKind) -> str | None:
    if head.problem:
        # A skill may do without; the client takes no agent whose head says nothing.
        plain = kind is DefinitionKind.SKILL and not data.startswith((b"---", b"\xef\xbb\xbf---"))
        return None if plain else clean_title(head.problem)
    if kind is DefinitionKind.AGENT:
        for field in ("name", "description"):
            if not head.text(field):
                return f"has front matter without `{field}`"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "is not UTF-8"
    return None


def _title(head: FrontMatter, name: str) -> str | None:
    value = head.text(name)
    return clean_title(value) if value else None


def _titles(head: FrontMatter, name: str) -> tuple[str, ...] | None:
    values = head.texts(name)
    return None if values is None else tuple(clean_title(value) for value in values[:MOST])


def _number(head: FrontMatter, name: str) -> int | None:
    value = (head.text(name) or "").replace("_", "")
    return int(value) if value.isdecimal() and len(value) <= _SHORT_NUMBER else None
