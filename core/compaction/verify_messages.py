"""Checks that compare what the model would be sent before and after a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from ..transcript.conversation import (
    Entry,
    PartKind,
    Role,
    group_messages,
    last_boundary,
    remembered_leaf,
)
from ..transcript.visible_messages import is_call, is_result, visible_entries, waits_for_model
from .plan import AppendLine, Operation, RemoveLine, ReplaceValue, Severity, changed_lines, edits_of

_SERVER_CALL_PREFIXES: Final = ("srvtoolu_", "mcptoolu_")
"""How the ids of calls begin that the API itself answers, in the same message."""


def check_graph(compared: TranscriptComparison) -> str | None:
    """V6: no new roots, orphans, circles or second lines with one uuid; our boundary is a root."""
    for what, count in _GRAPH_DEFECTS:
        old, now = count(compared.before), count(compared.after)
        new = now - old
        if what == "root":
            # What followed the first line is the first when that goes.
            new = Counter({uuid: n for uuid, n in new.items() if uuid not in compared.added_uuids})
            new = new if new.total() > (old - now).total() else Counter()
        if new:
            return f"{sum(new.values())} new: {what}"
    return None


def check_server_pairs(compared: TranscriptComparison) -> str | None:
    """V8: what the API itself called stands in one message with its result, if it did."""
    new = _split_pairs(compared.after) - _split_pairs(compared.before)
    return f"call {min(new)} of the API's own has lost its result or its answer" if new else None


def _roots(entries: Sequence[Entry]) -> Counter[str | None]:
    return Counter(each.uuid for each in entries if each.uuid and each.parent is None)


def _orphans(entries: Sequence[Entry]) -> Counter[str | None]:
    """Count missing parents by uuid: a child that leaves may hand its parent on."""
    there = {each.uuid for each in entries}
    return Counter({each.parent for each in entries if each.parent and each.parent not in there})


def _duplicates(entries: Sequence[Entry]) -> Counter[str | None]:
    counted = Counter(each.uuid for each in entries if each.uuid)
    return Counter({uuid: n for uuid, n in counted.items() if n > 1})


def _lines_in_circles(entries: Sequence[Entry]) -> Counter[str | None]:
    """Count the lines whose parents lead back to them or into a circle."""
    parents = {each.uuid: each.parent for each in entries if each.uuid}
    leads_out: set[str | None] = {None}
    circling: set[str | None] = set()
    for uuid in parents:
        way: dict[str | None, None] = {}
        at: str | None = uuid
        while at in parents and at not in leads_out and at not in circling and at not in way:
            way[at] = None
            at = parents[at]
        (circling if at in way or at in circling else leads_out).update(way)
    return Counter(circling)


_GRAPH_DEFECTS: Final = (
    ("root", _roots),
    ("orphan", _orphans),
    ("duplicate uuid", _duplicates),
    ("line in a circle", _lines_in_circles),
)


def _split_pairs(entries: Sequence[Entry]) -> set[str]:
    """Name calls of an answer and results in an answer that do not stand in the same message."""
    answers = [each for each in entries if each.role is Role.ASSISTANT]
    calls, results = (
        {
            piece.tool_use_id or "": each.message_id
            for each in answers
            for piece in each.parts
            if is_half(piece)
        }
        for is_half in (is_call, is_result)
    )
    # A person's client answers the other calls.
    own = {uuid for uuid in calls if uuid.startswith(_SERVER_CALL_PREFIXES)} | results.keys()
    return {uuid for uuid in own if calls.get(uuid, "") != results.get(uuid, "")}


_PROTECTED_KINDS: Final = frozenset({PartKind.SUMMARY, PartKind.AGENT_RETURN})


class TranscriptComparison(msgspec.Struct, frozen=True):
    """A transcript before and after: all of its entries, and those that would be sent."""

    before: Sequence[Entry]
    after: Sequence[Entry]
    visible_before: Sequence[Entry]  # what would have been sent
    visible_after: Sequence[Entry]  # what would be sent now
    operations: tuple[Operation, ...]

    @property
    def severity(self) -> Severity:
        """The highest level of what was done."""
        return max((each.level for each in self.operations), default=Severity.FILE_ONLY)

    @property
    def removed_lines(self) -> set[int]:
        return {edit.line for edit in edits_of(self.operations) if isinstance(edit, RemoveLine)}

    @property
    def edited_lines(self) -> set[int]:
        return changed_lines(self.operations)

    @property
    def content_edited_lines(self) -> set[int]:
        """Lines of which more was to change than their parent."""
        return {
            edit.line
            for edit in edits_of(self.operations)
            if isinstance(edit, ReplaceValue) and edit.pointer != "/parentUuid"
        }

    @property
    def added_uuids(self) -> set[str | None]:
        return {each.uuid for each in self.after} - {each.uuid for each in self.before}

    @property
    def has_appends(self) -> bool:
        return any(isinstance(edit, AppendLine) for edit in edits_of(self.operations))


def compare_transcripts(
    before: Sequence[Entry], after: Sequence[Entry], operations: tuple[Operation, ...]
) -> TranscriptComparison:
    return TranscriptComparison(
        before, after, visible_entries(before), visible_entries(after), operations
    )


def check_visible_lines(compared: TranscriptComparison) -> str | None:
    """V5: the lines that are sent are the same ones in the same order, but for those removed."""
    if compared.has_appends:
        known = {each.uuid for each in compared.visible_before} | compared.added_uuids
        strange = [each for each in compared.visible_after if each.uuid not in known]
        if strange:
            return f"line {strange[0].line} would be sent, which was not"
        return _retained_but_not_visible(compared)
    removed, edited = compared.removed_lines, compared.edited_lines
    expected = [each.uuid for each in compared.visible_before if each.line not in removed]
    answers = {each.message_id for each in compared.before if each.line in edited} - {None}
    changed = {
        each.uuid for each in compared.before if each.line in edited or each.message_id in answers
    }
    was = set(expected)
    # What was empty and is filled is sent from now on, with the thoughts of the same answer.
    found = [
        each.uuid for each in compared.visible_after if each.uuid in was or each.uuid not in changed
    ]
    if found != expected:
        gone = len(was - set(found))
        return (
            f"{gone} lines that are not in the plan would no longer be sent"
            if gone
            else ("lines would be sent in another order, or others than before")
        )
    return None


def _retained_but_not_visible(compared: TranscriptComparison) -> str | None:
    """Find what a boundary of ours keeps, and what the client would leave out all the same."""
    last = last_boundary(compared.after)
    kept = set(last.boundary.kept_uuids) if last and last.boundary else set[str]()
    lost = kept & {each.uuid for each in compared.visible_before} - {
        each.uuid for each in compared.visible_after
    }
    return f"{len(lost)} lines that should stay would not be sent" if lost else None


def check_call_pairs(compared: TranscriptComparison) -> str | None:
    """V7: every call has its result right behind it, if it had."""
    new = _unpaired(compared.visible_after) - _unpaired(compared.visible_before)
    return f"call {min(new)} is no longer followed by its result" if new else None


def check_boundary(compared: TranscriptComparison) -> str | None:
    """V11: the last compaction and what it keeps are there, as they were."""
    if compared.has_appends or compared.severity is Severity.CUT:
        return None
    old, new = last_boundary(compared.before), last_boundary(compared.after)
    if (old and (old.uuid, old.boundary)) != (new and (new.uuid, new.boundary)):
        return "the last compaction's boundary changed"
    kept = set(old.boundary.kept_uuids if old and old.boundary else ())
    there = {each.uuid for each in compared.after}
    lost = {each.uuid for each in compared.before if each.uuid in kept} - there
    if lost:
        return f"{len(lost)} lines that the last compaction keeps are gone"
    changed = [
        each
        for each in compared.before
        if each.uuid in kept and each.line in compared.content_edited_lines and _has_content(each)
    ]
    return f"line {changed[0].line}, which the last compaction keeps, changed" if changed else None


def check_leaf(compared: TranscriptComparison) -> str | None:
    """V12: the line is there that the client remembers as its newest, if it was."""
    leaf = remembered_leaf(compared.after)
    was = {each.uuid for each in compared.before}
    if leaf is not None and leaf in was and leaf not in {each.uuid for each in compared.after}:
        return "the line that the client remembers as its newest is gone"
    return None


def check_prompts(compared: TranscriptComparison) -> str | None:
    """V14: no word of a person's is left out, unless prose was asked to go."""
    if compared.severity >= Severity.PROSE:
        return None
    lost = _first_lost(compared, {PartKind.PROMPT})
    return f"line {lost.line}: a person's words would no longer be sent" if lost else None


