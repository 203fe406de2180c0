"""What a compaction retained, lost and left in the context, and how soon it was needed again.

The client's `postTokens` counts the messages alone; the system prompt, the tools and announcements
are added by their size in earlier requests. Texts are counted as the client counts them
(`client_token_estimate`), so that a listing has the same size before and after the compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

import msgspec

from ..measure.part_sizes import NO_SNAPSHOT, TOOLS_OVERHEAD_TOKENS, overhead_parts, update_snapshot
from ..measure.tokens import PartCounter, client_token_estimate
from ..model.conversation import (
    Boundary,
    Entry,
    MessagePart,
    PartKind,
    Role,
    cleared_result_ids,
    has_summary,
)
from ..transcript.visible_messages import reannounced_attachments, visible_entries
from .artifacts import (
    READ_TOOLS,
    ArtifactCounts,
    Artifacts,
    LostArtifacts,
    count_artifacts,
    follow_artifacts,
    limit_lost_artifacts,
)
from .compaction_quality import KeptShares, kept_shares
from .decision_patterns import quote_line

if TYPE_CHECKING:
    from ..model.log_records import AnswerItemRecord
    from ..model.stored_rows import CompactionRow


THRASH_TURNS: Final = 10
"""Answers between two compactions, below which it is thrash: work needs its last 10 tool turns
(compaction.md 1.4). The client's own breaker stops only at fewer than 3, three times in a row
(anthropics/claude-code #60600, #82131)."""

CHARS_PER_TOKEN: Final = 2.85  # measured over usage of recorded sessions (compaction.md 1.4)
TOKENS_PER_MEDIA: Final = 1_600  # an image (claude-code-formats 9)
MAX_CULPRIT_CHARS: Final = 80  # of a prompt that is named by its text

LocatedPart = tuple[MessagePart, int]  # with its line, from 1


class Culprit(msgspec.Struct, frozen=True):
    """What added the most to a context since the compaction before."""

    kind: str  # file_read, tool_result, attachment, agent_return, prompt, meta or answer
    what: str  # a file's path, a tool, an attachment's kind, or the start of a text
    tokens: int  # by the growth between answers; estimated if there is none on both sides
    line: int  # of its largest part, from 1


class Refill(msgspec.Struct, frozen=True):
    turns_since_last: int  # answers between the two
    culprit: Culprit | None  # None if nothing was added

    @property
    def is_thrash(self) -> bool:
        """Whether the compaction came so soon that the context was lost twice, whoever asked."""
        return self.turns_since_last < THRASH_TURNS


class _Answer(msgspec.Struct):
    context_tokens: int | None = None
    output_tokens: int = 0
    thinking_tokens: int = 0
    parts: list[LocatedPart] = []
    added: list[LocatedPart] = []


def find_refill(between: Iterable[Entry], boundary: Boundary) -> Refill:
    """Find what filled a context again; `between` are the entries since the last boundary.

    They must hold each line once, and no agent's lines.
    """
    answers, last = _group_answers(between)
    closing = _Answer(context_tokens=boundary.pre_tokens, added=last)
    return Refill(len(answers), _find_culprit([*answers, closing]))


def _find_culprit(answers: Sequence[_Answer]) -> Culprit | None:
    """Find the group of parts that grew the context most: a file, a tool, a kind of attachment.

    Between two answers the context grows by the first one's output (without its thinking) and by
    what was added after it; parts share each amount by length. Without an answer on both sides,
    it is estimated from the length.
    """
    groups: dict[tuple[str, str], list[tuple[float, int]]] = {}
    """Tokens and line of each part, by the name of its group."""
    before: _Answer | None = None
    for answer in answers:
        own, added = _split_growth(before, answer)
        if before is not None and own:
            _share_tokens(before.parts, own, groups)
        _share_tokens(answer.added, added, groups)
        before = answer
    totals = {name: sum(tokens for tokens, _ in shares) for name, shares in groups.items()}
    best = max(totals, key=totals.__getitem__, default=None)
    if best is None or round(totals[best]) <= 0:
        return None
    _, line = max(groups[best], key=lambda share: share[0])
    return Culprit(*best, round(totals[best]), line)


def _group_answers(entries: Iterable[Entry]) -> tuple[list[_Answer], list[LocatedPart]]:
    """Join each answer's lines; results between them are added before the next answer.

    Also returns the parts after the last answer.
    """
    answers: dict[str, _Answer] = {}
    waiting: list[LocatedPart] = []
    for entry in entries:
        if entry.hidden:
            continue
        parts = [(part, entry.line) for part in entry.parts]
        if entry.role is not Role.ASSISTANT:
            waiting += [each for each in parts if each[0].kind is not PartKind.SUMMARY]
            continue
        key = entry.message_id or f"line {entry.line}"
        if key not in answers:
            answers[key] = _Answer(added=waiting)
            waiting = []
        answer = answers[key]
        answer.parts += parts
        # Early lines of clients before 2.1.97 hold a placeholder.
        answer.output_tokens = max(answer.output_tokens, entry.output_tokens or 0)
        answer.thinking_tokens = max(answer.thinking_tokens, entry.thinking_tokens or 0)
        answer.context_tokens = entry.context_tokens or answer.context_tokens
    return list(answers.values()), waiting


def _split_growth(before: _Answer | None, answer: _Answer) -> tuple[float, float]:
    if before is None or before.context_tokens is None or answer.context_tokens is None:
        return 0.0, sum(_part_weight(part) for part, _ in answer.added) / CHARS_PER_TOKEN
    growth = max(0, answer.context_tokens - before.context_tokens)
    own = min(growth, max(0, before.output_tokens - before.thinking_tokens))
    return float(own), float(growth - own)


def _share_tokens(
    parts: Sequence[LocatedPart],
    tokens: float,
    groups: dict[tuple[str, str], list[tuple[float, int]]],
) -> None:
    total = sum(_part_weight(part) for part, _ in parts)
    if not total:
        return
    for part, line in parts:
        share = tokens * _part_weight(part) / total
        groups.setdefault(_group_name(part), []).append((share, line))


def _part_weight(part: MessagePart) -> float:
    if part.kind is PartKind.THINKING:
        return 0.0
    return len(part.text) + part.media * TOKENS_PER_MEDIA * CHARS_PER_TOKEN


def _group_name(part: MessagePart) -> tuple[str, str]:
    name = " ".join(each for each in (part.name, part.path) if each)
    if part.kind is PartKind.TOOL_RESULT:
        is_file = part.name in READ_TOOLS and part.path
        return ("file_read", part.path or "") if is_file else ("tool_result", name or "a tool")
    if part.kind in {PartKind.TEXT, PartKind.TOOL_INPUT}:
        return "answer", name or "the model's words"
    if part.kind is PartKind.ATTACHMENT:
        return "attachment", name
    if part.kind is PartKind.AGENT_RETURN:
        return "agent_return", part.name or "a task's end"
    return part.kind.value, part.name or quote_line(part.text, MAX_CULPRIT_CHARS)


REPORT_VERSION: Final = 4  # of the rules: older reports are made again


class CompactionReport(msgspec.Struct, frozen=True):
    """What a compaction lost, how soon it came, and what was cleared before it."""

    forgotten: LostArtifacts = LostArtifacts()
    refill: Refill | None = None  # None for the first
    cleared_results: int = 0  # tool results that the model saw replaced since the compaction before
    is_known: bool = True  # False if the file begins at the compaction
    kept: ArtifactCounts = ArtifactCounts()  # what `forgotten.counts` is to be compared with

    @property
    def kept_shares(self) -> KeptShares | None:
        return kept_shares(self.kept, self.forgotten.counts) if self.is_known else None

    @property
    def thrash(self) -> Refill | None:
        """The refill, if the compaction came too soon."""
        return self.refill if self.refill and self.refill.is_thrash else None


class ClearedMessage(msgspec.Struct, frozen=True):
    offset: int
    tool_use_ids: tuple[str, ...]


def report_compactions(
    entries: Iterable[Entry], shown: Sequence[ClearedMessage] = ()
) -> Iterator[tuple[Entry, CompactionReport]]:
    """Yield a report on every compaction of one context, in the order of its lines.

    A report is final once the next answer exists: only the summary and attachments before it are
    used of what follows. A cleared result counts once, in the segment that first shows it.
    """
    counted: set[str] = set()
    begin = None
    for compaction in follow_artifacts(entries):
        segment = compaction.segment
        end = segment.end.offset
        cleared = cleared_result_ids(segment.entries).union(
            *(each.tool_use_ids for each in shown if (begin or 0) <= each.offset < end)
        )
        report = CompactionReport(
            forgotten=limit_lost_artifacts(compaction.lost),
            refill=None if begin is None else find_refill(segment.entries, segment.boundary),
            cleared_results=len(cleared - counted),
            is_known=segment.has_history,
            kept=count_artifacts(compaction.retained),
        )
        yield segment.end, report
        counted |= cleared
        begin = end


def encode_report(report: CompactionReport) -> str:
    return msgspec.json.encode(report).decode()


def decode_report(stored: str | None) -> CompactionReport | None:
    """Decode a report of the store; None if there is none yet, or it is of newer rules."""
    if stored is None:
        return None
    try:
        return _report_decoder.decode(stored)
    except msgspec.DecodeError:
        return None


_report_decoder: Final = msgspec.json.Decoder(CompactionReport)


class RetainedAndLost(msgspec.Struct, frozen=True):
    """The artifacts before a compaction, the most important first."""

    retained: Artifacts
    lost: Artifacts
    is_known: bool = True  # False if the file begins at the compaction


def find_retained_and_lost(entries: Iterable[Entry], uuid: str) -> RetainedAndLost | None:
    """Divide the artifacts before the compaction of this uuid; None if there is no such one."""
    for compaction in follow_artifacts(entries):
        segment = compaction.segment
        if uuid in {segment.end.uuid, f"at {segment.end.offset}"}:
            return RetainedAndLost(compaction.retained, compaction.lost, segment.has_history)
    return None


class SteeringOutcome(msgspec.Struct, frozen=True):
    kind: str
    text: str
    kept: bool | None  # None without a report, and for an agent, which reports do not cover
    tokens: int | None = None
    """Maximum in the instructions and, if a person asked for the compaction, once more in the
    context: the client shows the model what its hooks said."""


def steering_outcomes(
    compactions: Sequence[tuple[CompactionRow, CompactionReport | None]],
    requests: Sequence[AnswerItemRecord],
) -> list[tuple[SteeringOutcome, ...]]:
    """List what each compaction was asked to keep, each thing once; newest compaction first.

    `requests` are all of their sessions: those since the compaction before belong to this one.
    """
    if not requests:
        return [()] * len(compactions)
    outcomes = []
    for place, (row, report) in enumerate(compactions):
        owner = (row.session_id, row.agent_id)
        older = (each for each, _ in compactions[place + 1 :])
        before = next(
            (each.at or 0 for each in older if (each.session_id, each.agent_id) == owner), 0
        )
        found = {
            (each.kind, each.text): SteeringOutcome(
                each.kind, each.text, _was_kept(each, report), each.tokens
            )
            for each in requests
            if (each.session_id, each.agent_id) == owner and before < each.at <= (row.at or 0)
        }
        outcomes.append(tuple(found.values()))
    return outcomes


def _was_kept(request: AnswerItemRecord, report: CompactionReport | None) -> bool | None:
    if report is None or request.kind == "agent":
        return None
    lost = report.forgotten
    names = {
        "file": [file.path for file in lost.files],
        "todo": [todo.text for todo in lost.todos],
        "decision": [decision.text for decision in lost.decisions],
        "constraint": [constraint.text for constraint in lost.constraints],
    }
    return not any(name in request.text for name in names.get(request.kind, []))


MAX_OVERHEAD_TOKENS: Final = 100_000
"""The most that system prompt and tools take; 91,000 were seen (claude-code-formats 3.6). A first
answer that saw more follows a conversation that its file does not hold."""


def measured_overhead(head: Sequence[Entry]) -> int | None:
    """Return the tokens of the first request beyond its messages.

    `head` are the entries up to its answer, which is the last of them. None without such an
    answer, and if it saw more than a first request has.
    """
    first = head[-1].context_tokens if head else None
    if first is None:
        return None
    overhead = max(0, first - _client_tokens(visible_entries(head[:-1])))
    return overhead if overhead <= MAX_OVERHEAD_TOKENS else None


def recorded_overhead(entries: Iterable[Entry], counter: PartCounter) -> int | None:
    """Estimate the tokens of the system prompt and the tools that the client recorded.

    None if it recorded neither (clients before 2.1.2xx).
    """
    prompt = reduce(update_snapshot, entries, NO_SNAPSHOT)
    parts = overhead_parts(prompt)
    if not parts:
        return None
    return sum(map(counter.tokens, parts)) + (TOOLS_OVERHEAD_TOKENS if prompt.tools else 0)


def estimate_next_request(
    overhead: int,
    sent_before: Sequence[Entry],
    sent_after: Sequence[Entry],
    post_tokens: int | None,
) -> int:
    """Estimate the next request in tokens.

    Some of `sent_before` is announced again after the compaction, `sent_after` is known to
    follow it, and `post_tokens` is the client's count of that.
    """
    seen = [*sent_after, *reannounced_attachments(sent_before, sent_after)]
    return overhead + max(_client_tokens(seen), post_tokens or 0)


def estimate_planned_request(since: Iterable[Entry]) -> int | None:
    """Estimate the next request by what ctxtop's plan foresaw; None if it wrote no boundary.

    `since` are the boundary and what follows it. What is attached was announced before: the plan
    knew of it.
    """
    entries = iter(since)
    first = next(entries, None)
    planned = first.boundary.planned_tokens if first and first.boundary else None
    if planned is None:
        return None
    new = (each for each in entries if each.type != "attachment" and not has_summary(each))
    return planned + _client_tokens(new)


def _client_tokens(entries: Iterable[Entry]) -> int:
    return sum(
        client_token_estimate(part) for entry in entries if not entry.hidden for part in entry.parts
    )
