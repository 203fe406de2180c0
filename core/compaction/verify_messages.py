"""Checks that compare what the model would be sent before and after a plan."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from ..model import conversation
from ..model.conversation import Entry, MessagePart, PartKind, Role, group_messages, newest_model
from ..transcript.visible_messages import is_call, is_result, last_bound_thinking, open_turn
from .plan import (
    RESTORE_TURN,
    AppendLine,
    Operation,
    RemoveLine,
    ReplaceValue,
    Severity,
    changed_lines,
    edits_of,
    severity_of_edits,
)

_SERVER_CALL_PREFIXES: Final = ("srvtoolu_", "mcptoolu_")  # of ids of calls that the API answers


class TranscriptComparison(msgspec.Struct, frozen=True):
    """A transcript before and after: all of its entries, and those that would be sent."""

    before: Sequence[Entry]
    after: Sequence[Entry]
    visible_before: Sequence[Entry]  # what would have been sent
    visible_after: Sequence[Entry]  # what would be sent now
    operations: tuple[Operation, ...]

    @property
    def severity(self) -> Severity:
        return max((each.level for each in self.operations), default=Severity.FILE_ONLY)

    @property
    def added_uuids(self) -> set[str | None]:
        return {each.uuid for each in self.after} - {each.uuid for each in self.before}

    @property
    def restored_uuids(self) -> set[str | None]:
        """Lines that an earlier compaction removed and that are put back on request."""
        last = conversation.last_boundary(self.after)
        if last is None or last.boundary is None:
            return set()
        is_restored = any(each.strategy == RESTORE_TURN for each in self.operations)
        kept = set(last.boundary.kept_uuids) if is_restored else set[str]()
        return {each.uuid for each in self.before if each.uuid in kept}

    @property
    def has_appends(self) -> bool:
        return any(isinstance(edit, AppendLine) for edit in edits_of(self.operations))


def check_graph(compared: TranscriptComparison) -> str | None:
    """V6: no new roots, orphans, circles or second lines with one uuid; our boundary is a root."""
    for what, count in _GRAPH_DEFECTS:
        old, now = count(compared.before), count(compared.after)
        new = now - old
        if what == "root":
            # If the first line is removed, the one that followed it is the first.
            new = Counter({uuid: n for uuid, n in new.items() if uuid not in compared.added_uuids})
            new = new if new.total() > (old - now).total() else Counter()
        if new:
            return f"{sum(new.values())} new: {what}"
    return None


def check_server_pairs(compared: TranscriptComparison) -> str | None:
    """V8: a call of the API's own stays in one message with its result, if it was."""
    new = _split_pairs(compared.after) - _split_pairs(compared.before)
    return f"call {min(new)} of a server tool has lost its result or its answer" if new else None


def _roots(entries: Sequence[Entry]) -> Counter[str | None]:
    return Counter(each.uuid for each in entries if each.uuid and each.parent is None)


def _orphans(entries: Sequence[Entry]) -> Counter[str | None]:
    """Count missing parents by uuid: a removed child may hand its parent on."""
    uuids = {each.uuid for each in entries}
    return Counter({each.parent for each in entries if each.parent and each.parent not in uuids})


def _duplicates(entries: Sequence[Entry]) -> Counter[str | None]:
    counts = Counter(each.uuid for each in entries if each.uuid)
    return Counter({uuid: n for uuid, n in counts.items() if n > 1})


def _lines_in_circles(entries: Sequence[Entry]) -> Counter[str | None]:
    """Count the lines whose parents lead back to them or into a circle."""
    parents = {each.uuid: each.parent for each in entries if each.uuid}
    leads_out: set[str | None] = {None}
    circling: set[str | None] = set()
    for uuid in parents:
        path: dict[str | None, None] = {}
        current: str | None = uuid
        while current in parents and not any(current in at for at in (leads_out, circling, path)):
            path[current] = None
            current = parents[current]
        (circling if current in path or current in circling else leads_out).update(path)
    return Counter(circling)


_GRAPH_DEFECTS: Final = (
    ("root", _roots),
    ("orphan", _orphans),
    ("duplicate uuid", _duplicates),
    ("line in a circular chain", _lines_in_circles),
)


def _split_pairs(entries: Sequence[Entry]) -> set[str]:
    """Name calls of an answer and results in an answer that are not in the same message."""
    answers = [each for each in entries if each.role is Role.ASSISTANT]
    calls, results = (
        {
            part.tool_use_id or "": entry.message_id
            for entry in answers
            for part in entry.parts
            if is_half(part)
        }
        for is_half in (is_call, is_result)
    )
    # The user's client answers the other calls.
    own = {uuid for uuid in calls if uuid.startswith(_SERVER_CALL_PREFIXES)} | results.keys()
    return {uuid for uuid in own if calls.get(uuid, "") != results.get(uuid, "")}


