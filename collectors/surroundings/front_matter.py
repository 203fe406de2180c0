"""The YAML at the head of an agent's or a skill's Markdown, read without its traps."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

LONGEST: Final = 64 * 1024
"""Characters of a head; descriptions with examples make about 5,000."""

DEEPEST: Final = 10
"""Levels of its lists and objects; hooks in a head make six."""

_HEAD: Final = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN: Final = re.compile(r"^([A-Za-z_-]+):[ \t]+([^\s\"'|>\[{].*?)[ \t]*$", re.MULTILINE)
"""A field of the first level whose value stands in its line, unquoted."""

_COMMA: Final = re.compile(r",(?![^()]*\))")
"""One that parts a list: `Bash(git add, git commit), Read` has one."""

Value = str | list[Any] | dict[str, Any]


class FrontMatter(msgspec.Struct, frozen=True):
    """The fields of a head, every scalar as its text, and what follows it."""

    body: str
    fields: dict[str, Value] = {}
    problem: str | None = None

    def text(self, name: str) -> str | None:
        """Give a field that is one text."""
        value = self.fields.get(name)
        return value if isinstance(value, str) and value else None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Give a field that is a list, or a text with commas; None where it is not there."""
        value = self.fields.get(name)
        if isinstance(value, str):
            return tuple(part.strip() for part in _COMMA.split(value) if part.strip())
        if isinstance(value, list):
            return tuple(each.strip() for each in value if isinstance(each, str) and each.strip())
        return None

    def flag(self, name: str) -> bool | None:
        """Give a field that is true or false."""
        return {"true": True, "false": False}.get((self.text(name) or "").lower())


def split_front_matter(text: str) -> FrontMatter:
    """Part a file into its head and its body."""
    text = text.removeprefix("\ufeff")
    match = _HEAD.match(text)
    if match is None:
        return FrontMatter(text, problem="has no front matter")
    head, body = match[1], text[match.end() :]
    if len(head) > LONGEST:
        return FrontMatter(body, problem=f"has front matter over {LONGEST >> 10} KiB")
    try:
        return FrontMatter(body, _load(head))
    except _HeadError as error:
        return FrontMatter(body, problem=str(error))


class _HeadError(Exception):
    """A head that is not read; the message says why."""


class _SyntaxError(_HeadError):
    """A head that is not YAML, and may be when a value is quoted."""


def _load(head: str) -> dict[str, Value]:
    try:
        return _load_yaml(head)
    except _SyntaxError:
        # A colon in an unquoted description: the client puts quotes around it, too.
        mended = _PLAIN.sub(lambda found: f"{found[1]}: {_quoted(found[2])}", head)
        if mended == head:
            raise
        return _load_yaml(mended)


def _load_yaml(head: str) -> dict[str, Value]:
    import yaml  # takes 20 ms, and most looks find nothing that changed

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        _check(yaml, head, loader)
        # No constructor runs: this loader knows texts, lists and mappings alone.
        said = yaml.load(head, Loader=loader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise _SyntaxError(f"has front matter that is not YAML{line}: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise _SyntaxError("has front matter that is not YAML") from error
    if not isinstance(said, dict):
        if not said:
            return {}
        raise _HeadError("has front matter that is not a mapping")
    return {key: value for key, value in said.items() if isinstance(key, str)}


def _check(yaml: Any, head: str, loader: Any) -> None:  # noqa: ANN401 -- a module, imported late
    """Refuse what grows when it is composed: aliases, and deep nesting."""
    depth = 0
    for event in yaml.parse(head, Loader=loader):
        if isinstance(event, yaml.AliasEvent):
            raise _HeadError("has front matter with YAML aliases, which are not followed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise _HeadError("has front matter that is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
