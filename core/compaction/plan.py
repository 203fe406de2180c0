"""A compaction plan: its options, operations, edits, refusals, default target and break-even."""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Final

import msgspec

from ..model.claude_models import CACHE_WRITE_1H_FACTOR, CACHE_WRITE_5M_FACTOR, cache_read_factor
from ..summaries.artifacts import ArtifactCounts
from ..summaries.compaction_quality import (
    DEFAULT_TARGET_REDUCTION,
    ReductionFlag,
    flag_reduction,
    kept_shares,
)
from ..summaries.summary_facts import QuotedAnchor


class Severity(IntEnum):
    """How much a change takes from the model, least first (compaction 7.4)."""

    FILE_ONLY = 0  # bytes that the model never sees
    SUPERSEDED = 2  # what the context holds elsewhere, or something newer replaces
    MASKED = 3  # old results; a digest stays
    INPUTS = 4  # inputs of tool calls
    REASONING = 5  # thinking
    PROSE = 6  # the model's words, and long pastes
    SUMMARY = 7  # a summary replaces older messages
    CUT = 8  # turns are gone

    @classmethod
    def _missing_(cls, value: object) -> "Severity | None":
        # Level 1 was a part of level 2: older receipts and commands name it.
        return cls.SUPERSEDED if value == 1 else None


OFFERED_LEVELS: Final = (
    Severity.FILE_ONLY,
    Severity.SUPERSEDED,
    Severity.MASKED,
    Severity.INPUTS,
    Severity.PROSE,
)
"""From which a person chooses the highest. Level 5 alone frees 0.1 % more than level 4: thinking
that a change leaves invalid goes at every level (`tests/bench/bench_compaction.py`)."""


class ReplaceValue(msgspec.Struct, frozen=True, tag="replace", tag_field="do"):
    """Replace one JSON value of a line; every other byte of the line stays the same."""

    line: int  # counted from 1, in the file that `CompactionPlan.base_sha256` is of
    offset: int  # byte at which the line begins
    sha256: str  # of the line's bytes without the line end, in hex
    pointer: str  # JSON pointer (RFC 6901) of the value; "" is the whole line
    value: str  # the new value as JSON text, without a line end


class RemoveLine(msgspec.Struct, frozen=True, tag="remove", tag_field="do"):
    """Remove a line with its line end; a `ReplaceValue` gives its children another parent."""

    line: int  # counted from 1
    offset: int  # byte at which the line begins
    sha256: str  # of the line's bytes without the line end, in hex


class AppendLine(msgspec.Struct, frozen=True, tag="append", tag_field="do"):
    text: str  # a JSON object without a line end


Edit = ReplaceValue | RemoveLine | AppendLine


MANUAL_TRIGGER: Final = "manual"
AUTOMATIC_TRIGGER: Final = "auto"
"""Who asked for a compaction, in the client's words (2.1.329): a person, or automation."""


class SummaryOutcome(msgspec.Struct, frozen=True):
    """What a summary keeps of the messages that it replaces, as a report would count it."""

    kept: ArtifactCounts
    lost: ArtifactCounts
    longer_texts: tuple[str, ...] = ()
    """Summaries of the levels before the one that is used, the longest first (003-20)."""
    anchors: tuple[QuotedAnchor, ...] = ()  # that it quotes, in the order of their lines


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    strategy: str
    level: Severity
    line: int | None  # counted from 1; None if it is about no single line
    kind: str  # of what is changed: a `PartKind`, or a line's type
    what: str  # for a person: the tool and its path or command, clean text of one line
    why: str  # for a person: the reason, one line
    tokens_saved: int
    """Freed in the context, estimated by `core.measure.tokens`; 0 for what the model never sees."""
    bytes_saved: int  # of the file; negative if it grows
    edits: tuple[Edit, ...]
    summary: SummaryOutcome | None = None  # only of an operation that summarizes


class Refusal(msgspec.Struct, frozen=True):
    check: str  # its code, which never changes: `live`, `futile`, `V7`
    why: str  # one line
    what_to_do: str  # one line

    def __str__(self) -> str:
        return f"{self.check}: {self.why}: {self.what_to_do}"