def check_visible_lines(compared: TranscriptComparison) -> str | None:
    """V5: the same lines are sent in the same order, except those removed."""
    was_sent = {each.uuid for each in compared.visible_before}
    is_sent = {each.uuid for each in compared.visible_after}
    if compared.has_appends:
        known = was_sent | compared.added_uuids | compared.restored_uuids
        unknown = [each for each in compared.visible_after if each.uuid not in known]
        if unknown:
            return f"line {unknown[0].line} would be sent but was not before"
        # What our boundary keeps, and the client would leave out all the same.
        last = conversation.last_boundary(compared.after)
        kept = set(last.boundary.kept_uuids) if last and last.boundary else set[str]()
        lost = kept & (was_sent - is_sent)
        return f"{len(lost)} lines that should stay would not be sent" if lost else None
    removed = {edit.line for edit in edits_of(compared.operations) if isinstance(edit, RemoveLine)}
    edited = changed_lines(compared.operations)
    expected = [each.uuid for each in compared.visible_before if each.line not in removed]
    expected_uuids = set(expected)
    answers = {each.message_id for each in compared.before if each.line in edited} - {None}
    changed = {
        each.uuid for each in compared.before if each.line in edited or each.message_id in answers
    }
    # What was empty and is filled is sent from now on, with the thoughts of the same answer.
    sent = [
        each.uuid
        for each in compared.visible_after
        if each.uuid in expected_uuids or each.uuid not in changed
    ]
    if sent == expected:
        return None
    gone = len(expected_uuids.difference(sent))
    if gone:
        return f"{gone} lines that are not in the plan would no longer be sent"
    return "other lines would be sent, or in another order"


def check_call_pairs(compared: TranscriptComparison) -> str | None:
    """V7: every call has its result right behind it, if it had."""
    new = _unpaired(compared.visible_after) - _unpaired(compared.visible_before)
    return f"call {min(new)} is no longer followed by its result" if new else None


def check_boundary(compared: TranscriptComparison) -> str | None:
    """V11: the last compaction and what it keeps are there, as they were."""
    if compared.has_appends or compared.severity is Severity.CUT:
        return None
    old, new = map(conversation.last_boundary, (compared.before, compared.after))
    if (old and (old.uuid, old.boundary)) != (new and (new.uuid, new.boundary)):
        return "the last compaction's boundary changed"
    kept = set(old.boundary.kept_uuids if old and old.boundary else ())
    lost = {each.uuid for each in compared.before if each.uuid in kept} - {
        each.uuid for each in compared.after
    }
    if lost:
        return f"{len(lost)} lines that the last compaction keeps are gone"
    # A line may get another parent.
    edited = {
        edit.line
        for edit in edits_of(compared.operations)
        if isinstance(edit, ReplaceValue) and edit.pointer != "/parentUuid"
    }
    for entry in compared.before:
        has_content = any(part.text.strip() or part.media for part in entry.parts)
        if entry.uuid in kept and entry.line in edited and has_content:
            return f"line {entry.line}, which the last compaction keeps, changed"
    return None


def check_leaf(compared: TranscriptComparison) -> str | None:
    """V12: the line is there that the client remembers as its newest, if it was."""
    leaf = conversation.remembered_leaf(compared.after)
    was = {each.uuid for each in compared.before}
    if leaf is not None and leaf in was and leaf not in {each.uuid for each in compared.after}:
        return "the line that the client remembers as its newest is gone"
    return None


def check_prompts(compared: TranscriptComparison) -> str | None:
    """V14: no word of a person's is left out, unless the plan's level includes prose."""
    line = _first_lost(compared, Severity.PROSE, PartKind.PROMPT)
    return f"line {line}: text written by a person would no longer be sent" if line else None


def check_protected(compared: TranscriptComparison) -> str | None:
    """V15: summaries stay word for word, and agents' results below level 3."""
    line = _first_lost(compared, Severity.SUMMARY, PartKind.SUMMARY)
    line = line or _first_lost(compared, Severity.MASKED, PartKind.AGENT_RETURN)
    return f"line {line}: a summary or an agent's result changed" if line else None


