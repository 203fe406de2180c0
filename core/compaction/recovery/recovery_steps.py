"""What each recovery step proposes, and the plan of the first one that frees enough."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ...model.context_window import OUTPUT_RESERVE
from ...model.conversation import Entry, PartKind, Role, binds_thinking, group_messages
from ...transcript.visible_messages import follow_chain, visible_entries
from .. import edit_builder, plan
from ..edit_builder import CONTENT_POINTER, OperationReason, resolve_pointer
from ..plan import CompactionPlan, Operation, Refusal, RemoveLine, ReplaceValue, Severity
from ..strategies import reasoning
from ..strategies.summary_and_cut import plan_revert, sent_prompts
from ..transcript_planning import STRATEGIES
from ..transcript_reading import add_lowered_usage
from ..transcript_view import TranscriptView, VisibleBlock
from .limit_errors import LimitErrorType, SessionRefusal
from .recovery_run import RecoveryCounters, RecoverySettings, RecoveryStep, is_step_available


class RecoveryContext(msgspec.Struct, frozen=True):
    view: TranscriptView
    refusal: SessionRefusal
    settings: RecoverySettings
    base_sha256: str  # of the transcript
    base_bytes: int
    counters: RecoveryCounters = RecoveryCounters()
    window_tokens: int | None = None  # for a refusal that names no limit, if it is known
    reserve_tokens: int = OUTPUT_RESERVE  # to keep free
    planned_operations: tuple[Operation, ...] = ()  # of earlier steps that do not suffice
    summarize: Callable[[RecoveryContext], Operation | Refusal] | None = None
    """Makes the operation that replaces older messages by a summary, or says why not."""

    @property
    def is_about_size(self) -> bool:
        return self.refusal.error_type is not LimitErrorType.NON_EMPTY_CONTENT

    @property
    def limit_tokens(self) -> int | None:
        return self.refusal.max_tokens or self.window_tokens

    @property
    def tokens(self) -> int:
        """Tokens of the request as the API counted it, after what is planned already."""
        now = self.refusal.current_tokens or self.view.tokens
        return now - _saved_tokens(self.planned_operations)

    @property
    def max_fitting_tokens(self) -> int | None:
        """Tokens at which there is room for an answer; None without a limit."""
        limit = self.limit_tokens
        if limit is None:
            return None
        # A reserve that is larger than half of a small window would leave no conversation.
        return max(limit - self.reserve_tokens, int(limit * self.settings.target_ratio))

    @property
    def changed_lines(self) -> set[int]:
        return plan.changed_lines(self.planned_operations)

    @property
    def truncations_left(self) -> int:
        """Results that may still be truncated, whichever steps truncate them (002-64)."""
        used = self.counters.truncated + count_truncations(self.planned_operations)
        return max(0, self.settings.max_truncate - used)

    def fits_after(self, operations: Iterable[Operation]) -> bool:
        """Whether the request fits after the operations; without a limit any saving suffices."""
        saved, limit = _saved_tokens(operations), self.max_fitting_tokens
        return saved > 0 if limit is None else self.tokens - saved <= limit


def _saved_tokens(operations: Iterable[Operation]) -> int:
    return sum(each.tokens_saved for each in operations)


_TRUNCATING_STEPS: Final = frozenset({RecoveryStep.TRUNCATE, RecoveryStep.AGGRESSIVE})


def count_truncations(operations: Iterable[Operation]) -> int:
    return sum(each.strategy in _TRUNCATING_STEPS for each in operations)


class StepProposal(msgspec.Struct, frozen=True):
    step: RecoveryStep
    operations: tuple[Operation, ...] = ()
    insufficient: Refusal | None = None  # why it does not suffice; None if it does
    prompt: str | None = None  # that a revert removes: to be asked again
    reverted_uuid: str | None = None  # uuid of that prompt's line

    @property
    def is_sufficient(self) -> bool:
        return self.insufficient is None


def _insufficient(
    step: RecoveryStep, why: str, what_to_do: str = "go on", operations: Iterable[Operation] = ()
) -> StepProposal:
    return StepProposal(step, tuple(operations), Refusal(step, why, what_to_do))


TRUNCATION_MESSAGE: Final = (
    "[TOOL RESULT TRUNCATED - Context limit exceeded. Original output was too large and has been"
    " truncated to recover the session. Please re-run this tool if you need the full output.]"
)
"""What the model reads in its place (002-73)."""


def propose_truncation(context: RecoveryContext) -> StepProposal:
    """Truncate one result after the other, and stop when the request fits (002-54, R002-13)."""
    step, operations = RecoveryStep.TRUNCATE, list[Operation]()
    for block in _results_by_size(context):
        is_enough = bool(operations) and context.fits_after(operations)
        if is_enough or len(operations) >= context.truncations_left:
            break
        operations += _truncate_result(context, block, step, "the largest result that is left")
    return _truncation_proposal(context, step, operations)


def propose_aggressive_truncation(context: RecoveryContext) -> StepProposal:
    """Truncate as many results as it takes to come down to the target (002-51 to 002-53).

    The characters that go are counted; the message in their place is not subtracted (002-62,
    002-63). Reaching the target is sufficient, whatever the tokens that remain are estimated at.
    """
    step, operations = RecoveryStep.AGGRESSIVE, list[Operation]()
    left = chars_to_free(context)
    for block in _results_by_size(context):
        if left <= 0 or len(operations) >= context.truncations_left:
            break
        truncated = _truncate_result(context, block, step, "among the largest results")
        operations += truncated
        left -= block.chars if truncated else 0
    if operations and left <= 0:
        return StepProposal(step, tuple(operations))
    return _truncation_proposal(context, step, operations)


def chars_to_free(context: RecoveryContext) -> int:
    """Return how many characters to free: those above the target's share of the limit."""
    limit = context.limit_tokens
    target = int((context.tokens if limit is None else limit) * context.settings.target_ratio)
    return max(0, context.tokens - target) * context.settings.chars_per_token


