"""Checks of the list that the model will see against the one that it saw (compaction 7.6).

Each says what is wrong, or None. They compare: damage that was there before is not ours.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from ..conversation import Entry, PieceKind, Role, messages_of
from .plan import Append, Harm, Remove, Replace
from .project import is_call, is_result, project, waits_for_model
from .verify_graph import same_graph, same_server_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from .plan import Operation


_PROTECTED: Final = frozenset({PieceKind.SUMMARY, PieceKind.AGENT_RETURN})


class Seen(msgspec.Struct, frozen=True):
    """A transcript before and after: all of its entries, and those that would be sent."""

    before: Sequence[Entry]
    after: Sequence[Entry]
    visible_before: Sequence[Entry]
    """What would have been sent."""
    visible_after: Sequence[Entry]
    """What would be sent now."""
    operations: tuple[Operation, ...]

    @property
    def severity(self) -> Harm:
        """The highest level of what was done."""
        return max((each.level for each in self.operations), default=Harm.FILE_ONLY)

    @property
    def removed_lines(self) -> set[int]:
        """Lines that were to go."""
        return {
            edit.line for each in self.operations for edit in each.edits if isinstance(edit, Remove)
        }

    @property
    def edited_lines(self) -> set[int]:
        """Lines of which something was to change."""
        return {
            edit.line
            for each in self.operations
            for edit in each.edits
            if not isinstance(edit, Append)
        }

    @property
    def content_edited_lines(self) -> set[int]:
        """Lines of which more was to change than what they hang on."""
        return {
            edit.line
            for each in self.operations
            for edit in each.edits
            if isinstance(edit, Replace) and edit.pointer != "/parentUuid"
        }

    @property
    def added_uuids(self) -> set[str | None]:
        """Uuids of lines that were not there before."""
        return {each.uuid for each in self.after} - {each.uuid for each in self.before}

    @property
    def has_appends(self) -> bool:
        """Lines were to be added."""
        return any(isinstance(edit, Append) for each in self.operations for edit in each.edits)


def see(before: Sequence[Entry], after: Sequence[Entry], operations: tuple[Operation, ...]) -> Seen:
    """Project both."""
    return Seen(before, after, project(before), project(after), operations)


def same_list(compared: Seen) -> str | None:
    """V5: the lines that are sent are the same ones in the same order, but for those removed."""
    if compared.has_appends:
        known = {each.uuid for each in compared.visible_before} | compared.added_uuids
        strange = [each for each in compared.visible_after if each.uuid not in known]
        if strange:
            return f"line {strange[0].line} would be sent, which was not"
        return _kept_but_not_sent(compared)
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


def _kept_but_not_sent(compared: Seen) -> str | None:
    """Find what a boundary of ours keeps, and what the client would leave out all the same."""
    last = _last_boundary(compared.after)
    kept = set(last.boundary.kept_uuids) if last and last.boundary else set[str]()
    lost = kept & {each.uuid for each in compared.visible_before} - {
        each.uuid for each in compared.visible_after
    }
    return f"{len(lost)} lines that should stay would not be sent" if lost else None


def same_pairs(compared: Seen) -> str | None:
    """V7: every call has its result right behind it, if it had."""
    new = _unpaired(compared.visible_after) - _unpaired(compared.visible_before)
    return f"call {min(new)} is no longer followed by its result" if new else None


def same_boundary(compared: Seen) -> str | None:
    """V11: the last compaction and what it keeps are there, as they were."""
    if compared.has_appends or compared.severity is Harm.CUT:
        return None
    old, new = _last_boundary(compared.before), _last_boundary(compared.after)
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
        if each.uuid in kept
        and each.line in compared.content_edited_lines
        and _says_something(each)
    ]
    return f"line {changed[0].line}, which the last compaction keeps, changed" if changed else None


def same_leaf(compared: Seen) -> str | None:
    """V12: the line is there that the client remembers as its newest, if it was."""
    leaf = next((each.leaf_uuid for each in reversed(compared.after) if each.leaf_uuid), None)
    was = {each.uuid for each in compared.before}
    if leaf is not None and leaf in was and leaf not in {each.uuid for each in compared.after}:
        return "the line that the client remembers as its newest is gone"
    return None


def same_prompts(compared: Seen) -> str | None:
    """V14: no word of a person's is left out, unless prose was asked to go."""
    if compared.severity >= Harm.PROSE:
        return None
    lost = _lost(compared, {PieceKind.PROMPT})
    return f"line {lost.line}: a person's words would no longer be sent" if lost else None


