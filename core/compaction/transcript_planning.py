"""Plans strategies for a transcript, streamed so that its texts are never all in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from sys import intern
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from ..measure.context_parts import measure_thinking
from ..transcript.conversation import (
    Entry,
    MessagePart,
    PartKind,
    Role,
    drops_thinking,
    has_prompt,
    is_from_other_model,
    last_boundary,
    newest_model,
)
from ..transcript.entry_decoder import iter_entries
from ..transcript.parent_chain import retained_uuids
from ..transcript.visible_messages import is_call, visible_entries
from .operation_selection import (
    LET_SESSION_GROW,
    OperationSelection,
    check_saving,
    choose_operations,
    complete_selection,
    suggest_options,
)
from .plan import DEFAULT_OPTIONS, CompactionPlan, PlanOptions, Refusal, Severity, make_plan
from .protection import find_protected_lines, mark_protected, sum_protected_tokens
from .recorded_usage import add_lowered_usage, estimate_overhead, lines_for_overhead
from .transcript_file import (
    OpenTranscript,
    TranscriptScan,
    check_line_size,
    check_transcript_size,
    open_transcript,
)
from .transcript_view import TokenCounter, TranscriptView, VisibleBlock, shorten_part, text_digest

CounterOf = Callable[[str | None], TokenCounter]


class EntryReader(Protocol):
    """Reads the entries of a transcript."""

    def __call__(self, path: Path, start: int = 0, /) -> Iterable[Entry]:
        """Read entries in file order from a line's byte offset on; that line has number 1."""
        ...


class TranscriptRewrittenError(OSError):
    """The transcript was rewritten or replaced while it was read; to try again can help."""

    def __init__(self, path: Path) -> None:
        super().__init__(0, "it was rewritten while it was read: try again", str(path))


class BlockMeasure(msgspec.Struct, frozen=True):
    """What is kept of a part whose text is not."""

    tokens: int
    chars: int
    digest: str


class PlanSource(msgspec.Struct, frozen=True):
    """The transcript that is planned for, and what measures it."""

    session_id: str
    path: Path
    counter_of: CounterOf  # returns what counts tokens for a model
    window_tokens: int | None = None  # of the session's model; None where it is not known
    open_in: str | None = None  # what has the session open, where that forbids a plan
    read_entries: EntryReader = iter_entries
    """Called twice: for all entries, then for those that are sent."""


def plan_transcript(source: PlanSource, options: PlanOptions = DEFAULT_OPTIONS) -> CompactionPlan:
    """Plan how to make a transcript smaller; nothing is written, and a refusal is part of it.

    Raises OSError where the file cannot be read.
    """
    with open_transcript(source.path) as file:
        return draft_plan(source, file, options).plan()


class PlanDraft:
    """A plan that can be asked for again without some of its operations.

    It reads its file as long as it is asked, and belongs to the thread that made it.
    """

    def __init__(
        self,
        session_id: str,
        file: OpenTranscript,
        scan: TranscriptScan,
        view: TranscriptView,
        options: PlanOptions,
        refusals: Iterable[Refusal],
    ) -> None:
        self._session_id: Final = session_id
        self._file: Final = file
        self._scan: Final = scan
        self._view: Final = view
        self._options: Final = options
        self._refusals: Final = tuple(refusals)
        chosen = [] if self._refusals else choose_operations(view, options)
        self.offered_operations: Final = tuple(sorted(chosen, key=lambda each: each.line or 0))
        """What may be left out, one by one, in the order of the lines. What follows from it,
        as bound thoughts and the recorded usage, is not among them."""

    def plan(self, left_out: Collection[int] = ()) -> CompactionPlan:
        """Plan all that is offered but some, numbered from 0; what follows is worked out anew.

        Raises OSError where the file cannot be read.
        """
        view, refused = self._view, list(self._refusals)
        selection = OperationSelection((), view.tokens)
        if not refused:
            kept = [each for n, each in enumerate(self.offered_operations) if n not in left_out]
            selection = complete_selection(view, kept)
            refused += [*selection.refusals, *self._too_little(selection, left_out)]
        operations = add_lowered_usage(view, selection.operations)
        refused += refusals_after_reading(self._file, self._scan, self._options.max_bytes)
        return make_plan(
            self._session_id,
            self._scan.sha256,
            self._scan.size,
            operations,
            before_tokens=view.tokens,
            unmoved_tokens=selection.tokens_before,
            model=view.model,
            refused=refused,
            protected=sum_protected_tokens(view.blocks),
        )

    def _too_little(
        self, selection: OperationSelection, left_out: Collection[int]
    ) -> Iterator[Refusal]:
        for each in _check_savings(self._view, selection, self._options):
            if each.check == "target":
                yield each
            elif left_out:
                yield replace(each, what_to_do="leave less of it out")
            else:
                yield replace(each, what_to_do=self._advice)

    @cached_property
    def _advice(self) -> str:
        return suggest_options(self._view, self._options)


