"""How a summary is divided: templates as data, each section with the parts that it holds.

Sources: four sections, requirement 001-26; five, the SDK's (compaction.md 5.1); eight,
oh-my-opencode 4 (5.1, 1.2.14); eleven, compaction.md 5.2.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .fact import Part

P: Final = Part


class Section(msgspec.Struct, frozen=True):
    """A heading, and what stands below it."""

    title: str
    kinds: tuple[Part, ...]
    instructions: str
    """What a model is told to write here."""


class Template(msgspec.Struct, frozen=True):
    """A summary's sections, in their order; each part stands in one of them."""

    name: str
    sections: tuple[Section, ...]


FOUR: Final = Template(
    "four_section",
    (
        Section(
            "Task Overview",
            (P.WRITTEN, P.GOAL, P.PROMPT, P.CONSTRAINT),
            "the user's request and goals; constraints and requirements",
        ),
        Section(
            "Work Completed",
            (P.FILE, P.DONE),
            "files read, created, modified, with exact paths; commands executed; key findings",
        ),
        Section(
            "Important Context",
            (P.DECISION, P.ERROR, P.ANCHOR, P.NAME, P.EARLIER),
            "names of variables, functions and classes; decisions and their reasons; errors and"
            " how they were resolved; the user's preferences",
        ),
        Section(
            "Current State",
            (P.TODO, P.RUNNING, P.NEXT, P.HINT),
            "next steps; blockers and open questions",
        ),
    ),
)

FIVE: Final = Template(
    "five_section",
    (
        Section(
            "Task Overview", (P.WRITTEN, P.GOAL, P.PROMPT), "the core request and what success is"
        ),
        Section("Current State", (P.FILE, P.DONE, P.RUNNING), "what is completed; files"),
        Section(
            "Important Discoveries",
            (P.DECISION, P.ERROR, P.ANCHOR),
            "constraints found; decisions and why; errors and their fixes; what did not work",
        ),
        Section("Next Steps", (P.TODO, P.NEXT), "what remains, in order; blockers"),
        Section(
            "Context to Preserve",
            (P.CONSTRAINT, P.NAME, P.EARLIER, P.HINT),
            "the user's preferences; domain facts; promises made",
        ),
    ),
)

EIGHT: Final = Template(
    "eight_section",
    (
        Section("User Requests (Verbatim)", (P.PROMPT,), "every request, word for word"),
        Section("Final Goal", (P.WRITTEN, P.GOAL), "what the user wants in the end"),
        Section("Work Completed", (P.FILE, P.DONE), "files, features, problems solved"),
        Section("Remaining Tasks", (P.TODO, P.NEXT), "what is still to be done"),
        Section(
            "Active Working Context",
            (P.DECISION, P.ANCHOR, P.NAME, P.EARLIER, P.HINT),
            "files in work, code in progress, references, state",
        ),
        Section(
            "Explicit Constraints (Verbatim)",
            (P.CONSTRAINT,),
            "only what the user said, word for word; none where there is none",
        ),
        Section("Verification State", (P.ERROR,), "what was checked; what failed; what is open"),
        Section("Delegated Agent Sessions", (P.RUNNING,), "agents and shells, with their ids"),
    ),
)

ELEVEN: Final = Template(
    "native",
    (
        Section(
            "Goal and current request", (P.WRITTEN, P.GOAL), "what the user wants, and wants now"
        ),
        Section("User messages", (P.PROMPT,), "word for word"),
        Section("Standing constraints", (P.CONSTRAINT,), "word for word"),
        Section("Decisions", (P.DECISION,), "choice, reason, rejected option"),
        Section("Files", (P.FILE,), "path, state, edits"),
        Section("Errors and their resolutions", (P.ERROR,), "signature, fix, status"),
        Section("State", (P.DONE, P.TODO), "done, in progress, blocked, verified"),
        Section("Next step", (P.NEXT,), "with a quote"),
        Section("Running", (P.RUNNING,), "agents, shells, ports, branches"),
        Section("Facts of the environment", (P.ANCHOR, P.NAME, P.EARLIER), "versions, commands"),
        Section("How to get back what was removed", (P.HINT,), "where it stands"),
    ),
)

TEMPLATES: Final = {each.name: each for each in (FOUR, FIVE, EIGHT, ELEVEN)}
"""By the names that `summary.template` has in the policy."""


def template_of(name: str) -> Template:
    """Give a template by its name; the four-section one for `none` and unknown names."""
    return TEMPLATES.get(name, FOUR)
