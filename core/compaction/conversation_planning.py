"""Plans a summary, cut, revert or rollover, which needs the text of the whole conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from ..summaries.tool_outcomes import OUTPUT_TOOLS
from ..transcript.conversation import MessagePart, PartKind
from .plan import (
    AppendLine,
    CompactionPlan,
    Operation,
    Refusal,
    Severity,
    changed_lines,
    edits_of,
    make_plan,
)
from .plan_options import DEFAULT_OPTIONS, PlanOptions
from .summary_boundary import Conversation, newest_entry, read_common_fields
from .transcript_file import open_transcript
from .transcript_planning import (
    PlanSource,
    read_as_scanned,
    read_transcript_view,
    refusals_after_reading,
    refusals_before_planning,
)
from .transcript_view import TranscriptView, shorten_part

Make = Callable[[Conversation, TranscriptView], Operation | Refusal]


KEPT_RESULT_CHARS: Final = 1_000
"""Of a result: a summary is told its beginning, at most 800 characters (summaries.providers)."""


def plan_conversation(
    source: PlanSource, make_operation: Make, options: PlanOptions = DEFAULT_OPTIONS
) -> CompactionPlan:
    """Plan what `make_operation` returns for a transcript; a refusal is part of the plan.

    Unlike `plan_transcript` it holds what was said and what tools were called with;
    of their results it holds KEPT_RESULT_CHARS. Raises OSError where the file cannot be read.
    """
    with open_transcript(source.path) as file:
        scan = file.scan()
        source = replace(source, read_entries=read_as_scanned(source.read_entries, file, scan))
        view = read_transcript_view(source, file, scan, options)
        refused = list(refusals_before_planning(view, scan, source.open_in))
        operations: list[Operation] = []
        if not refused:
            made = make_operation(read_conversation(source, view), view)
            if isinstance(made, Refusal):
                refused.append(made)
            elif made.level is Severity.SUMMARY and made.tokens_saved <= 0:
                refused.append(_NOT_SMALLER)
            else:
                operations.append(made)
        refused += refusals_after_reading(file, scan, options.max_bytes)
    return make_plan(
        source.session_id,
        scan.sha256,
        scan.size,
        operations,
        before_tokens=view.tokens,
        unmoved_tokens=view.overhead_tokens + _unmoved_tokens(operations, view),
        model=view.model,
        refused=refused,
    )


_NOT_SMALLER: Final = Refusal(
    "nothing",
    "the summary and what the client announces again would be no smaller than what they replace",
    "let the session grow, or name a smaller --budget",
)


class _PartTokens:
    """Tokens of pieces whose texts are cut, as they were counted when they were whole."""

    def __init__(self, view: TranscriptView) -> None:
        self._count: Final = view.count_tokens
        self._of_slots: Final = {
            slot.part: slot.tokens
            for slot in view.blocks
            # Of a thought the context holds more than its text says.
            if not slot.is_replaced and slot.part.kind is not PartKind.THINKING
        }
        self._known: Final[dict[MessagePart, int]] = {}

    def shorten(self, piece: MessagePart) -> MessagePart:
        """Cut a piece's text where a summary needs no more of it."""
        short = shorten_part(piece, KEPT_RESULT_CHARS) if _is_tool_output(piece) else piece
        known = self._of_slots.get(shorten_part(piece))
        if known is not None:
            self._known[short] = known
        return short

    def tokens_of(self, piece: MessagePart) -> int:
        """Return the count of the uncut text if it is known, else count this one."""
        known = self._known.get(piece)
        if known is None:
            known = self._known[piece] = self._count(piece)
        return known


def _unmoved_tokens(operations: Sequence[Operation], view: TranscriptView) -> int:
    """Add up what of the conversation stays where it was, and so in the cache.

    What is appended stands in the place of all; what is removed leaves all before it as it is.
    """
    if any(isinstance(edit, AppendLine) for edit in edits_of(operations)):
        return 0
    first = min(changed_lines(operations), default=0)
    return min((slot.tokens_before for slot in view.blocks if slot.line >= first), default=0)


def read_conversation(source: PlanSource, view: TranscriptView) -> Conversation:
    """Read what a summary is made from; of results it holds KEPT_RESULT_CHARS. Raises OSError."""
    counts = _PartTokens(view)
    entries = tuple(
        replace(entry, parts=tuple(map(counts.shorten, entry.parts)), snapshot=None)
        for entry in source.read_entries(source.path)
    )
    last = newest_entry(entries)
    said = view.decoded_line(last.line) if last else None
    return Conversation(
        entries,
        read_common_fields(said if isinstance(said, dict) else {}),
        counts.tokens_of,
        str(source.path),
        view.overhead_tokens,
        view.tokens - view.overhead_tokens,
    )


def _is_tool_output(piece: MessagePart) -> bool:
    """Whether it is a tool's output or attached text: by far the most of a conversation."""
    if piece.kind is PartKind.TOOL_RESULT:
        # Of what failed its end counts, and of a running task what it says of its state.
        return not piece.failed and piece.name not in OUTPUT_TOOLS
    return piece.kind in {PartKind.ATTACHMENT, PartKind.META}