def _results_by_size(context: RecoveryContext) -> list[VisibleBlock]:
    """List the truncatable results, largest first; at the end too, most often the cause."""
    changed = context.changed_lines
    results = [
        block
        for block in context.view.blocks
        if block.part.kind is PartKind.TOOL_RESULT
        and block.chars >= context.settings.min_output_chars
        and not block.is_replaced
        and block.line not in changed
        and block.line not in context.view.protected_lines
    ]
    return sorted(results, key=lambda block: (-block.chars, block.index))


def _truncate_result(
    context: RecoveryContext, block: VisibleBlock, step: RecoveryStep, why: str
) -> list[Operation]:
    reason = OperationReason(step, Severity.MASKED, f"{why}: {block.chars:,} characters")
    operation = edit_builder.replace_result(context.view, block, reason, TRUNCATION_MESSAGE)
    return [operation] if operation else []


def _truncation_proposal(
    context: RecoveryContext, step: RecoveryStep, operations: list[Operation]
) -> StepProposal:
    if not operations and not context.truncations_left:
        most = context.settings.max_truncate
        return _insufficient(step, f"{most} results were truncated, which is the limit")
    if not operations:
        least = context.settings.min_output_chars
        return _insufficient(step, f"no result of {least} characters or more is left to truncate")
    if context.fits_after(operations):
        return StepProposal(step, tuple(operations))
    saved = _saved_tokens(operations)
    why = (
        f"{len(operations)} truncated results would free {saved:,} "
        f"tokens: {context.tokens - saved:,} are"
        f" left, more than {context.max_fitting_tokens:,}"
    )
    return _insufficient(step, why, operations=operations)


EMPTY_MESSAGE_TEXT: Final = "[user interrupted]"  # what an empty message says afterwards (002-78)
MESSAGE_INDEX_SHIFTS: Final = (0, -1, -2)
"""The API counts messages that a transcript does not hold (R002-15)."""

_BLANK_PART: Final = re.compile(rb'"(?:text|content)"\s*:\s*(?:"(?:\s|\\[nrt])*"|\[\s*\])')
"""What a line with an empty part holds somewhere."""


