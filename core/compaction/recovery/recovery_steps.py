"""What each recovery step proposes: truncate results, fill empty messages, revert, or summarize."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ...measure.trigger import OUTPUT_RESERVE
from ...summaries.summary_building import SummarySettings
from ...transcript.conversation import Entry, PartKind, Role, group_messages
from ...transcript.visible_messages import follow_chain, visible_entries
from ..edit_builder import (
    CONTENT_POINTER,
    OperationReason,
    count_saved_bytes,
    make_replacements,
    replace_result,
    resolve_pointer,
)
from ..plan import Operation, Refusal, Severity, changed_lines
from ..strategies.summary_and_cut import plan_revert, sent_prompts, summarise_by_rules
from ..summary_boundary import Conversation
from ..transcript_view import TranscriptView, VisibleBlock
from .limit_errors import LimitErrorType
from .recovery_run import RecoveryCounters, SessionRefusal
from .recovery_settings import RecoverySettings, RecoveryStep


class RecoveryContext(msgspec.Struct, frozen=True):
    """A session that is to be mended."""

    view: TranscriptView
    refusal: SessionRefusal
    settings: RecoverySettings
    counters: RecoveryCounters = RecoveryCounters()
    window_tokens: int | None = None
    """Where the refusal names no limit; None where that is not known either."""
    reserve_tokens: int = OUTPUT_RESERVE  # that are to be free afterwards
    planned_operations: tuple[Operation, ...] = ()
    """What steps before this one do, and what does not suffice."""

    @property
    def limit_tokens(self) -> int | None:
        """What a request may hold."""
        return self.refusal.max_tokens or self.window_tokens

    @property
    def tokens(self) -> int:
        """What the request holds after what is planned already: as the API counted it."""
        now = self.refusal.current_tokens or self.view.tokens
        return now - sum(each.tokens_saved for each in self.planned_operations)

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
        """Lines that what is planned already changes."""
        return changed_lines(self.planned_operations)

    @property
    def truncations_left(self) -> int:
        """Results that may still be truncated (002-64)."""
        return max(0, self.settings.max_truncate - self.counters.truncated)

    def fits_after(self, operations: Iterable[Operation]) -> bool:
        """Whether the request fits after the operations; without a limit any saving suffices."""
        saved = sum(each.tokens_saved for each in operations)
        return (
            saved > 0
            if self.max_fitting_tokens is None
            else self.tokens - saved <= self.max_fitting_tokens
        )


class StepProposal(msgspec.Struct, frozen=True):
    """What one step would do."""

    step: RecoveryStep
    operations: tuple[Operation, ...] = ()
    insufficient: Refusal | None = None  # why it does not suffice; None where it does
    prompt: str | None = None  # of a person, that a revert takes out: to be asked again
    reverted_uuid: str | None = None  # uuid of that prompt's line

    @property
    def truncated_results(self) -> int:
        """Results that it truncates."""
        return sum(
            each.strategy in {RecoveryStep.TRUNCATE, RecoveryStep.AGGRESSIVE}
            for each in self.operations
        )


TRUNCATION_MESSAGE: Final = (
    "[TOOL RESULT TRUNCATED - Context limit exceeded. Original output was too large and has been"
    " truncated to recover the session. Please re-run this tool if you need the full output.]"
)
"""What the model reads in its place (002-73)."""


def propose_truncation(context: RecoveryContext) -> StepProposal:
    """Truncate one result after the other, and stop when the request fits (002-54, R002-13)."""
    done: list[Operation] = []
    for slot in _results_by_size(context):
        if len(done) >= context.truncations_left or (done and context.fits_after(done)):
            break
        operation = _truncate_result(
            context, slot, RecoveryStep.TRUNCATE, "the largest result that is left"
        )
        done += [operation] if operation else []
    return _truncation_proposal(context, RecoveryStep.TRUNCATE, done)


def propose_aggressive_truncation(context: RecoveryContext) -> StepProposal:
    """Truncate as many results as it takes to come down to the target (002-51 to 002-53).

    What is counted is what goes, in characters; the message in its place is not subtracted
    (002-62, 002-63).
    """
    to_free = chars_to_free(context)
    done: list[Operation] = []
    freed = 0
    for slot in _results_by_size(context):
        if len(done) >= context.truncations_left or freed >= to_free:
            break
        operation = _truncate_result(
            context, slot, RecoveryStep.AGGRESSIVE, "among the largest results"
        )
        if operation:
            done.append(operation)
            freed += slot.chars
    return _truncation_proposal(context, RecoveryStep.AGGRESSIVE, done)


def chars_to_free(context: RecoveryContext) -> int:
    """Return how many characters to free: those above the target's share of the limit."""
    limit = context.limit_tokens
    target = int((context.tokens if limit is None else limit) * context.settings.target_ratio)
    return max(0, context.tokens - target) * context.settings.chars_per_token