class ProtectedTokens(msgspec.Struct, frozen=True):
    why: str
    tokens: int  # estimated


class EscalationStep(msgspec.Struct, frozen=True):
    """One level that a plan needed to come closer to its target, and what it costs."""

    level: Severity
    tokens_saved: int
    names_lost: int  # names that nothing in the context mentions after this step
    names_known: int  # that the context mentioned before the plan


class PlanTarget(msgspec.Struct, frozen=True):
    """The size that a plan is to bring a context down to."""

    tokens: int
    window_tokens: int
    trigger_tokens: int | None = None  # where the client compacts by itself, if that is known

    @property
    def share(self) -> float:
        return self.tokens / self.window_tokens

    @property
    def description(self) -> str:
        return f"the target of {100 * self.share:.0f} % of the window ({self.tokens:,})"

    @property
    def passes_trigger(self) -> bool:
        """Whether the client would compact the context once more."""
        return self.trigger_tokens is not None and self.tokens >= self.trigger_tokens


class CompactionPlan(msgspec.Struct, frozen=True):
    """What would be done to one transcript; a plan with refusals must not be applied."""

    plan_id: str
    session_id: str
    base_sha256: str  # of the file's first `base_bytes` bytes, in hex
    base_bytes: int
    before_tokens: int  # of the context as it is now
    after_tokens: int
    bytes_before: int
    bytes_after: int
    harm: Severity  # the highest level of its operations
    break_even_requests: float | None
    """Requests after which a warm cache has paid for it (compaction 1.6); None for never."""
    operations: tuple[Operation, ...]
    refused: tuple[Refusal, ...] = ()
    break_even_requests_1h: float | None = None
    """The same for a cache that is kept for an hour: writing to it costs more."""
    protected: tuple[ProtectedTokens, ...] = ()  # the largest first
    target_reduction: tuple[float, float] = DEFAULT_TARGET_REDUCTION
    """The share of the context that the policy aims to free: least and most (001-12)."""
    steps: tuple[EscalationStep, ...] = ()  # of a plan that condenses, the mildest first
    unmoved_tokens: int = 0  # before the first change of the context: they stay in a warm cache
    target: PlanTarget | None = None  # None takes all that is allowed

    @property
    def misses_target(self) -> bool:
        return self.target is not None and self.after_tokens > self.target.tokens

    @property
    def summary(self) -> SummaryOutcome | None:
        return next((each.summary for each in self.operations if each.summary), None)

    @property
    def whole_strategy(self) -> str | None:
        """The strategy that made all of it; None of a plan by levels."""
        names = (each.strategy for each in self.operations)
        return next((each for each in names if each in WHOLE_STRATEGIES), None)

    @property
    def reduction_flag(self) -> ReductionFlag | None:
        return flag_reduction(self.saved_share, self.target_reduction)

    @property
    def only_appends(self) -> bool:
        return all(isinstance(edit, AppendLine) for edit in edits_of(self.operations))

    @property
    def tokens_saved(self) -> int:
        return self.before_tokens - self.after_tokens

    @property
    def bytes_saved(self) -> int:
        """Negative if the file grows."""
        return self.bytes_before - self.bytes_after

    @property
    def saved_share(self) -> float:
        return self.tokens_saved / self.before_tokens if self.before_tokens else 0.0


def edits_of(operations: Iterable[Operation]) -> Iterator[Edit]:
    return (edit for operation in operations for edit in operation.edits)


def changed_lines(operations: Iterable[Operation]) -> set[int]:
    """Return the lines that operations change or remove."""
    return {edit.line for edit in edits_of(operations) if not isinstance(edit, AppendLine)}


def severity_of_edits(operations: Iterable[Operation]) -> Severity:
    """Return the highest level of the operations that change or remove lines."""
    return max(
        (
            each.level
            for each in operations
            if any(not isinstance(edit, AppendLine) for edit in each.edits)
        ),
        default=Severity.FILE_ONLY,
    )


