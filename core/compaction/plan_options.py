"""The options of a compaction plan: one type, from the key press or the command to the engine."""

from __future__ import annotations

from typing import Final

import msgspec

from .plan import (
    DEFAULT_MAX_SEVERITY,
    DEFAULT_PROTECTED_TURNS,
    DEFAULT_TARGET_SHARE,
    Severity,
    target_tokens,
)
from .transcript_file import MAX_TRANSCRIPT_BYTES, NO_SIZE_LIMIT

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
    """What was asked for; None where nothing was said."""

    strategies: tuple[str, ...] = ()
    """Only these; all of the levels where none is named."""
    level: int | None = None
    """The most severe level that may be used, 0 to 6."""
    target: float | None = None
    """Share of the effective window to stop at, 0 to 1."""
    keep: int | None = None
    """Newest turns with tools that stay; of a summary, newest messages."""
    keep_turns: int | None = None
    """Newest turns that a cut leaves."""
    to: str | None = None
    """The prompt of a revert: the number of its line, the start of its uuid, or LAST_PROMPT."""
    template: str | None = None
    budget: int | None = None
    """Tokens of a summary."""
    provider: str | None = None
    model: str | None = None
    force: bool = False
    """Also a transcript that is larger than any that is changed unasked."""
    in_place: bool = False
    """The session itself is to be changed: refused where it is open."""
    min_tail_tokens: int = 20_000
    """That stay at the end, at least; opencode keeps 40,000 (PRUNE_PROTECT), which left too
    little to free of a window of 200,000."""
    max_task_tokens: int = 40_000
    """Of what follows the last real prompt, at most: an agent that works on one prompt for
    hundreds of turns could never be made smaller. Results that are older than that were the
    source of 1 % of the later edits (recorded sessions)."""

    @property
    def whole_strategy(self) -> str | None:
        """The strategy for the whole conversation that was named."""
        return next((each for each in self.strategies if each in WHOLE_STRATEGIES), None)

    @property
    def max_level(self) -> Severity:
        return DEFAULT_MAX_SEVERITY if self.level is None else Severity(self.level)

    @property
    def min_turns(self) -> int:
        """Newest answers with calls that stay in a plan by level.

        JetBrains keeps 10; the regret falls from 6.2 to 0.6 % between 5 and 10.
        """
        if self.keep is None or self.whole_strategy is not None:
            return DEFAULT_PROTECTED_TURNS
        return self.keep

    @property
    def max_bytes(self) -> int:
        """Size of the largest transcript that is planned for."""
        return NO_SIZE_LIMIT if self.force else MAX_TRANSCRIPT_BYTES

    def target_tokens(self, window_tokens: int) -> int | None:
        """Return the size of the context to stop at; None takes all that is allowed.

        It is half of the effective window if no target, level or strategy was chosen.
        """
        if self.target is not None:
            return target_tokens(window_tokens, self.target)
        chose = self.level is not None or bool(self.strategies)
        return None if chose else target_tokens(window_tokens, DEFAULT_TARGET_SHARE)


DEFAULT_OPTIONS: Final = PlanOptions()


def check_options(options: PlanOptions) -> str | None:
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
    if whole == ROLLOVER and options.in_place:
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
