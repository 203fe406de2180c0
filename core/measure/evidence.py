"""What the whole store shows about windows and triggers, and which claims are believed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..model.claude_models import (
    LARGE_WINDOW,
    SMALL_WINDOW,
    find_by_model,
    parse_version,
    table_window,
)
from ..model.context import Context, StoredTokenCounts, measure_context
from ..model.context_window import Claim, ClaimSource, Trigger, Window, choose_claim
from ..model.counting_rule import CountingRule
from ..model.evidence_rows import AutoCompactionRow, EvidenceRows, LargeModelRow, WindowRow
from ..model.levels import PlacedThreshold
from ..policy.resolve import DEFAULT_POLICIES, Policies
from .effective_config import find_compact_hooks, resolve_settings
from .retention import cleanup_days
from .window import (
    AUTO_COMPACT_OPTION,
    MIN_REFUSED_TOKENS,
    AutoCompactConfig,
    AutoCompaction,
    TriggerEvidence,
    WindowEvidence,
    explains_compactions,
    find_trigger,
    find_window,
    is_passed,
    read_auto_compact_config,
    requested_large_model,
    trigger_claims,
    trigger_tokens,
    window_claims,
)

if TYPE_CHECKING:
    from ..model.evidence_rows import MeasurementComparisonRow


_WINDOW_VARIABLES: Final = frozenset({AUTO_COMPACT_OPTION, "CLAUDE_CODE_AUTO_COMPACT_WINDOW"})

ModelVersion = tuple[str, str | None]  # the model as asked for, and the client version

ContextOwner = tuple[str, str | None]  # a session, and the agent if the context is an agent's
ContextLimits = tuple[Window, Trigger, tuple[PlacedThreshold, ...], CountingRule]


class ReportedWindow(msgspec.Struct, frozen=True):
    """What `/context` reported for the model in use; tokens."""

    window: int  # where the client ends it for its compaction
    trigger: int | None  # None if it compacts only when it must


class ContextEvidence(msgspec.Struct, frozen=True):
    """What one context itself shows; tokens."""

    session_id: str
    agent_id: str | None = None
    agent_type: str | None = None
    cwd: str | None = None
    project_root: str | None = None  # where the session began, and its policy applies
    model: str | None = None
    asked_model: str | None = None
    client_version: str | None = None
    peak_tokens: int = 0
    limit_tokens: int | None = None
    report: ReportedWindow | None = None
    answer_tokens: int = 0  # of the last answer, after the last compaction
    passed_tokens: int = 0  # the smaller of the last two answers after it, of this model

    @property
    def large_model(self) -> str | None:
        return requested_large_model(self.asked_model, self.model)

    @property
    def known_model(self) -> str | None:
        return self.large_model or self.model


class Evidence:
    """Measures contexts by what the store shows; repeated questions are answered once."""

    def __init__(self, facts: EvidenceRows, policies: Policies = DEFAULT_POLICIES) -> None:
        self._facts = facts
        self._policies = policies
        self._reported = {(row.session_id, row.model): row for row in facts.reported_windows}
        self._windows_of_others = {_model_version(row): LARGE_WINDOW for row in facts.large_models}
        # The client's newest report comes last and counts.
        self._windows_of_others |= {
            _model_version(row): row.window_tokens for row in facts.reported_windows
        }
        own: defaultdict[ContextOwner, list[AutoCompaction]] = defaultdict(list)
        of_model: defaultdict[ModelVersion, list[AutoCompaction]] = defaultdict(list)
        for row in facts.auto_compactions:
            armed = not row.was_refused if row.writes_requests else None
            if row.is_precomputed or (armed is None and row.pre_tokens < MIN_REFUSED_TOKENS):
                armed = True
            is_precomputed = bool(row.is_precomputed)
            seen = AutoCompaction(row.earlier_tokens or 0, row.pre_tokens, armed, is_precomputed)
            own[row.session_id, row.agent_id].append(seen)
            if is_precomputed:
                # Another session's summary need not be ready in time.
                continue
            environment = facts.environments.get(row.session_id, {})
            if environment.keys().isdisjoint(_WINDOW_VARIABLES):
                # The options of other sessions' clients are unknown.
                of_model[_model_version(row)].append(replace(seen, armed=None) if armed else seen)
        self._own_compactions = {owner: tuple(each) for owner, each in own.items()}
        self._compactions_of_model = {model: tuple(each) for model, each in of_model.items()}
        self._settings_in = cache(partial(resolve_settings, facts.settings))
        self._configs: dict[tuple[str | None, str | None, str | None], AutoCompactConfig] = {}
        self._triggers: dict[tuple[object, ...], Trigger] = {}
        self._thresholds: dict[tuple[object, ...], tuple[PlacedThreshold, ...]] = {}
        self._sessions_with_evidence = {
            *facts.environments,
            *(row.session_id for row in facts.reported_windows),
            *(row.session_id for row in facts.auto_compactions),
        }
        self._shared: dict[tuple[object, ...], tuple[ContextLimits, int]] = {}
        """Limits of similar contexts, and the peak up to which they hold."""

    @cached_property
    def cleanup_days(self) -> int:
        """After how many days Claude Code deletes a transcript that nobody writes to."""
        return cleanup_days(self._facts.settings)

    def is_equivalent_to(self, other: Evidence) -> bool:
        return (self._facts, self._policies) == (other._facts, other._policies)

    def measure(self, context: ContextEvidence, stored: StoredTokenCounts) -> Context:
        limits = self._shared_limits(context) or self._own_limits(context)
        return measure_context(stored, *limits)

    def window_of(self, context: ContextEvidence) -> Window:
        return find_window(self._window_evidence(context))

    def trigger_of(self, context: ContextEvidence, window: Window) -> Trigger:
        """Return where a context with this window is compacted automatically."""
        evidence = self._trigger_evidence(context, window)
        # Thousands of sessions of one model and version share it, and learning it from the
        # compactions of all others takes long. Only a session's own evidence is compared with its
        # last answer.
        has_own = evidence.own_compactions or evidence.report
        answer_tokens = evidence.answer_tokens if has_own else 0
        common = replace(
            evidence, other_compactions=(), answer_tokens=answer_tokens, passed_tokens=0
        )
        key = context.client_version, common
        trigger = self._triggers.get(key)
        if trigger is None:
            trigger = self._triggers[key] = find_trigger(replace(evidence, passed_tokens=0))
        if is_passed(trigger.tokens, context.passed_tokens):
            return find_trigger(self._with_compact_hook(evidence, context))
        return trigger

    def _with_compact_hook(
        self, evidence: TriggerEvidence, context: ContextEvidence
    ) -> TriggerEvidence:
        """Add a hook that may be why the client passed its trigger."""
        off = self._settings_in(context.cwd).get("disableAllHooks")
        if off is not None and off.value is True:
            return evidence
        files = (each for each in self._facts.settings if each.project in {None, context.cwd})
        hooks = find_compact_hooks(files)
        shown = [f"a PreCompact hook in {each.path} can block it: {each.command}" for each in hooks]
        return replace(evidence, compact_hook=shown[0] if shown else "")

    def claims_of(self, context: ContextEvidence) -> tuple[list[Claim], list[Claim]]:
        """Return the claims about a context's window and about its trigger, strongest first."""
        window = self.window_of(context)
        evidence = self._with_compact_hook(self._trigger_evidence(context, window), context)
        return window_claims(self._window_evidence(context)), list(trigger_claims(evidence))

    def _own_limits(self, context: ContextEvidence) -> ContextLimits:
        window = self.window_of(context)
        trigger = self.trigger_of(context, window)
        policy = self._policies.for_project(context.project_root)
        key = (id(policy), window.tokens, window.source, trigger.tokens)
        thresholds = self._thresholds.get(key)
        if thresholds is None:
            thresholds = policy.place_thresholds(window, trigger.tokens)
            self._thresholds[key] = thresholds
        limit = policy.effective_window(window) or 0
        if limit != window.tokens:
            window = replace(window, limit=limit)
        return window, trigger, thresholds, policy.counting

    def _shared_limits(self, context: ContextEvidence) -> ContextLimits | None:
        """Return the limits of all similar contexts; None if this one has evidence of its own."""
        # Measuring each of 100,000 sessions by itself takes longer than reading them.
        if context.session_id in self._sessions_with_evidence:
            return None
        if context.report or context.limit_tokens:
            return None
        is_large = context.peak_tokens > SMALL_WINDOW
        key = (
            is_large,
            context.model,
            context.asked_model,
            context.client_version,
            context.cwd,
            context.project_root,
            context.agent_type,
        )
        shared = self._shared.get(key)
        if shared is None:
            # Judge by the smallest peak that proves a large window, or by none; the limits hold
            # until a peak outgrows a claim of the window.
            least, most = (SMALL_WINDOW + 1, LARGE_WINDOW) if is_large else (0, SMALL_WINDOW)
            limits = self._own_limits(replace(context, peak_tokens=least, passed_tokens=0))
            window = limits[0]
            others = (claim.tokens or 0 for claim in window.contradicting)
            shared = self._shared[key] = limits, min(most, window.tokens, *others)
        limits, most_tokens = shared
        trigger = limits[1]
        if context.peak_tokens > most_tokens or is_passed(trigger.tokens, context.passed_tokens):
            return None
        return limits

    def _window_evidence(self, context: ContextEvidence) -> WindowEvidence:
        name, version = context.known_model, parse_version(context.client_version)
        config = self._config(context)
        policy = self._policies.for_project(context.project_root)
        # The client reports on its session; the model of an agent may have another window.
        reported = None
        if context.agent_id is None:
            reported = self._reported.get((context.session_id, context.model or ""))
        report = _model_report(context.report, config, table_window(name, version))
        return WindowEvidence(
            model=context.model,
            asked_model=context.large_model,
            version=version,
            config=config,
            policy_tokens=find_by_model(policy.tokens_by_model("limit.override"), name),
            plugin_tokens=reported.window_tokens if reported and reported.is_measured else None,
            status_line_tokens=(
                reported.window_tokens if reported and not reported.is_measured else None
            ),
            session_peak_tokens=context.peak_tokens,
            compacted_window=self._compacted_window(context),
            report_tokens=report.window if report else None,
            limit_tokens=context.limit_tokens,
            others_tokens=self._windows_of_others.get((name or "", context.client_version)),
        )

    def _trigger_evidence(self, context: ContextEvidence, window: Window) -> TriggerEvidence:
        name, report = context.known_model, context.report
        return TriggerEvidence(
            model=name,
            version=parse_version(context.client_version),
            window=window.tokens,
            config=self._config(context),
            declared_window=self._declared_window(context),
            own_compactions=self._compactions_of(context),
            report=Claim(report.trigger, ClaimSource.CONTEXT_REPORT) if report else None,
            other_compactions=self._compactions_of_model.get(
                (name or "", context.client_version), ()
            ),
            answer_tokens=context.answer_tokens,
            passed_tokens=context.passed_tokens,
        )

    def _compactions_of(self, context: ContextEvidence) -> tuple[AutoCompaction, ...]:
        return self._own_compactions.get((context.session_id, context.agent_id), ())

    def _config(self, context: ContextEvidence) -> AutoCompactConfig:
        environment, name = self._facts.environments.get(context.session_id), context.known_model
        key = context.cwd, None if environment is None else context.session_id, name
        config = self._configs.get(key)
        if config is None:
            settings = self._settings_in(context.cwd)
            config = read_auto_compact_config(settings, environment or {}, name)
            self._configs[key] = config
        return config

    def _declared_window(self, context: ContextEvidence) -> int | None:
        windows, name = self._facts.agent_windows, context.agent_type
        if not windows or name is None:
            return None
        return windows.get((name, context.cwd)) or windows.get((name, None))

    def _compacted_window(self, context: ContextEvidence) -> int | None:
        """Return the one window whose trigger explains the context's own compactions."""
        own = self._compactions_of(context)
        if not own:
            return None
        config = self._config(context)
        name, version = context.known_model, parse_version(context.client_version)
        explained = [
            window
            for window in (SMALL_WINDOW, LARGE_WINDOW)
            if explains_compactions(own, trigger_tokens(window, config, name, version))
        ]
        return explained[0] if len(explained) == 1 and config.window is None else None