def propose_empty_fix(context: RecoveryContext) -> StepProposal:
    """Fill the empty message at the index that the API names, or else all empty messages."""
    view = context.view
    messages = _chain_messages(view.entries)
    named = _message_at_index(view, messages, context.refusal.message_index)
    operations = [
        _fill_operation(view, entry, changes)
        for message in named or messages
        for entry, changes in _empty_parts(view, message)
    ]
    if not operations:
        return _insufficient(RecoveryStep.FIX_EMPTY, "no message is empty")
    if context.is_about_size:
        # Filling a message frees nothing: another step has to follow.
        why = "it frees nothing"
        return _insufficient(RecoveryStep.FIX_EMPTY, why, operations=operations)
    return StepProposal(RecoveryStep.FIX_EMPTY, tuple(operations))


def _message_at_index(
    view: TranscriptView, messages: Sequence[list[Entry]], index: int | None
) -> list[list[Entry]]:
    for shift in MESSAGE_INDEX_SHIFTS if index is not None else ():
        place = (index or 0) + shift
        if 0 <= place < len(messages) and any(_empty_parts(view, messages[place])):
            return [messages[place]]
    return []


def _chain_messages(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Group the lines by message, the empty ones too."""

    def message_key(entry: Entry) -> tuple[Role | None, str | None]:
        return entry.role, None if entry.role is Role.USER else entry.message_id

    chain = follow_chain(entries)
    sent = (each for each in chain if each.type in {"user", "assistant"} and not each.hidden)
    return [list(lines) for _, lines in groupby(sent, message_key)]


def _empty_parts(
    view: TranscriptView, message: Sequence[Entry]
) -> Iterator[tuple[Entry, dict[str, object]]]:
    """Yield the lines of a message that must not stay empty: new values by their pointers.

    An empty text beside other blocks is refused as well (R002-15). A line without any block is
    filled only if the whole message is empty: the client leaves such a line out.
    """
    contents = [(entry, _content_if_blank(view, entry)) for entry in message]
    is_blank_message = all(_is_blank_content(content) for _, content in contents)
    for entry, content in contents:
        if isinstance(content, list) and content:
            changes: dict[str, object] = {
                f"{CONTENT_POINTER}/{number}/text": EMPTY_MESSAGE_TEXT
                for number, block in enumerate(content)
                if _is_blank(block)
            }
            if changes:
                yield entry, changes
        elif is_blank_message and entry is message[-1] and content is not None:
            block = {"type": "text", "text": EMPTY_MESSAGE_TEXT}
            value = EMPTY_MESSAGE_TEXT if isinstance(content, str) else [block]
            yield entry, {CONTENT_POINTER: value}


def _content_if_blank(view: TranscriptView, entry: Entry) -> Any:  # noqa: ANN401 -- any JSON
    """Read a line's content if a part of it may be empty; "…" stands for any other."""
    if entry.parts and not _BLANK_PART.search(view.line_bytes(entry.line)):
        return "…"
    return resolve_pointer(view.decoded_line(entry.line), CONTENT_POINTER)


def _is_blank_content(content: object) -> bool:
    if isinstance(content, str):
        return not content.strip()
    return isinstance(content, list) and all(map(_is_blank, content))


def _is_blank(block: object) -> bool:
    if not isinstance(block, dict) or block.get("type") != "text":
        return False
    text = block.get("text")
    return isinstance(text, str) and not text.strip()


def _fill_operation(view: TranscriptView, entry: Entry, changes: dict[str, object]) -> Operation:
    edits = [
        edit
        for number in (entry.line, *view.copies_of(entry.line))
        for edit in edit_builder.make_replacements(view, number, changes)
    ]
    return Operation(
        strategy=RecoveryStep.FIX_EMPTY,
        level=Severity.SUPERSEDED,
        line=entry.line,
        kind=entry.type,
        what=f"an empty {entry.role} message",
        why=f"the API refuses it: it becomes {EMPTY_MESSAGE_TEXT}",
        tokens_saved=0,
        bytes_saved=edit_builder.count_saved_bytes(view, edits),
        edits=tuple(edits),
    )


def propose_revert(context: RecoveryContext) -> StepProposal:
    """Cut before the last prompt, or as many prompts back as necessary and allowed."""
    view, settings = context.view, context.settings
    step = RecoveryStep.REVERT
    prompts = {block.line: block.entry for block in sent_prompts(view)}
    left = max(0, min(len(prompts), settings.max_revert - context.counters.reverted))
    for line in sorted(prompts, reverse=True)[:left]:
        sent = visible_entries([each for each in view.entries if each.line < line])
        if len(group_messages(sent)) < settings.min_messages:
            why = f"fewer than {settings.min_messages} messages would be left"
            return _insufficient(step, why, "start a new session")
        cut = plan_revert(view, line)
        if isinstance(cut, Refusal):
            return StepProposal(step, insufficient=cut)
        operation = replace(cut, tokens_saved=view.tokens - _tokens_of_sent(view, sent))
        if not context.is_about_size or context.fits_after([operation]):
            prompt, uuid = _prompt_text(view, line), prompts[line].uuid
            return StepProposal(step, (operation,), prompt=prompt, reverted_uuid=uuid)
    return _insufficient(
        step,
        f"going back {left} prompts does not free enough",
        "compact the session by hand (`ctxtop compact`), or start a new one",
    )


def _tokens_of_sent(view: TranscriptView, sent: Sequence[Entry]) -> int:
    """Estimate what is sent if the conversation ends earlier: perhaps before a boundary."""
    known = view.line_tokens
    return view.overhead_tokens + sum(
        known[entry.offset] if entry.offset in known else sum(map(view.count_tokens, entry.parts))
        for entry in sent
    )


def _prompt_text(view: TranscriptView, line: int) -> str:
    content = resolve_pointer(view.decoded_line(line), CONTENT_POINTER)
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = (each.get("text") for each in blocks if isinstance(each, dict))
    return "\n".join(each for each in texts if isinstance(each, str))


_DEDUP_STRATEGIES: Final = frozenset(
    {"duplicate-results", "unchanged-reads", "repeated-attachments", "repeated-calls"}
)
"""Strategies that remove repetitions: the step `dedup` of the preset omo-latest."""


def _propose_pruning(context: RecoveryContext, step: RecoveryStep) -> StepProposal:
    changed = context.changed_lines
    if step is RecoveryStep.DEDUP:
        strategies = [each for each in STRATEGIES if each.name in _DEDUP_STRATEGIES]
    else:
        mild = Severity.SUPERSEDED
        strategies = [each for each in STRATEGIES if each.level is mild and not each.is_opt_in]
    operations = tuple(
        operation
        for strategy in strategies
        for operation in strategy.find_operations(context.view)
        if operation.line not in changed
    )
    if not operations:
        return _insufficient(step, "nothing is duplicated")
    return _sized_proposal(context, step, operations)


def _propose_summary(context: RecoveryContext) -> StepProposal:
    step = RecoveryStep.SUMMARIZE
    operation = context.summarize(context) if context.summarize else None
    if isinstance(operation, Refusal):
        return StepProposal(step, insufficient=operation)
    if operation is None or operation.tokens_saved <= 0:
        return _insufficient(step, "no summary is smaller than the current content")
    return _sized_proposal(context, step, (operation,))


def _sized_proposal(
    context: RecoveryContext, step: RecoveryStep, operations: tuple[Operation, ...]
) -> StepProposal:
    if context.fits_after(operations):
        return StepProposal(step, operations)
    left = context.tokens - _saved_tokens(operations)
    why = f"{left:,} tokens are left, more than {context.max_fitting_tokens:,}"
    return _insufficient(step, why, operations=operations)


def _propose_step(step: RecoveryStep, context: RecoveryContext) -> StepProposal:
    propose = {
        RecoveryStep.FIX_EMPTY: propose_empty_fix,
        RecoveryStep.TRUNCATE: propose_truncation,
        RecoveryStep.AGGRESSIVE: propose_aggressive_truncation,
        RecoveryStep.SUMMARIZE: _propose_summary,
        RecoveryStep.REVERT: propose_revert,
    }.get(step)
    return propose(context) if propose else _propose_pruning(context, step)


def _operations_to_apply(context: RecoveryContext, proposal: StepProposal) -> tuple[Operation, ...]:
    """Return all operations of a step that suffices, with the earlier ones it builds on.

    A summary or a revert replaces what was truncated before it: of the earlier operations only
    filled empty messages are kept.
    """
    earlier = context.planned_operations
    if proposal.step in {RecoveryStep.SUMMARIZE, RecoveryStep.REVERT}:
        changed = plan.changed_lines(proposal.operations)
        earlier = tuple(
            each
            for each in earlier
            if each.strategy == RecoveryStep.FIX_EMPTY and each.line not in changed
        )
    return (*earlier, *proposal.operations)


def _add_bound_thinking(
    view: TranscriptView, operations: tuple[Operation, ...]
) -> tuple[Operation, ...] | None:
    """Drop the thinking that is bound to what a change alters (rule T, compaction.md 2.5).

    None if thinking must stay that is bound to it.
    """
    edits = [*plan.edits_of(operations)]
    changed = [edit.line for edit in edits if isinstance(edit, ReplaceValue)]
    removed = {edit.line for edit in edits if isinstance(edit, RemoveLine)}
    indexes = [each.index for each in view.blocks if changed and each.line >= min(changed)]
    if not indexes or not binds_thinking(view.model):
        return operations
    if min(indexes) < view.bound_end:
        return None
    dropped = reasoning.drop_thinking_after(view, min(indexes))
    if dropped is None or dropped.line in removed:
        return operations
    return (*operations, dropped)


class RecoveryChoice(msgspec.Struct, frozen=True):
    proposals: tuple[StepProposal, ...]  # in order; the last one suffices if there is a plan
    plan: CompactionPlan | None = None

    @property
    def chosen(self) -> StepProposal | None:
        return self.proposals[-1] if self.plan is not None else None

    @property
    def truncated_results(self) -> int:
        """How many results the plan truncates, by any of the steps."""
        return count_truncations(self.plan.operations) if self.plan else 0

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why each of the steps before it does not suffice."""
        return tuple(each.insufficient for each in self.proposals if each.insufficient)


def choose_step(
    steps: Iterable[RecoveryStep],
    context: RecoveryContext,
    confirmed: frozenset[RecoveryStep] = frozenset(),
) -> RecoveryChoice:
    """Try the steps in order, least severe first, until one suffices.

    A step that needs confirmation, as a revert always does, is skipped unless it was confirmed
    (T-08).
    """
    tried: list[StepProposal] = []
    for step in steps:
        proposal = _propose_step(step, context)
        asks = context.settings.needs_confirmation(step) and step not in confirmed
        operations = _add_bound_thinking(context.view, _operations_to_apply(context, proposal))
        if proposal.is_sufficient and (asks or operations is None):
            missing = _needs_confirmation(step) if asks else _BOUND_THINKING
            proposal = replace(proposal, insufficient=missing)
        tried.append(proposal)
        if operations is not None and proposal.is_sufficient:
            return RecoveryChoice(tuple(tried), _make_recovery_plan(context, operations))
        if step is not RecoveryStep.REVERT:
            planned = (*context.planned_operations, *proposal.operations)
            context = replace(context, planned_operations=planned)
    return RecoveryChoice(tuple(tried))


def available_steps(
    context: RecoveryContext, steps: Iterable[RecoveryStep]
) -> Iterator[RecoveryStep]:
    return (each for each in steps if is_step_available(each, context.counters, context.settings))


def _make_recovery_plan(
    context: RecoveryContext, operations: tuple[Operation, ...]
) -> CompactionPlan:
    view = context.view
    places = [view.tokens_before_line.get(each.line or 0, 0) for each in operations]
    return plan.make_plan(
        context.refusal.session_id,
        context.base_sha256,
        context.base_bytes,
        add_lowered_usage(view, operations),
        before_tokens=view.tokens,
        unmoved_tokens=view.overhead_tokens + min(places, default=0),
        model=view.model,
    )


_BOUND_THINKING: Final = Refusal(
    "thinking", "the model's latest thinking is valid only after an unchanged conversation", "go on"
)


def _needs_confirmation(step: RecoveryStep) -> Refusal:
    why = f"{step} needs confirmation"
    if step is RecoveryStep.REVERT:
        why = "going back removes your last prompt and everything after it"
    return Refusal("confirm", why, f"read the plan, then add --confirm {step}")
