"""What the whole store shows about windows and triggers, and which claims are believed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..model.context import Context, StoredTokenCounts, measure_context
from ..policy.resolve import DEFAULT_POLICIES, Policies
from ..store.queries.evidence_queries import (
    AutoCompactionRow,
    EvidenceRows,
    LargeModelRow,
    WindowRow,
)
from .effective_config import ResolvedSetting, resolve_settings
from .levels import PlacedThreshold
from .models import LARGE_WINDOW, SMALL_WINDOW, parse_version, table_window
from .trigger import (
    AutoCompaction,
    Trigger,
    TriggerEvidence,
    explains_compactions,
    find_trigger,
    trigger_claims,
    trigger_tokens,
)
from .window import (
    AUTO_COMPACT_OPTION,
    AutoCompactConfig,
    Claim,
    ClaimSource,
    Window,
    WindowEvidence,
    choose_claim,
    find_window,
    read_auto_compact_config,
    requested_large_model,
    window_claims,
)

if TYPE_CHECKING:
    from ..store.queries.log_queries import MeasurementComparisonRow


ModelVersion = tuple[str, str | None]
"""A model as it was asked for, and the client's version: such sessions are alike."""

ContextOwner = tuple[str, str | None]  # a session, and the agent where it is one's context


class ReportedWindow(msgspec.Struct, frozen=True):
    """What `/context` said of the model that is in use; tokens."""

    window: int  # where the client ends it for its compaction
    trigger: int | None  # none where it compacts only when it must


class ContextEvidence(msgspec.Struct, frozen=True):
    """What one context itself shows; tokens."""

    session_id: str
    agent_id: str | None = None
    agent_type: str | None = None
    cwd: str | None = None
    project_root: str | None = None  # where the session began: its policy stands there
    model: str | None = None
    asked_model: str | None = None
    client_version: str | None = None
    peak_tokens: int = 0
    limit_tokens: int | None = None
    report: ReportedWindow | None = None
    answer_tokens: int = 0  # of the last answer, after the last compaction


class ContextLimits(msgspec.Struct, frozen=True):
    """What a context is measured against."""

    window: Window
    trigger: Trigger
    thresholds: tuple[PlacedThreshold, ...]


class SharedLimits(msgspec.Struct, frozen=True):
    """Limits of all contexts of a kind, as long as no answer outgrows a claim of the window."""

    limits: ContextLimits
    max_peak_tokens: int


