"""Get back a turn that a digest condensed: its lines in full, or again as part of the context."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from ..model.conversation import (
    Entry,
    MessagePart,
    PartKind,
    Role,
    has_prompt,
    has_summary,
    newest_model,
)
from ..summaries.artifacts import render_tool_input
from ..summaries.extract import list_all_entries
from ..summaries.turn_digest import (
    EARLIER_SUMMARY,
    DigestSection,
    parse_digest,
    render_digest,
    short_id,
)
from ..transcript.visible_messages import behind_bound_answer, visible_entries
from .plan import RESTORE_TURN, Operation, Refusal, Severity
from .protection import without_bound_thinking
from .strategies.condense import read_digest_state
from .strategies.summary_and_cut import UNFINISHED_TURN, Conversation, make_boundary_operation


class RestoredPart(msgspec.Struct, frozen=True):
    """One part of a restored turn. Its text is data as the transcript holds it: sanitize it."""

    line: int  # of the transcript, counted from 1
    kind: str  # a `PartKind`
    name: str  # of the tool, or of the attachment's kind; else empty
    text: str
    failed: bool


class RestoredTurn(msgspec.Struct, frozen=True):
    turn: int
    first_line: int
    last_line: int
    tokens: int  # estimated, before it was condensed
    parts: tuple[RestoredPart, ...]


class _FoundTurn(msgspec.Struct, frozen=True):
    section: DigestSection
    others: tuple[DigestSection, ...]  # of the same digest
    digest: Entry
    entries: tuple[Entry, ...]  # of the turn, as they were sent


def read_turn(entries: Sequence[Entry], number: int) -> RestoredTurn | Refusal:
    """Read a turn that the newest digest condensed; `number` is that of its heading."""
    found = _find_turn(entries, number)
    if isinstance(found, Refusal):
        return found
    section = found.section
    parts = (
        RestoredPart(entry.line, part.kind.value, part.name, _text_of(part), part.failed)
        for entry in found.entries
        for part in entry.parts
        if part.kind is not PartKind.THINKING and (part.text.strip() or part.media)
    )
    return RestoredTurn(number, section.first_line, section.last_line, section.tokens, tuple(parts))


def _text_of(part: MessagePart) -> str:
    return render_tool_input(part) if part.kind is PartKind.TOOL_INPUT else part.text


def plan_restore(conversation: Conversation, number: int) -> Operation | Refusal:
    """Plan to put a condensed turn back: a digest without it, its lines, and what is sent now."""
    found = _find_turn(conversation.entries, number)
    if isinstance(found, Refusal):
        return found
    session_id = str(conversation.last_line.get("sessionId") or "")
    sent = conversation.visible_entries
    if behind_bound_answer(sent, newest_model(sent)):
        return _UNFINISHED_TURN
    later = [entry for entry in sent if entry.offset != found.digest.offset]
    between = _prompt_between(found.entries, later, conversation.entries)
    retained = without_bound_thinking([*found.entries, *between, *later])
    lines = f"lines {found.section.first_line} to {found.section.last_line}"
    state = read_digest_state(conversation).describe(found.others, retained)
    return make_boundary_operation(
        conversation,
        render_digest(found.others, session_id, state),
        retained,
        Severity.SUMMARY,
        (RESTORE_TURN, f"turn {number} is in the context again: {lines}", "as requested"),
    )


_UNFINISHED_TURN: Final = replace(
    UNFINISHED_TURN, what_to_do="let the session finish its turn first"
)


def _prompt_between(
    turn: Sequence[Entry], later: Sequence[Entry], entries: Sequence[Entry]
) -> list[Entry]:
    """Return the prompt that what follows the turn answers, if an answer would follow an answer."""
    if not later or {turn[-1].role, later[0].role} != {Role.ASSISTANT}:
        return []
    known = list_all_entries(entries)
    place = next(n for n, entry in enumerate(known) if entry.offset == later[0].offset)
    own = {entry.offset for entry in turn}
    prompts = (each for each in reversed(known[:place]) if has_prompt(each))
    return [each for each in islice(prompts, 1) if each.offset not in own]


def _find_turn(entries: Sequence[Entry], number: int) -> _FoundTurn | Refusal:
    digest = _newest_digest(entries)
    if digest is None:
        why = "no turn of this session was condensed"
        return Refusal("no_turn", why, "`ctxtop compact --strategy condense` does")
    entry, sections = digest
    section = next((each for each in sections if each.number == number), None)
    if section is None:
        known = ", ".join(str(each.number) for each in sections)
        return Refusal("no_turn", f"the digest has no turn {number}", f"use one of: {known}")
    lines = tuple(_lines_of(section, entries))
    if not lines:
        why = f"the lines of turn {number} are no longer in the transcript"
        return Refusal("no_turn", why, "`ctxtop history` lists the changes that can be undone")
    others = tuple(each for each in sections if each is not section)
    return _FoundTurn(section, others, entry, lines)


def _newest_digest(entries: Sequence[Entry]) -> tuple[Entry, tuple[DigestSection, ...]] | None:
    for entry in reversed(visible_entries(entries)):
        for part in entry.parts:
            if part.kind is PartKind.SUMMARY and (sections := parse_digest(part.text)):
                return entry, sections
    return None


def _lines_of(section: DigestSection, entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield a section's lines as they were sent; none if other lines stand there now."""
    lines = range(section.first_line, section.last_line + 1)
    is_summary = section.label == EARLIER_SUMMARY
    found = [
        entry
        for entry in list_all_entries(entries)
        # Between the lines of a turn a compaction can have written its summary.
        if entry.line in lines and has_summary(entry) is is_summary
    ]
    first = min(found, key=lambda entry: entry.line, default=None)
    if first is not None and short_id(first) == section.first_id:
        yield from found
