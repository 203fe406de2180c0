"""A context as its files are now: how full it is, and what must survive a compaction."""

from __future__ import annotations

import mmap
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from ...core.files.safe_open import open_regular
from ...core.injection.context_selection import RunOutcome
from ...core.injection.injected_text import break_client_tags
from ...core.measure.evidence import ContextEvidence, Evidence
from ...core.measure.models import SMALL_WINDOW
from ...core.measure.window import AUTO_COMPACT_VARIABLES, ClaimSource
from ...core.model.context import Context, StoredTokenCounts, measure_context
from ...core.model.session import make_session
from ...core.policy.policy import Policy
from ...core.policy.resolve import Policies
from ...core.store.queries import session_queries
from ...core.store.queries.evidence_queries import EvidenceRows, read_evidence_rows
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
from ...core.transcript.entry_decoder import decode_entry
from ...core.transcript.line_decoder import (
    COMPACT_BOUNDARY,
    NotJsonError,
    UnexpectedShapeError,
    decode_attachment,
    decode_line,
)
from ...core.transcript.sanitize import sanitize_text, sanitize_title
from ..plugin.hook_inputs import open_store_without_waiting
from .agent_files import read_session_agents
from .transcripts.transcript_ends import read_recent_entries, read_tail_lines


class LatestAnswer(msgspec.Struct, frozen=True):
    """What the end of a transcript says of its context."""

    tokens: int | None = None
    """Input side of the last answer; None where none came since the last compaction."""
    model: str | None = None
    client_version: str | None = None
    compacted_at: int | None = None
    """Of the last compaction among these lines; milliseconds since 1970 (UTC)."""


def read_latest_answer(lines: Sequence[bytes]) -> LatestAnswer:
    """Read the last answer that counts, and the last compaction; lines that are none are none."""
    found = LatestAnswer()
    for line in reversed(lines):
        is_answer = found.tokens is None and b'"usage"' in line and b'"assistant"' in line
        if not (is_answer or COMPACT_BOUNDARY.encode() in line):
            continue
        entry = decode_entry(0, line, {})
        if entry and entry.boundary:
            return replace(found, compacted_at=entry.at or 0)
        if is_answer and entry and entry.context_tokens and entry.model and not entry.sidechain:
            version = sanitize_title(entry.version or "") or None
            found = LatestAnswer(entry.context_tokens, entry.model, version)
    return found


def introduced_model(transcript: Path) -> str | None:
    """Find the model that the client last introduced, with its mark for a large window.

    Raises OSError. Clients before 2.1.2xx introduce none.
    """
    with open_regular(transcript) as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            # An empty file.
            return None
        with data:
            place = data.rfind(b'"modelId"')
            if place < 0:
                return None
            start, end = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place)
            line = data[start : end if end > 0 else len(data)]
    try:
        attachment = decode_attachment(decode_line(line))
    except (NotJsonError, UnexpectedShapeError):
        return None
    identity = attachment.identity if attachment else None
    return sanitize_title(identity.model_id) if identity and identity.model_id else None


def measure_current_context(
    transcript: Path, cwd: str, store: Path, policy: Policy, latest: LatestAnswer, now_ms: int
) -> Context | None:
    """Measure the last answer against its window; None where nobody can say how large that is.

    Raises OSError where the transcript cannot be read.
    """
    facts, context = _stored_context(transcript, store, policy, latest, now_ms)
    if context is not None:
        return context
    evidence = Evidence(facts, Policies(policy, {}))
    introduced = introduced_model(transcript)
    seen = ContextEvidence(
        session_id=transcript.stem.lower(),
        cwd=cwd or None,
        model=latest.model,
        asked_model=introduced,
        client_version=latest.client_version,
        peak_tokens=latest.tokens or 0,
    )
    window = evidence.window_of(seen)
    if window.source is ClaimSource.ASSUMED:
        return None
    if introduced is None and (window.tokens, window.source) == (SMALL_WINDOW, ClaimSource.TABLE):
        # The API's name of a model is the same for both windows.
        return None
    trigger = evidence.trigger_of(seen, window)
    lines = policy.place_thresholds(window, trigger.tokens)
    return measure_context(StoredTokenCounts(answer=latest.tokens), window, trigger, lines)


def _stored_context(
    transcript: Path, store: Path, policy: Policy, end: LatestAnswer, now_ms: int
) -> tuple[EvidenceRows, Context | None]:
    """Return the stored evidence, and the context in the window the store has for the session.

    The context is None if the store has no window for this session and model.
    """
    facts, session_id = EvidenceRows(), transcript.stem.lower()
    try:
        with open_store_without_waiting(store) as db:
            if db is None:
                return _with_own_environment(facts, session_id), None
            db.row_factory = sqlite3.Row
            facts = _with_own_environment(read_evidence_rows(db), session_id)
            evidence = Evidence(facts, Policies(policy, {}))
            rows = session_queries.sessions(db, [session_id])
    except sqlite3.Error:
        # Locked, damaged, or of another ctxtop: the transcript alone.
        return _with_own_environment(facts, session_id), None
    for row in rows:
        context = make_session(row, evidence, now_ms).context
        peaked = row.last_model == end.model and (end.tokens or 0) <= context.window.tokens
        if peaked and context.window.source is not ClaimSource.ASSUMED:
            return facts, measure_context(
                StoredTokenCounts(answer=end.tokens),
                context.window,
                context.trigger,
                context.thresholds,
            )
    return facts, None


def _with_own_environment(facts: EvidenceRows, session_id: str) -> EvidenceRows:
    """Add the client's own environment, which a hook has from it."""
    own = {
        name: sanitize_title(os.environ[name])
        for name in AUTO_COMPACT_VARIABLES
        if name in os.environ
    }
    return replace(facts, environments=facts.environments | {session_id: own})


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
