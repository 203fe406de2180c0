"""A rule that the person set, as it is listed."""

from enum import StrEnum

import msgspec


class RuleSource(StrEnum):
    PROMPT = "prompt"
    MEMORY = "memory"


class RuleMark(StrEnum):
    """What the person chose for a rule."""

    NONE = "none"
    PINNED = "pinned"
    DROPPED = "dropped"


class RuleState(StrEnum):
    IN_CONTEXT = "in context"
    LOST = "lost"  # in a compaction whose summary does not hold it
    GIVEN_BACK = "given back"  # by the hook `remember`, with a prompt after that


class ListedRule(msgspec.Struct, frozen=True):
    rule_id: str
    offset: int  # of the line that stated it last
    path: str | None  # of the memory file; None if a prompt states it
    mark: RuleMark
    state: RuleState
    state_at: int | None = None  # ms since 1970, of the compaction or the prompt

    @property
    def source(self) -> RuleSource:
        return RuleSource.PROMPT if self.path is None else RuleSource.MEMORY