def _results_by_size(context: RecoveryContext) -> Iterator[VisibleBlock]:
    """List the results that may be truncated, the largest first.

    Those at the end too: most often it is the newest result that is too large.
    """
    touched = context.changed_lines
    found = [
        each
        for each in context.view.blocks
        if each.part.kind is PartKind.TOOL_RESULT
        and each.chars >= context.settings.min_output_chars
        and not each.is_replaced
        and each.line not in touched
        and each.line not in context.view.protected_lines
    ]
    yield from sorted(found, key=lambda each: (-each.chars, each.index))


def _truncate_result(
    context: RecoveryContext, block: VisibleBlock, step: RecoveryStep, why: str
) -> Operation | None:
    intent = OperationReason(step, Severity.MASKED, f"{why}: {block.chars:,} characters")
    return replace_result(context.view, block, intent, TRUNCATION_MESSAGE)


def _truncation_proposal(
    context: RecoveryContext, step: RecoveryStep, done: list[Operation]
) -> StepProposal:
    if not done:
        least = context.settings.min_output_chars
        return StepProposal(
            step,
            insufficient=Refusal(
                step, f"no result of {least} characters or more is left to truncate", "go on"
            ),
        )
    if context.fits_after(done):
        return StepProposal(step, tuple(done))
    saved = sum(each.tokens_saved for each in done)
    return StepProposal(
        step,
        tuple(done),
        Refusal(
            step,
            f"{len(done)} truncated results free {saved:,} tokens: {context.tokens - saved:,} are"
            f" left, more than {context.max_fitting_tokens:,}",
            "go on",
        ),
    )


EMPTY_MESSAGE_TEXT: Final = "[user interrupted]"  # what an empty message says afterwards (002-78)
MESSAGE_INDEX_SHIFTS: Final = (0, -1, -2)
"""The API counts messages that a transcript does not hold (R002-15)."""

_BLANK_PART: Final = re.compile(rb'"(?:text|content)"\s*:\s*(?:"(?:\s|\\[nrt])*"|\[\s*\])')
"""What a line with an empty part holds somewhere."""


def propose_empty_fix(context: RecoveryContext) -> StepProposal:
    """Fill the empty message at the index that the API names, or else all empty messages."""
    view = context.view
    messages = _chain_messages(view.entries)
    wanted = _messages_at_index(view, messages, context.refusal.message_index)
    done = [
        _fill_operation(view, entry, changes)
        for message in wanted or messages
        for entry, changes in _empty_parts(view, message)
    ]
    if not done:
        nothing = Refusal(RecoveryStep.FIX_EMPTY, "no message is empty", "go on")
        return StepProposal(RecoveryStep.FIX_EMPTY, insufficient=nothing)
    return StepProposal(RecoveryStep.FIX_EMPTY, tuple(done))


def _messages_at_index(
    view: TranscriptView, messages: Sequence[Sequence[Entry]], index: int | None
) -> list[Sequence[Entry]]:
    for shift in MESSAGE_INDEX_SHIFTS if index is not None else ():
        place = (index or 0) + shift
        if 0 <= place < len(messages) and any(_empty_parts(view, messages[place])):
            return [messages[place]]
    return []


