"""What is expected of an agent's result: a format, by skills, prompt and policy, and limits."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.findings import ExpectationSource, ExpectedFormat
from ..model.result_formats import ResultFormat, format_of_skills

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from ..policy.policy import Policy


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """The limits of a result; the defaults are requirements 2.2 and 000-50."""

    output_lines: int = 10
    review_lines: int = 20
    result_lines: int = 3
    soft_chars: int = 1000
    review_files: int = 7

    def max_lines(self, expected: ResultFormat) -> int:
        return self.output_lines if expected is ResultFormat.OUTPUT else self.review_lines


DEFAULT_RESULT_LIMITS: Final = ResultLimits()


LAST_MESSAGE: Final = "last_message"
WHOLE_TRANSCRIPT: Final = "whole_transcript"
OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class ComplianceSettings:
    mode: str = LAST_MESSAGE
    limits: ResultLimits = DEFAULT_RESULT_LIMITS
    rules: Mapping[str, ResultFormat] | None = None
    """A person's rules by agent type; None if there are none, and `preset_rules` apply."""
    preset_rules: Mapping[str, ResultFormat] | None = None
    min_samples: int = 10  # results of a type before its share is shown (R004-13)

    @property
    def format_rules(self) -> Mapping[str, ResultFormat]:
        """The rules that apply, by agent type."""
        return (self.preset_rules if self.rules is None else self.rules) or {}


def find_expected_format(
    agent_type: str | None,
    preloaded_skills: Iterable[str],
    declared_skills: Iterable[str] | None,
    settings: ComplianceSettings = ComplianceSettings(),
    prompted_skill: str | None = None,
) -> ExpectedFormat:
    """Return what an agent must return: by its skills, its prompt, the policy, or nothing (000-07).

    Skills that the client preloaded outweigh a definition that may have changed since.
    `declared_skills` are installed: an agent was never told what a missing skill asks for. It is
    None if no definition of the type is known. A preset's rules apply only
    then: whoever defines a `reviewer` without the skill does not ask for it (T-25). A person's
    rules always apply.
    """
    by_rule = settings.format_rules.get(agent_type or "", ResultFormat.NONE)
    for source, skills in (
        (ExpectationSource.PRELOADED, preloaded_skills),
        (ExpectationSource.DECLARED, declared_skills or ()),
        (ExpectationSource.PROMPT, (prompted_skill,) if prompted_skill else ()),
    ):
        if by_skill := format_of_skills(skills):
            return ExpectedFormat(by_skill, source, by_rule)
    if by_rule is ResultFormat.NONE or (settings.rules is None and declared_skills is not None):
        return ExpectedFormat(ResultFormat.NONE, ExpectationSource.NONE, by_rule)
    return ExpectedFormat(by_rule, ExpectationSource.RULE, by_rule)


_DEFAULT_ORIGINS: Final = frozenset({"preset", "built_in"})
"""Origins of a value that no person set (`PolicyOrigin` takes long to import)."""


def compliance_settings(policy: Policy) -> ComplianceSettings:
    rules = {
        name: ResultFormat(value)
        for name, value in policy.strings_by_name("compliance.rules").items()
    }
    is_default = policy.values["compliance.rules"].origin in _DEFAULT_ORIGINS
    disabled = "compliance" in policy.texts("disabled_modules")
    return ComplianceSettings(
        OFF if disabled else policy.text("compliance.mode"),
        ResultLimits(
            output_lines=policy.count("compliance.line_limit"),
            review_lines=policy.count("compliance.review_line_limit"),
            result_lines=policy.count("compliance.result_max_lines"),
            soft_chars=policy.count("compliance.soft_chars"),
            review_files=policy.count("compliance.review_files"),
        ),
        None if is_default else rules,
        rules or None if is_default else None,
        policy.count("compliance.min_samples"),
    )
