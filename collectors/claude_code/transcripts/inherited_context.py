"""What an agent that was forked from its session's conversation has of it.

Its file begins with the place in the conversation (`fork-context-ref`, clients 2.1.329 and later);
the lines up to there are only in the session's own file.
"""

import sqlite3
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import msgspec

from ....core.compaction.plan import MAX_TRANSCRIPT_BYTES
from ....core.files.transcript_file import transcript_size
from ....core.measure.composition import INHERITED
from ....core.measure.part_sizes import NO_SNAPSHOT, lines_to_first_answer, update_snapshot
from ....core.model.conversation import Entry, MessagePart, PartKind, PromptSnapshot, Role
from ....core.store.queries import context_queries
from ....core.transcript.entry_decoder import iter_lines, read_entries
from ....core.transcript.lenient_json import NotJsonError, UnexpectedShapeError, decode_readable
from ....core.transcript.visible_messages import visible_entries


class _ForkContext(msgspec.Struct, rename="camel"):
    type: str | None = None
    parent_session_id: str | None = None
    parent_last_uuid: str | None = None


class InheritedContext(msgspec.Struct, frozen=True):
    entry: Entry  # all of the conversation as one text; it has no line in the agent's file
    first: Sequence[Entry]  # the session's `lines_to_first_answer`
    prompt: PromptSnapshot  # system prompt and tools, which are the session's


def read_inherited(db: sqlite3.Connection, projects: Path, agent: Path) -> InheritedContext | None:
    """Read what an agent's file refers to; None if it is no fork, or the place is not found.

    Raises OSError if a file cannot be read.
    """
    fork = _fork_of(agent)
    if fork is None or not fork.parent_session_id or not fork.parent_last_uuid:
        return None
    place = context_queries.find_transcript(db, fork.parent_session_id.lower())
    if place is None or transcript_size(projects / place[1]) > MAX_TRANSCRIPT_BYTES:
        return None
    known = read_entries(projects / place[1])
    end = next((n for n, each in enumerate(known) if each.uuid == fork.parent_last_uuid), None)
    if end is None:
        return None
    before = known[: end + 1]
    parts = [part for entry in visible_entries(before) for part in entry.parts]
    text = "\n".join(part.text for part in parts if part.text)
    media = sum(part.media for part in parts)
    whole = MessagePart(PartKind.ATTACHMENT, text, INHERITED, media=media)
    entry = Entry(-1, 0, 0, "attachment", role=Role.USER, subtype=INHERITED, parts=(whole,))
    prompt = reduce(update_snapshot, before, NO_SNAPSHOT)
    return InheritedContext(entry, lines_to_first_answer(known), prompt)


def _fork_of(agent: Path) -> _ForkContext | None:
    line = next((data for _, number, data in iter_lines(agent) if number == 1), b"{}")
    try:
        fork = decode_readable(line, _ForkContext)
    except (NotJsonError, UnexpectedShapeError):
        return None
    return fork if fork.type == "fork-context-ref" else None