def _chain_messages(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Put the lines together that are one message, the empty ones too."""
    found: list[list[Entry]] = []
    for entry in follow_chain(entries):
        if entry.type not in {"user", "assistant"} or entry.hidden:
            continue
        last = found[-1][-1] if found else None
        is_same = last is not None and last.role is entry.role
        if is_same and (entry.role is Role.USER or last.message_id == entry.message_id):  # type: ignore[union-attr]
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def _empty_parts(
    view: TranscriptView, message: Sequence[Entry]
) -> Iterator[tuple[Entry, dict[str, object]]]:
    """Find the lines of a message that have to say something: new values by their pointers.

    An empty text beside other blocks is refused as well (R002-15). A line without any block is
    one only where the whole message says nothing: the client leaves such a line out.
    """
    contents = [(entry, _content_if_blank(view, entry)) for entry in message]
    says_nothing = all(_is_blank_content(content) for _, content in contents)
    for entry, content in contents:
        if isinstance(content, list) and content:
            changes: dict[str, object] = {
                f"{CONTENT_POINTER}/{place}/text": EMPTY_MESSAGE_TEXT
                for place, block in enumerate(content)
                if _is_blank(block)
            }
            if changes:
                yield entry, changes
        elif says_nothing and entry is message[-1] and content is not None:
            block = {"type": "text", "text": EMPTY_MESSAGE_TEXT}
            yield (
                entry,
                {CONTENT_POINTER: EMPTY_MESSAGE_TEXT if isinstance(content, str) else [block]},
            )


def _content_if_blank(view: TranscriptView, entry: Entry) -> Any:  # noqa: ANN401 -- any JSON
    """Read a line's content where a part of it may be empty; "…" for what says something."""
    if entry.parts and not _BLANK_PART.search(view.line_bytes(entry.line)):
        return "…"
    return resolve_pointer(view.decoded_line(entry.line), CONTENT_POINTER)


def _is_blank_content(content: object) -> bool:
    if isinstance(content, str):
        return not content.strip()
    return isinstance(content, list) and all(_is_blank(block) for block in content)


def _is_blank(block: object) -> bool:
    if not isinstance(block, dict) or block.get("type") != "text":
        return False
    text = block.get("text")
    return isinstance(text, str) and not text.strip()


def _fill_operation(view: TranscriptView, entry: Entry, changes: dict[str, object]) -> Operation:
    edits = [
        edit
        for number in (entry.line, *view.copies_of(entry.line))
        for edit in make_replacements(view, number, changes)
    ]
    return Operation(
        strategy=RecoveryStep.FIX_EMPTY,
        level=Severity.LOSSLESS,
        line=entry.line,
        kind=entry.type,
        what=f"an empty message of the {entry.role}",
        why=f"the API refuses it: it says {EMPTY_MESSAGE_TEXT} instead",
        tokens_saved=0,
        bytes_saved=count_saved_bytes(view, edits),
        edits=tuple(edits),
    )


def propose_revert(context: RecoveryContext) -> StepProposal:
    """Cut before the last prompt, or as many prompts back as it takes and may be."""
    view = context.view
    is_about_size = context.refusal.error_type is not LimitErrorType.NON_EMPTY_CONTENT
    lines = {each.line: each.entry for each in sent_prompts(view)}
    left = max(0, min(len(lines), context.settings.max_revert - context.counters.reverted))
    for line in sorted(lines, reverse=True)[:left]:
        sent = visible_entries([each for each in view.entries if each.line < line])
        if len(group_messages(sent)) < context.settings.min_messages:
            return _revert_refused(
                f"fewer than {context.settings.min_messages} messages would be left",
                "begin a new session",
            )
        cut = plan_revert(view, line)
        if isinstance(cut, Refusal):
            return StepProposal(RecoveryStep.REVERT, insufficient=cut)
        done = replace(cut, tokens_saved=view.tokens - _tokens_of_sent(view, sent))
        if not is_about_size or context.fits_after([done]):
            words, uuid = _prompt_text(view, line), lines[line].uuid
            return StepProposal(RecoveryStep.REVERT, (done,), prompt=words, reverted_uuid=uuid)
    return _revert_refused(
        f"going back {left} prompts does not free enough",
        "compact the session by hand (`ctxtop compact`), or begin a new one",
    )


def _tokens_of_sent(view: TranscriptView, sent: Sequence[Entry]) -> int:
    """Estimate what is sent where the conversation ends earlier: perhaps before a boundary."""
    known: dict[int, int] = {}
    for slot in view.blocks:
        known[slot.line] = known.get(slot.line, 0) + slot.tokens
    return view.overhead_tokens + sum(
        known[entry.line]
        if entry.line in known
        else sum(view.count_tokens(piece) for piece in entry.parts)
        for entry in sent
    )


def _prompt_text(view: TranscriptView, line: int) -> str:
    content = resolve_pointer(view.decoded_line(line), CONTENT_POINTER)
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = (each.get("text") for each in blocks if isinstance(each, dict))
    return "\n".join(each for each in texts if isinstance(each, str))


def _revert_refused(why: str, what_to_do: str) -> StepProposal:
    return StepProposal(
        RecoveryStep.REVERT, insufficient=Refusal(RecoveryStep.REVERT, why, what_to_do)
    )


def summarise_until_it_fits(
    context: RecoveryContext, conversation: Conversation, settings: SummarySettings
) -> Operation | Refusal:
    """Summarise by rules with the newest messages word for word, or with fewer of them.

    What stays may hold the very result that is too large: half as many are tried, down to one.
    """
    said = settings.template, settings.budget, settings.selection
    keep_messages = settings.keep_messages
    made = summarise_by_rules(conversation, keep_messages, *said)
    while keep_messages > 1 and (isinstance(made, Refusal) or not context.fits_after([made])):
        keep_messages //= 2
        made = summarise_by_rules(conversation, keep_messages, *said)
    return made
