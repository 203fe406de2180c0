"""Which strategy a policy asks for: in automation, and as the default of a person's plan."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from ..model.levels import Level
from ..policy.policy import Policy, PolicyOrigin
from ..policy.schema import NATIVE
from ..summaries.summary_building import read_summary_settings
from .compression_level import COMPACTING_ACTIONS
from .plan import CONDENSE, CUT, SUMMARIZE, PlanOptions
from .strategies.masked import LONG_RESULTS

NONE: Final = "none"  # automation compacts nothing, whoever would do it
LADDER: Final = "ladder"  # a plan by levels: least harm first, and no more than reaches the target

_WHOLE_STRATEGIES: Final[Mapping[str, str]] = {
    "condense": CONDENSE,
    "summary": SUMMARIZE,
    "summary_buffer": SUMMARIZE,
    "window": CUT,
    "head_tail": CUT,
}
"""Values of `compact.strategy` that are about the whole conversation. Both summaries keep the
newest messages as they are, as the systems that they are named after do (001-10, 003-26). Both
cuts keep the first prompt too: without it the model would not know its task (001-18)."""

SUMMARIES: Final = frozenset(
    name for name, strategy in _WHOLE_STRATEGIES.items() if strategy == SUMMARIZE
)

MESSAGES_OF_A_TURN: Final = 2  # at least: a prompt and its answer (001-59)


def automatic_strategy(policy: Policy) -> str:
    """Return the value of `compact.strategy` that automation follows.

    `compact.by`, if it is set, decides between Claude Code (`native`) and ctxtop. The built-in
    `native` stands for nobody's choice: there ctxtop plans by levels, whose changes can be undone.
    """
    chosen, by = policy.values["compact.strategy"], policy.values["compact.by"]
    if by.value == "client" and chosen.value != NONE:
        return NATIVE
    if chosen.value != NATIVE:
        return policy.text("compact.strategy")
    if chosen.origin is PolicyOrigin.BUILT_IN or by.origin is not PolicyOrigin.BUILT_IN:
        return LADDER
    return NATIVE


def compacts_by_itself(policy: Policy) -> bool:
    """Whether automation has a threshold at which it compacts, and a strategy."""
    has_threshold = any(each.action in COMPACTING_ACTIONS for each in policy.thresholds)
    return has_threshold and automatic_strategy(policy) != NONE


KEPT_SHARES: Final[Mapping[Level, float]] = {Level.MEDIUM: 0.5, Level.AGGRESSIVE: 0.25}
"""Of the newest messages that a light compression keeps (T-02)."""


def whole_options(policy: Policy, level: Level | None = None) -> PlanOptions | None:
    """Return the options of the strategy for the whole conversation; None if it is another.

    Condensing keeps the newest turns as a plan by levels does. A summary keeps
    `compact.preserve_recent` messages, and fewer at a higher `level` of compression; a cut keeps
    as many turns as hold at least that many.
    """
    strategy = _WHOLE_STRATEGIES.get(policy.text("compact.strategy"))
    if strategy is None:
        return None
    if strategy == CONDENSE:
        return PlanOptions(strategies=(CONDENSE,))
    messages = read_summary_settings(policy).keep_messages
    if level is not None and level in KEPT_SHARES:
        messages = max(1, int(KEPT_SHARES[level] * messages))
    if strategy == SUMMARIZE:
        return PlanOptions(strategies=(SUMMARIZE,), keep=messages)
    return PlanOptions(strategies=(CUT,), keep_turns=_turns_of(messages))


def _turns_of(messages: int) -> int:
    """Return the turns that hold at least so many messages."""
    return max(1, -(-messages // MESSAGES_OF_A_TURN))


def cut_options(policy: Policy) -> PlanOptions | None:
    """Return the options of a plan that keeps the start of results; None if none is wanted.

    It spares only the newest `compact.preserve_recent` messages: not-agent cuts every other result
    (001-05).
    """
    if policy.integer("tools.first_chars") is None:
        return None
    turns = _turns_of(read_summary_settings(policy).keep_messages)
    return PlanOptions(strategies=(LONG_RESULTS,), keep=turns, min_tail_tokens=0, max_task_tokens=0)


def with_policy_strategy(options: PlanOptions, policy: Policy) -> PlanOptions:
    """Return a person's options with the policy's strategy, unless they chose how to plan."""
    default = whole_options(policy)
    if default is None or options.whole_strategy or options.strategies:
        return options
    if options.level is not None:
        return options
    if default.whole_strategy == CONDENSE:
        return replace(options, strategies=default.strategies)
    if options.target is not None:
        return options
    if options.keep is None:
        turns = options.keep_turns or default.keep_turns
        return replace(options, strategies=default.strategies, keep=default.keep, keep_turns=turns)
    # A cut takes no number of messages: then it is one of turns, for a plan by levels.
    is_summary = default.whole_strategy == SUMMARIZE
    return replace(options, strategies=default.strategies) if is_summary else options