def same_protected(compared: Seen) -> str | None:
    """V15: summaries and what agents gave back stay word for word, whatever is taken."""
    lost = _lost(compared, _PROTECTED) if compared.severity < Harm.SUMMARY else None
    return f"line {lost.line}: a summary or an agent's result changed" if lost else None


def _lost(compared: Seen, kinds: Collection[PieceKind]) -> Entry | None:
    """Give the first entry of which a piece of these kinds is not sent as it was."""
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


def same_roles(compared: Seen) -> str | None:
    """V13: a person begins, and no answer follows an answer where none did."""
    old, new = messages_of(list(compared.visible_before)), messages_of(list(compared.visible_after))
    if old and not new:
        return "nothing would be sent any more"
    if new and new[0].role is not Role.USER and old[0].role is Role.USER:
        return "an answer would come first"

    def pairs(messages: list[Entry]) -> int:
        roles = [each.role for each in messages_of(messages)]
        return sum(1 for one, two in pairwise(roles) if one is two)

    if pairs(list(compared.visible_after)) > pairs(list(compared.visible_before)):
        return "an answer would follow another one"
    return None


def same_or_smaller(compared: Seen) -> str | None:
    """V16: what changes only the file changes nothing that is sent; what frees context does."""
    if compared.severity is Harm.FILE_ONLY:
        if [each.parts for each in compared.visible_before] != [
            each.parts for each in compared.visible_after
        ]:
            return "what is sent changed, though only the file should"
        return None
    saved = sum(each.tokens_saved for each in compared.operations)
    if saved > 0 and _weight(compared.visible_after) >= _weight(compared.visible_before):
        return "what is sent did not become smaller"
    return None


def last_thinking(compared: Seen) -> str | None:
    """V10: thinking of the newest answer stays while the results of its calls wait for the model.

    In a turn that is over the API takes an answer without it (compaction 2.5, rule 2).
    """
    if compared.severity >= Harm.SUMMARY or not waits_for_model(compared.visible_before):
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
            if piece.kind is PieceKind.THINKING
        ]

    if thoughts(compared.visible_before) != thoughts(compared.visible_after):
        return "thinking of the newest answer would be gone"
    return None


LIST_CHECKS: Final[tuple[tuple[str, Callable[[Seen], str | None]], ...]] = (
    ("V5", same_list),
    ("V6", same_graph),
    ("V7", same_pairs),
    ("V8", same_server_pairs),
    ("V10", last_thinking),
    ("V11", same_boundary),
    ("V12", same_leaf),
    ("V13", same_roles),
    ("V14", same_prompts),
    ("V15", same_protected),
    ("V16", same_or_smaller),
)


def _says_something(entry: Entry) -> bool:
    return any(piece.text.strip() or piece.media for piece in entry.parts)


def _unpaired(entries: Sequence[Entry]) -> set[str]:
    """Name calls whose result is not in the message behind, and results without a call before."""
    open_calls: set[str] = set()
    unpaired: set[str] = set()
    for message in messages_of(list(entries)):
        pieces = message.parts
        if message.role is Role.USER:
            results = {each.tool_use_id or "" for each in pieces if is_result(each)}
            unpaired |= results ^ open_calls
            open_calls = set()
        else:
            open_calls |= {each.tool_use_id or "" for each in pieces if is_call(each)}
    return unpaired


def _last_boundary(entries: Sequence[Entry]) -> Entry | None:
    return next((each for each in reversed(entries) if each.boundary), None)


def _weight(entries: Sequence[Entry]) -> tuple[int, int]:
    pieces = [piece for each in entries for piece in each.parts]
    return sum(each.media for each in pieces), sum(len(each.text) for each in pieces)
