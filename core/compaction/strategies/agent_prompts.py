"""I4: long prompts of agents: their beginning stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..changes import Intent, input_of, replace_inputs
from ..notes import note
from ..plan import Harm
from ..stubs import is_worth
from .finding import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plan import Operation
    from ..view import View

NAME: Final = "agent-prompts"
LEVEL: Final = Harm.INPUTS

KEPT_CHARS: Final = 2_000
"""Of a prompt (compaction.md 7.4)."""


def find(view: View) -> Iterator[Operation]:
    """Find what agents were told beyond the first KEPT_CHARS."""
    for slot in inputs(view, frozenset({"Agent", "Task"})):
        prompt = input_of(view, slot).get("prompt")
        if not isinstance(prompt, str):
            continue
        kept, rest = prompt[:KEPT_CHARS], prompt[KEPT_CHARS:]
        told = note(view, rest, "the rest of this prompt", "Its result stands below.", kept)
        if not is_worth(rest, told):
            continue
        short = f"{kept}\n{told}"
        intent = Intent(NAME, LEVEL, "the agent has done it: its result stays")
        made = replace_inputs(view, slot, intent, {"/prompt": short})
        if made:
            yield made
