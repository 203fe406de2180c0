"""The options of a compaction plan, as the command line and the compact page set them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from ..compaction.plan import (
    DEFAULT_MAX_SEVERITY,
    DEFAULT_PROTECTED_TURNS,
    DEFAULT_TARGET_SHARE,
    Severity,
    target_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


SUMMARISE: Final = "summarise"
CUT: Final = "cut"
REVERT: Final = "revert"
ROLLOVER: Final = "rollover"

WHOLE_STRATEGIES: Final = (SUMMARISE, CUT, REVERT, ROLLOVER)
"""Strategies for a conversation as a whole: levels 7 and 8, each alone and only by name."""

TEMPLATES_BY_SECTIONS: Final = {
    "4": "four_section",
    "5": "five_section",
    "8": "eight_section",
    "11": "native",
}
"""By how many sections they have."""

LAST_PROMPT: Final = "last"
"""The word for the newest prompt."""


class PlanOptions(msgspec.Struct, frozen=True):
    """What a person asked for; None where nothing was said."""

    strategies: tuple[str, ...] = ()
    level: int | None = None
    target: float | None = None
    keep: int | None = None
    keep_turns: int | None = None
    to: str | None = None
    """A prompt: the number of its line, the start of its uuid, or `LAST`."""
    template: str | None = None
    budget: int | None = None
    """Tokens."""
    provider: str | None = None
    model: str | None = None
    force: bool = False
    """Also a transcript that is larger than any that is changed unasked."""

    @property
    def whole_strategy(self) -> str | None:
        """The strategy for the whole conversation that was named."""
        return next((each for each in self.strategies if each in WHOLE_STRATEGIES), None)


def check_options(options: PlanOptions, *, in_place: bool) -> str | None:
    """Return which options conflict and how to fix it; None if they fit together."""
    whole = options.whole_strategy
    if whole and len(options.strategies) > 1:
        return f"--strategy {whole} goes alone: leave the others out"
    if options.level is not None and options.level >= Severity.SUMMARY:
        return (
            f"level {options.level} is asked for by name: --strategy summarise (7),"
            " --strategy cut, revert or rollover (8)"
        )
    if whole and (options.level is not None or options.target is not None):
        return f"--strategy {whole} has no --level and no --target: leave them out"
    if whole == ROLLOVER and in_place:
        return "--strategy rollover makes a session of its own: leave --in-place out"
    if whole == CUT and not options.keep_turns:
        return "--strategy cut needs --keep-turns N, the newest turns that stay"
    for option, value, users in (
        ("--keep-turns", options.keep_turns, (CUT,)),
        ("--to", options.to, (REVERT,)),
        ("--template", options.template, (SUMMARISE, ROLLOVER)),
        ("--budget", options.budget, (SUMMARISE, ROLLOVER)),
        ("--provider", options.provider, (SUMMARISE,)),
        ("--model", options.model, (SUMMARISE,)),
    ):
        if value is not None and whole not in users:
            return f"{option} goes with --strategy {' or '.join(users)}"
    if whole in {CUT, REVERT, ROLLOVER} and options.keep is not None:
        return f"--strategy {whole} has no --keep: leave it out"
    if options.model is not None and options.provider in {None, "none"}:
        return "--model needs --provider: no model is asked without one"
    return None


class NotPlannedError(Exception):
    """No plan can be made; the message says why and what to do."""


BY_LEVEL: Final = "by level"
"""The ladder: least harm first, and no more than reaches the target."""

PLAN_STRATEGIES: Final = (BY_LEVEL, SUMMARISE, CUT, REVERT, ROLLOVER)


@dataclass(frozen=True, slots=True)
class PromptChoice:
    """A prompt that can be gone back to."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class PlanSliders:
    """What stands on the sliders."""

    strategy: str = BY_LEVEL
    level: int = int(DEFAULT_MAX_SEVERITY)
    target: int = round(DEFAULT_TARGET_SHARE * 100)
    """Percent of the effective window; 0 takes all that the level allows."""
    keep: int = DEFAULT_PROTECTED_TURNS
    """Newest turns with tools; of a summary, newest messages."""
    keep_turns: int = 10
    """Newest turns that a cut leaves."""
    prompts_back: int = 1
    """Prompts to go back; 1 is the newest."""

    def target_tokens(self, window_tokens: int) -> int | None:
        """Return the target size of the context; None if there is no target."""
        if self.strategy != BY_LEVEL or not self.target:
            return None
        return target_tokens(window_tokens, self.target / 100)

    def options(self, prompts: Sequence[PromptChoice] = ()) -> PlanOptions:
        """Convert to the options of `ctxtop compact`; `prompts` are the session's, oldest first."""
        if self.strategy == SUMMARISE:
            return PlanOptions(strategies=(SUMMARISE,), keep=self.keep)
        if self.strategy == CUT:
            return PlanOptions(strategies=(CUT,), keep_turns=self.keep_turns)
        if self.strategy == REVERT:
            known = 1 < self.prompts_back <= len(prompts)
            return PlanOptions(
                strategies=(REVERT,),
                to=str(prompts[-self.prompts_back].line) if known else LAST_PROMPT,
            )
        if self.strategy == ROLLOVER:
            return PlanOptions(strategies=(ROLLOVER,))
        target = self.target / 100 if self.target else None
        return PlanOptions(level=self.level, target=target, keep=self.keep)


DEFAULT_SLIDERS: Final = PlanSliders()
"""What nobody has touched: as `ctxtop compact` without options."""