def make_plan(
    session_id: str,
    base_sha256: str,
    base_bytes: int,
    operations: Iterable[Operation],
    *,
    before_tokens: int,
    unmoved_tokens: int = 0,
    model: str | None = None,
    refused: Iterable[Refusal] = (),
    protected: Iterable[ProtectedTokens] = (),
    target_reduction: tuple[float, float] = DEFAULT_TARGET_REDUCTION,
    steps: Iterable[EscalationStep] = (),
    target: PlanTarget | None = None,
) -> CompactionPlan:
    """Make a plan; sums, harm, break-even and id follow from the operations.

    `unmoved_tokens` come before the first change of the context, and stay in the cache of `model`.
    """
    operations = tuple(operations)
    saved = sum(each.tokens_saved for each in operations)
    requests_5m, requests_1h = (
        requests_to_break_even(before_tokens, unmoved_tokens, saved, factor, model)
        for factor in (CACHE_WRITE_5M_FACTOR, CACHE_WRITE_1H_FACTOR)
    )
    # The same plan for the same file has the same id; 12 digits tell one machine's plans apart.
    digest = hashlib.sha256(base_sha256.encode() + msgspec.json.encode(operations))
    return CompactionPlan(
        plan_id=digest.hexdigest()[:12],
        session_id=session_id,
        base_sha256=base_sha256,
        base_bytes=base_bytes,
        before_tokens=before_tokens,
        after_tokens=before_tokens - saved,
        bytes_before=base_bytes,
        bytes_after=base_bytes - sum(each.bytes_saved for each in operations),
        harm=max((each.level for each in operations), default=Severity.FILE_ONLY),
        break_even_requests=requests_5m,
        operations=operations,
        refused=tuple(refused),
        break_even_requests_1h=requests_1h,
        protected=tuple(protected),
        target_reduction=target_reduction,
        steps=tuple(steps),
        unmoved_tokens=unmoved_tokens,
        target=target,
    )


def plan_to_dict(plan: CompactionPlan) -> dict[str, Any]:
    """Convert a plan to JSON types without its edits (commands.md, `ctxtop compact`)."""
    record: dict[str, Any] = msgspec.to_builtins(plan)
    record["operations"] = [
        {"op": number}
        | {key: value for key, value in each.items() if key not in {"edits", "summary"}}
        for number, each in enumerate(record["operations"], 1)
    ]
    names = ("refused", "protected", "target_reduction", "steps")
    lists = {name: list(record[name]) for name in names}
    return record | lists | quality_to_dict(plan)


def quality_to_dict(plan: CompactionPlan) -> dict[str, Any]:
    """Convert what a plan frees and what its summary keeps to JSON types."""
    summary = plan.summary
    shares = kept_shares(summary.kept, summary.lost) if summary else None
    return {
        "reduction": plan.saved_share,
        "reduction_flag": plan.reduction_flag,
        "kept_shares": msgspec.to_builtins(shares),
        "longer_summaries": list(summary.longer_texts) if summary else [],
        "anchors": msgspec.to_builtins(list(summary.anchors)) if summary else [],
    }


class RefusalKind(StrEnum):
    """A command's exit code follows from it."""

    NOTHING = "nothing"  # there is nothing to do
    LIVE = "live"  # the session is, or may be, at work
    UNSAFE = "unsafe"  # nobody can show that it does no harm
    UNVERIFIED = "unverified"  # it was tried, a check failed, and everything is as it was


class CompactionRefusedError(Exception):
    """Nothing was changed; the refusals name the checks that failed and what to do."""

    def __init__(self, kind: RefusalKind, refusals: Sequence[Refusal]) -> None:
        self.kind = kind
        self.refusals = tuple(refusals)
        super().__init__("; ".join(map(str, refusals)))


def refusal_error(
    kind: RefusalKind, check: str, why: str, what_to_do: str
) -> CompactionRefusedError:
    return CompactionRefusedError(kind, [Refusal(check, why, what_to_do)])


def target_refusal(tokens: int, target: PlanTarget) -> Refusal:
    """Refuse to plan for a context that is no larger than its target."""
    return Refusal(
        "target",
        f"the context has {tokens:,} tokens, which already meets {target.description}",
        "use a smaller --target, or --level to apply everything that it allows",
    )


def refuse_if_any(kind: RefusalKind, refusals: Iterable[Refusal]) -> None:
    """Raise CompactionRefusedError with all refusals, if there are any."""
    found = list(refusals)
    if found:
        raise CompactionRefusedError(kind, found)


