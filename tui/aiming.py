"""What a person has set on the compact page, as what is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..core.compaction.target import MOST_HARM, TARGET, TOOL_TURNS, target_tokens
from .planning import CUT, LAST, REVERT, ROLLOVER, SUMMARISE, Asked

if TYPE_CHECKING:
    from collections.abc import Sequence

BY_LEVEL: Final = "by level"
"""The ladder: least harm first, and no more than reaches the target."""

STRATEGIES: Final = (BY_LEVEL, SUMMARISE, CUT, REVERT, ROLLOVER)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that can be gone back to."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Aims:
    """What stands on the sliders."""

    strategy: str = BY_LEVEL
    level: int = int(MOST_HARM)
    target: int = round(TARGET * 100)
    """Percent of the effective window; 0 takes all that the level allows."""
    keep: int = TOOL_TURNS
    """Newest turns with tools; of a summary, newest messages."""
    keep_turns: int = 10
    """Newest turns that a cut leaves."""
    prompts_back: int = 1
    """Prompts to go back; 1 is the newest."""

    def target_tokens(self, window_tokens: int) -> int | None:
        """Give what the context is to come to; None where no target is aimed at."""
        if self.strategy != BY_LEVEL or not self.target:
            return None
        return target_tokens(window_tokens, self.target / 100)

    def options(self, prompts: Sequence[Prompt] = ()) -> Asked:
        """Say it as `ctxtop compact` is asked; `prompts` are the session's, oldest first."""
        if self.strategy == SUMMARISE:
            return Asked(strategies=(SUMMARISE,), keep=self.keep)
        if self.strategy == CUT:
            return Asked(strategies=(CUT,), keep_turns=self.keep_turns)
        if self.strategy == REVERT:
            known = 1 < self.prompts_back <= len(prompts)
            return Asked(
                strategies=(REVERT,), to=str(prompts[-self.prompts_back].line) if known else LAST
            )
        if self.strategy == ROLLOVER:
            return Asked(strategies=(ROLLOVER,))
        target = self.target / 100 if self.target else None
        return Asked(level=self.level, target=target, keep=self.keep)


USUAL: Final = Aims()
"""What nobody has touched: as `ctxtop compact` without options."""
