"""The chain of parents from a transcript's first entry to its newest, as the client follows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from .conversation import Boundary, Entry, Role, last_boundary, remembered_leaf

EntriesByUuid = dict[str, Entry]  # entries by uuid, in the order of their file


def follow_chain(entries: Sequence[Entry]) -> list[Entry]:
    """List the entries that lead to the newest one, oldest first.

    Only what follows the last boundary is followed, with what that boundary keeps. Of two
    lines with one uuid the last counts.
    """
    lines = {entry.uuid: entry for entry in entries if entry.uuid}
    if any(not entry.sidechain for entry in lines.values()):
        # An agent's own file is a sidechain from its first line to its last.
        lines = {uuid: entry for uuid, entry in lines.items() if not entry.sidechain}
    lines = _after_last_boundary(_relink_orphans(lines))
    leaf = _find_leaf(lines, remembered_leaf(entries))
    return _add_siblings([*_ancestors(lines, leaf)][::-1], lines)


def _relink_orphans(lines: EntriesByUuid) -> EntriesByUuid:
    """Hang a line whose parent is missing behind the one before it in the file."""
    mended, before = EntriesByUuid(), None
    for uuid, entry in lines.items():
        lost = entry.parent is not None and entry.parent not in lines
        mended[uuid] = replace(entry, parent=before) if lost else entry
        before = uuid
    return mended


def _after_last_boundary(lines: EntriesByUuid) -> EntriesByUuid:
    """Leave out what a compaction removed, and hang what it kept behind its anchor."""
    last = last_boundary(lines.values())
    if last is None or last.boundary is None:
        return lines
    kept = _retained_by(last.boundary, lines)
    remaining = {
        uuid: entry for uuid, entry in lines.items() if entry.offset >= last.offset or uuid in kept
    }
    if not kept:
        return remaining
    for uuid, entry in remaining.items():
        if uuid not in kept and entry.parent == last.boundary.anchor_uuid:
            remaining[uuid] = replace(entry, parent=kept[-1])
    for uuid, parent in zip(kept, (last.boundary.anchor_uuid, *kept), strict=False):
        remaining[uuid] = replace(remaining[uuid], parent=parent)
    return remaining


def _retained_by(boundary: Boundary, lines: EntriesByUuid) -> tuple[str, ...]:
    """Name what stays, in its order: nothing where a line of it is missing."""
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


def _find_leaf(lines: EntriesByUuid, last_prompt_uuid: str | None) -> str | None:
    """Name the last line that nothing follows and that somebody's words lead to.

    It leads on from the line that the client remembers, or from another of the same answer
    or of the answer whose call it answers, where there is such a line.
    """
    parents = {entry.parent for entry in lines.values()}
    ends = [uuid for uuid in lines if uuid not in parents] or list(lines)[-1:]
    spoken = [
        uuid
        for uuid in reversed(ends)
        if any(each.type in {"user", "assistant"} for each in _ancestors(lines, uuid))
    ]
    if last_prompt_uuid is not None and last_prompt_uuid in lines:
        # Of results side by side any one may be remembered, while another leads on.
        asked = _calling_answer(lines[last_prompt_uuid], lines)
        answer = asked.message_id
        same = {uuid for uuid, each in lines.items() if answer and each.message_id == answer}
        below = _descendants(lines, {last_prompt_uuid, *same})
        spoken = [uuid for uuid in spoken if uuid in below] or spoken
    return spoken[0] if spoken else None


def _calling_answer(entry: Entry, lines: EntriesByUuid) -> Entry:
    """Return the answer whose tool call a line answers, or the line itself if there is none."""
    is_result = entry.role is Role.USER and any(each.tool_use_id for each in entry.parts)
    return lines.get(entry.parent or "", entry) if is_result else entry


def _descendants(lines: EntriesByUuid, roots: set[str]) -> set[str]:
    children = _children(lines)
    found, following = set(roots), list(roots)
    while following:
        below = {each.uuid or "" for each in children.get(following.pop(), ())} - found
        found |= below
        following += below
    return found


def _ancestors(lines: EntriesByUuid, uuid: str | None) -> Iterator[Entry]:
    """Go from a line to its parents; a circle is left by the line before it in the file."""
    seen = set[str]()
    while uuid is not None and uuid in lines:
        if uuid in seen:
            uuid = _line_before(lines, seen)
            continue
        seen.add(uuid)
        yield lines[uuid]
        uuid = lines[uuid].parent


def nearest_remaining(parent: str | None, gone: Mapping[str, str | None]) -> str | None:
    """Go from a line up past those that are gone, given with their parents; a circle is left."""
    seen = set[str]()
    while parent is not None and parent in gone and parent not in seen:
        seen.add(parent)
        parent = gone[parent]
    return parent


def _line_before(lines: EntriesByUuid, seen: set[str]) -> str | None:
    first = min(lines[uuid].offset for uuid in seen)
    return next((uuid for uuid, each in reversed(lines.items()) if each.offset < first), None)


def _add_siblings(chain: list[Entry], lines: EntriesByUuid) -> list[Entry]:
    """Put back what one answer did side by side: its other lines, and their results.

    Only some of them lead to the newest line. Each of the others stands behind those that were
    written before it, with what was attached to it and leads nowhere.
    """
    on_chain = {entry.uuid for entry in chain}
    own: dict[str | None, list[int]] = {}
    """Places in the chain of an answer's lines and its results."""
    for place, entry in enumerate(chain):
        if _is_answer(entry):
            own.setdefault(entry.message_id, []).append(place)
    called: dict[str | None, str | None] = {}
    aside: dict[str | None, list[Entry]] = {}
    for entry in lines.values():
        if not _is_answer(entry) or entry.message_id not in own:
            continue
        called |= {each.tool_use_id: entry.message_id for each in entry.parts if each.tool_use_id}
        if entry.uuid not in on_chain:
            aside.setdefault(entry.message_id, []).append(entry)
    for entry in lines.values():
        answered = _answered_call(entry)
        if answered in called and entry.uuid not in on_chain:
            aside.setdefault(called[answered], []).append(entry)
    if not aside:
        return chain
    for place, entry in enumerate(chain):
        answered = _answered_call(entry)
        if answered in called:
            own[called[answered]].append(place)
    return _insert_siblings(chain, own, aside, _children(lines))