DEFAULT_TARGET_SHARE: Final = 0.5
"""Share of the window (compaction.md 7.5; oh-my-opencode has the same). Where Claude Code compacts
below half of the window, it is of what fits until then: a larger target would free nothing."""

DEFAULT_PROTECTED_TURNS: Final = 5
"""Newest turns with tools that stay; JetBrains keeps 10. Of the names that the next ten answers
use, 12 % are further back than 5 turns and 9 % further than 10 (`tests/bench/bench_tail.py`); stubs
keep them."""

DEFAULT_MAX_SEVERITY: Final = Severity.INPUTS  # beyond it only on request (compaction.md 7.4)


def default_target(window_tokens: int, trigger_tokens: int | None = None) -> PlanTarget:
    size = round(DEFAULT_TARGET_SHARE * window_tokens)
    if trigger_tokens is not None and trigger_tokens <= size:
        size = round(DEFAULT_TARGET_SHARE * trigger_tokens)
    return PlanTarget(size, window_tokens, trigger_tokens)


def requests_to_break_even(
    context_tokens: int,
    unmoved_tokens: int,
    saved_tokens: int,
    write_factor: float,
    model: str | None = None,
) -> float | None:
    """Return the requests after which a change costs no more than none; None for never.

    `unmoved_tokens` come before the first change and stay in the cache; `write_factor` is the
    price of a token written to the cache, and read that of one that `model` reads from it, in
    tokens of input. The first request after the change costs
    (context - saved - unmoved) * write + unmoved * read - context * read more, and each later one
    saves read * saved.
    """
    read = cache_read_factor(model)
    if saved_tokens <= 0 or read <= 0:
        return None
    extra = (
        max(0, context_tokens - saved_tokens - unmoved_tokens) * write_factor
        + (unmoved_tokens - context_tokens) * read
    )
    return max(0.0, extra / (read * saved_tokens))


MAX_TRANSCRIPT_BYTES: Final = 200_000_000  # beyond it only on request: copying takes minutes
USAGE: Final = "usage"  # lowers what the newest answer recorded; it follows from the others
CONDENSE: Final = "condense"
RESTORE_TURN: Final = "restore-turn"  # asked for by the number of a turn, not by name
SUMMARIZE: Final = "summarize"
CUT: Final = "cut"
REVERT: Final = "revert"
ROLLOVER: Final = "rollover"

WHOLE_STRATEGIES: Final = (CONDENSE, SUMMARIZE, CUT, REVERT, ROLLOVER)  # each alone, only by name
TEMPLATES_BY_SECTIONS: Final = {
    "4": "four_section",
    "5": "five_section",
    "8": "eight_section",
    "11": "native",
}

LAST_PROMPT: Final = "last"  # the word for the newest prompt


class ResultCaps(msgspec.Struct, frozen=True):
    """The policy's keys `tools.*` for plans: the largest results that level 3 leaves (R002-18)."""

    max_tokens: int = 50_000  # of any result (002-110)
    max_web_tokens: int = 10_000  # of a web page or a web search
    header_lines: int = 3  # first lines that a cut result keeps
    first_chars: int = 10_000  # of a result, if it is cut at its start (not-agent, 001-05)


DEFAULT_RESULT_CAPS: Final = ResultCaps()


