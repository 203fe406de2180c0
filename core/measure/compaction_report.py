"""What a compaction retained, lost and left in the context, and how soon it was needed again.

The client's own `postTokens` counts the messages alone; the system prompt, the tools and what
it announces again come on top. What those take is known from earlier requests. Texts are
counted as the client counts them (`client_token_estimate`), so that a listing that stands before
and after the compaction takes the same in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from ..model.context import client_token_estimate
from ..summaries.artifacts import (
    READ_TOOLS,
    Artifacts,
    LostArtifacts,
    follow_artifacts,
    limit_lost_artifacts,
)
from ..summaries.decision_patterns import quote_line
from ..transcript.conversation import (
    Boundary,
    Entry,
    MessagePart,
    PartKind,
    Role,
    cleared_result_ids,
)
from ..transcript.visible_messages import reannounced_attachments, visible_entries
from .composition import TOOLS_OVERHEAD_TOKENS
from .tokens import PartCounter

if TYPE_CHECKING:
    from ..store.log_records import AnswerItemRecord
    from ..store.queries.query_rows import CompactionRow


THRASH_TURNS: Final = 10
"""Answers between two compactions, below which it is thrash. The client's own breaker stops
at fewer than 3, three times in a row (anthropics/claude-code #60600, #82131), when the money
is spent; work needs its last 10 tool turns (compaction.md 1.4), so a context that does not
last so long cannot hold what the work needs."""

CHARS_PER_TOKEN: Final = 2.85
"""Measured over usage differences of recorded sessions (compaction.md 1.4); used where no
answer stands on both sides."""

TOKENS_PER_MEDIA: Final = 1_600  # an image (claude-code-formats 9)
MAX_CULPRIT_CHARS: Final = 80  # of a prompt's words that name it


class Culprit(msgspec.Struct, frozen=True):
    """What put the most into a context since the compaction before."""

    kind: str  # file_read, tool_result, attachment, agent_return, prompt, meta or answer
    what: str  # a file's path, a tool, an attachment's kind, or the words' beginning
    tokens: int  # by the growth of the answers; estimated where none stands on both sides
    line: int  # of its largest piece, counted from 1


class Refill(msgspec.Struct, frozen=True):
    """What stands between a compaction and the one before it."""

    turns_since_last: int  # answers between the two
    culprit: Culprit | None  # none where nothing was put in


class _Answer(msgspec.Struct):
    """One answer: its request's size, its own, and what was put in since the one before."""

    context_tokens: int | None = None
    output_tokens: int = 0
    thinking_tokens: int = 0
    pieces: list[tuple[MessagePart, int]] = []
    put_in: list[tuple[MessagePart, int]] = []


def find_thrash(refill: Refill | None, turns: int = THRASH_TURNS) -> Refill | None:
    """Return `refill` if the compaction came fewer than `turns` answers after the one before.

    It counts as thrash even if a person asked for it (the boundary says so): the context was
    lost twice. None if it came later, or was the first.
    """
    return refill if refill and refill.turns_since_last < turns else None


def find_refill(between: Iterable[Entry], boundary: Boundary) -> Refill:
    """Find what filled a context again; `between` are the entries since the last boundary.

    It must hold each line once, and no agent's lines.
    """
    answers, last = _group_answers(between)
    return Refill(len(answers), _find_culprit(answers, last, boundary.pre_tokens))


def _find_culprit(
    answers: Sequence[_Answer], last: Iterable[tuple[MessagePart, int]], end_tokens: int | None
) -> Culprit | None:
    """Find the group of pieces that grew the context most: a file, a tool, a kind of attachment.

    Between two answers the context grows by the first one's output (without its thinking)
    and by what was put in after it; each part is shared by its pieces' lengths. What stands
    before the first answer, or after the last where the boundary does not say its size, is
    estimated from its length.
    """
    groups: dict[tuple[str, str], _PartGroup] = {}
    before: _Answer | None = None
    closing = _Answer(context_tokens=end_tokens, put_in=list(last))
    for answer in (*answers, closing):
        own, grown = _growth(before, answer)
        if before is not None and own:
            _share_tokens(before.pieces, own, groups)
        _share_tokens(answer.put_in, grown, groups)
        before = answer
    best = max(groups.values(), key=lambda group: group.tokens, default=None)
    if best is None or round(best.tokens) <= 0:
        return None
    return Culprit(best.kind, best.what, round(best.tokens), best.line)


class _PartGroup(msgspec.Struct):
    kind: str
    what: str
    tokens: float = 0.0
    largest: float = 0.0
    line: int = 0


def _group_answers(entries: Iterable[Entry]) -> tuple[list[_Answer], list[tuple[MessagePart, int]]]:
    """Put an answer's lines together; results between them are put in before the next one."""
    answers: dict[str, _Answer] = {}
    waiting: list[tuple[MessagePart, int]] = []
    for entry in entries:
        if entry.hidden:
            continue
        pieces = [(piece, entry.line) for piece in entry.parts]
        if entry.role is not Role.ASSISTANT:
            waiting += [each for each in pieces if each[0].kind is not PartKind.SUMMARY]
            continue
        key = entry.message_id or f"line {entry.line}"
        if key not in answers:
            answers[key] = _Answer(put_in=waiting)
            waiting = []
        answer = answers[key]
        answer.pieces += pieces
        # Early lines of clients before 2.1.97 hold a placeholder.
        answer.output_tokens = max(answer.output_tokens, entry.output_tokens or 0)
        answer.thinking_tokens = max(answer.thinking_tokens, entry.thinking_tokens or 0)
        answer.context_tokens = entry.context_tokens or answer.context_tokens
    return list(answers.values()), waiting


def _growth(before: _Answer | None, answer: _Answer) -> tuple[float, float]:
    """Split the growth between two answers: the first one's own words, and what was put in."""
    if before is None or before.context_tokens is None or answer.context_tokens is None:
        return 0.0, sum(_part_weight(piece) for piece, _ in answer.put_in) / CHARS_PER_TOKEN
    grown = max(0, answer.context_tokens - before.context_tokens)
    own = min(grown, max(0, before.output_tokens - before.thinking_tokens))
    return float(own), float(grown - own)


def _share_tokens(
    pieces: Sequence[tuple[MessagePart, int]],
    tokens: float,
    groups: dict[tuple[str, str], _PartGroup],
) -> None:
    weights = [_part_weight(piece) for piece, _ in pieces]
    whole = sum(weights)
    if not whole:
        return
    for (piece, line), weight in zip(pieces, weights, strict=True):
        part = tokens * weight / whole
        kind, what = _group_name(piece)
        group = groups.setdefault((kind, what), _PartGroup(kind, what))
        group.tokens += part
        if part > group.largest:
            group.largest, group.line = part, line


def _part_weight(piece: MessagePart) -> float:
    if piece.kind is PartKind.THINKING:
        return 0.0
    return len(piece.text) + piece.media * TOKENS_PER_MEDIA * CHARS_PER_TOKEN


def _group_name(piece: MessagePart) -> tuple[str, str]:
    named = " ".join(each for each in (piece.name, piece.path) if each)
    if piece.kind is PartKind.TOOL_RESULT:
        is_file = piece.name in READ_TOOLS and piece.path
        return ("file_read", piece.path or "") if is_file else ("tool_result", named or "a tool")
    if piece.kind in {PartKind.TEXT, PartKind.TOOL_INPUT}:
        return "answer", named or "the model's words"
    if piece.kind is PartKind.ATTACHMENT:
        return "attachment", named
    if piece.kind is PartKind.AGENT_RETURN:
        return "agent_return", piece.name or "a task's end"
    return piece.kind.value, piece.name or quote_line(piece.text, MAX_CULPRIT_CHARS)


REPORT_VERSION: Final = 2  # version of the rules: what an older one told is told again


class CompactionReport(msgspec.Struct, frozen=True):
    """What was forgotten at a compaction, how soon it came, and what was cleared before it."""

    forgotten: LostArtifacts = LostArtifacts()
    refill: Refill | None = None  # none for the first; whether it is thrash says `find_thrash`
    cleared_results: int = 0  # tool results that the model saw replaced since the compaction before
    is_known: bool = True
    """False where the file begins at the compaction: nobody can say what stood before it."""


class ClearedMessage(msgspec.Struct, frozen=True):
    """A request's message whose tool results were cleared."""

    offset: int
    tool_use_ids: tuple[str, ...]


def report_compactions(
    entries: Iterable[Entry], shown: Sequence[ClearedMessage] = ()
) -> Iterator[tuple[Entry, CompactionReport]]:
    """Yield a report on every compaction of one context, in the order of its lines.

    What a compaction kept is still there before the next one. Of what follows a compaction,
    only its summary is used and what the client attached before the next answer: once that
    answer exists, the report is final. A cleared result counts once, in the segment where it
    first shows as cleared.
    """
    counted: set[str] = set()
    begin = None
    for compaction in follow_artifacts(entries):
        segment = compaction.segment
        end = segment.end.offset
        cleared = cleared_result_ids(segment.entries).union(
            *(each.tool_use_ids for each in shown if (begin or 0) <= each.offset < end)
        )
        new = cleared - counted
        counted |= new
        yield (
            segment.end,
            CompactionReport(
                forgotten=limit_lost_artifacts(compaction.lost),
                refill=None if begin is None else find_refill(segment.entries, segment.boundary),
                cleared_results=len(new),
                is_known=segment.has_history,
            ),
        )
        begin = end


def encode_report(report: CompactionReport) -> str:
    """Write it as the store keeps it."""
    return msgspec.json.encode(report).decode()


def decode_report(stored: str | None) -> CompactionReport | None:
    """Read it as the store keeps it; None where nothing is told yet, or by newer rules."""
    if stored is None:
        return None
    try:
        return _report_decoder.decode(stored)
    except msgspec.DecodeError:
        return None


_report_decoder: Final = msgspec.json.Decoder(CompactionReport)


class RetainedAndLost(msgspec.Struct, frozen=True):
    """What stood before a compaction, the most important first."""

    retained: Artifacts
    lost: Artifacts
    is_known: bool = True
    """False where the file begins at the compaction: nobody can say what stood before it."""


def find_retained_and_lost(entries: Iterable[Entry], uuid: str) -> RetainedAndLost | None:
    """Divide what stood before the compaction of this uuid; None where it is not there.

    By the rules of `report_compactions`: what a compaction kept stands before the next one too.
    """
    for compaction in follow_artifacts(entries):
        segment = compaction.segment
        if uuid in {segment.end.uuid, f"at {segment.end.offset}"}:
            return RetainedAndLost(compaction.retained, compaction.lost, segment.has_history)
    return None


class SteeringOutcome(msgspec.Struct, frozen=True):
    """One thing that a compaction was asked to keep."""

    kind: str
    text: str
    kept: bool | None  # none where it is not told yet, or of an agent, which nobody looks for
    tokens: int | None = None
    """What it takes at the most, in the instructions and, of a compaction by hand, once more in
    the context: the client shows the model what its hooks said."""


def steering_outcomes(
    compactions: Sequence[tuple[CompactionRow, CompactionReport | None]],
    requests: Sequence[AnswerItemRecord],
) -> list[tuple[SteeringOutcome, ...]]:
    """List what each compaction was asked to keep, each thing once; they stand newest first.

    `requests` are all that were made in their sessions: those since the compaction before are of
    this one.
    """
    if not requests:
        return [()] * len(compactions)
    return [
        _outcomes_of(row, told, requests, _previous_compaction_at(row, compactions[place + 1 :]))
        for place, (row, told) in enumerate(compactions)
    ]


def _previous_compaction_at(
    row: CompactionRow, older: Iterable[tuple[CompactionRow, CompactionReport | None]]
) -> int:
    same = (each for each, _ in older if each.session_id == row.session_id)
    return next((each.at or 0 for each in same if each.agent_id == row.agent_id), 0)


def _outcomes_of(
    row: CompactionRow,
    told: CompactionReport | None,
    asked: Iterable[AnswerItemRecord],
    before: int,
) -> tuple[SteeringOutcome, ...]:
    lost = told.forgotten if told else None
    found = {
        (each.kind, each.text): SteeringOutcome(
            each.kind, each.text, _was_kept(each, lost), each.tokens
        )
        for each in asked
        if each.session_id == row.session_id
        and each.agent_id == row.agent_id
        and before < each.at <= (row.at or 0)
    }
    return tuple(found.values())


def _was_kept(asked: AnswerItemRecord, lost: LostArtifacts | None) -> bool | None:
    if lost is None or asked.kind == "agent":
        return None
    names = {
        "file": [use.path for use in lost.files],
        "todo": [todo.text for todo in lost.todos],
        "decision": [said.text for said in lost.decisions],
        "constraint": [said.text for said in lost.constraints],
    }
    return not any(name in asked.text for name in names.get(asked.kind, []))


MAX_OVERHEAD_TOKENS: Final = 100_000
"""Tokens of system prompt and tools; 91,000 is the most that was seen (claude-code-formats 3.6).
A first answer that saw more had a conversation before it that its file does not hold."""


def measured_overhead(head: Sequence[Entry]) -> int | None:
    """Return what the first request had beyond its messages, in tokens.

    `head` are the entries up to the answer to it, which stands last. None where there is no
    such answer, and where it saw more than a first request has.
    """
    first = head[-1].context_tokens if head else None
    if first is None:
        return None
    overhead = max(0, first - _client_tokens(visible_entries(head[:-1])))
    return overhead if overhead <= MAX_OVERHEAD_TOKENS else None


def recorded_overhead(entries: Iterable[Entry], counter: PartCounter) -> int | None:
    """Estimate the system prompt and the tools, in tokens, as the client wrote them down.

    None where it wrote down neither (clients before 2.1.2xx).
    """
    system: tuple[str, ...] = ()
    tools: tuple[tuple[str, str], ...] = ()
    for entry in entries:
        if entry.snapshot:
            system = entry.snapshot.system or system
            tools = entry.snapshot.tools or tools
    if not system and not tools:
        return None
    pieces = [MessagePart(PartKind.META, text) for text in system]
    pieces += [MessagePart(PartKind.ATTACHMENT, schema, name) for name, schema in tools]
    return sum(map(counter.tokens, pieces)) + (TOOLS_OVERHEAD_TOKENS if tools else 0)


def estimate_next_request(
    overhead: int,
    sent_before: Sequence[Entry],
    sent_after: Sequence[Entry],
    post_tokens: int | None,
) -> int:
    """Estimate the next request in tokens.

    `sent_before` is what was sent before the compaction, of which some is announced again,
    `sent_after` what is sent after it, as far as it is known, and `post_tokens` what the client
    says of that.
    """
    seen = [*sent_after, *reannounced_attachments(sent_before, sent_after)]
    return overhead + max(_client_tokens(seen), post_tokens or 0)


def _client_tokens(entries: Iterable[Entry]) -> int:
    return sum(
        client_token_estimate(piece)
        for entry in entries
        if not entry.hidden
        for piece in entry.parts
    )
