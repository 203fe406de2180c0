"""Reads a transcript into a view, streamed so that its texts are never all in memory.

Also what the newest answer recorded as its usage, and lowering it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from sys import intern
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from ..measure.part_sizes import (
    NO_SNAPSHOT,
    PartSizes,
    lines_to_first_answer,
    size_conversation,
    update_snapshot,
)
from ..measure.tokens import PartCounter
from ..model import conversation
from ..model.conversation import Entry, MessagePart, PartKind
from ..summaries.key_messages import DEFAULT_IMPORTANCE, ImportanceSettings
from ..summaries.session_rules import NO_RULE_CHOICES, RuleChoices
from ..transcript.entry_decoder import iter_entries
from ..transcript.reported_usage import ASIDE
from ..transcript.restored_content import with_restored
from ..transcript.visible_messages import follow_chain, is_call, retained_uuids, visible_entries
from . import plan as plans
from . import transcript_view
from .edit_builder import count_saved_bytes, make_replacements
from .plan import DEFAULT_OPTIONS, Edit, Operation, PlanOptions
from .protection import find_bound_end, find_protected_lines, mark_protected
from .transcript_view import OpenTranscript, TranscriptScan, TranscriptView, VisibleBlock

CounterOf = Callable[[str | None], PartCounter]


class EntryReader(Protocol):
    def __call__(self, path: Path, start: int = 0, /) -> Iterable[Entry]:
        """Read entries in file order from a line's byte offset on; that line has number 1."""
        ...


class TranscriptRewrittenError(OSError):
    """The transcript was rewritten or replaced while it was read; trying again can help."""

    def __init__(self, path: Path) -> None:
        super().__init__(0, "it was rewritten while it was being read: try again", str(path))


class PlanSource(msgspec.Struct, frozen=True):
    session_id: str
    path: Path
    counter_of: CounterOf  # returns the token counter of a model
    window_tokens: int | None = None  # of the session's model, if it is known
    estimated_tokens: int | None = None  # of the next request, after a compaction without answer
    trigger_tokens: int | None = None  # where the client compacts by itself, likewise
    open_in: str | None = None  # what has the session open, if that forbids a plan
    read_entries: EntryReader = iter_entries
    """Called for all entries, then for the first request's, then for those that are sent."""
    importance: ImportanceSettings = DEFAULT_IMPORTANCE
    rule_choices: RuleChoices = NO_RULE_CHOICES


def read_transcript_view(
    source: PlanSource,
    file: OpenTranscript,
    scan: TranscriptScan,
    options: PlanOptions = DEFAULT_OPTIONS,
) -> TranscriptView:
    """Read a whole transcript, then what is sent once more, to count it.

    The view is of the moment of the scan, whoever writes meanwhile. Raises OSError and
    TranscriptRewrittenError.
    """
    read = read_as_scanned(source.read_entries, file, scan)
    snapshot = NO_SNAPSHOT

    def read_once() -> Iterator[Entry]:
        nonlocal snapshot
        for entry in read(source.path):
            snapshot = update_snapshot(snapshot, entry)
            yield entry
            del entry

    entries = list(_shorten_entries(read_once()))
    sent = visible_entries(entries)
    model = conversation.newest_model(sent)
    measures = _PartMeasures(source.path, read, source.counter_of(model), source.importance)
    first = lines_to_first_answer(entries)
    measures.add(first)
    measures.add(sent)
    whole = with_restored(entries, sent, measures.tokens, lambda: read(source.path))
    total = source.estimated_tokens
    sizes = size_conversation(entries, whole, first, snapshot, measures, total)
    types = {entry.line: entry.type for entry in entries}
    lines = tuple(
        line if line.type else replace(line, type=types.get(line.number, "")) for line in scan.lines
    )
    blocks = _make_blocks(sent, measures, sizes, model)
    found = _limit_anchors(blocks, sent, source.importance.max_anchors)
    protected_lines = find_protected_lines(entries, lines)
    held_lines = protected_lines.keys() | transcript_view.find_leaf_lines(entries)
    bound_end = find_bound_end(found, model, held_lines)
    return TranscriptView(
        mark_protected(found, retained_uuids(entries), options, bound_end),
        lines,
        file.read_line,
        lambda part: round(sizes.factor * measures.counter.tokens(part)),
        model=model,
        protected_lines=protected_lines,
        entries=entries,
        overhead_tokens=sizes.overhead + sizes.unexplained + sizes.without_line(whole),
        bound_end=bound_end,
        torn_line=scan.torn_line,
        window_tokens=source.window_tokens or 0,
        trigger_tokens=source.trigger_tokens,
        result_caps=options.result_caps,
    )


