"""What the model would be sent if the session were resumed now.

The parent chain leads from the newest entry back to the first, as the client follows it. Its
entries are then ordered and paired as the API requires.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from ..model.conversation import (
    Boundary,
    ConversationMessage,
    Entry,
    MessagePart,
    PartKind,
    Role,
    binds_thinking,
    group_messages,
    is_from_other_model,
    last_boundary,
    only_thinks,
    remembered_leaf,
    went_back_to,
    with_parts,
)
from .withdrawn_content import without_withdrawn

EntriesByUuid = dict[str, Entry]  # in the order of their file


def follow_chain(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that lead to the newest one, oldest first.

    The chain begins at the last boundary, with what that boundary keeps. Of two lines with one
    uuid the last counts.
    """
    chosen = went_back_to(entries)
    if chosen == "":
        return []
    lines = {entry.uuid: entry for entry in entries if entry.uuid}
    if any(not entry.sidechain for entry in lines.values()):
        # Every line of an agent's own file is a sidechain.
        lines = {uuid: entry for uuid, entry in lines.items() if not entry.sidechain}
    lines = _after_last_boundary(_relink_orphans(lines))
    if chosen is None or chosen not in lines:
        chosen, below = _find_leaf(lines, remembered_leaf(entries)), list[Entry]()
    else:
        below = _attachments_of_result(lines, chosen)
    return [*_add_siblings([*_ancestors(lines, chosen)][::-1], lines), *below]


def _attachments_of_result(lines: EntriesByUuid, uuid: str) -> list[Entry]:
    """Return what was attached to a result that a person went back to: it is sent in it."""
    if _answered_call(lines[uuid]) is None:
        return []
    children, found = _children(lines), list[Entry]()
    last: str | None = uuid
    while attached := [each for each in children.pop(last, ()) if each.type == "attachment"]:
        found.append(attached[0])
        last = attached[0].uuid
    return found


def _relink_orphans(lines: EntriesByUuid) -> EntriesByUuid:
    """Link a line whose parent is missing to the line before it in the file."""
    linked, before = EntriesByUuid(), None
    for uuid, entry in lines.items():
        is_orphan = entry.parent is not None and entry.parent not in lines
        linked[uuid] = replace(entry, parent=before) if is_orphan else entry
        before = uuid
    return linked


def _after_last_boundary(lines: EntriesByUuid) -> EntriesByUuid:
    """Leave out what a compaction removed, and link what it kept to its anchor."""
    last = last_boundary(lines.values())
    if last is None or last.boundary is None:
        return lines
    kept = _retained_by(last.boundary, lines)
    # By place: an old line that is written again behind the boundary stays before it.
    place = list(lines).index(last.uuid or "")
    remaining = {
        uuid: entry
        for number, (uuid, entry) in enumerate(lines.items())
        if number >= place or uuid in kept
    }
    before = kept[-1] if kept else last.uuid
    for uuid, entry in remaining.items():
        # The client (2.1.332) continues a message that follows a removed one behind what is kept.
        if uuid not in kept and entry.parent is not None and entry.parent not in remaining:
            remaining[uuid] = replace(entry, parent=before)
        if not kept:
            before = uuid
    if not kept:
        return remaining
    for uuid, entry in remaining.items():
        if uuid not in kept and entry.parent == last.boundary.anchor_uuid:
            remaining[uuid] = replace(entry, parent=kept[-1])
    for uuid, parent in zip(kept, (last.boundary.anchor_uuid, *kept), strict=False):
        remaining[uuid] = replace(remaining[uuid], parent=parent)
    return remaining


def _retained_by(boundary: Boundary, lines: EntriesByUuid) -> tuple[str, ...]:
    """Return the uuids of the kept messages in their order; none if a line of them is missing."""
    if boundary.anchor_uuid not in lines:
        return ()
    if boundary.kept_uuids:
        return boundary.kept_uuids if all(uuid in lines for uuid in boundary.kept_uuids) else ()
    if boundary.kept_range is None:
        return ()
    head, tail = boundary.kept_range
    walked: list[str] = []
    for entry in _ancestors(lines, tail):
        walked.append(entry.uuid or "")
        if entry.uuid == head:
            return tuple(reversed(walked))
    return ()