class Evidence:
    """Judges contexts by what the store tells; what is asked again is worked out once."""

    def __init__(self, facts: EvidenceRows, policies: Policies = DEFAULT_POLICIES) -> None:
        self._facts = facts
        self._policies = policies
        self._shown = {(row.session_id, row.model): row for row in facts.reported_windows}
        self._others = _windows_of_others(facts)
        self._own: dict[ContextOwner, list[AutoCompaction]] = {}
        self._of_kind: dict[ModelVersion, list[AutoCompaction]] = {}
        for row in facts.auto_compactions:
            told = AutoCompaction(row.earlier_tokens or 0, row.pre_tokens, _was_armed(row))
            self._own.setdefault((row.session_id, row.agent_id), []).append(told)
            if not _declares_window(facts.environments.get(row.session_id, {})):
                # Of another session nobody knows with which option it was started.
                unsure = replace(told, armed=None) if told.armed else told
                self._of_kind.setdefault(_model_version(row), []).append(unsure)
        self._settings: dict[str | None, Mapping[str, ResolvedSetting]] = {}
        self._setups: dict[tuple[str | None, str | None, str | None], AutoCompactConfig] = {}
        self._triggers: dict[tuple[object, ...], Trigger] = {}
        self._lines: dict[tuple[object, ...], tuple[PlacedThreshold, ...]] = {}
        self._particular = {
            *facts.environments,
            *(row.session_id for row in facts.reported_windows),
            *(row.session_id for row in facts.auto_compactions),
        }
        self._common: dict[tuple[object, ...], SharedLimits] = {}

    def is_equivalent_to(self, other: Evidence) -> bool:
        """Whether both lead to the same result for every context."""
        return (self._facts, self._policies) == (other._facts, other._policies)

    def measure(self, context: ContextEvidence, stored: StoredTokenCounts) -> Context:
        """Measure a context against its own window, its trigger and its policy's levels."""
        limits = self._shared_limits(context) or self._own_limits(context)
        return measure_context(stored, limits.window, limits.trigger, limits.thresholds)

    def window_of(self, context: ContextEvidence) -> Window:
        """Decide a context's window in tokens."""
        return find_window(self._window_evidence(context))

    def trigger_of(self, context: ContextEvidence, window: Window) -> Trigger:
        """Decide where a context with this window is compacted by itself."""
        # Thousands of sessions of one model and version have the same, and learning it from
        # the compactions of all others takes long.
        key = self._trigger_key(context, window)
        found = self._triggers.get(key)
        if found is None:
            found = self._triggers[key] = find_trigger(self._trigger_evidence(context, window))
        return found

    def claims_of(self, context: ContextEvidence) -> tuple[list[Claim], list[Claim]]:
        """List all that is claimed of a context's window, and of its trigger, strongest first."""
        window = self.window_of(context)
        trigger = trigger_claims(self._trigger_evidence(context, window))
        return window_claims(self._window_evidence(context)), list(trigger)

    def _own_limits(self, seen: ContextEvidence) -> ContextLimits:
        window = self.window_of(seen)
        trigger = self.trigger_of(seen, window)
        return ContextLimits(window, trigger, self._thresholds_of(seen, window, trigger))

    def _shared_limits(self, seen: ContextEvidence) -> ContextLimits | None:
        """Return what holds for all contexts of a kind; None for one that shows its own."""
        # To decide it for each of 100,000 sessions takes longer than to read them.
        if seen.session_id in self._particular or seen.report or seen.limit_tokens:
            return None
        is_large = seen.peak_tokens > SMALL_WINDOW
        key = (
            is_large,
            seen.model,
            seen.asked_model,
            seen.client_version,
            seen.cwd,
            seen.project_root,
            seen.agent_type,
        )
        found = self._common.get(key)
        if found is None:
            found = self._common[key] = self._limits_of_version(seen, is_large=is_large)
        return found.limits if seen.peak_tokens <= found.max_peak_tokens else None

    def _limits_of_version(self, seen: ContextEvidence, *, is_large: bool) -> SharedLimits:
        """Judge a kind by the smallest answer that tells a large window, or by none."""
        least, most = (SMALL_WINDOW + 1, LARGE_WINDOW) if is_large else (0, SMALL_WINDOW)
        limits = self._own_limits(replace(seen, peak_tokens=least))
        others = (claim.tokens or 0 for claim in limits.window.contradicting)
        return SharedLimits(limits, min(most, limits.window.tokens, *others))

    def _window_evidence(self, seen: ContextEvidence) -> WindowEvidence:
        asked = requested_large_model(seen.asked_model, seen.model)
        name = asked or seen.model
        version = parse_version(seen.client_version)
        # The client speaks of its session; an agent's model may be held otherwise.
        shown = None
        if seen.agent_id is None:
            shown = self._shown.get((seen.session_id, seen.model or ""))
        setup = self._config(seen, name)
        report = _model_report(seen.report, setup, table_window(name, version))
        policy = self._policies.for_project(seen.project_root)
        return WindowEvidence(
            model=seen.model,
            asked_model=asked,
            version=version,
            config=setup,
            policy_tokens=policy.tokens_by_model("limit.override").get(name or ""),
            plugin_tokens=shown.window_tokens if shown and shown.is_measured else None,
            status_line_tokens=shown.window_tokens if shown and not shown.is_measured else None,
            session_peak_tokens=seen.peak_tokens,
            compacted_window=self._compacted_window(seen, name),
            report_tokens=report.window if report else None,
            limit_tokens=seen.limit_tokens,
            others_tokens=self._others.get((name or "", seen.client_version)),
        )

    def _trigger_evidence(self, seen: ContextEvidence, window: Window) -> TriggerEvidence:
        name = requested_large_model(seen.asked_model, seen.model) or seen.model
        own = self._own.get((seen.session_id, seen.agent_id), [])
        kind = self._of_kind.get((name or "", seen.client_version), [])
        return TriggerEvidence(
            model=name,
            version=parse_version(seen.client_version),
            window=window.tokens,
            config=self._config(seen, name),
            declared_window=self._declared_window(seen),
            own_compactions=tuple(own),
            report=Claim(seen.report.trigger, ClaimSource.CONTEXT_REPORT) if seen.report else None,
            other_compactions=tuple(kind),
            answer_tokens=seen.answer_tokens,
        )

    def _trigger_key(self, seen: ContextEvidence, window: Window) -> tuple[object, ...]:
        """Make a key that is equal where all that `_trigger_evidence` reads is equal."""
        name = requested_large_model(seen.asked_model, seen.model) or seen.model
        own = tuple(self._own.get((seen.session_id, seen.agent_id), ()))
        return (
            name,
            seen.client_version,
            window.tokens,
            self._config(seen, name),
            self._declared_window(seen),
            own,
            seen.report,
            # Only what was seen in the session itself is compared with its last answer.
            seen.answer_tokens if own or seen.report else None,
        )

    def _thresholds_of(
        self, seen: ContextEvidence, window: Window, trigger: Trigger
    ) -> tuple[PlacedThreshold, ...]:
        policy = self._policies.for_project(seen.project_root)
        key = (id(policy), window.tokens, window.source, trigger.tokens)
        found = self._lines.get(key)
        if found is None:
            found = self._lines[key] = policy.place_thresholds(window, trigger.tokens)
        return found

    def _config(self, seen: ContextEvidence, name: str | None) -> AutoCompactConfig:
        has_own = seen.session_id in self._facts.environments
        key = seen.cwd, seen.session_id if has_own else None, name
        found = self._setups.get(key)
        if found is None:
            settings = self._settings.get(seen.cwd)
            if settings is None:
                settings = resolve_settings(self._facts.settings, seen.cwd)
                self._settings[seen.cwd] = settings
            environment = self._facts.environments.get(seen.session_id, {})
            found = self._setups[key] = read_auto_compact_config(settings, environment, name)
        return found

    def _declared_window(self, seen: ContextEvidence) -> int | None:
        windows = self._facts.agent_windows
        if not windows or seen.agent_type is None:
            return None
        return windows.get((seen.agent_type, seen.cwd)) or windows.get((seen.agent_type, None))

    def _compacted_window(self, seen: ContextEvidence, name: str | None) -> int | None:
        """Find the one window whose trigger explains the context's own compactions."""
        own = self._own.get((seen.session_id, seen.agent_id))
        if not own:
            return None
        setup, version = self._config(seen, name), parse_version(seen.client_version)
        explained = [
            window
            for window in (SMALL_WINDOW, LARGE_WINDOW)
            if explains_compactions(own, trigger_tokens(window, setup, name, version))
        ]
        return explained[0] if len(explained) == 1 and setup.window is None else None


