"""All strategies, least harm first; within a level in the order in which they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .strategies import (
    agent_prompts,
    all_thinking,
    attribution,
    before_boundary,
    covered_reads,
    duplicates,
    edit_inputs,
    edited_reads,
    failed_inputs,
    file_history,
    heredocs,
    listings,
    old_images,
    old_results,
    old_todos,
    overwritten_reads,
    pastes,
    plain_output,
    progress,
    prose,
    repeated_attachments,
    repeated_calls,
    reread_edits,
    second_images,
    shell_output,
    thinking_after,
    tool_details,
    unchanged_reads,
    web_pages,
    write_contents,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from .plan import Harm, Operation
    from .view import View

    Find = Callable[[View], Iterator[Operation]]


class Strategy(msgspec.Struct, frozen=True):
    """A way to make a transcript smaller."""

    name: str
    level: Harm
    find_operations: Find
    is_opt_in: bool
    """Only where it is named."""


_MODULES: Final[tuple[ModuleType, ...]] = (
    progress,
    file_history,
    attribution,
    tool_details,
    before_boundary,
    second_images,
    duplicates,
    unchanged_reads,
    repeated_attachments,
    plain_output,
    covered_reads,
    overwritten_reads,
    reread_edits,
    old_todos,
    failed_inputs,
    repeated_calls,
    edited_reads,
    listings,
    shell_output,
    web_pages,
    old_images,
    old_results,
    write_contents,
    edit_inputs,
    heredocs,
    agent_prompts,
    thinking_after,
    all_thinking,
    prose,
    pastes,
)

STRATEGIES: Final = tuple(
    Strategy(each.NAME, each.LEVEL, each.find, getattr(each, "OPT_IN", False)) for each in _MODULES
)


def named(name: str) -> Strategy | None:
    """Give the strategy of a name."""
    return next((each for each in STRATEGIES if each.name == name), None)