def check_protected(compared: TranscriptComparison) -> str | None:
    """V15: summaries and what agents gave back stay word for word, whatever is taken."""
    lost = _first_lost(compared, _PROTECTED_KINDS) if compared.severity < Severity.SUMMARY else None
    return f"line {lost.line}: a summary or an agent's result changed" if lost else None


def _first_lost(compared: TranscriptComparison, kinds: Collection[PartKind]) -> Entry | None:
    """Return the first entry with a part of these kinds that is not sent unchanged."""
    new = {(each.uuid, piece) for each in compared.visible_after for piece in each.parts}
    return next(
        (
            each
            for each in compared.visible_before
            for piece in each.parts
            if piece.kind in kinds and piece.text.strip() and (each.uuid, piece) not in new
        ),
        None,
    )


def check_roles(compared: TranscriptComparison) -> str | None:
    """V13: a person begins, and no answer follows an answer where none did."""
    old, new = (
        group_messages(list(compared.visible_before)),
        group_messages(list(compared.visible_after)),
    )
    if old and not new:
        return "nothing would be sent any more"
    if new and new[0].role is not Role.USER and old[0].role is Role.USER:
        return "an answer would come first"

    def pairs(messages: list[Entry]) -> int:
        roles = [each.role for each in group_messages(messages)]
        return sum(1 for one, two in pairwise(roles) if one is two)

    if pairs(list(compared.visible_after)) > pairs(list(compared.visible_before)):
        return "an answer would follow another one"
    return None


