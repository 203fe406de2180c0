"""What must survive a compaction of a context, read from its files as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..core.conversation import Role
from ..core.injection.frame import unframed
from ..core.injection.past import Outcome
from ..core.segments import kept_by
from ..core.summaries.failing import failing_files
from ..core.summaries.standing import since_last, standing_now
from ..core.summaries.steering import Item, Running, essentials
from .agent_files import agents_of_session
from .clean import clean_text, clean_title
from .transcripts.ends import tail_lines
from .transcripts.window import read_window

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..core.conversation import Entry

AT_WORK_MS: Final = 15 * 60_000
"""An agent whose file did not change for so long is not at work: it was left behind by a client
that ended."""


def read_essentials(transcript: Path, now_ms: int) -> tuple[Item, ...]:
    """List what must survive, the most useful first; of a compaction that has just come, too.

    Raises OSError where the transcript cannot be read.
    """
    entries = _before_the_newest(read_window(transcript))
    standing = standing_now(entries)
    failing = failing_files(since_last(entries), [use.path for use in standing.files])
    found = essentials(standing, failing, _running(transcript, now_ms))
    return tuple(
        msgspec.structs.replace(
            item, text=unframed(clean_text(item.text)), key=clean_text(item.key)
        )
        for item in found
    )


def texts_in_context(transcript: Path) -> list[str]:
    """Give all that is sent after the last compaction: its summary, what it kept, what came since.

    Empty where there was none lately. Raises OSError where the transcript cannot be read.
    """
    entries = read_window(transcript)
    boundary = next((each.boundary for each in reversed(entries) if each.boundary), None)
    if boundary is None:
        return []
    since = since_last(entries)
    kept = kept_by(boundary, entries[: len(entries) - len(since)])
    pieces = [piece for entry in (*kept, *since) for piece in entry.parts]
    return [text for piece in pieces for text in (piece.text, piece.path or "") if text]


def _before_the_newest(entries: list[Entry]) -> Sequence[Entry]:
    """Leave out a compaction that nothing was answered after: it is the one that is meant."""
    since = since_last(entries)
    if len(since) == len(entries) or any(each.role is Role.ASSISTANT for each in since):
        return entries
    return entries[: len(entries) - len(since) - 1]


def _running(transcript: Path, now_ms: int) -> list[Running]:
    if transcript.parent.name == "subagents":
        return []
    return [
        Running(past.agent_id, past.agent_type, clean_title(past.description))
        for past in agents_of_session(transcript, tail_lines(transcript))
        if past.outcome is Outcome.RUNNING and now_ms - (past.changed_at or 0) < AT_WORK_MS
    ]
