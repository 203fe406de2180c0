"""The facts that a summary can hold, and the templates that arrange them in sections.

Sources of the templates: four sections, requirement 001-26; five, the SDK's (compaction.md 5.1);
eight, oh-my-opencode 4 (5.1, 1.2.14); eleven, compaction.md 5.2.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


FACT_CHARS: Final = 600
"""Of a fact that is one line: the longest sentence (cues.LONGEST_SENTENCE) fits whole."""


class FactKind(StrEnum):
    """What kinds of things there are, in the order of compaction.md 5.2."""

    WRITTEN = "written"
    """What a model wrote, where one was asked."""
    GOAL = "goal"
    PROMPT = "prompt"
    """A person's message, word for word."""
    CONSTRAINT = "constraint"
    DECISION = "decision"
    FILE = "file"
    ERROR = "error"
    DONE = "done"
    TODO = "todo"
    NEXT = "next"
    RUNNING = "running"
    ANCHOR = "anchor"
    """A message that matters most, word for word."""
    NAME = "name"
    EARLIER = "earlier"
    """What a compaction of the client's own said."""
    HINT = "hint"
    """Where what was removed still stands."""


VERBATIM_KINDS: Final = frozenset(
    {FactKind.WRITTEN, FactKind.PROMPT, FactKind.ANCHOR, FactKind.EARLIER}
)
"""Parts whose texts keep their lines; all others are one line each."""


class SummaryFact(msgspec.Struct, frozen=True):
    """One thing that is kept."""

    kind: FactKind
    text: str
    """As it is said; a quoted one word for word."""
    key: str
    """By which it is known again: a path, a sentence, an id. The newest of one key stands."""
    line: int = 0
    """Of the transcript, from 1; 0 where it has no single one."""
    weight: float = 0.0
    """How much it matters, 0..1: what weighs least goes first."""


def make_fact(
    kind: FactKind, text: str, line: int, weight: float, key: str | None = None
) -> SummaryFact:
    """Make a fact; what is no quote is made one line."""
    said = text if kind in VERBATIM_KINDS else truncate_line(text)
    return SummaryFact(kind, said, key if key is not None else said, line, weight)


