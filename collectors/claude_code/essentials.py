"""What must survive a compaction of a context, read from its files as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from ...core.injection.injection_candidates import RunOutcome, break_client_tags
from ...core.summaries.steering import (
    Essential,
    RunningAgent,
    collect_current_artifacts,
    find_failing_files,
    list_essentials,
)
from ...core.transcript.conversation import (
    Entry,
    Role,
    entries_since_compaction,
    kept_entries,
    last_boundary,
)
from ...core.transcript.sanitize import sanitize_text, sanitize_title
from .agent_files import read_session_agents
from .transcripts.transcript_ends import read_recent_entries, read_tail_lines

AGENT_ACTIVE_MS: Final = 15 * 60_000
"""An agent whose file did not change for so long is not at work: it was left behind by a client
that ended."""


def read_essentials(transcript: Path, now_ms: int) -> tuple[Essential, ...]:
    """List what must survive, the most useful first; of a compaction that has just come, too.

    Raises OSError where the transcript cannot be read.
    """
    entries = _before_pending_compaction(read_recent_entries(transcript))
    standing = collect_current_artifacts(entries)
    failing = find_failing_files(
        entries_since_compaction(entries), [use.path for use in standing.files]
    )
    found = list_essentials(standing, failing, _running_agents(transcript, now_ms))
    return tuple(
        msgspec.structs.replace(
            item, text=break_client_tags(sanitize_text(item.text)), key=sanitize_text(item.key)
        )
        for item in found
    )


def texts_since_compaction(transcript: Path) -> list[str]:
    """Return all texts in context since the last compaction: summary, kept and new entries.

    Empty if there was none recently. Raises OSError if the transcript cannot be read.
    """
    entries = read_recent_entries(transcript)
    last = last_boundary(entries)
    if last is None or last.boundary is None:
        return []
    since = entries_since_compaction(entries)
    kept = kept_entries(last.boundary, entries[: len(entries) - len(since)])
    pieces = [piece for entry in (*kept, *since) for piece in entry.parts]
    return [text for piece in pieces for text in (piece.text, piece.path or "") if text]


def _before_pending_compaction(entries: list[Entry]) -> Sequence[Entry]:
    """Leave out a compaction that nothing was answered after: it is the one that is meant."""
    since = entries_since_compaction(entries)
    if len(since) == len(entries) or any(each.role is Role.ASSISTANT for each in since):
        return entries
    return entries[: len(entries) - len(since) - 1]


def _running_agents(transcript: Path, now_ms: int) -> list[RunningAgent]:
    if transcript.parent.name == "subagents":
        return []
    return [
        RunningAgent(past.agent_id, past.agent_type, sanitize_title(past.description))
        for past in read_session_agents(transcript, read_tail_lines(transcript))
        if past.outcome is RunOutcome.RUNNING and now_ms - (past.changed_at or 0) < AGENT_ACTIVE_MS
    ]