def _answered_call(entry: Entry) -> str | None:
    """Name the call that a line answers first."""
    if entry.role is not Role.USER:
        return None
    return next((each.tool_use_id for each in entry.parts if each.tool_use_id), None)


def _insert_siblings(
    chain: list[Entry],
    places_of_answer: dict[str | None, list[int]],
    siblings_of_answer: dict[str | None, list[Entry]],
    children: dict[str | None, list[Entry]],
) -> list[Entry]:
    behind: dict[int, list[Entry]] = {}
    for answer, siblings in siblings_of_answer.items():
        for sibling in sorted(siblings, key=_time):
            place = max(
                (n for n in places_of_answer[answer] if _is_before(chain[n], sibling)), default=None
            )
            place = places_of_answer[answer][0] if place is None else place
            if not _is_answer(chain[place]):
                place = _last_attachment(chain, place)
            behind.setdefault(place, []).extend([sibling, *_attachments_below(sibling, children)])
    return [each for place, entry in enumerate(chain) for each in (entry, *behind.get(place, ()))]


def _time(entry: Entry) -> int:
    return entry.at or 0


def _is_before(entry: Entry, sibling: Entry) -> bool:
    """Whether a line was written before a sibling; on a tie, a line of an answer was."""
    return _time(entry) < _time(sibling) + _is_answer(entry)


def _last_attachment(chain: list[Entry], place: int) -> int:
    """Return the index of the last attachment of a line, or the line's own if it has none."""
    while place + 1 < len(chain) and chain[place + 1].type == "attachment":
        place += 1
    return place


def _children(lines: EntriesByUuid) -> dict[str | None, list[Entry]]:
    children: dict[str | None, list[Entry]] = {}
    for entry in lines.values():
        children.setdefault(entry.parent, []).append(entry)
    return children


def _is_answer(entry: Entry) -> bool:
    return entry.role is Role.ASSISTANT and entry.message_id is not None


def _attachments_below(entry: Entry, children: dict[str | None, list[Entry]]) -> list[Entry]:
    found: list[Entry] = []
    below = [entry]
    while below:
        following = [child for each in below for child in children.pop(each.uuid, ())]
        if any(each.type in {"user", "assistant"} for each in following):
            return []
        found += following
        below = following
    return found


def retained_uuids(entries: Sequence[Entry]) -> set[str]:
    """Name the messages that the last boundary keeps; of a list too that the client gives up.

    A message of a segment is named where its lines still lead to its head.
    """
    end = last_boundary(entries)
    if end is None or end.boundary is None:
        return set()
    last = end.boundary
    lines = {entry.uuid: entry for entry in entries if entry.uuid}
    return {*last.kept_uuids, *(last.kept_range or ()), *_retained_by(last, lines)}
