"""Which format an agent is expected to return its result in, and who says so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from .codes import ResultFormat
from .findings import COMPRESSED_MARKER, DEFAULT_RESULT_LIMITS, ResultLimits

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from ..policy.policy import Policy


FORMAT_OF_SKILL: Final = {
    "compress-output": ResultFormat.OUTPUT,
    "compress-review": ResultFormat.REVIEW,
}
"""The skills that ask for a format (000-07, 000-09)."""

CLNODE_FORMATS: Final = {
    "node-backend": ResultFormat.OUTPUT,
    "react-frontend": ResultFormat.OUTPUT,
    "cli-hooks": ResultFormat.OUTPUT,
    "reviewer": ResultFormat.REVIEW,
    "clnode-curator": ResultFormat.OUTPUT,
}
"""The preset clnode's formats by agent type, where no definition says more (000-40 to 000-44)."""

LAST_MESSAGE: Final = "last_message"
WHOLE_TRANSCRIPT: Final = "whole_transcript"
OFF: Final = "off"


class ExpectationSource(StrEnum):
    """Who says what is expected."""

    PRELOADED = "preloaded"
    """The transcript shows that the skill was given to the agent when it started."""
    DECLARED = "declared"
    """The agent's definition, as it is now."""
    PROMPT = "prompt"
    """What the agent was asked."""
    RULE = "rule"
    """The policy, by the agent's type."""
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class ExpectedFormat:
    """A format, and who says so."""

    format: ResultFormat
    source: ExpectationSource
    policy_format: ResultFormat = ResultFormat.NONE
    """What the policy's table says by the agent's type."""

    @property
    def differs_from_policy(self) -> bool:
        """The rules table says something, and the agent's definition something else (000-40)."""
        return self.policy_format not in {ResultFormat.NONE, self.format}


NOTHING_EXPECTED: Final = ExpectedFormat(ResultFormat.NONE, ExpectationSource.NOBODY)
"""No agent is asked for anything that nobody names."""


@dataclass(frozen=True, slots=True)
class ComplianceSettings:
    """What a policy says of compliance."""

    mode: str = LAST_MESSAGE
    limits: ResultLimits = DEFAULT_RESULT_LIMITS
    rules: Mapping[str, ResultFormat] | None = None
    """What a person said by agent type; None where nobody did, and `preset_rules` hold."""
    preset_rules: Mapping[str, ResultFormat] | None = None
    min_samples: int = 10
    """Results of a type before its share is told (R004-13)."""


_DEFAULT_ORIGINS: Final = frozenset({"preset", "built_in"})
"""Origins of a value that no person said (`PolicyOrigin`, which takes long to import)."""


def compliance_settings(policy: Policy) -> ComplianceSettings:
    found = policy.values["compliance.rules"]
    rules = {
        name: ResultFormat(each)
        for name, each in policy.strings_by_name("compliance.rules").items()
    }
    from_preset = found.origin in _DEFAULT_ORIGINS
    disabled = "compliance" in policy.texts("disabled_modules")
    return ComplianceSettings(
        OFF if disabled else policy.text("compliance.mode"),
        ResultLimits(
            output_lines=policy.integer("compliance.line_limit") or 0,
            review_lines=policy.integer("compliance.review_line_limit") or 0,
            result_lines=policy.integer("compliance.result_max_lines") or 0,
            soft_chars=policy.integer("compliance.soft_chars") or 0,
            review_files=policy.integer("compliance.review_files") or 0,
        ),
        None if from_preset else rules,
        rules or None if from_preset else None,
        policy.integer("compliance.min_samples") or 0,
    )


def skill_in_prompt(prompt: str) -> str | None:
    """Name the skill whose format a prompt asks for; None where it asks for none."""
    named = _SKILL_NAME.search(prompt)
    if named:
        return named[0]
    return "compress-output" if _MARKER_REQUEST.search(prompt) else None


_SKILL_NAME: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(FORMAT_OF_SKILL)})(?![\w-])")

_MARKER_REQUEST: Final = re.compile(
    r"(?:return|reply|respond|answer|report|output|begin|start|end)\w*\b[^.\n]{0,80}"
    + re.escape(COMPRESSED_MARKER),
    re.IGNORECASE,
)
"""A prompt that only quotes another agent's result has the marker at a line's begin."""


def format_of_skills(skills: Iterable[str]) -> ResultFormat | None:
    """Name the format that skills ask for, the first that asks; a plugin's name may lead."""
    for skill in skills:
        found = FORMAT_OF_SKILL.get(skill.rpartition(":")[2])
        if found:
            return found
    return None


def find_expected_format(
    agent_type: str | None,
    preloaded_skills: Iterable[str],
    declared_skills: Iterable[str] | None,
    settings: ComplianceSettings = ComplianceSettings(),
    prompted_skill: str | None = None,
) -> ExpectedFormat:
    """Find what an agent must return: by its skill, its prompt, the policy, else nothing (000-07).

    What the client gave the agent at its start outweighs a definition that may have changed
    since. `declared` is None where no definition of the type is known, `prompted` the skill
    that the agent's prompt names. A preset's rules go by names alone, so they hold only where
    no definition is known: whoever defines a `reviewer` without the skill does not ask for it
    (T-25). Rules that a person wrote always hold.
    """
    table = (settings.preset_rules if settings.rules is None else settings.rules) or {}
    by_rule = table.get(agent_type or "", ResultFormat.NONE)
    if found := format_of_skills(preloaded_skills):
        return ExpectedFormat(found, ExpectationSource.PRELOADED, by_rule)
    if declared_skills is not None and (found := format_of_skills(declared_skills)):
        return ExpectedFormat(found, ExpectationSource.DECLARED, by_rule)
    if prompted_skill and (found := format_of_skills((prompted_skill,))):
        return ExpectedFormat(found, ExpectationSource.PROMPT, by_rule)
    if by_rule is ResultFormat.NONE or (settings.rules is None and declared_skills is not None):
        return ExpectedFormat(ResultFormat.NONE, ExpectationSource.NOBODY, by_rule)
    return ExpectedFormat(by_rule, ExpectationSource.RULE, by_rule)