def _first_lost(compared: TranscriptComparison, level: Severity, *kinds: PartKind) -> int | None:
    """Return the first line with a part of these kinds that is not sent unchanged.

    A plan of this level or a higher one may change all of them; if only the lines that it appends
    are of that level, it may leave lines out, and change none that stays.
    """
    sent = {(entry.uuid, part) for entry in compared.visible_after for part in entry.parts}
    checked = compared.visible_before
    if compared.severity >= level:
        stays = {each.uuid for each in compared.visible_after}
        checked = [each for each in checked if each.uuid in stays]
    for entry in checked if severity_of_edits(compared.operations) < level else ():
        for part in entry.parts:
            if part.kind in kinds and part.text.strip() and (entry.uuid, part) not in sent:
                return entry.line
    return None


def check_roles(compared: TranscriptComparison) -> str | None:
    """V13: a person begins, and no answer follows an answer unless one did before."""
    old, new = (
        [message.role for message in group_messages(list(entries))]
        for entries in (compared.visible_before, compared.visible_after)
    )
    if old and not new:
        return "nothing would be sent any more"
    if new and new[0] is not Role.USER and old[0] is Role.USER:
        return "an answer would come first"
    old_pairs, new_pairs = (
        sum(first is second for first, second in pairwise(roles)) for roles in (old, new)
    )
    return "an answer would follow another one" if new_pairs > old_pairs else None


def check_size(compared: TranscriptComparison) -> str | None:
    """V16: what changes only the file changes nothing that is sent; what frees context does."""
    old, new = (
        [entry.parts for entry in entries]
        for entries in (compared.visible_before, compared.visible_after)
    )
    if compared.severity is Severity.FILE_ONLY:
        return "what is sent changed, though only the file should" if old != new else None
    saved = sum(each.tokens_saved for each in compared.operations)
    if saved > 0 and _content_size(new) >= _content_size(old):
        return "what is sent did not become smaller"
    return None


def _content_size(messages: Sequence[Sequence[MessagePart]]) -> tuple[int, int]:
    """Return the images and the characters; the text of thinking is often not recorded."""
    parts = [part for each in messages for part in each]
    chars = (max(len(part.text), part.kind is PartKind.THINKING) for part in parts)
    return sum(part.media for part in parts), sum(chars)


def check_open_thinking(compared: TranscriptComparison) -> str | None:
    """V10: the thinking of a turn that is open stays with each of its answers that stays.

    Where the model binds it, nothing before it may change either. In a turn that is over the API
    takes an answer without its thinking (compaction 2.5, rule 2).
    """
    before, after = compared.visible_before, compared.visible_after
    turn = {entry.message_id for entry in open_turn(before)} - {None}
    staying = turn & {entry.message_id for entry in after}
    if _thinking_of(before, staying) != _thinking_of(after, staying):
        return "thinking of the unfinished turn would be gone"
    place = last_bound_thinking(before, newest_model(before))
    if place is None or before[place].message_id not in staying:
        return None
    last = next((n for n, each in enumerate(after) if each.uuid == before[place].uuid), 0)
    is_same = _said_in(before[:place]) == _said_in(after[:last])
    return None if is_same else "something before the unfinished turn's thinking would change"


def _thinking_of(entries: Sequence[Entry], answers: Collection[str | None]) -> list[str]:
    return [
        part.text
        for entry in entries
        if entry.message_id in answers
        for part in entry.parts
        if part.kind is PartKind.THINKING
    ]


def _said_in(entries: Sequence[Entry]) -> list[MessagePart]:
    """Return all parts but thinking, which may be left out where it leads."""
    return [part for each in entries for part in each.parts if part.kind is not PartKind.THINKING]


MESSAGE_CHECKS: Final[tuple[tuple[str, Callable[[TranscriptComparison], str | None]], ...]] = (
    ("V5", check_visible_lines),
    ("V6", check_graph),
    ("V7", check_call_pairs),
    ("V8", check_server_pairs),
    ("V10", check_open_thinking),
    ("V11", check_boundary),
    ("V12", check_leaf),
    ("V13", check_roles),
    ("V14", check_prompts),
    ("V15", check_protected),
    ("V16", check_size),
)


def _unpaired(entries: Sequence[Entry]) -> set[str]:
    """Return calls without a result in the next message, and results without a call before."""
    open_calls: set[str] = set()
    unpaired: set[str] = set()
    for message in group_messages(list(entries)):
        if message.role is Role.USER:
            results = {part.tool_use_id or "" for part in message.parts if is_result(part)}
            unpaired |= results ^ open_calls
            open_calls = set()
        else:
            open_calls |= {part.tool_use_id or "" for part in message.parts if is_call(part)}
    return unpaired