def retained_uuids(entries: Sequence[Entry]) -> set[str]:
    """Return the messages that the last boundary keeps, also those of a list with missing lines.

    The messages of a range are included if their lines still lead to its head.
    """
    end = last_boundary(entries)
    if end is None or end.boundary is None:
        return set()
    last = end.boundary
    lines = {entry.uuid: entry for entry in entries if entry.uuid}
    return {*last.kept_uuids, *(last.kept_range or ()), *_retained_by(last, lines)}


def _find_leaf(lines: EntriesByUuid, last_prompt_uuid: str | None) -> str | None:
    """Return the last line without children that has a message among its ancestors.

    Preferably it is below the line that the client remembers, or below its answer's lines.
    """
    parents = {entry.parent for entry in lines.values()}
    ends = [uuid for uuid in lines if uuid not in parents] or list(lines)[-1:]
    leaves = [
        uuid
        for uuid in reversed(ends)
        if any(entry.type in {"user", "assistant"} for entry in _ancestors(lines, uuid))
    ]
    if last_prompt_uuid is not None and last_prompt_uuid in lines:
        # The client may remember any of several parallel results, and continue from another.
        remembered = lines[last_prompt_uuid]
        if _answered_call(remembered):
            remembered = lines.get(remembered.parent or "", remembered)
        answer = remembered.message_id
        same = {uuid for uuid, entry in lines.items() if answer and entry.message_id == answer}
        below = _descendants(lines, {last_prompt_uuid, *same})
        leaves = [uuid for uuid in leaves if uuid in below] or leaves
    return leaves[0] if leaves else None


def _descendants(lines: EntriesByUuid, roots: set[str]) -> set[str]:
    children = _children(lines)
    seen, pending = set(roots), list(roots)
    while pending:
        below = {entry.uuid or "" for entry in children.get(pending.pop(), ())} - seen
        seen |= below
        pending += below
    return seen


def _ancestors(lines: EntriesByUuid, uuid: str | None) -> Iterator[Entry]:
    """Yield a line and its ancestors; a cycle continues at the line before it in the file."""
    seen = set[str]()
    while uuid is not None and uuid in lines:
        if uuid in seen:
            first = min(lines[each].offset for each in seen)
            before = (each for each, entry in reversed(lines.items()) if entry.offset < first)
            uuid = next(before, None)
            continue
        seen.add(uuid)
        yield lines[uuid]
        uuid = lines[uuid].parent


def nearest_remaining(parent: str | None, gone: Mapping[str, str | None]) -> str | None:
    """Return the nearest ancestor that is not `gone`, a map to parents; stops in a cycle."""
    seen = set[str]()
    while parent is not None and parent in gone and parent not in seen:
        seen.add(parent)
        parent = gone[parent]
    return parent


def _add_siblings(chain: list[Entry], lines: EntriesByUuid) -> list[Entry]:
    """Add an answer's parallel lines and their results, of which only some lead to the newest line.

    Each of the others follows those that were written before it, with its attachments.
    """
    on_chain = {entry.uuid for entry in chain}
    places: defaultdict[str | None, list[int]] = defaultdict(list)
    """Places in the chain of an answer's lines and results, by message id."""
    for place, entry in enumerate(chain):
        if _is_answer(entry):
            places[entry.message_id].append(place)
    answer_of_call: dict[str | None, str | None] = {}
    siblings: defaultdict[str | None, list[Entry]] = defaultdict(list)
    for entry in lines.values():
        if not _is_answer(entry) or entry.message_id not in places:
            continue
        answer_of_call |= {
            part.tool_use_id: entry.message_id for part in entry.parts if part.tool_use_id
        }
        if entry.uuid not in on_chain:
            siblings[entry.message_id].append(entry)
    for entry in lines.values():
        call = _answered_call(entry)
        if call in answer_of_call and entry.uuid not in on_chain:
            siblings[answer_of_call[call]].append(entry)
    if not siblings:
        return chain
    for place, entry in enumerate(chain):
        call = _answered_call(entry)
        if call in answer_of_call:
            places[answer_of_call[call]].append(place)
    return _insert_siblings(chain, places, siblings, _children(lines))


