"""What the model would be sent if the session were resumed now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from .conversation import Entry, MessagePart, PartKind, Role, only_thinks
from .parent_chain import follow_chain


def visible_entries(entries: Sequence[Entry]) -> list[Entry]:
    """List the entries that are sent, in the order in which they are sent.

    Texts that the client replaced are replaced; `group_messages` makes messages of the entries.
    What the client adds at its start is not among them: the word that a call was interrupted,
    "No response requested.", and the next prompt. Nor is the warning that it says before each
    notification of an agent's end, some hundred tokens.
    """
    replaced = dict(pair for entry in entries for pair in entry.replaced_results)
    said = [entry for entry in follow_chain(entries) if _has_content(entry)]
    # An error is never sent, but what was attached before it stays before it.
    sent = [entry for entry in _attachments_first(_without_thinking_only(said)) if not entry.hidden]
    return [_with_replaced_texts(entry, replaced) for entry in _drop_unpaired(_group_answers(sent))]


def is_result(piece: MessagePart) -> bool:
    return piece.tool_use_id is not None and piece.kind is not PartKind.TOOL_INPUT


def is_call(piece: MessagePart) -> bool:
    return piece.tool_use_id is not None and piece.kind is PartKind.TOOL_INPUT


def waits_for_model(sent: Iterable[Entry]) -> bool:
    """Whether what is sent ends in tool results that have no answer yet.

    A prompt may follow the results: it goes into the same message.
    """
    newest = takewhile(lambda each: each.role is not Role.ASSISTANT, reversed([*sent]))
    return any(is_result(piece) for each in newest for piece in each.parts)


def _has_content(entry: Entry) -> bool:
    if entry.role is None or not entry.parts:
        return False
    return entry.role is Role.USER or not all(_is_blank(piece) for piece in entry.parts)


def _is_blank(piece: MessagePart) -> bool:
    return piece.kind is PartKind.TEXT and not piece.media and not piece.text.strip()


def _without_thinking_only(entries: list[Entry]) -> list[Entry]:
    """Leave out answers that are thinking alone: the API takes none."""
    spoken = {entry.message_id for entry in entries if not only_thinks(entry)}
    return [entry for entry in entries if entry.message_id in spoken or not only_thinks(entry)]


def _attachments_first(entries: list[Entry]) -> list[Entry]:
    """Move attachments before the prompt that they came with.

    They move up to the preceding answer or tool result, and keep their order.
    """
    moved: list[Entry] = []
    floor = 0
    for entry in entries:
        if entry.type == "attachment":
            moved.insert(floor, entry)
            floor += 1
            continue
        moved.append(entry)
        if entry.role is Role.ASSISTANT or any(is_result(piece) for piece in entry.parts):
            floor = len(moved)
    return moved


def _group_answers(entries: list[Entry]) -> list[Entry]:
    """Put each answer's lines together, its calls last.

    A call's result is written as soon as it is there, while the answer still streams: between
    two of its lines. A person's words end what belongs together.
    """
    groups: list[list[Entry]] = []
    answers: dict[str | None, list[Entry]] = {}
    for entry in entries:
        if entry.role is Role.ASSISTANT:
            known = answers.get(entry.message_id) if entry.message_id else None
            if known is None:
                known = answers[entry.message_id] = []
                groups.append(known)
            known.append(entry)
            continue
        if entry.type != "attachment" and not any(map(is_result, entry.parts)):
            answers.clear()
        groups.append([entry])
    return [
        entry
        for group in groups
        for entry in sorted(group, key=lambda each: any(map(is_call, each.parts)))
    ]


def _drop_unpaired(entries: list[Entry]) -> list[Entry]:
    """Leave out results without their call, and calls without a result.

    Not the calls at the end: the client itself gives them a result when it starts.
    """
    called = {piece.tool_use_id for entry in entries for piece in entry.parts if is_call(piece)}
    answered = {piece.tool_use_id for entry in entries for piece in entry.parts if is_result(piece)}
    open_answer = _open_answer(entries)
    found: list[Entry] = []
    orphaned = False
    for entry in entries:
        pieces = tuple(
            piece
            for piece in entry.parts
            if not (is_result(piece) and piece.tool_use_id not in called)
            and not (
                is_call(piece)
                and piece.tool_use_id not in answered
                and (open_answer is None or entry.message_id != open_answer)
            )
        )
        if orphaned and entry.type == "attachment" and _ends_in_results(found):
            # It is written into the result before it, and goes with it.
            continue
        orphaned = not pieces and any(is_result(piece) for piece in entry.parts)
        if pieces:
            found.append(entry if pieces == entry.parts else replace(entry, parts=pieces))
    return found


def _open_answer(entries: list[Entry]) -> str | None:
    """Name the answer that nothing but its own results follows."""
    if not _ends_in_results(entries):
        return None
    answers = (each for each in reversed(entries) if each.role is Role.ASSISTANT)
    return next((each.message_id for each in answers), None)


def _ends_in_results(entries: list[Entry]) -> bool:
    """Whether only tool results and attachments follow the last answer."""
    for entry in reversed(entries):
        if entry.role is Role.ASSISTANT:
            return True
        if entry.type != "attachment" and not any(is_result(piece) for piece in entry.parts):
            return False
    return True


def _with_replaced_texts(entry: Entry, replaced: dict[str, str]) -> Entry:
    if not any(_is_replaced(piece, replaced) for piece in entry.parts):
        return entry
    return replace(
        entry,
        parts=tuple(
            replace(piece, text=replaced[piece.tool_use_id or ""], media=0)
            if _is_replaced(piece, replaced)
            else piece
            for piece in entry.parts
        ),
    )


def _is_replaced(piece: MessagePart, replaced: dict[str, str]) -> bool:
    return is_result(piece) and piece.tool_use_id in replaced


_DELTA_ATTACHMENTS: Final = frozenset(
    {"deferred_tools_delta", "agent_listing_delta", "mcp_instructions_delta"}
)
"""Attachments that add to what was said before: all of them together are what holds."""

_STATE_ATTACHMENTS: Final = frozenset(
    {
        "environment", "model", "skill_listing", "auto_mode", "session_context", "date",
        "remote_session_change", "total_tokens_reminder",
    }
)  # fmt: skip
"""Attachments of which the newest holds."""


def reannounced_attachments(removed: Sequence[Entry], retained: Iterable[Entry]) -> list[Entry]:
    """List the attachments that come back when `removed` leaves: those that are not `retained`."""
    known = {each.subtype for each in retained}
    found = [each for each in removed if each.type == "attachment" and each.subtype not in known]
    newest = {each.subtype: each for each in found}
    return [
        each
        for each in found
        if each.subtype in _DELTA_ATTACHMENTS
        or (each.subtype in _STATE_ATTACHMENTS and newest[each.subtype] is each)
    ]
