"""What the whole store tells of windows and triggers, ready for each context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from .claims import Claim, Source
from .client_setup import AUTOCOMPACT, ClientSetup, read_setup
from .context import measure
from .models import LARGE_WINDOW, SMALL_WINDOW, parse_version, table_window
from .policy.layers import COMMON
from .settings import resolve_settings
from .store import evidence_queries, surroundings_queries
from .trigger import (
    Compacted,
    Trigger,
    TriggerEvidence,
    find_trigger,
    fits,
    trigger_claims,
    trigger_tokens,
)
from .window import Window, WindowEvidence, asked_large, find_window, window_claims

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from .context import Context
    from .counter import Counted
    from .levels import Line
    from .policy.layers import Policies
    from .settings import Setting
    from .store.evidence_queries import CompactedRow, LargeRow, SeenRow
    from .store.surroundings_facts import SettingsFact

Kind = tuple[str, str | None]
"""A model as it was asked for, and the client's version: such sessions are alike."""

Owner = tuple[str, str | None]
"""A session, and the agent where it is one's context."""


class Reported(msgspec.Struct, frozen=True):
    """What `/context` said of the model that is in use; tokens."""

    window: int
    """Where the client ends it for its compaction."""
    trigger: int | None
    """None where it compacts only when it must."""


class Seen(msgspec.Struct, frozen=True):
    """What one context itself shows; tokens."""

    session_id: str
    agent_id: str | None = None
    agent_type: str | None = None
    cwd: str | None = None
    project_root: str | None = None
    """Where the session began: its policy stands there."""
    model: str | None = None
    asked_model: str | None = None
    client_version: str | None = None
    peak_tokens: int = 0
    limit_tokens: int | None = None
    report: Reported | None = None
    answer_tokens: int = 0
    """Of the last answer, after the last compaction."""


class Limits(msgspec.Struct, frozen=True):
    """What a context is measured against."""

    window: Window
    trigger: Trigger
    thresholds: tuple[Line, ...]


class CommonLimits(msgspec.Struct, frozen=True):
    """Limits of all contexts of a kind, as long as no answer outgrows a claim of the window."""

    limits: Limits
    max_peak_tokens: int


class Facts(msgspec.Struct, frozen=True):
    """The rows that evidence is made of: equal ones say the same of every context."""

    reported_windows: tuple[SeenRow, ...] = ()
    large_models: tuple[LargeRow, ...] = ()
    auto_compactions: tuple[CompactedRow, ...] = ()
    settings: tuple[SettingsFact, ...] = ()
    environments: dict[str, dict[str, str]] = {}
    agent_windows: dict[tuple[str, str | None], int] = {}


def read_facts(db: sqlite3.Connection) -> Facts:
    """Read what the store tells of windows and triggers."""
    return Facts(
        reported_windows=tuple(evidence_queries.windows_seen(db)),
        large_models=tuple(evidence_queries.large_models(db, SMALL_WINDOW)),
        auto_compactions=tuple(evidence_queries.automatic_compactions(db)),
        settings=tuple(surroundings_queries.settings_files(db)),
        environments=evidence_queries.environments(db),
        agent_windows=evidence_queries.agent_windows(db),
    )