def _insert_siblings(
    chain: list[Entry],
    places_of_answer: Mapping[str | None, list[int]],
    siblings_of_answer: Mapping[str | None, list[Entry]],
    children: dict[str | None, list[Entry]],
) -> list[Entry]:
    inserted: defaultdict[int, list[Entry]] = defaultdict(list)
    for answer, siblings in siblings_of_answer.items():
        own = places_of_answer[answer]
        for sibling in sorted(siblings, key=_time):
            # A line of an answer comes before a sibling of the same time.
            place = max(
                (n for n in own if _time(chain[n]) < _time(sibling) + _is_answer(chain[n])),
                default=own[0],
            )
            if not _is_answer(chain[place]):
                while place + 1 < len(chain) and chain[place + 1].type == "attachment":
                    place += 1
            inserted[place] += [sibling, *_attachments_below(sibling, children)]
    return [each for place, entry in enumerate(chain) for each in (entry, *inserted[place])]


def _time(entry: Entry) -> int:
    return entry.at or 0


def _answered_call(entry: Entry) -> str | None:
    if entry.role is not Role.USER:
        return None
    return next((part.tool_use_id for part in entry.parts if part.tool_use_id), None)


def _children(lines: EntriesByUuid) -> dict[str | None, list[Entry]]:
    children: dict[str | None, list[Entry]] = {}
    for entry in lines.values():
        children.setdefault(entry.parent, []).append(entry)
    return children


def _is_answer(entry: Entry) -> bool:
    return entry.role is Role.ASSISTANT and entry.message_id is not None


def _attachments_below(entry: Entry, children: dict[str | None, list[Entry]]) -> list[Entry]:
    """Return all lines below one; none if a message is among them."""
    descendants: list[Entry] = []
    level = [entry]
    while level:
        level = [child for each in level for child in children.pop(each.uuid, ())]
        if any(each.type in {"user", "assistant"} for each in level):
            return []
        descendants += level
    return descendants