def check_size(compared: TranscriptComparison) -> str | None:
    """V16: what changes only the file changes nothing that is sent; what frees context does."""
    if compared.severity is Severity.FILE_ONLY:
        if [each.parts for each in compared.visible_before] != [
            each.parts for each in compared.visible_after
        ]:
            return "what is sent changed, though only the file should"
        return None
    saved = sum(each.tokens_saved for each in compared.operations)
    if saved > 0 and _content_size(compared.visible_after) >= _content_size(
        compared.visible_before
    ):
        return "what is sent did not become smaller"
    return None


def check_newest_thinking(compared: TranscriptComparison) -> str | None:
    """V10: thinking of the newest answer stays while the results of its calls wait for the model.

    In a turn that is over the API takes an answer without it (compaction 2.5, rule 2).
    """
    if compared.severity >= Severity.SUMMARY or not waits_for_model(compared.visible_before):
        return None
    newest = next(
        (each for each in reversed(compared.visible_before) if each.role is Role.ASSISTANT), None
    )
    if newest is None or newest.message_id is None:
        return None

    def thoughts(entries: Sequence[Entry]) -> list[str]:
        return [
            piece.text
            for each in entries
            if each.message_id == newest.message_id
            for piece in each.parts
            if piece.kind is PartKind.THINKING
        ]

    if thoughts(compared.visible_before) != thoughts(compared.visible_after):
        return "thinking of the newest answer would be gone"
    return None


MESSAGE_CHECKS: Final[tuple[tuple[str, Callable[[TranscriptComparison], str | None]], ...]] = (
    ("V5", check_visible_lines),
    ("V6", check_graph),
    ("V7", check_call_pairs),
    ("V8", check_server_pairs),
    ("V10", check_newest_thinking),
    ("V11", check_boundary),
    ("V12", check_leaf),
    ("V13", check_roles),
    ("V14", check_prompts),
    ("V15", check_protected),
    ("V16", check_size),
)


def _has_content(entry: Entry) -> bool:
    return any(piece.text.strip() or piece.media for piece in entry.parts)


def _unpaired(entries: Sequence[Entry]) -> set[str]:
    """Return calls without a result in the next message, and results without a call before."""
    open_calls: set[str] = set()
    unpaired: set[str] = set()
    for message in group_messages(list(entries)):
        pieces = message.parts
        if message.role is Role.USER:
            results = {each.tool_use_id or "" for each in pieces if is_result(each)}
            unpaired |= results ^ open_calls
            open_calls = set()
        else:
            open_calls |= {each.tool_use_id or "" for each in pieces if is_call(each)}
    return unpaired


def _content_size(entries: Sequence[Entry]) -> tuple[int, int]:
    pieces = [piece for each in entries for piece in each.parts]
    return sum(each.media for each in pieces), sum(len(each.text) for each in pieces)
