"""All strategies, which of their operations a plan gets, and plans for a transcript."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace as replace_field
from functools import cached_property, partial
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.claude_models import SMALL_WINDOW
from ..model.conversation import Role, binds_thinking, last_boundary
from ..transcript.visible_messages import retained_uuids
from . import plan as plans
from . import transcript_view
from .edit_builder import FindOperations, OperationReason
from .plan import CompactionPlan, Operation, PlanOptions, PlanTarget, Refusal, Severity
from .protection import first_recent_line, mark_protected, sum_protected_tokens
from .strategies import attachments, files, inputs, masked, reasoning, redundant
from .strategies.stubs import reads_of_edited_files
from .strategies.summary_and_cut import UNFINISHED_TURN
from .transcript_reading import PlanSource, add_lowered_usage, read_transcript_view
from .transcript_view import OpenTranscript, TranscriptScan, TranscriptView


class CompactionStrategy(msgspec.Struct, frozen=True):
    name: str
    level: Severity
    find: FindOperations
    is_opt_in: bool = False  # only if it is named

    def find_operations(self, view: TranscriptView) -> Iterator[Operation]:
        because = partial(OperationReason, self.name, self.level)
        return (each for each in self.find(view, because) if each)


STRATEGIES: Final = (
    CompactionStrategy("progress-payloads", Severity.FILE_ONLY, files.find_progress_payloads),
    # Opt-in: what it removes is a way back.
    CompactionStrategy("file-history", Severity.FILE_ONLY, files.find_file_history, is_opt_in=True),
    CompactionStrategy("attribution", Severity.FILE_ONLY, files.find_attribution),
    CompactionStrategy("tool-details", Severity.FILE_ONLY, files.find_tool_details),
    # Opt-in: the summary points the model to these lines.
    CompactionStrategy(
        "before-boundary", Severity.FILE_ONLY, files.find_before_boundary, is_opt_in=True
    ),
    CompactionStrategy("second-images", Severity.FILE_ONLY, files.find_second_images),
    CompactionStrategy("duplicate-results", Severity.SUPERSEDED, redundant.find_duplicate_results),
    CompactionStrategy("unchanged-reads", Severity.SUPERSEDED, redundant.find_unchanged_reads),
    CompactionStrategy(
        "repeated-attachments", Severity.SUPERSEDED, attachments.find_repeated_attachments
    ),
    CompactionStrategy("plain-output", Severity.SUPERSEDED, redundant.find_plain_output),
    CompactionStrategy("covered-reads", Severity.SUPERSEDED, redundant.find_covered_reads),
    CompactionStrategy("overwritten-reads", Severity.SUPERSEDED, redundant.find_overwritten_reads),
    CompactionStrategy("repeated-lines", Severity.SUPERSEDED, redundant.find_repeated_lines),
    CompactionStrategy("reread-edits", Severity.SUPERSEDED, redundant.find_reread_edits),
    CompactionStrategy(
        "replaced-attachments", Severity.SUPERSEDED, attachments.find_replaced_attachments
    ),
    CompactionStrategy("old-todos", Severity.SUPERSEDED, redundant.find_old_todos),
    CompactionStrategy("failed-inputs", Severity.SUPERSEDED, redundant.find_failed_inputs),
    CompactionStrategy("repeated-calls", Severity.SUPERSEDED, redundant.find_repeated_calls),
    CompactionStrategy("edited-reads", Severity.MASKED, masked.find_edited_reads),
    CompactionStrategy("old-listings", Severity.MASKED, masked.find_old_listings),
    CompactionStrategy("old-shell-output", Severity.MASKED, masked.find_old_shell_output),
    CompactionStrategy("old-web-pages", Severity.MASKED, masked.find_old_web_pages),
    CompactionStrategy("old-images", Severity.MASKED, masked.find_old_images),
    CompactionStrategy("old-attachments", Severity.MASKED, attachments.find_old_attachments),
    CompactionStrategy("old-results", Severity.MASKED, masked.find_old_results),
    CompactionStrategy("agent-results", Severity.MASKED, masked.find_agent_results),
    # Opt-in: of the same results the others keep less.
    CompactionStrategy(
        masked.LONG_RESULTS, Severity.MASKED, masked.find_long_results, is_opt_in=True
    ),
    # The last of its level: it cuts only what the others leave.
    CompactionStrategy(masked.OVERSIZED, Severity.MASKED, masked.find_oversized_results),
    CompactionStrategy("write-contents", Severity.INPUTS, inputs.find_write_contents),
    CompactionStrategy("edit-inputs", Severity.INPUTS, inputs.find_edit_inputs),
    CompactionStrategy("heredocs", Severity.INPUTS, inputs.find_heredocs),
    CompactionStrategy("agent-prompts", Severity.INPUTS, inputs.find_agent_prompts),
    # The last of its level: the others keep more of what they know.
    CompactionStrategy("long-inputs", Severity.INPUTS, inputs.find_long_inputs),
    CompactionStrategy(
        reasoning.THINKING_AFTER, Severity.REASONING, reasoning.find_thinking_after_change
    ),
    CompactionStrategy("all-thinking", Severity.REASONING, reasoning.find_all_thinking),
    CompactionStrategy("old-prose", Severity.PROSE, masked.find_old_prose),
    CompactionStrategy("long-pastes", Severity.PROSE, masked.find_long_pastes),
)
"""Least severe first; within a level in the order in which they are asked."""

MIN_SAVED_OF_WINDOW: Final = 0.05
"""What frees less is not worth a cold cache: 10,000 tokens of a window of 200,000. The 20,000
that others ask for (opencode) refused every fourth session near its trigger."""

MIN_SAVED_OF_CONTEXT: Final = 0.1  # for one that fills little of its window (compaction.md 7.5)
LET_SESSION_GROW: Final = "wait until the session has grown"  # if nothing frees enough
CONDENSE_TURN: Final = UNFINISHED_TURN.what_to_do  # nothing else may change enough


class OperationSelection(msgspec.Struct, frozen=True):
    """The operations of one plan, in the order of their lines."""

    operations: tuple[Operation, ...]
    tokens_before: int
    """Tokens before the first change of the context; the whole context if there is none."""


def choose_operations(view: TranscriptView, options: PlanOptions) -> list[Operation]:
    """Choose the operations that reach the target, least severe first.

    Within a level late and large ones come first, which keep most of the prompt cache; those in
    recent turns, and the newest Reads of files that the model edits, come last.
    """
    chosen: list[Operation] = []
    claimed = _ClaimedValues()
    target = target_of(view, options)
    left = None if target is None else view.tokens - target.tokens
    enabled = _enabled_strategies(options, view)
    recent_line = first_recent_line(view.blocks)
    needed_lines = reads_of_edited_files(view, recent_line)
    for level in sorted({each.level for each in enabled}):
        if left is not None and left <= 0 and level is not Severity.FILE_ONLY:
            break
        strategies = [each for each in enabled if each.level is level]
        if level is Severity.REASONING:
            thoughts = [op for each in strategies for op in each.find_operations(view)]
            chosen = _put_first(thoughts, chosen)
            claimed = _ClaimedValues(chosen)
            left = None if left is None else left - sum(each.tokens_saved for each in thoughts)
            continue
        candidates: list[Operation] = []
        for strategy in strategies:
            operations = list(claimed.unclaimed(strategy.find_operations(view)))
            candidates += operations
            for operation in operations:
                view.mark_line_changed(operation.line or 0)
        for operation in _best_first(candidates, view, recent_line, needed_lines):
            if left is not None and left <= 0 and operation.tokens_saved:
                break
            chosen.append(operation)
            left = None if left is None else left - operation.tokens_saved
    return chosen


def target_of(view: TranscriptView, options: PlanOptions) -> PlanTarget | None:
    return options.target_in(view.window_tokens, view.trigger_tokens)


def complete_selection(view: TranscriptView, chosen: list[Operation]) -> OperationSelection:
    """Put operations in order, and add the drop of thinking that they make invalid (rule T)."""
    operations = _add_bound_thinking(chosen, view)
    places = [_tokens_before(each, view) for each in operations if each.tokens_saved]
    ordered = tuple(sorted(operations, key=lambda each: each.line or 0))
    return OperationSelection(ordered, min(places, default=view.tokens))


def min_saved_tokens(context_tokens: int, window_tokens: int) -> int:
    """Return the fewest tokens that a plan for a context of this size must free."""
    enough = max(MIN_SAVED_OF_CONTEXT * context_tokens, MIN_SAVED_OF_WINDOW * SMALL_WINDOW)
    return round(min(MIN_SAVED_OF_WINDOW * window_tokens, enough))


class _ClaimedValues:
    """The values that are changed already: no two operations change the same one."""

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self._claimed: dict[int, list[str]] = {}
        for _ in self.unclaimed(operations):
            pass

    def unclaimed(self, operations: Iterable[Operation]) -> Iterator[Operation]:
        """Yield and claim the operations whose values are free."""
        for operation in operations:
            values = list(_changed_values(operation))
            if any(
                f"{claimed}/".startswith(f"{value}/") or f"{value}/".startswith(f"{claimed}/")
                for line, value in values
                for claimed in self._claimed.get(line, ())
            ):
                continue
            for line, value in values:
                self._claimed.setdefault(line, []).append(value)
            yield operation


def _changed_values(operation: Operation) -> Iterator[tuple[int, str]]:
    """Yield the lines and pointers of the blocks that an operation changes, or of other values."""
    for edit in operation.edits:
        if not isinstance(edit, plans.AppendLine):
            pointer = edit.pointer if isinstance(edit, plans.ReplaceValue) else ""
            yield edit.line, "/".join(pointer.split("/")[:4])


def _enabled_strategies(options: PlanOptions, view: TranscriptView) -> list[CompactionStrategy]:
    if options.strategies:
        return [each for each in STRATEGIES if each.name in options.strategies]
    # Where a turn is open, thinking of earlier ones goes in place of what may not change before
    # the open one's; where it is over, all thinking behind a change goes.
    instead = "all-thinking" if view.bound_end and options.max_level is Severity.INPUTS else None
    # A plan for the context changes nothing that the model never sees, and the reverse.
    is_file_only = options.max_level is Severity.FILE_ONLY
    return [
        each
        for each in STRATEGIES
        if (each.level <= options.max_level or each.name == instead)
        and not each.is_opt_in
        and (each.level is Severity.FILE_ONLY) == is_file_only
    ]


def _best_first(
    operations: Sequence[Operation],
    view: TranscriptView,
    recent_line: int,
    needed_lines: Collection[int],
) -> list[Operation]:
    def rank(each: Operation) -> tuple[bool, bool, float]:
        saved = each.tokens_saved / max(1, view.tokens - _tokens_before(each, view))
        # What the model is working on is cut only if that is needed.
        # What is only repeated or superseded leaves the text elsewhere.
        is_needed = each.line in needed_lines and each.level >= Severity.MASKED
        is_worked_on = is_needed or (each.line or 0) >= recent_line
        return each.strategy != masked.OVERSIZED, not is_worked_on, saved

    return sorted(operations, key=rank, reverse=True)


def _tokens_before(operation: Operation, view: TranscriptView) -> int:
    return view.overhead_tokens + view.tokens_before_line.get(operation.line or 0, 0)


def _add_bound_thinking(chosen: list[Operation], view: TranscriptView) -> list[Operation]:
    """Drop the thinking that is bound to what the first change alters (compaction.md 2.5)."""
    lines = plans.changed_lines(each for each in chosen if each.tokens_saved)
    if not lines or not binds_thinking(view.model):
        return chosen
    if any(each.level is Severity.REASONING for each in chosen):
        return chosen
    first = min(each.index for each in view.blocks if each.line in lines)
    dropped = reasoning.drop_thinking_after(view, first)
    return _put_first([dropped], chosen) if dropped else chosen


def _put_first(first: list[Operation], others: list[Operation]) -> list[Operation]:
    """Put some operations first; others that change the same values are dropped."""
    claimed = _ClaimedValues()
    return [*claimed.unclaimed(first), *claimed.unclaimed(others)]


def _why_bound(saved: int) -> str:
    why = (
        "the model's latest thinking must be kept until its turn is finished, and is valid only"
        " after an unchanged conversation"
    )
    return f"{why}: what follows it would free {saved:,} tokens" if saved else why


MIN_ADVISED_TURNS: Final = 3  # fewer leave the model no notion of what it is doing


def suggest_options(view: TranscriptView, options: PlanOptions) -> str:
    """Return what to allow so that a plan frees enough; takes as long as plans. Raises OSError."""
    least = min_saved_tokens(view.tokens, view.window_tokens)
    for advice, wider in _wider_options(options, target_of(view, options)):
        retained = retained_uuids(view.entries)
        blocks = mark_protected(view.blocks, retained, wider, view.bound_end)
        fresh = replace_field(view, blocks=blocks)
        selection = complete_selection(fresh, choose_operations(fresh, wider))
        freed = sum(each.tokens_saved for each in selection.operations)
        if freed >= max(1, least):
            return f"{advice}: frees ≈ {freed:,} tokens"
    return CONDENSE_TURN if view.bound_end else LET_SESSION_GROW


def _wider_options(
    options: PlanOptions, target: PlanTarget | None
) -> Iterator[tuple[str, PlanOptions]]:
    whole = replace(options, level=options.max_level, target=None)
    if target is not None:
        yield "stop later (a smaller --target)", whole
    # Never level 0, which is below every maximum.
    levels = [each for each in plans.OFFERED_LEVELS if each > options.max_level]
    ways = [
        (f"allow level {each.value} (--level {each.value})", replace(whole, level=each.value))
        for each in (() if options.strategies else levels)
    ]
    mild = sum(each <= plans.DEFAULT_MAX_SEVERITY for each in levels)
    yield from ways[:mild]
    if options.min_turns > MIN_ADVISED_TURNS:
        advice = f"keep {MIN_ADVISED_TURNS} turns (--keep {MIN_ADVISED_TURNS})"
        yield advice, replace(whole, keep=MIN_ADVISED_TURNS)
    yield from ways[mild:]


class PlanDraft:
    """A plan that can be requested again without some of its operations.

    It reads its file until it is closed, and belongs to the thread that made it.
    """

    def __init__(self, source: PlanSource, file: OpenTranscript, options: PlanOptions) -> None:
        """Read a file that stays open. Raises OSError."""
        self._session_id: Final = source.session_id
        self._file: Final = file
        self._options: Final = options
        self._scan: Final = file.scan()
        view = read_transcript_view(source, file, self._scan, options)
        self._view: Final = view
        refusals = refusals_before_planning(view, self._scan, source.open_in)
        self._refusals: Final = tuple(refusals)
        chosen = [] if self._refusals else choose_operations(view, options)
        self.offered_operations: Final = tuple(sorted(chosen, key=lambda each: each.line or 0))
        """What may be left out, one by one, in the order of the lines. What follows from it,
        as bound thinking and the recorded usage, is not among them."""

    def plan(self, left_out: Collection[int] = ()) -> CompactionPlan:
        """Plan all offered operations but some, numbered from 0. Raises OSError."""
        view, refused = self._view, list(self._refusals)
        selection = OperationSelection((), view.tokens)
        if not refused:
            kept = [each for n, each in enumerate(self.offered_operations) if n not in left_out]
            selection = complete_selection(view, kept)
            refused += self._check_savings(selection, left_out)
        operations = add_lowered_usage(view, selection.operations)
        refused += refusals_after_reading(self._file, self._scan, self._options.max_bytes)
        return plans.make_plan(
            self._session_id,
            self._scan.sha256,
            self._scan.size,
            operations,
            before_tokens=view.tokens,
            unmoved_tokens=selection.tokens_before,
            model=view.model,
            refused=refused,
            protected=sum_protected_tokens(view.blocks),
            target_reduction=self._options.target_reduction,
            target=target_of(view, self._options),
        )

    def _check_savings(
        self, selection: OperationSelection, left_out: Collection[int]
    ) -> Iterator[Refusal]:
        view, operations = self._view, selection.operations
        target = target_of(view, self._options)
        if target is not None and view.tokens <= target.tokens:
            yield plans.target_refusal(view.tokens, target)
            return
        saved = sum(each.tokens_saved for each in operations)
        least = min_saved_tokens(view.tokens, view.window_tokens)
        changes_context = any(each.level is not Severity.FILE_ONLY for each in operations)
        if operations and not (changes_context and saved < least):
            return
        if view.bound_end and self._options.max_level is not Severity.FILE_ONLY:
            yield Refusal("thinking", _why_bound(saved), self._advise(left_out))
        elif not operations:
            yield Refusal("nothing", "nothing can be removed", self._advise(left_out))
        else:
            why = f"it would free {saved:,} tokens; less than {least:,} is not worth"
            yield Refusal("futile", f"{why} a cold cache", self._advise(left_out))

    def _advise(self, left_out: Collection[int]) -> str:
        return "leave out fewer operations" if left_out else self._wider_advice

    @cached_property
    def _wider_advice(self) -> str:
        return suggest_options(self._view, self._options)


def refusals_before_planning(
    view: TranscriptView, scan: TranscriptScan, open_in: str | None
) -> Iterator[Refusal]:
    """Yield the reasons for planning nothing; `open_in` names what has the session open."""
    too_long = transcript_view.check_line_size(scan)
    if too_long:
        yield too_long
    if open_in:
        yield Refusal("live", open_in, "close the session, or use `ctxtop trigger`")
    yield from _refuse_unread_entry(view)
    if not view.blocks:
        yield Refusal(
            "shape",
            "it contains no message that would be sent",
            "check that it is a session's transcript",
        )
    elif view.blocks[0].entry.role is not Role.USER:
        yield Refusal(
            "shape",
            "the first message that would be sent is not a user's",
            "resume the session once in Claude Code, which repairs it, and plan again",
        )


def _refuse_unread_entry(view: TranscriptView) -> Iterator[Refusal]:
    """Refuse an unreadable field in a line that is sent or that the last compaction kept."""
    last, kept = last_boundary(view.entries), retained_uuids(view.entries)
    start = last.line if last else 0
    for entry in view.entries:
        if entry.unread_fields and (entry.line >= start or entry.uuid in kept):
            yield Refusal(
                "shape",
                f"line {entry.line} has a field that ctxtop cannot read: {entry.unread_fields[0]}",
                "update ctxtop: it changes nothing that it does not understand",
            )
            return


def refusals_after_reading(
    file: OpenTranscript, scan: TranscriptScan, max_bytes: int
) -> Iterator[Refusal]:
    """Yield the reasons for not applying a finished plan."""
    too_large = transcript_view.check_transcript_size(scan.size, max_bytes)
    if too_large:
        yield too_large
    if file.has_changed(scan):
        yield Refusal(
            "changed",
            "the transcript changed while it was being read",
            "wait until the session is idle, and plan again",
        )
