"""A context as its files are now: its size, and what must survive a compaction."""

import mmap
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from ...core.files.safe_open import open_regular
from ...core.injection.context_selection import RunOutcome
from ...core.injection.injected_text import break_client_tags
from ...core.measure.evidence import ContextEvidence, Evidence
from ...core.measure.session_building import make_session
from ...core.measure.window import AUTO_COMPACT_VARIABLES
from ...core.model import conversation
from ...core.model.answer_facts import TokenUsage
from ...core.model.claude_models import SMALL_WINDOW
from ...core.model.context import (
    Context,
    StoredTokenCounts,
    decode_text_counts,
    measure_context,
)
from ...core.model.context_window import ClaimSource
from ...core.model.counting_rule import CountingRule
from ...core.model.evidence_rows import EvidenceRows
from ...core.policy.policy import Policy
from ...core.policy.resolve import Policies
from ...core.store.queries import session_queries
from ...core.store.queries.evidence_queries import read_evidence_rows
from ...core.summaries import steering
from ...core.summaries.session_rules import (
    RULE_ATTACHMENTS,
    Rule,
    RuleChoices,
    session_rules,
)
from ...core.transcript import lenient_json, line_decoder
from ...core.transcript.entry_decoder import decode_entry, iter_lines
from ...core.transcript.sanitize import sanitize_text, sanitize_title
from ..plugin_files.hook_store import note_store_error, open_store_without_waiting
from .injection_sources import read_session_agents
from .transcripts.transcript_ends import read_recent_entries, read_tail_lines


class LatestAnswer(msgspec.Struct, frozen=True):
    tokens: int | None = None  # its input side; None if none came since the last compaction
    model: str | None = None
    client_version: str | None = None
    compacted_at: int | None = None  # of the last compaction in these lines, in ms since 1970
    usage: TokenUsage = TokenUsage()
    also_counted: int = 0  # cleared from its request; the next compaction counts it

    @property
    def stored_counts(self) -> StoredTokenCounts:
        usage = self.usage
        return StoredTokenCounts(
            answer=self.tokens,
            output=usage.output_tokens,
            also_counted=self.also_counted,
            input=usage.input_tokens,
            cache_creation=usage.cache_creation_tokens,
            cache_read=usage.cache_read_tokens,
        )


def read_latest_answer(lines: Sequence[bytes]) -> LatestAnswer:
    """Find the last answer with usage, and the last compaction; other lines are skipped."""
    latest = LatestAnswer()
    for line in reversed(lines):
        is_answer = latest.tokens is None and b'"usage"' in line and b'"assistant"' in line
        if not (is_answer or line_decoder.COMPACT_BOUNDARY.encode() in line):
            continue
        entry = decode_entry(0, line, {})
        if entry and entry.boundary:
            return replace(latest, compacted_at=entry.at or 0)
        if is_answer and entry and entry.context_tokens and entry.model and not entry.sidechain:
            version = sanitize_title(entry.version or "") or None
            usage = entry.usage or TokenUsage()
            latest = LatestAnswer(
                entry.context_tokens,
                entry.model,
                version,
                usage=usage,
                also_counted=entry.also_counted_tokens,
            )
    return latest


def introduced_model(transcript: Path) -> str | None:
    """Find the model that the client (since 2.1.2xx) last introduced; raises OSError."""
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
        attachment = line_decoder.decode_attachment(line_decoder.decode_line(line))
    except (lenient_json.NotJsonError, lenient_json.UnexpectedShapeError):
        return None
    identity = attachment.identity if attachment else None
    return sanitize_title(identity.model_id) if identity and identity.model_id else None


def measure_current_context(
    transcript: Path, cwd: str, store: Path, policy: Policy, latest: LatestAnswer, now_ms: int
) -> Context | None:
    """Measure the last answer; None if its window is unknown. Raises OSError."""
    rows, context = _stored_context(transcript, store, policy, latest, now_ms)
    if context is not None:
        return context
    evidence = Evidence(rows, Policies(policy, {}))
    introduced = introduced_model(transcript)
    context_evidence = ContextEvidence(
        session_id=transcript.stem.lower(),
        cwd=cwd or None,
        model=latest.model,
        asked_model=introduced,
        client_version=latest.client_version,
        peak_tokens=latest.tokens or 0,
    )
    window = evidence.window_of(context_evidence)
    if window.source is ClaimSource.ASSUMED:
        return None
    if introduced is None and (window.tokens, window.source) == (SMALL_WINDOW, ClaimSource.TABLE):
        # The API uses the same name for a model with either window.
        return None
    trigger = evidence.trigger_of(context_evidence, window)
    thresholds = policy.place_thresholds(window, trigger.tokens)
    counts = _with_text(latest.stored_counts, transcript, policy.counting)
    return measure_context(counts, window, trigger, thresholds, policy.counting)


def _with_text(
    counts: StoredTokenCounts, transcript: Path, counting: CountingRule
) -> StoredTokenCounts:
    """Add the size of the conversation's text if the policy counts it; raises OSError."""
    if not counting.counts_text or counting.text_rule in counts.texts:
        return counts
    from ...core.measure.text_context import count_visible_text  # hardly any policy needs it

    text = count_visible_text(read_recent_entries(transcript), counting)
    return replace(counts, texts={counting.text_rule: text})