def _was_armed(row: AutoCompactionRow) -> bool | None:
    return not row.was_refused if row.writes_requests else None


def _declares_window(environment: Mapping[str, str]) -> bool:
    return AUTO_COMPACT_OPTION in environment or "CLAUDE_CODE_AUTO_COMPACT_WINDOW" in environment


def _model_report(
    report: ReportedWindow | None, setup: AutoCompactConfig, known: int | None
) -> ReportedWindow | None:
    """Return a report that tells the model's window.

    With a window of its own for compaction the client reports that one: where something sets
    it, and where it is no size that the model comes in.
    """
    if report is None or setup.window is not None:
        return None
    is_own = known is not None and report.window not in {known, SMALL_WINDOW, LARGE_WINDOW}
    return None if is_own else report


def _model_version(row: AutoCompactionRow | LargeModelRow | WindowRow) -> ModelVersion:
    return requested_large_model(row.asked_model, row.model) or row.model, row.client_version


def _windows_of_others(facts: EvidenceRows) -> dict[ModelVersion, int]:
    found = {_model_version(row): LARGE_WINDOW for row in facts.large_models}
    # The newest word of the client comes last and counts.
    return found | {_model_version(row): row.window_tokens for row in facts.reported_windows}


NO_EVIDENCE = Evidence(EvidenceRows())  # an empty store's