def draft_plan(source: PlanSource, file: OpenTranscript, options: PlanOptions) -> PlanDraft:
    """Begin a plan as `plan_transcript` does, of a file that stays open. Raises OSError."""
    scan = file.scan()
    view = read_transcript_view(source, file, scan, options)
    refused = refusals_before_planning(view, scan, source.open_in)
    return PlanDraft(source.session_id, file, scan, view, options, refused)


def read_transcript_view(
    source: PlanSource,
    file: OpenTranscript,
    scan: TranscriptScan,
    options: PlanOptions = DEFAULT_OPTIONS,
) -> TranscriptView:
    """Make the view of a transcript: all of it is read, then what is sent, to count it.

    It is of the moment of the scan, whoever writes meanwhile. Raises OSError and
    TranscriptRewrittenError.
    """
    path, read_entries = source.path, read_as_scanned(source.read_entries, file, scan)
    entries = list(_shorten_entries(read_entries(path)))
    sent = visible_entries(entries)
    model = newest_model(sent)
    counter = source.counter_of(model)
    measured = _measure_entries(
        path, read_entries, [*lines_for_overhead(entries, sent), *sent], counter
    )
    types = {entry.line: entry.type for entry in entries}
    lines = tuple(
        line if line.type else replace(line, type=types.get(line.number, "")) for line in scan.lines
    )
    slots = mark_protected(
        _make_blocks(sent, measured, counter, _thinking_tokens(sent, measured, counter), model),
        retained_uuids(entries),
        options,
    )
    return TranscriptView(
        slots,
        lines,
        file,
        counter,
        model=model,
        protected_lines=find_protected_lines(entries, ((line.number, line.type) for line in lines)),
        entries=entries,
        overhead_tokens=estimate_overhead(
            slots, entries, _EntryTokens(path, read_entries, entries, measured, counter)
        ),
        torn_line=scan.torn_line,
        window_tokens=source.window_tokens,
    )


def read_as_scanned(
    read_entries: EntryReader, file: OpenTranscript, scan: TranscriptScan
) -> EntryReader:
    """Read a transcript again as a scan found it: not a line that was written since.

    The reading raises TranscriptRewrittenError where those lines are other ones by now.
    """
    lengths = {line.offset: line.content_bytes for line in scan.lines}
    # Of a line that is too long others may see more; nothing is planned there.
    is_read = check_line_size(scan) is None

    def entries(path: Path, start: int = 0, /) -> Iterator[Entry]:
        for entry in read_entries(path, start):
            if entry.offset >= scan.end_offset:
                break
            if is_read and lengths.get(entry.offset) != entry.length:
                raise TranscriptRewrittenError(path)
            yield entry
            del entry
        if not file.is_same_file(path, scan):
            raise TranscriptRewrittenError(path)

    return entries


class _EntryTokens:
    """Counts lines that were measured, and the session's first ones when they are asked for."""

    def __init__(
        self,
        path: Path,
        read: EntryReader,
        entries: Sequence[Entry],
        measured: dict[tuple[int, MessagePart], BlockMeasure],
        counter: TokenCounter,
    ) -> None:
        self._file: Final = path, read, counter
        self._entries: Final = entries
        self._measured = measured

    def __call__(self, entry: Entry) -> int:
        """Estimate the tokens of a line; raises OSError."""
        if any((entry.line, piece) not in self._measured for piece in entry.parts):
            path, read, counter = self._file
            self._measured |= _measure_entries(
                path, read, lines_for_overhead(self._entries, ()), counter
            )
        return sum(self._measured[entry.line, piece].tokens for piece in entry.parts)