def truncate_line(text: str, chars: int = FACT_CHARS) -> str:
    """Make a text one line, no longer than `chars`."""
    line = " ".join(text[: 4 * chars].split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def replace_angle_brackets(text: str) -> str:
    """Replace angle brackets, which a model could read as tags of its own prompt."""
    return text.replace("<", "‹").replace(">", "›")


def merge_facts(
    older: Iterable[SummaryFact], newer: Iterable[SummaryFact]
) -> tuple[SummaryFact, ...]:
    """Put facts together: of those with one part and key the newest stands, in the first's place.

    Merging the same facts again changes nothing.
    """
    found: dict[tuple[FactKind, str], SummaryFact] = {}
    for each in (*older, *newer):
        found[each.kind, each.key] = each
    return tuple(found.values())


K: Final = FactKind


class TemplateSection(msgspec.Struct, frozen=True):
    """A heading, and what stands below it."""

    title: str
    kinds: tuple[FactKind, ...]
    instructions: str
    """What a model is told to write here."""


class SummaryTemplate(msgspec.Struct, frozen=True):
    """A summary's sections, in their order; each part stands in one of them."""

    name: str
    sections: tuple[TemplateSection, ...]


FOUR_SECTIONS: Final = SummaryTemplate(
    "four_section",
    (
        TemplateSection(
            "Task Overview",
            (K.WRITTEN, K.GOAL, K.PROMPT, K.CONSTRAINT),
            "the user's request and goals; constraints and requirements",
        ),
        TemplateSection(
            "Work Completed",
            (K.FILE, K.DONE),
            "files read, created, modified, with exact paths; commands executed; key findings",
        ),
        TemplateSection(
            "Important Context",
            (K.DECISION, K.ERROR, K.ANCHOR, K.NAME, K.EARLIER),
            "names of variables, functions and classes; decisions and their reasons; errors and"
            " how they were resolved; the user's preferences",
        ),
        TemplateSection(
            "Current State",
            (K.TODO, K.RUNNING, K.NEXT, K.HINT),
            "next steps; blockers and open questions",
        ),
    ),
)

FIVE_SECTIONS: Final = SummaryTemplate(
    "five_section",
    (
        TemplateSection(
            "Task Overview", (K.WRITTEN, K.GOAL, K.PROMPT), "the core request and what success is"
        ),
        TemplateSection("Current State", (K.FILE, K.DONE, K.RUNNING), "what is completed; files"),
        TemplateSection(
            "Important Discoveries",
            (K.DECISION, K.ERROR, K.ANCHOR),
            "constraints found; decisions and why; errors and their fixes; what did not work",
        ),
        TemplateSection("Next Steps", (K.TODO, K.NEXT), "what remains, in order; blockers"),
        TemplateSection(
            "Context to Preserve",
            (K.CONSTRAINT, K.NAME, K.EARLIER, K.HINT),
            "the user's preferences; domain facts; promises made",
        ),
    ),
)

EIGHT_SECTIONS: Final = SummaryTemplate(
    "eight_section",
    (
        TemplateSection("User Requests (Verbatim)", (K.PROMPT,), "every request, word for word"),
        TemplateSection("Final Goal", (K.WRITTEN, K.GOAL), "what the user wants in the end"),
        TemplateSection("Work Completed", (K.FILE, K.DONE), "files, features, problems solved"),
        TemplateSection("Remaining Tasks", (K.TODO, K.NEXT), "what is still to be done"),
        TemplateSection(
            "Active Working Context",
            (K.DECISION, K.ANCHOR, K.NAME, K.EARLIER, K.HINT),
            "files in work, code in progress, references, state",
        ),
        TemplateSection(
            "Explicit Constraints (Verbatim)",
            (K.CONSTRAINT,),
            "only what the user said, word for word; none where there is none",
        ),
        TemplateSection(
            "Verification State", (K.ERROR,), "what was checked; what failed; what is open"
        ),
        TemplateSection(
            "Delegated Agent Sessions", (K.RUNNING,), "agents and shells, with their ids"
        ),
    ),
)

ELEVEN_SECTIONS: Final = SummaryTemplate(
    "native",
    (
        TemplateSection(
            "Goal and current request", (K.WRITTEN, K.GOAL), "what the user wants, and wants now"
        ),
        TemplateSection("User messages", (K.PROMPT,), "word for word"),
        TemplateSection("Standing constraints", (K.CONSTRAINT,), "word for word"),
        TemplateSection("Decisions", (K.DECISION,), "choice, reason, rejected option"),
        TemplateSection("Files", (K.FILE,), "path, state, edits"),
        TemplateSection("Errors and their resolutions", (K.ERROR,), "signature, fix, status"),
        TemplateSection("State", (K.DONE, K.TODO), "done, in progress, blocked, verified"),
        TemplateSection("Next step", (K.NEXT,), "with a quote"),
        TemplateSection("Running", (K.RUNNING,), "agents, shells, ports, branches"),
        TemplateSection(
            "Facts of the environment", (K.ANCHOR, K.NAME, K.EARLIER), "versions, commands"
        ),
        TemplateSection("How to get back what was removed", (K.HINT,), "where it stands"),
    ),
)

TEMPLATES: Final = {
    each.name: each for each in (FOUR_SECTIONS, FIVE_SECTIONS, EIGHT_SECTIONS, ELEVEN_SECTIONS)
}
"""By the names that `summary.template` has in the policy."""


def find_template(name: str) -> SummaryTemplate:
    """Find a template by name; `none` and unknown names give the four-section one."""
    return TEMPLATES.get(name, FOUR_SECTIONS)