def read_as_scanned(
    read_entries: EntryReader, file: OpenTranscript, scan: TranscriptScan
) -> EntryReader:
    """Return a reader of a transcript as a scan found it, without lines that were written since.

    It raises TranscriptRewrittenError if the scanned lines have changed.
    """
    lengths = {line.offset: line.content_bytes for line in scan.lines}
    # Another reader may see more of a line that is too long; nothing is planned there.
    is_comparable = transcript_view.check_line_size(scan) is None

    def read(path: Path, start: int = 0, /) -> Iterator[Entry]:
        for entry in read_entries(path, start):
            if entry.offset >= scan.end_offset:
                break
            if is_comparable and lengths.get(entry.offset) != entry.length:
                raise TranscriptRewrittenError(path)
            yield entry
            del entry
        if not file.is_same_file(path, scan):
            raise TranscriptRewrittenError(path)

    return read


def _shorten_entries(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Cut long texts, and share the ids that successive lines repeat."""
    before: Entry | None = None
    for entry in entries:
        shortened = replace(
            entry, parts=tuple(map(transcript_view.shorten_part, entry.parts)), snapshot=None
        )
        # Release this line's texts before the next one is read.
        del entry
        if before is not None:
            shortened = replace(
                shortened,
                type=intern(shortened.type),
                parent=_share_string(shortened.parent, before.uuid),
                message_id=_share_string(shortened.message_id, before.message_id),
            )
        before = shortened
        yield before


def _share_string(text: str | None, known: str | None) -> str | None:
    return known if text == known else text


class _PartSize(NamedTuple):
    """What is held of a part whose text is not."""

    tokens: int
    chars: int
    digest: str
    anchor_score: float | None  # if it is marked


class _PartMeasures:
    """The sizes of parts, by line and shortened part; as a counter it knows those parts."""

    def __init__(
        self,
        path: Path,
        read_entries: EntryReader,
        counter: PartCounter,
        importance: ImportanceSettings,
    ) -> None:
        self.counter: Final = counter
        self.known: Final[dict[tuple[int, MessagePart], _PartSize]] = {}
        self._path: Final = path
        self._read_entries: Final = read_entries
        self._importance: Final = importance
        self._tokens: Final[dict[MessagePart, int]] = {}

    def add(self, entries: Sequence[Entry]) -> None:
        """Measure entries; no line before the first of them is read, and none behind the last."""
        numbers = {entry.offset: entry.line for entry in entries}
        if not numbers:
            return
        end = max(numbers)
        for entry in self._read_entries(self._path, min(numbers)):
            for part in entry.parts if entry.offset in numbers else ():
                size = self.measure(part)
                self.known[numbers[entry.offset], transcript_view.shorten_part(part)] = size
                self._tokens[transcript_view.shorten_part(part)] = size.tokens
            if entry.offset >= end:
                break
            del entry

    def measure(self, part: MessagePart) -> _PartSize:
        is_marked = self._importance.has_marker((part,))
        return _PartSize(
            self.counter.tokens(part),
            len(part.text),
            transcript_view.text_digest(part.text),
            self._importance.score((part,)) if is_marked else None,
        )

    def tokens(self, part: MessagePart) -> int:
        known = self._tokens.get(part)
        return self.counter.tokens(part) if known is None else known


def _make_blocks(
    sent: Sequence[Entry], measures: _PartMeasures, sizes: PartSizes, model: str | None
) -> list[VisibleBlock]:
    thinking_start = _first_visible_thinking(sent) if conversation.drops_thinking(model) else 0
    blocks: list[VisibleBlock] = []
    position = 0
    for number, entry in enumerate(sent):
        for part in entry.parts:
            known = measures.known.get((entry.line, part))
            size = known or measures.measure(part)
            is_seen = part.kind is not PartKind.THINKING or number >= thinking_start
            tokens = sizes.tokens[entry.offset, part] if is_seen else 0
            blocks.append(
                VisibleBlock(
                    index=len(blocks),
                    entry=entry,
                    part=part,
                    tokens_before=position,
                    tokens=tokens,
                    chars=size.chars,
                    digest=size.digest,
                    factor=sizes.factor_of(entry) / sizes.factor,
                    is_replaced=known is None,
                    anchor_score=size.anchor_score,
                )
            )
            position += tokens
    return blocks


def _limit_anchors(
    blocks: Sequence[VisibleBlock], sent: Sequence[Entry], most: int
) -> list[VisibleBlock]:
    """Remove the scores of all marked messages but `most`, chosen as `find_anchors` does (2.2.2).

    A message counts once, however many of its texts are marked.
    """
    messages = enumerate(conversation.group_messages(list(sent)))
    places = {entry.offset: place for place, each in messages for entry in each.entries}
    scores: dict[int, float] = {}
    for block in blocks:
        if block.anchor_score is not None:
            place = places[block.entry.offset]
            scores[place] = max(scores.get(place, 0.0), block.anchor_score)
    ranked = sorted(scores, key=lambda place: (scores[place], place), reverse=True)
    anchors = frozenset(ranked[:most])
    return [
        replace(block, anchor_score=None)
        if block.anchor_score is not None and places[block.entry.offset] not in anchors
        else block
        for block in blocks
    ]


def _first_visible_thinking(sent: Sequence[Entry]) -> int:
    """Return the first entry whose thinking a model sees; a finished turn is an earlier one."""
    messages = [entry for entry in sent if entry.type in {"user", "assistant"}]
    last = messages[-1] if messages else None
    if last and last.role is conversation.Role.ASSISTANT and not any(map(is_call, last.parts)):
        return len(sent)
    return max((n for n, entry in enumerate(sent) if conversation.has_prompt(entry)), default=0)


def count_cleared_tokens(
    blocks: Sequence[VisibleBlock], entries: Sequence[Entry], answer: Entry
) -> int:
    """Estimate how many tokens of some blocks were cleared before an answer's request."""
    cleared = conversation.find_cleared_content(answer, entries)
    return sum(each.tokens for each in blocks if cleared.includes(each.entry, each.part))


_USAGE: Final = "/message/usage"
_ITERATIONS: Final = "iterations"


def add_lowered_usage(
    view: TranscriptView, operations: tuple[Operation, ...]
) -> tuple[Operation, ...]:
    """Lower the newest answer's usage to what `operations` leave of the context it saw.

    Nothing is added if nothing of that goes, or if no answer follows the last boundary: the
    client goes by the boundary then.
    """
    answer = _newest_answer_lines(view, operations)
    last_line = max((entry.line for entry in answer), default=0)
    saved = sum(
        each.tokens_saved for each in operations if each.line is not None and each.line < last_line
    )
    recorded = max((entry.context_tokens or 0 for entry in answer), default=0)
    # The answer never saw what the client had cleared in memory; a resume brings it back.
    saved -= sum(count_cleared_tokens(view.blocks, view.entries, each) for each in answer[:1])
    if not 0 < saved < recorded:
        # The change removes nothing that the answer saw, or its usage is lower already.
        return operations
    left = recorded - saved
    edits = [edit for entry in answer for edit in _usage_edits(view, entry.line, left)]
    lowered = Operation(
        strategy=plans.USAGE,
        level=plans.Severity.FILE_ONLY,
        line=answer[-1].line,
        kind=plans.USAGE,
        what=f"the newest answer's usage: {recorded:,} → {left:,} tokens",
        why="Claude Code uses it when it resumes: if it is too high, it compacts at once",
        tokens_saved=0,
        bytes_saved=count_saved_bytes(view, edits),
        edits=tuple(edits),
    )
    return (*operations, lowered)


def _newest_answer_lines(view: TranscriptView, operations: Sequence[Operation]) -> list[Entry]:
    """List the lines of the newest answer behind the last boundary that recorded its usage.

    Lines that an operation removes, or rewrites with their usage, are left out.
    """
    rewritten = {
        edit.line
        for edit in plans.edits_of(operations)
        if not isinstance(edit, plans.AppendLine) and not _keeps_usage(edit)
    }
    last = conversation.last_boundary(view.entries)
    start = -1 if last is None else last.offset
    answers = [
        each
        for each in follow_chain(view.entries)
        if each.context_tokens and each.offset > start and each.line not in rewritten
    ]
    return [each for each in answers if each.message_id == answers[-1].message_id]


def _keeps_usage(edit: Edit) -> bool:
    return isinstance(edit, plans.ReplaceValue) and not f"{_USAGE}/".startswith(f"{edit.pointer}/")


def _usage_edits(view: TranscriptView, number: int, tokens: int) -> Iterator[Edit]:
    usage: dict[str, Any] = view.decoded_line(number)["message"]["usage"]
    steps: list[dict[str, Any]] = usage.get(_ITERATIONS) or []
    aside = [each for each in steps if each.get("type") in ASIDE]  # paid besides the sums
    # If an answer took several steps, the client counts the last one's output.
    last_step = next((each for each in reversed(steps) if each not in aside), usage)
    step = {
        "type": "message",
        "input_tokens": tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": int(last_step.get("output_tokens") or 0),
    }
    if _ITERATIONS in usage:
        return make_replacements(view, number, {f"{_USAGE}/{_ITERATIONS}": [*aside, step]})
    return make_replacements(view, number, {_USAGE: usage | {_ITERATIONS: [step]}})