def _shorten_entries(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Leave long texts out, and hold a name once that two lines say one after the other."""
    before: Entry | None = None
    for entry in entries:
        if before is None:
            before = _shorten_entry(entry)
        else:
            before = replace(
                _shorten_entry(entry),
                type=intern(entry.type),
                parent=_share_string(entry.parent, before.uuid),
                message_id=_share_string(entry.message_id, before.message_id),
            )
        # The next line is read while this one's texts are not held any more.
        del entry
        yield before


def _share_string(name: str | None, before: str | None) -> str | None:
    return before if name == before else name


def _shorten_entry(entry: Entry) -> Entry:
    return replace(entry, parts=tuple(map(shorten_part, entry.parts)), snapshot=None)


def _measure_entries(
    path: Path, read: EntryReader, sent: Sequence[Entry], counter: TokenCounter
) -> dict[tuple[int, MessagePart], BlockMeasure]:
    """Count what is sent: no line before its first one is read, and none behind its last."""
    if not sent:
        return {}
    wanted = {entry.offset: entry.line for entry in sent}
    start, end = min(wanted), max(wanted)
    measured = {}
    for entry in read(path, start):
        if entry.offset in wanted:
            for piece in entry.parts:
                known = BlockMeasure(
                    counter.tokens(piece), len(piece.text), text_digest(piece.text)
                )
                measured[wanted[entry.offset], shorten_part(piece)] = known
        if entry.offset >= end:
            break
        del entry
    return measured


class _MeasuredCounter:
    """Counts pieces that were measured already by what is left of them."""

    def __init__(
        self, measured: dict[tuple[int, MessagePart], BlockMeasure], counter: TokenCounter
    ) -> None:
        self._tokens: Final = {piece: each.tokens for (_, piece), each in measured.items()}
        self._counter: Final = counter

    def tokens(self, part: MessagePart) -> int:
        known = self._tokens.get(part)
        return self._counter.tokens(part) if known is None else known


def _thinking_tokens(
    sent: Sequence[Entry],
    measured: dict[tuple[int, MessagePart], BlockMeasure],
    counter: TokenCounter,
) -> dict[str | None, int]:
    found = measure_thinking(sent, _MeasuredCounter(measured, counter))
    return {answer: thought.tokens for answer, thought in found.items()}


def _make_blocks(
    sent: Sequence[Entry],
    measured: dict[tuple[int, MessagePart], BlockMeasure],
    counter: TokenCounter,
    thoughts: dict[str | None, int],
    model: str | None,
) -> list[VisibleBlock]:
    seen_from = _first_visible_thinking(sent) if drops_thinking(model) else 0
    slots: list[VisibleBlock] = []
    position = 0
    for number, entry in enumerate(sent):
        for piece in entry.parts:
            measure = measured.get((entry.line, piece))
            replaced = measure is None
            if measure is None:
                measure = BlockMeasure(
                    counter.tokens(piece), len(piece.text), text_digest(piece.text)
                )
            tokens = measure.tokens
            if piece.kind is PartKind.THINKING:
                is_seen = number >= seen_from and not is_from_other_model(entry, model)
                tokens = thoughts.get(entry.message_id, tokens) if is_seen else 0
            slots.append(
                VisibleBlock(
                    index=len(slots),
                    entry=entry,
                    part=piece,
                    tokens_before=position,
                    tokens=tokens,
                    chars=measure.chars,
                    digest=measure.digest,
                    is_replaced=replaced,
                )
            )
            position += tokens
    return slots


def _first_visible_thinking(sent: Sequence[Entry]) -> int:
    """Return the first entry whose thinking is visible to a model that drops earlier turns'.

    A turn that is over counts as an earlier one for the next request.
    """
    said = [each for each in sent if each.type in {"user", "assistant"}]
    if said and said[-1].role is Role.ASSISTANT and not any(map(is_call, said[-1].parts)):
        return len(sent)
    return max((n for n, each in enumerate(sent) if has_prompt(each)), default=0)


TRANSCRIPT_CHANGED: Final = Refusal(
    "changed",
    "somebody wrote to the transcript while it was read",
    "wait until the session is idle, and plan again",
)


def refusals_after_reading(
    file: OpenTranscript, scan: TranscriptScan, max_bytes: int
) -> Iterator[Refusal]:
    """Yield the reasons for not applying a finished plan."""
    too_large = check_transcript_size(scan.size, max_bytes)
    if too_large:
        yield too_large
    if file.has_changed(scan):
        yield TRANSCRIPT_CHANGED


def _unread_entry(entries: Sequence[Entry]) -> Entry | None:
    """Return an entry with a field that cannot be read, if it may be part of the context.

    What stands before the last compaction is no longer sent, unless that kept it.
    """
    last, kept = last_boundary(entries), retained_uuids(entries)
    start = last.line if last else 0
    return next(
        (
            each
            for each in entries
            if each.unread_fields and (each.line >= start or each.uuid in kept)
        ),
        None,
    )


def refusals_before_planning(
    view: TranscriptView, scan: TranscriptScan, open_in: str | None
) -> Iterator[Refusal]:
    """Yield the reasons for planning nothing at all.

    `open_in` names what has the session open; None if nothing has.
    """
    too_long = check_line_size(scan)
    if too_long:
        yield too_long
    if open_in:
        yield Refusal("live", open_in, "close the session, or use `ctxtop trigger`")
    unread = _unread_entry(view.entries)
    if unread:
        yield Refusal(
            "shape",
            f"line {unread.line} has a field that ctxtop cannot read: {unread.unread_fields[0]}",
            "look for a newer ctxtop: nothing is changed around what is not understood",
        )
    if not view.blocks:
        yield Refusal(
            "shape", "no message of it would be sent", "check that it is a session's transcript"
        )
    elif view.blocks[0].entry.role is not Role.USER:
        yield Refusal(
            "shape",
            "the first message that would be sent is not a user's",
            "resume the session once in the client, which mends it, and plan again",
        )


def _check_savings(
    view: TranscriptView, selection: OperationSelection, options: PlanOptions
) -> Iterator[Refusal]:
    target = options.target_tokens(view.window_tokens)
    if target is not None and view.tokens <= target:
        yield Refusal(
            "target",
            f"the context has {view.tokens:,} tokens, and {target:,} were to be reached",
            "name a smaller --target, or a --level to take all that it allows",
        )
    elif not selection.operations:
        yield Refusal("nothing", "nothing was found that may go", LET_SESSION_GROW)
    elif any(each.level is not Severity.FILE_ONLY for each in selection.operations):
        too_little = check_saving(view, selection.operations)
        if too_little:
            yield too_little