def _model_report(
    report: ReportedWindow | None, config: AutoCompactConfig, known: int | None
) -> ReportedWindow | None:
    """Return a report that shows the model's window.

    A client with a window of its own for compaction reports that one: if something sets it, or
    if it is no size that the model comes in.
    """
    if report is None or config.window is not None:
        return None
    is_own = known is not None and report.window not in {known, SMALL_WINDOW, LARGE_WINDOW}
    return None if is_own else report


def _model_version(row: AutoCompactionRow | LargeModelRow | WindowRow) -> ModelVersion:
    return requested_large_model(row.asked_model, row.model) or row.model, row.client_version


NO_EVIDENCE = Evidence(EvidenceRows())  # an empty store's


class ClaimStatus(StrEnum):
    BELIEVED = "believed"
    AGREES = "agrees"
    CONTRADICTS = "contradicts"  # something real shows another size, and is overruled
    REPLACED = "replaced"  # the table has another size than what was seen


class ClaimSubject(StrEnum):
    WINDOW = "window"
    TRIGGER = "trigger"


class AssessedClaim(msgspec.Struct, frozen=True):
    subject: ClaimSubject
    claim: Claim
    status: ClaimStatus


def assess_claims(subject: ClaimSubject, claims: Sequence[Claim]) -> Iterator[AssessedClaim]:
    """Yield the status of each claim; `claims` must be sorted, strongest first."""
    verdict = choose_claim(claims)
    for place, claim in enumerate(claims):
        if place == 0:
            status = ClaimStatus.BELIEVED
        elif claim in verdict.contradicting:
            status = ClaimStatus.CONTRADICTS
        elif claim.tokens == verdict.winner.tokens:
            status = ClaimStatus.AGREES
        else:
            status = ClaimStatus.REPLACED
        yield AssessedClaim(subject, claim, status)


class MeasurementComparison(msgspec.Struct, frozen=True):
    equal: int
    not_comparable: int  # the transcript has no answer of that moment
    different: tuple[MeasurementComparisonRow, ...]


def compare_measurements(rows: Iterable[MeasurementComparisonRow]) -> MeasurementComparison:
    """Compare the newest measurement of each session with the transcript's answer, in tokens.

    `session.measure` reports the input side of the last answer, as the status line does (seen
    in 2.1.329): if they differ, one of the two is wrong.
    """
    listed = list(rows)
    comparable = [row for row in listed if row.answer_tokens is not None]
    different = tuple(row for row in comparable if row.answer_tokens != row.measured_tokens)
    return MeasurementComparison(
        len(comparable) - len(different), len(listed) - len(comparable), different
    )