def _stored_context(
    transcript: Path, store: Path, policy: Policy, latest: LatestAnswer, now_ms: int
) -> tuple[EvidenceRows, Context | None]:
    """Return the evidence, and the context if the store knows this session and model."""
    session_id = transcript.stem.lower()
    # A hook has the client's own environment.
    environment = {
        name: sanitize_title(os.environ[name])
        for name in AUTO_COMPACT_VARIABLES
        if name in os.environ
    }
    evidence_rows = EvidenceRows(environments={session_id: environment})
    try:
        with open_store_without_waiting(store) as db:
            if db is None:
                return evidence_rows, None
            db.row_factory = sqlite3.Row
            stored = read_evidence_rows(db)
            environments = stored.environments | evidence_rows.environments
            evidence_rows = replace(stored, environments=environments)
            evidence = Evidence(evidence_rows, Policies(policy, {}))
            rows = session_queries.sessions(db, [session_id])
    except sqlite3.Error as error:
        # Locked, damaged, or of another ctxtop: use the transcript alone.
        note_store_error(store, error)
        return EvidenceRows(environments={session_id: environment}), None
    for row in rows:
        context = make_session(row, evidence, now_ms).context
        fits = row.last_model == latest.model and (latest.tokens or 0) <= context.window.tokens
        if fits and context.window.source is not ClaimSource.ASSUMED:
            counts = latest.stored_counts
            if row.answer_tokens == latest.tokens:
                counts = replace(counts, texts=decode_text_counts(row.text_counts))
            counts = _with_text(counts, transcript, policy.counting)
            return evidence_rows, measure_context(
                counts, context.window, context.trigger, context.thresholds, policy.counting
            )
    return evidence_rows, None


AGENT_ACTIVE_MS: Final = 15 * 60_000  # after it an unchanged agent is not running: its client ended


def read_essentials(
    transcript: Path, rules: Sequence[Rule], now_ms: int
) -> tuple[steering.Essential, ...]:
    """List what must survive a compaction, due or just done, by importance; raises OSError.

    `rules` are those that hold (`read_rules`).
    """
    entries = _before_pending_compaction(read_recent_entries(transcript))
    artifacts = steering.collect_current_artifacts(entries)
    failing = steering.find_failing_files(
        conversation.entries_since_compaction(entries), [use.path for use in artifacts.files]
    )
    running = _running_agents(transcript, now_ms)
    return clean_essentials(steering.list_essentials(artifacts, failing, running, rules))


def clean_essentials(items: Iterable[steering.Essential]) -> tuple[steering.Essential, ...]:
    """Remove what a terminal or the client could obey."""
    return tuple(
        replace(item, text=break_client_tags(sanitize_text(item.text)), key=sanitize_text(item.key))
        for item in items
    )


_RULE_LINES: Final = (b'"user"', *(f'"{kind}"'.encode() for kind in sorted(RULE_ATTACHMENTS)))


def read_rules(transcript: Path, choices: RuleChoices) -> tuple[Rule, ...]:
    """Read the rules of a whole session, or of an agent's file; raises OSError.

    Of all lines only those are decoded that may state a rule.
    """
    is_agent = transcript.parent.name == "subagents"
    entries = (
        decode_entry(offset, line, {}, number)
        for offset, number, line in iter_lines(transcript)
        if b'"tool_result"' not in line and any(kind in line for kind in _RULE_LINES)
    )
    found = (entry for entry in entries if entry and (is_agent or not entry.sidechain))
    return session_rules(found, str(transcript), choices)


def texts_since_compaction(transcript: Path) -> list[str]:
    """Return the texts in context since the last compaction, if any; raises OSError.

    The output of commands is left out: after `/compact` it repeats what our own hook at PreCompact
    printed, as words to the summarizer under a heading that says so, and not as the user's.
    """
    entries = read_recent_entries(transcript)
    last = conversation.last_boundary(entries)
    if last is None or last.boundary is None:
        return []
    since = conversation.entries_since_compaction(entries)
    kept = conversation.kept_entries(last.boundary, entries[: len(entries) - len(since)])
    parts = [
        part
        for entry in (*kept, *since)
        for part in entry.parts
        if not conversation.is_command_output(part)
    ]
    return [text for part in parts for text in (part.text, part.path or "") if text]


def _before_pending_compaction(entries: list[conversation.Entry]) -> Sequence[conversation.Entry]:
    """Leave out a compaction without an answer after it: it is the one that just happened."""
    since = conversation.entries_since_compaction(entries)
    if len(since) == len(entries) or any(
        entry.role is conversation.Role.ASSISTANT for entry in since
    ):
        return entries
    return entries[: len(entries) - len(since) - 1]


def _running_agents(transcript: Path, now_ms: int) -> list[steering.RunningAgent]:
    if transcript.parent.name == "subagents":
        return []
    return [
        steering.RunningAgent(agent.agent_id, agent.agent_type, sanitize_title(agent.description))
        for agent in read_session_agents(transcript, read_tail_lines(transcript))
        if agent.outcome is RunOutcome.RUNNING
        and now_ms - (agent.changed_at or 0) < AGENT_ACTIVE_MS
    ]