def visible_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that are sent, in the order in which they are sent.

    Replaced texts are in place; `group_messages` makes messages of the entries. What the client
    adds when it starts is missing: the note that a call was interrupted, "No response
    requested.", the next prompt, and the warning before each notification of an agent's end
    (some hundred tokens).
    """
    replaced = dict(pair for entry in entries for pair in entry.replaced_results)
    chain = without_withdrawn(follow_chain(entries))
    messages = [entry for entry in chain if _has_content(entry)]
    # The API rejects answers that are thinking alone.
    answers = {entry.message_id for entry in messages if not only_thinks(entry)}
    kept = [entry for entry in messages if entry.message_id in answers or not only_thinks(entry)]
    # An error is never sent, but what was attached before it stays before it.
    sent = [entry for entry in _attachments_first(kept) if not entry.hidden]
    paired = _drop_unpaired(_group_answers(sent))
    if not replaced:
        return paired
    return [
        with_parts(entry, (_replace_text(part, replaced) for part in entry.parts))
        for entry in paired
    ]


def _replace_text(part: MessagePart, replaced: dict[str, str]) -> MessagePart:
    if not (is_result(part) and part.tool_use_id in replaced):
        return part
    return replace(part, text=replaced[part.tool_use_id], media=0)


def is_result(part: MessagePart) -> bool:
    return part.tool_use_id is not None and part.kind is not PartKind.TOOL_INPUT


def is_call(part: MessagePart) -> bool:
    return part.tool_use_id is not None and part.kind is PartKind.TOOL_INPUT


def waits_for_model(sent: Iterable[Entry]) -> bool:
    """Return whether the messages end in tool results without an answer.

    A prompt may follow the results: it goes into the same message.
    """
    newest = takewhile(lambda entry: entry.role is not Role.ASSISTANT, reversed([*sent]))
    return any(is_result(part) for entry in newest for part in entry.parts)


def open_turn(sent: Iterable[Entry]) -> list[Entry]:
    """Return the turn whose results wait for the model, from its prompt on; empty if none waits.

    A prompt that is sent in one message with results, as after an interruption, begins no turn.
    """
    entries = [*sent]
    if not waits_for_model(entries):
        return []
    messages: list[ConversationMessage] = []
    for message in reversed(group_messages(entries)):
        messages.append(message)
        if message.role is Role.USER and not any(map(is_result, message.parts)):
            break
    return [entry for message in reversed(messages) for entry in message.entries]


def last_bound_thinking(sent: Sequence[Entry], model: str | None) -> int | None:
    """Return the place of the open turn's last thinking if the model binds it; None if not.

    The API takes that thinking only as it was, and only after all that it was written after
    (compaction.md 2.5): nothing before it may change while its turn is open.
    """
    if not binds_thinking(model):
        return None
    turn = {entry.offset for entry in open_turn(sent)}
    places = (
        place
        for place in range(len(sent) - 1, -1, -1)
        if sent[place].offset in turn
        and not is_from_other_model(sent[place], model)
        and any(part.kind is PartKind.THINKING for part in sent[place].parts)
    )
    return next(places, None)


def behind_bound_answer(sent: Sequence[Entry], model: str | None) -> int:
    """Return the place behind the answer with `last_bound_thinking`, and its results; 0 if none.

    Only what follows it can stay if anything before it changes.
    """
    place = last_bound_thinking(sent, model)
    if place is None:
        return 0
    answer = sent[place].message_id
    return next(
        (
            later
            for later in range(place + 1, len(sent))
            if sent[later].role is Role.ASSISTANT and sent[later].message_id != answer
        ),
        len(sent),
    )


def _has_content(entry: Entry) -> bool:
    if entry.role is None or not entry.parts:
        return False
    return entry.role is Role.USER or not all(
        part.kind is PartKind.TEXT and not part.media and not part.text.strip()
        for part in entry.parts
    )


def _attachments_first(entries: list[Entry]) -> list[Entry]:
    """Move attachments before the prompt that they came with, behind the last answer or result."""
    moved: list[Entry] = []
    floor = 0
    for entry in entries:
        if entry.type == "attachment":
            moved.insert(floor, entry)
            floor += 1
            continue
        moved.append(entry)
        if entry.role is Role.ASSISTANT or any(map(is_result, entry.parts)):
            floor = len(moved)
    return moved


def _group_answers(entries: list[Entry]) -> list[Entry]:
    """Join the lines of each answer, its calls last; a prompt ends the group.

    A call's result is written while the answer still streams: between two of its lines.
    """
    groups: list[list[Entry]] = []
    answers: dict[str | None, list[Entry]] = {}
    for entry in entries:
        if entry.role is Role.ASSISTANT:
            group = answers.get(entry.message_id) if entry.message_id else None
            if group is None:
                group = answers[entry.message_id] = []
                groups.append(group)
            group.append(entry)
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

    Calls of the last answer stay: the client answers them when it starts.
    """
    called = {part.tool_use_id for entry in entries for part in entry.parts if is_call(part)}
    answered = {part.tool_use_id for entry in entries for part in entry.parts if is_result(part)}
    open_answer = None
    if _ends_in_results(entries):
        answers = (entry for entry in reversed(entries) if entry.role is Role.ASSISTANT)
        open_answer = next((entry.message_id for entry in answers), None)
    paired: list[Entry] = []
    orphaned = False
    for entry in entries:
        is_open = open_answer is not None and entry.message_id == open_answer
        parts = tuple(
            part
            for part in entry.parts
            if not (is_result(part) and part.tool_use_id not in called)
            and not (is_call(part) and part.tool_use_id not in answered and not is_open)
        )
        if orphaned and entry.type == "attachment" and _ends_in_results(paired):
            # It is written into the result before it, and goes with it.
            continue
        orphaned = not parts and any(map(is_result, entry.parts))
        if parts:
            paired.append(with_parts(entry, parts))
    return paired


def _ends_in_results(entries: list[Entry]) -> bool:
    """Return whether only tool results and attachments follow the last answer."""
    for entry in reversed(entries):
        if entry.role is Role.ASSISTANT:
            return True
        if entry.type != "attachment" and not any(map(is_result, entry.parts)):
            return False
    return True


_DELTA_ATTACHMENTS: Final = frozenset(
    {"deferred_tools_delta", "agent_listing_delta", "mcp_instructions_delta"}
)
"""Attachments that add to earlier ones of their kind."""

STATE_ATTACHMENTS: Final = frozenset(
    {
        "environment", "model", "skill_listing", "auto_mode", "session_context", "date",
        "remote_session_change", "total_tokens_reminder",
    }
)  # fmt: skip
"""Attachments that replace earlier ones of their kind."""


def reannounced_attachments(removed: Sequence[Entry], retained: Iterable[Entry]) -> list[Entry]:
    """Return the `removed` attachments that the client sends again: those not `retained`."""
    known = {entry.subtype for entry in retained}
    lost = [each for each in removed if each.type == "attachment" and each.subtype not in known]
    newest = {entry.subtype: entry for entry in lost}
    return [
        entry
        for entry in lost
        if entry.subtype in _DELTA_ATTACHMENTS
        or (entry.subtype in STATE_ATTACHMENTS and newest[entry.subtype] is entry)
    ]