class Evidence:
    """Judges contexts by what the store tells; what is asked again is worked out once."""

    def __init__(self, facts: Facts, policies: Policies = COMMON) -> None:
        self._facts = facts
        self._policies = policies
        self._shown = {(row.session_id, row.model): row for row in facts.reported_windows}
        self._others = _others(facts)
        self._own: dict[Owner, list[Compacted]] = {}
        self._of_kind: dict[Kind, list[Compacted]] = {}
        for row in facts.auto_compactions:
            told = Compacted(row.earlier_tokens or 0, row.pre_tokens, _armed(row))
            self._own.setdefault((row.session_id, row.agent_id), []).append(told)
            if not _declares_window(facts.environments.get(row.session_id, {})):
                # Of another session nobody knows with which option it was started.
                unsure = replace(told, armed=None) if told.armed else told
                self._of_kind.setdefault(_kind(row), []).append(unsure)
        self._settings: dict[str | None, Mapping[str, Setting]] = {}
        self._setups: dict[tuple[str | None, str | None, str | None], ClientSetup] = {}
        self._triggers: dict[tuple[object, ...], Trigger] = {}
        self._lines: dict[tuple[object, ...], tuple[Line, ...]] = {}
        self._particular = {
            *facts.environments,
            *(row.session_id for row in facts.reported_windows),
            *(row.session_id for row in facts.auto_compactions),
        }
        self._common: dict[tuple[object, ...], CommonLimits] = {}

    def is_equivalent_to(self, other: Evidence) -> bool:
        """Say whether every context is judged as by the other."""
        return (self._facts, self._policies) == (other._facts, other._policies)

    def measure(self, context: Seen, stored: Counted) -> Context:
        """Measure a context against its own window, its trigger and its policy's levels."""
        limits = self._shared_limits(context) or self._own_limits(context)
        return measure(stored, limits.window, limits.trigger, limits.thresholds)

    def window_of(self, context: Seen) -> Window:
        """Decide a context's window in tokens."""
        return find_window(self._window_evidence(context))

    def trigger_of(self, context: Seen, window: Window) -> Trigger:
        """Decide where a context with this window is compacted by itself."""
        # Thousands of sessions of one model and version have the same, and learning it from
        # the compactions of all others takes long.
        key = self._trigger_key(context, window)
        found = self._triggers.get(key)
        if found is None:
            found = self._triggers[key] = find_trigger(self._trigger_evidence(context, window))
        return found

    def claims_of(self, context: Seen) -> tuple[list[Claim], list[Claim]]:
        """List all that is claimed of a context's window, and of its trigger, strongest first."""
        window = self.window_of(context)
        trigger = trigger_claims(self._trigger_evidence(context, window))
        return window_claims(self._window_evidence(context)), list(trigger)

    def _own_limits(self, seen: Seen) -> Limits:
        window = self.window_of(seen)
        trigger = self.trigger_of(seen, window)
        return Limits(window, trigger, self._thresholds_of(seen, window, trigger))

    def _shared_limits(self, seen: Seen) -> Limits | None:
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

    def _limits_of_version(self, seen: Seen, *, is_large: bool) -> CommonLimits:
        """Judge a kind by the smallest answer that tells a large window, or by none."""
        least, most = (SMALL_WINDOW + 1, LARGE_WINDOW) if is_large else (0, SMALL_WINDOW)
        limits = self._own_limits(replace(seen, peak_tokens=least))
        others = (claim.tokens or 0 for claim in limits.window.contradicting)
        return CommonLimits(limits, min(most, limits.window.tokens, *others))

    def _window_evidence(self, seen: Seen) -> WindowEvidence:
        asked = asked_large(seen.asked_model, seen.model)
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

    def _trigger_evidence(self, seen: Seen, window: Window) -> TriggerEvidence:
        name = asked_large(seen.asked_model, seen.model) or seen.model
        own = self._own.get((seen.session_id, seen.agent_id), [])
        kind = self._of_kind.get((name or "", seen.client_version), [])
        return TriggerEvidence(
            model=name,
            version=parse_version(seen.client_version),
            window=window.tokens,
            config=self._config(seen, name),
            declared_window=self._declared_window(seen),
            own_compactions=tuple(own),
            report=Claim(seen.report.trigger, Source.CONTEXT_REPORT) if seen.report else None,
            other_compactions=tuple(kind),
            answer_tokens=seen.answer_tokens,
        )

    def _trigger_key(self, seen: Seen, window: Window) -> tuple[object, ...]:
        """Make a key that is equal where all that `_trigger_evidence` reads is equal."""
        name = asked_large(seen.asked_model, seen.model) or seen.model
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

    def _thresholds_of(self, seen: Seen, window: Window, trigger: Trigger) -> tuple[Line, ...]:
        policy = self._policies.for_project(seen.project_root)
        key = (id(policy), window.tokens, window.source, trigger.tokens)
        found = self._lines.get(key)
        if found is None:
            found = self._lines[key] = policy.place_thresholds(window, trigger.tokens)
        return found

    def _config(self, seen: Seen, name: str | None) -> ClientSetup:
        has_own = seen.session_id in self._facts.environments
        key = seen.cwd, seen.session_id if has_own else None, name
        found = self._setups.get(key)
        if found is None:
            settings = self._settings.get(seen.cwd)
            if settings is None:
                settings = resolve_settings(self._facts.settings, seen.cwd)
                self._settings[seen.cwd] = settings
            environment = self._facts.environments.get(seen.session_id, {})
            found = self._setups[key] = read_setup(settings, environment, name)
        return found

    def _declared_window(self, seen: Seen) -> int | None:
        windows = self._facts.agent_windows
        if not windows or seen.agent_type is None:
            return None
        return windows.get((seen.agent_type, seen.cwd)) or windows.get((seen.agent_type, None))

    def _compacted_window(self, seen: Seen, name: str | None) -> int | None:
        """Find the one window whose trigger explains the context's own compactions."""
        own = self._own.get((seen.session_id, seen.agent_id))
        if not own:
            return None
        setup, version = self._config(seen, name), parse_version(seen.client_version)
        explained = [
            window
            for window in (SMALL_WINDOW, LARGE_WINDOW)
            if fits(own, trigger_tokens(window, setup, name, version))
        ]
        return explained[0] if len(explained) == 1 and setup.window is None else None


def _armed(row: CompactedRow) -> bool | None:
    return not row.was_refused if row.writes_requests else None


def _declares_window(environment: Mapping[str, str]) -> bool:
    return AUTOCOMPACT in environment or "CLAUDE_CODE_AUTO_COMPACT_WINDOW" in environment


def _model_report(
    report: Reported | None, setup: ClientSetup, known: int | None
) -> Reported | None:
    """Return a report that tells the model's window.

    With a window of its own for compaction the client reports that one: where something sets
    it, and where it is no size that the model comes in.
    """
    if report is None or setup.window is not None:
        return None
    is_own = known is not None and report.window not in {known, SMALL_WINDOW, LARGE_WINDOW}
    return None if is_own else report


def _kind(row: CompactedRow | LargeRow | SeenRow) -> Kind:
    return asked_large(row.asked_model, row.model) or row.model, row.client_version


def _others(facts: Facts) -> dict[Kind, int]:
    found = {_kind(row): LARGE_WINDOW for row in facts.large_models}
    # The newest word of the client comes last and counts.
    return found | {_kind(row): row.window_tokens for row in facts.reported_windows}


NO_EVIDENCE = Evidence(Facts())
"""An empty store's."""
