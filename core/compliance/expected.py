"""Which format an agent is expected to return its result in, and who says so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .codes import Format
from .findings import LIMITS, Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from ..policy.policy import Policy

SKILLS: Final = {"compress-output": Format.OUTPUT, "compress-review": Format.REVIEW}
"""The skills that ask for a format (000-07, 000-09)."""

RULES: Final = {
    "node-backend": Format.OUTPUT,
    "react-frontend": Format.OUTPUT,
    "cli-hooks": Format.OUTPUT,
    "reviewer": Format.REVIEW,
    "clnode-curator": Format.OUTPUT,
}
"""By agent type, where no definition says more (000-40 to 000-44)."""

LAST_MESSAGE: Final = "last_message"
WHOLE_TRANSCRIPT: Final = "whole_transcript"
OFF: Final = "off"


class Ground(StrEnum):
    """Who says what is expected."""

    PRELOADED = "preloaded"
    """The transcript shows that the skill was given to the agent when it started."""
    DECLARED = "declared"
    """The agent's definition, as it is now."""
    RULE = "rule"
    """The policy, by the agent's type."""
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Expected:
    """A format, and who says so."""

    format: Format
    ground: Ground
    rule: Format = Format.NONE
    """What the rules table says by the agent's type."""

    @property
    def drifts(self) -> bool:
        """The rules table says something, and the agent's definition something else (000-40)."""
        return self.rule not in {Format.NONE, self.format}


NOTHING: Final = Expected(Format.NONE, Ground.NOBODY)
"""No agent is asked for anything that nobody names."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a policy says of compliance."""

    mode: str = LAST_MESSAGE
    limits: Limits = LIMITS
    rules: Mapping[str, Format] | None = None
    """What a person or a preset said by agent type; None is the built-in RULES."""
    min_samples: int = 10
    """Results of a type before its share is told (R004-13)."""


def terms_of(policy: Policy) -> Terms:
    """Take compliance out of a policy."""
    rules = policy.values["compliance.rules"]
    disabled = "compliance" in policy.texts("disabled_modules")
    return Terms(
        OFF if disabled else policy.text("compliance.mode"),
        Limits(
            lines=policy.whole("compliance.line_limit") or 0,
            review_lines=policy.whole("compliance.review_line_limit") or 0,
            result_lines=policy.whole("compliance.result_max_lines") or 0,
            soft_chars=policy.whole("compliance.soft_chars") or 0,
            review_files=policy.whole("compliance.review_files") or 0,
        ),
        {name: Format(each) for name, each in policy.labels("compliance.rules").items()}
        if rules.where
        else None,
        policy.whole("compliance.min_samples") or 0,
    )


def asked_by(skills: Iterable[str]) -> Format | None:
    """Name the format that skills ask for, the first that asks; a plugin's name may lead."""
    for skill in skills:
        found = SKILLS.get(skill.rpartition(":")[2])
        if found:
            return found
    return None


def expect(
    agent_type: str | None,
    preloaded: Iterable[str],
    declared: Iterable[str] | None,
    rules: Mapping[str, Format] | None = None,
) -> Expected:
    """Say what an agent must return: by its skill, then the rules table, then nothing (000-07).

    What the client gave the agent at its start outweighs a definition that may have changed
    since. `declared` is None where no definition of the type is known. The built-in rules go
    by names alone, so they hold only there: whoever defines a `reviewer` without the skill
    does not ask for it (T-25). Rules that a person wrote always hold.
    """
    table = RULES if rules is None else rules
    by_rule = table.get(agent_type or "", Format.NONE)
    if found := asked_by(preloaded):
        return Expected(found, Ground.PRELOADED, by_rule)
    if declared is not None and (found := asked_by(declared)):
        return Expected(found, Ground.DECLARED, by_rule)
    if by_rule is Format.NONE or (rules is None and declared is not None):
        return Expected(Format.NONE, Ground.NOBODY, by_rule)
    return Expected(by_rule, Ground.RULE, by_rule)
