"""How long each text of a transcript may be, and that it does no harm: applied once, to all facts.

What a field holds says how long it may be; no client writes a longer one. A test holds that no
text of any fact is without its bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from ...core.store.facts import Facts
from ..clean import (
    clean_id,
    clean_name,
    clean_path,
    clean_text,
    clean_title,
    clean_word,
    without_hidden,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.store.facts import StepFact

Fact = TypeVar("Fact", bound=msgspec.Struct)

TOOLS_CHARS: Final = 9 * 1_000
"""Of the names of one answer's tool calls, nine characters each: a thousand; 60 were seen."""

COMMANDS_CHARS: Final = 16 * 1024
"""Of the JSON that names the Stop hooks of a turn: 50 commands of a title's length."""


def _clean_tools(names: str) -> str:
    if len(names) <= TOOLS_CHARS and names.isascii() and names.isprintable():
        return names
    # Whole names only: each ends with a comma.
    kept = "".join(each for each in without_hidden(names[:TOOLS_CHARS]) if each.isprintable())
    return kept[: kept.rfind(",") + 1]


BOUNDS: Final[dict[str, Callable[[str], str]]] = {
    # Ids: what names the same thing in two places is cut in the same way.
    "agent_id": clean_id,
    "forked_from": clean_id,
    "leaf_uuid": clean_id,
    "line": clean_id,
    "message_id": clean_id,
    "session_id": clean_id,
    "tool_use_id": clean_id,
    "uuid": clean_id,
    # One word of a few.
    "client_version": clean_word,
    "kind": clean_word,
    "status": clean_word,
    "trigger": clean_word,
    # Names: of models, types of agents, tools, skills.
    "agent_type": clean_name,
    "asked_model": clean_name,
    "model": clean_name,
    "name": clean_name,
    "query_source": clean_name,
    "skill": clean_name,
    # One line.
    "ai_title": clean_title,
    "custom_title": clean_title,
    "description": clean_title,
    "detail": clean_title,
    "first_prompt": clean_title,
    "last_prompt": clean_title,
    "reason": clean_title,
    "summary_title": clean_title,
    "title": clean_title,
    # More than one.
    "began_in": clean_path,
    "cwd": clean_path,
    "launched_in": clean_path,
    "text": clean_text,
    "tools": _clean_tools,
    # JSON of titles that were cleaned before they were put together.
    "commands": lambda text: text if len(text) <= COMMANDS_CHARS else "[]",
}
"""By a field's name, which means the same in every kind of fact."""


def bounded(facts: Facts) -> Facts:
    """Bound every text of what was read of a transcript."""
    changed: dict[str, Any] = {
        name: tuple(map(_bounded, value))
        for name in Facts.__struct_fields__
        if name != "ended" and type(value := getattr(facts, name)) is tuple and value
    }
    if facts.ended_calls:
        changed["ended"] = tuple(map(clean_id, facts.ended_calls))
    if facts.progress_lines:
        changed["steps"] = tuple(map(_bounded_step, changed["steps"]))
    return replace(facts, session=_bounded(facts.session), **changed)


def _bounded(fact: Fact) -> Fact:
    changed: dict[str, str] = {}
    for name in fact.__struct_fields__:
        clean = BOUNDS.get(name)
        value = getattr(fact, name)
        # A field of the same name may be a key or an enumeration's value elsewhere.
        if clean and type(value) is str and (kept := clean(value)) != value:
            changed[name] = kept
    return replace(fact, **changed) if changed else fact


def _bounded_step(step: StepFact) -> StepFact:
    return step if step.answer is None else replace(step, answer=_bounded(step.answer))