class PlanOptions(msgspec.Struct, frozen=True):
    """What was requested; None for what was not named."""

    strategies: tuple[str, ...] = ()  # only these; if empty, all of the levels
    level: int | None = None  # the most severe level that may be used, 0 to 6
    target: float | None = None  # share of the window to stop at, 0 to 1
    keep: int | None = None  # newest turns with tools that stay; of a summary, newest messages
    keep_turns: int | None = None  # newest turns that a cut leaves
    to: str | None = None
    """The prompt of a revert: the number of its line, the start of its uuid, or LAST_PROMPT."""
    restore_turn: int | None = None  # a condensed turn to put back, by the number of its heading
    template: str | None = None
    budget: int | None = None  # tokens of a summary
    provider: str | None = None
    model: str | None = None
    force: bool = False  # allows transcripts above MAX_TRANSCRIPT_BYTES
    in_place: bool = False  # the session itself is to be changed: refused while it is open
    min_tail_tokens: int = 10_000
    """Tokens that stay at the end; opencode keeps 40,000 (PRUNE_PROTECT). No size stands out: of
    the texts that the next ten answers edit, 47 % are more than 5,000 tokens back, 38 % more than
    10,000, 30 % more than 20,000 and 21 % more than 40,000 (`tests/bench/bench_tail.py`)."""
    max_task_tokens: int = 15_000
    """The most that stays of what follows the last real prompt: an agent that works on one
    prompt for hundreds of turns could never be made smaller. Here the same curve flattens: 5,000
    tokens more would hold the texts of another 2 % of the edits."""
    result_caps: ResultCaps = DEFAULT_RESULT_CAPS
    target_reduction: tuple[float, float] = DEFAULT_TARGET_REDUCTION  # only to be judged by

    @property
    def whole_strategy(self) -> str | None:
        if self.restore_turn is not None:
            return RESTORE_TURN
        return next((each for each in self.strategies if each in WHOLE_STRATEGIES), None)

    @property
    def max_level(self) -> Severity:
        return DEFAULT_MAX_SEVERITY if self.level is None else Severity(self.level)

    @property
    def min_turns(self) -> int:
        """Newest answers with calls that stay in a plan by level."""
        if self.keep is None or self.whole_strategy not in {None, CONDENSE}:
            return DEFAULT_PROTECTED_TURNS
        return self.keep

    @property
    def max_bytes(self) -> int:
        return sys.maxsize if self.force else MAX_TRANSCRIPT_BYTES

    def target_in(self, window_tokens: int, trigger_tokens: int | None = None) -> PlanTarget | None:
        """Return the size of the context to stop at; None takes all that is allowed.

        It is half of the window if no target, level or strategy was chosen, or if the oldest
        turns are to be condensed.
        """
        if self.target is not None:
            return PlanTarget(round(self.target * window_tokens), window_tokens, trigger_tokens)
        is_default = self.level is None and not self.strategies
        is_default |= self.whole_strategy == CONDENSE
        return default_target(window_tokens, trigger_tokens) if is_default else None


DEFAULT_OPTIONS: Final = PlanOptions()


def check_options(options: PlanOptions) -> str | None:
    """Return which options conflict and how to fix it; None if they fit together."""
    whole = options.whole_strategy
    if whole == RESTORE_TURN and options.strategies:
        return "--restore-turn takes no --strategy: omit it"
    if whole and len(options.strategies) > 1:
        return f"--strategy {whole} cannot be combined with others: omit them"
    if options.level is not None and options.level >= Severity.SUMMARY:
        return (
            f"level {options.level} needs a named strategy: --strategy condense or summarize (7),"
            " --strategy cut, revert or rollover (8)"
        )
    if whole == CONDENSE and options.level is not None:
        return f"--strategy {whole} takes no --level: it uses as many as the target needs"
    if whole not in {None, CONDENSE} and (options.level, options.target) != (None, None):
        return f"{_name_of(whole)} takes no --level and no --target: omit them"
    if whole == ROLLOVER and options.in_place:
        return "--strategy rollover starts a new session: omit --in-place"
    if whole == CUT and not options.keep_turns:
        return "--strategy cut needs --keep-turns N, the number of newest turns to keep"
    for option, value, users in (
        ("--keep-turns", options.keep_turns, (CUT,)),
        ("--to", options.to, (REVERT,)),
        ("--template", options.template, (SUMMARIZE, ROLLOVER)),
        ("--budget", options.budget, (SUMMARIZE, ROLLOVER)),
        ("--provider", options.provider, (SUMMARIZE,)),
        ("--model", options.model, (SUMMARIZE,)),
    ):
        if value is not None and whole not in users:
            return f"{option} needs --strategy {' or '.join(users)}"
    if whole in {CUT, REVERT, ROLLOVER, RESTORE_TURN} and options.keep is not None:
        return f"{_name_of(whole)} takes no --keep: omit it"
    if options.model is not None and options.provider in {None, "none"}:
        return "--model needs --provider: no model is asked without one"
    return None


def _name_of(whole: str | None) -> str:
    return f"--{whole}" if whole == RESTORE_TURN else f"--strategy {whole}"
