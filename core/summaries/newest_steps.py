"""The newest steps of a turn that is open, quoted where their lines cannot stay.

A model that binds its thinking takes the lines of an open turn only behind all that they were
written after. If anything before them is summed up they have to go, and with them the very results
that the next step answers.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from ..model.conversation import RESULT_KINDS, Entry, MessagePart, PartKind, Role
from ..transcript.visible_messages import is_result
from .artifacts import render_tool_input
from .mentions import find_names
from .summary_facts import FactKind, SummaryFact, make_fact, replace_angle_brackets

UNANSWERED_WEIGHT: Final = 1.0  # of a result that the model has not read yet
ANSWERED_WEIGHT: Final = 0.9


def unanswered_results(sent: Sequence[Entry]) -> list[Entry]:
    """Return the lines with results that the model has not answered, oldest first."""
    newest = takewhile(lambda entry: entry.role is not Role.ASSISTANT, reversed(sent))
    return [entry for entry in newest if any(map(is_result, entry.parts))][::-1]


def step_facts(steps: Sequence[Entry]) -> Iterator[SummaryFact]:
    """Quote what the model said, called and got in the newest lines, each line for itself.

    Prompts are left out: all summaries quote them. Nothing in a result can pass for a line of
    ours, or for a tag of the model's own prompt.
    """
    waiting = {entry.offset for entry in unanswered_results(steps)}
    for entry in steps:
        text = "\n".join(filter(None, map(_quote_part, entry.parts)))
        weight = UNANSWERED_WEIGHT if entry.offset in waiting else ANSWERED_WEIGHT
        if text:
            yield make_fact(FactKind.STEP, text, entry.line, weight, str(entry.line))


def _quote_part(part: MessagePart) -> str:
    if part.kind is PartKind.TEXT and part.text.strip():
        return _labeled("The model said", part.text)
    if part.kind is PartKind.TOOL_INPUT:
        return _labeled(f"The model called {part.name}", render_tool_input(part))
    if part.kind in RESULT_KINDS:
        outcome = "failed with" if part.failed else "returned"
        media = f"[{part.media} images or documents]" if part.media else ""
        return _labeled(f"{part.name or 'A tool'} {outcome}", f"{part.text}\n{media}")
    if part.kind is PartKind.THINKING and (names := find_names(part.text)):
        return _labeled("The model thought of", ", ".join(sorted(names, key=part.text.find)))
    return ""


def _labeled(label: str, text: str) -> str:
    # Other signs that end a line would put what follows outside of the quotation.
    lines = replace_angle_brackets(text).strip().splitlines()
    return "\n".join([f"{label}:", *lines])