class Certainty(StrEnum):
    """How far a source can be wrong, surest first."""

    CERTAIN = "certain"  # the client itself said so, or a person decides it
    SEEN = "seen"  # what happened shows it
    LIKELY = "likely"  # it held where it was looked at, elsewhere
    ASSUMED = "assumed"


CERTAINTY_OF_SOURCE: Final = {
    ClaimSource.POLICY: Certainty.CERTAIN,
    ClaimSource.PLUGIN: Certainty.CERTAIN,
    ClaimSource.STATUS_LINE: Certainty.CERTAIN,
    ClaimSource.ENVIRONMENT: Certainty.CERTAIN,
    ClaimSource.COMMAND_LINE: Certainty.CERTAIN,
    ClaimSource.SETTINGS: Certainty.CERTAIN,
    ClaimSource.DEFINITION: Certainty.CERTAIN,
    ClaimSource.SESSION_USAGE: Certainty.SEEN,
    ClaimSource.SESSION_COMPACTION: Certainty.SEEN,
    ClaimSource.CONTEXT_REPORT: Certainty.SEEN,
    ClaimSource.API_ERROR: Certainty.SEEN,
    ClaimSource.OTHER_SESSIONS: Certainty.LIKELY,
    ClaimSource.TABLE: Certainty.LIKELY,
    ClaimSource.ASSUMED: Certainty.ASSUMED,
}


class ClaimStatus(StrEnum):
    """What became of a claim."""

    BELIEVED = "believed"
    AGREES = "agrees"
    CONTRADICTS = "contradicts"
    """Something real says another size, and is overruled by what is stronger."""
    REPLACED = "replaced"  # the table says another size; what was seen stands above it


class ClaimSubject(StrEnum):
    """What a claim is of."""

    WINDOW = "window"
    TRIGGER = "trigger"


class AssessedClaim(msgspec.Struct, frozen=True):
    """A claim of a size in tokens, and how it stands."""

    subject: ClaimSubject
    claim: Claim
    status: ClaimStatus
    certainty: Certainty


def assess_claims(subject: ClaimSubject, claims: Sequence[Claim]) -> Iterator[AssessedClaim]:
    """Yield the status of each claim; `claims` must be sorted, strongest first."""
    verdict = choose_claim(claims)
    for place, claim in enumerate(claims):
        if place == 0:
            standing = ClaimStatus.BELIEVED
        elif claim in verdict.contradicting:
            standing = ClaimStatus.CONTRADICTS
        elif claim.tokens == verdict.winner.tokens:
            standing = ClaimStatus.AGREES
        else:
            standing = ClaimStatus.REPLACED
        yield AssessedClaim(subject, claim, standing, CERTAINTY_OF_SOURCE[claim.source])


class MeasurementComparison(msgspec.Struct, frozen=True):
    """How many sessions were measured, and which of them the transcript tells otherwise."""

    equal: int
    not_comparable: int  # the transcript has no answer of that moment: nothing to compare with
    different: tuple[MeasurementComparisonRow, ...]


def compare_measurements(rows: Iterable[MeasurementComparisonRow]) -> MeasurementComparison:
    """Compare the newest measurement of each session with the transcript's answer, in tokens.

    `session.measure` tells the input side of the last answer, as the status line does (seen
    in 2.1.329): it is equal or one of the two is wrong.
    """
    listed = list(rows)
    told = [row for row in listed if row.answer_tokens is not None]
    different = tuple(row for row in told if row.answer_tokens != row.measured_tokens)
    return MeasurementComparison(len(told) - len(different), len(listed) - len(told), different)
