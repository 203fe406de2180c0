"""The JSON of the commands: every key of the contract, null where it does not apply."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import asdict

from ...collectors.claude_code.own_files import own_log_folder
from ...core.lazy_pattern import lazy_pattern
from ...core.measure.activity import estimate_cost
from ...core.measure.limit_use import limit_ratios
from ...core.measure.retention import days_left
from ...core.measure.stored_tokens import tokens_or_estimate
from ...core.model.claude_models import PriceRate
from ...core.model.session import unread_session
from ...core.model.session_activity import SessionCost
from ...core.model.stored_rows import CompactionRow, SummaryRow
from ...core.policy.value_types import to_json_value
from ...core.readers.fleet_reader import agent_place, session_place
from ...core.store.bulkhead import NOT_READ, NOT_SHOWN, place_of, work_apart
from ...core.store.queries import (
    agent_queries,
    log_queries,
    session_queries,
    spending_queries,
)
from ...core.summaries.compaction_quality import flag_reduction
from ..text.formats import compaction_reduction, iso_time

if TYPE_CHECKING:
    from ...core.compliance.agent_compliance import (
        AgentTypeCompliance,
        ComplianceDay,
        ComplianceSummary,
    )
    from ...core.measure.composition import Composition
    from ...core.measure.pause_costs import PauseCosts, WayCosts
    from ...core.model.agent import Agent
    from ...core.model.answer_rows import ModelUsageRow
    from ...core.model.context import Context
    from ...core.model.counting_rule import CountingRule
    from ...core.model.findings import ComplianceFinding, Judgment, RunVerdict
    from ...core.model.outlook import Forecast, Interval, Outlook
    from ...core.model.problem import Problem
    from ...core.model.rule import ListedRule
    from ...core.model.session import Session
    from ...core.model.transcript_records import ClientReportRecord
    from ...core.policy.policy import Policy, PolicyNotice
    from ...core.store.warning_log import ContextWarning
    from ...core.summaries.artifacts import Artifacts, LostArtifacts
    from ...core.summaries.compaction_report import CompactionReport
    from .command_store import StoreSnapshot


Record = dict[str, Any]


def record_of(source: object, keys: str) -> Record:
    """Make a record of an object's attributes: a key for each word of `keys`, in their order.

    `key=path` takes the value from another attribute, as `level=context.level`; it is null where
    the path ends early. `at` and keys that end in `_at` are milliseconds since 1970 and written
    as ISO 8601. Enums, tuples and structs become what JSON has for them.
    """
    record: Record = {}
    for key, path, is_time in _parse_keys(keys):
        value: Any = source
        for name in path:
            if value is None:
                break
            value = getattr(value, name)
        record[key] = iso_time(value) if is_time else msgspec.to_builtins(value)
    return record


def records_of(sources: Iterable[object], keys: str) -> list[Record]:
    """Make a record of each object; one of which none can be made is left out and reported."""
    return work_apart(
        list(sources),
        lambda some: [record_of(each, keys) for each in some],
        place_of,
        NOT_SHOWN,
    )


def costs_record(costs: PauseCosts | None) -> Record | None:
    """Return what leaving, compacting and starting over cost; all of it is estimated."""
    if costs is None:
        return None
    return {
        **record_of(costs, "unit requests expires_at expires_estimated"),
        "estimated": True,
        "ways": {way.value: _way_record(each, costs) for way, each in costs.ways.items()},
    }


def _way_record(way: WayCosts, costs: PauseCosts) -> Record:
    amounts = {
        **record_of(way, "now cold paused later"),
        "total_now": way.total(way.now, costs.requests),
        "total_cold": way.total(way.cold, costs.requests),
        "total_paused": costs.paused_total(way.way),
    }
    ratios = {key: limit_ratios(amount, costs.percent_dollars) for key, amount in amounts.items()}
    return {
        **amounts,
        **record_of(way, "break_even_requests=break_even break_even_requests_cold=break_even_cold"),
        "limit_ratio": ratios if costs.percent_dollars else None,
    }


@cache
def _parse_keys(keys: str) -> list[tuple[str, list[str], bool]]:
    pairs = (word.partition("=") for word in keys.split())
    return [
        (key, (path or key).split("."), key == "at" or key.endswith("_at"))
        for key, _, path in pairs
    ]


# Below 0x20 json escapes by itself; these a terminal could obey as well.
_UNSAFE: Final = lazy_pattern("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def dump_json(value: object, encoding: str) -> str:
    """Write JSON for people's eyes and for an output of this encoding."""
    is_utf8 = encoding.lower().replace("-", "") == "utf8"
    text = (_dump_quickly(value) if is_utf8 else None) or json.dumps(
        value, ensure_ascii=not is_utf8, indent=2
    )
    return text if _is_safe(text) else "\n".join(map(_escape_unsafe, text.split("\n")))


def _is_safe(text: str) -> bool:
    # Both tests are many times faster than the expression, and most text passes them.
    return text.isascii() and "\x7f" not in text


def _escape_unsafe(line: str) -> str:
    return line if _is_safe(line) else _UNSAFE.sub(lambda sign: f"\\u{ord(sign[0]):04x}", line)


def _dump_quickly(value: object) -> str | None:
    """Write JSON as json.dumps does, but many times faster; None where a name is not Unicode."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except UnicodeEncodeError:
        # A file's name may be any bytes; json escapes what stands for them.
        return None


def session_records(snapshot: StoreSnapshot, sessions: Sequence[Session]) -> list[Record]:
    """Return the objects of `ctxtop sessions`; of one that cannot be written only its problem."""
    projects, now_ms = f"{snapshot.places.folder.projects}/", snapshot.now_ms

    def write(some: Sequence[Session]) -> list[Record]:
        return [_session_record(each, projects, now_ms) for each in some]

    def unread(session: Session, problem: Problem) -> Record:
        return _session_record(unread_session(session.session_id, problem), projects, now_ms)

    return work_apart(
        sessions, write, lambda each: session_place(each.session_id), NOT_SHOWN, None, unread
    )


_USED_TOKENS: Final = (
    "input_tokens",
    "cache_creation_tokens",
    "cache_read_tokens",
    "output_tokens",
)
_CACHE_STATES: Final = {True: "warm", False: "cold", None: None}


def _limit_fields(context: Context) -> Record:
    """Return the policy's limit, null if it is the window, and what of it is used."""
    return {"limit_tokens": context.window.limit or None, "limit_ratio": context.limit_ratio}


def _session_record(session: Session, projects: str, now_ms: int) -> Record:
    context, cache = session.context, session.cache
    return {
        **record_of(
            session,
            "session_id title project model client_version live status tmux"
            " context_tokens=context.tokens context_state=context.state"
            " window_tokens=context.window.tokens window_source=context.window.source"
            " used_ratio=context.ratio level=context.level",
        ),
        "unsaved": session.is_unsaved(now_ms),
        **_limit_fields(context),
        **_trigger_fields(context),
        **forecast_fields(session.outlook),
        **record_of(session, "compactions last_compaction_at agents agents_noncompliant"),
        **{name: getattr(session.usage, name, 0) for name in (*_USED_TOKENS, "responses")},
        **record_of(session, "started_at last_activity_at"),
        "transcript_path": projects + session.path if session.path else None,
        **record_of(session, "git_branch last_prompt"),
        **record_of(session, "forked_from fork_kind is_fork_undone recovered_in"),
        "doing": session.activity
        and record_of(session.activity, "kind what detail")
        | {"since": iso_time(session.activity.since)},
        "waiting_for": session.waiting_for
        and record_of(session.waiting_for, "kind tool text")
        | {"since": iso_time(session.waiting_for.since)},
        "trail_tokens": list(session.recent_contexts),
        "cache_state": _CACHE_STATES[cache.is_warm(now_ms)],
        "cache_expires_at": iso_time(cache.expires_at),
        "cache_estimated": None if cache.expires_at is None else cache.estimated,
        **_cost_fields(session.cost),
        **_evidence_fields(context),
        "spent_tokens": session.spent_tokens,
        **record_of(session, "deleted_at"),
        "days_left": days_left(session.deleted_at, now_ms),
        "archived": session.archived or None,
        **cold_fields(session, now_ms),
        "client": session.client and _client_record(session.client),
        "problem": session.problem or None,
    }


def cold_fields(session: Session, now_ms: int) -> Record:
    """Return what a prompt sent once the cache has expired writes to it again."""
    cache, prompt = session.cache, session.cold_prompt(now_ms)
    return {
        "cache_tokens": cache.tokens,
        "cache_lifetime_s": cache.lifetime_ms and cache.lifetime_ms // 1000,
        "cold_state": None if prompt.seconds_left is None else prompt.state.value,
        "cold_rewrite_tokens": prompt.tokens,
        "cold_rewrite_usd": None if prompt.usd is None else round(prompt.usd, 6),
        "cold_rewrite_limit_ratio": limit_ratios(prompt.usd, session.percent_dollars),
        "cold_rewrite_estimated": prompt.tokens_estimated if prompt.tokens else None,
    }


def _client_record(report: ClientReportRecord) -> Record:
    return {
        **record_of(
            report,
            "at effort thinking fast_mode output_style duration_ms api_duration_ms lines_added"
            " lines_removed pull_request pull_request_url pull_request_state cache_requests"
            " cache_misses cache_rebuilds cache_hit_ratio cache_write_tokens"
            " cache_rewritten_tokens cache_last_miss_at",
        ),
        "cache_miss_causes": msgspec.json.decode(report.cache_miss_causes),
        "cache_last_miss_causes": msgspec.json.decode(report.cache_last_miss_causes),
    }


def _cost_fields(cost: SessionCost | None) -> Record:
    return {
        "cost_usd": round(cost.usd, 6) if cost else None,
        **record_of(cost, "cost_source=source cost_estimated=estimated cost_partial=partial"),
    }


def agent_records(
    snapshot: StoreSnapshot, agents: Sequence[Agent], session_id: str | None
) -> list[Record]:
    injected: dict[tuple[str, str | None], list[Record]] = {}
    for row in agent_queries.answer_items(snapshot.db, "inject", session_id):
        record = record_of(
            row,
            "stage=kind session_id=from_session_id agent_id=from_agent_id reason=text"
            " at_most_tokens=tokens",
        )
        injected.setdefault((row.session_id, row.agent_id), []).append(record)

    def write(some: Sequence[Agent]) -> list[Record]:
        return [
            _agent_record(each) | {"injected": injected.get((each.session_id, each.agent_id))}
            for each in some
        ]

    return work_apart(agents, write, agent_place, NOT_SHOWN)


def _agent_record(agent: Agent) -> Record:
    result, verdict = agent.result, agent.compliance
    return {
        **record_of(
            agent,
            "agent_id session_id parent_agent_id agent_type description model status"
            " context_tokens=context.tokens window_tokens=context.window.tokens"
            " used_ratio=context.ratio level=context.level tool_uses progress_responses"
            " started_at ended_at result_lines=result.lines result_chars=result.chars",
        ),
        "result_tokens": result and tokens_or_estimate(result.estimated_tokens, result.text),
        **_verdict_fields(verdict),
        "context_summary": result.text if result else agent.last_message,
        "replaced_result": verdict and verdict.replaced_result,
        **record_of(agent, "ended_with_session last_heard_at=silent_since"),
        **_verdict_reason_fields(verdict),
        **_limit_fields(agent.context),
        **_trigger_fields(agent.context),
        **forecast_fields(agent.outlook),
        **_evidence_fields(agent.context),
        "problem": agent.problem or None,
        **record_of(agent, "sessions counted_in"),
    }


def counting_fields(counting: CountingRule) -> Record:
    return {
        "context_source": counting.source,
        "context_components": counting.component_names,
    }


def _trigger_fields(context: Context) -> Record:
    trigger = context.trigger
    return {
        **record_of(context, "trigger_tokens=trigger.tokens trigger_source=trigger.source"),
        "trigger_left": context.trigger_left,
        "trigger_armed": trigger.tokens is not None if trigger else None,
        "trigger_reason": trigger.why if trigger else None,
    }


def forecast_fields(outlook: Outlook) -> Record:
    """Turns and minutes to the trigger, or to the window's end where that is not armed."""
    ahead = outlook.next_threshold
    return {
        **_turns_and_minutes(outlook.end),
        "next_threshold": ahead
        and record_of(ahead, "level threshold tokens") | _turns_and_minutes(ahead.forecast),
    }


def _turns_and_minutes(forecast: Forecast | None) -> Record:
    turns, minutes = (forecast.turns, forecast.minutes) if forecast else (None, None)
    return {
        "turns_left": turns and _bounds(turns, int),
        "minutes_left": minutes and _bounds(minutes, lambda value: round(value, 1)),
    }


def _bounds(interval: Interval, write: Callable[[float], float]) -> Record:
    """Return the bounds; far away only the lower one is known."""
    known = {"low": interval.low} if interval.is_open else asdict(interval)
    return {name: write(known[name]) if name in known else None for name in asdict(interval)}


def _evidence_fields(context: Context) -> Record:
    """Return other counts of the context, and evidence for another window or trigger."""
    claims = [("window", claim) for claim in context.window.contradicting]
    if context.trigger:
        claims += [("trigger", claim) for claim in context.trigger.contradicting]
    return {
        **record_of(context.token_counts, COUNT_KEYS),
        "contradictions": [
            {"of": subject, **record_of(claim, "tokens source")} for subject, claim in claims
        ],
        **counting_fields(context.counting),
    }


COUNT_KEYS: Final = "counter_tokens=counter hook_tokens=hook report_tokens=report"


def compaction_records(
    snapshot: StoreSnapshot, rows: Sequence[CompactionRow], session_id: str | None
) -> list[Record]:
    """Return the objects of `ctxtop compactions`; the rows are sorted, newest first."""
    from ...core.summaries.compaction_report import steering_outcomes  # only this command's

    reports = decode_reports(rows)
    asked = agent_queries.answer_items(snapshot.db, "steer", session_id)
    outcomes = steering_outcomes(list(zip(rows, reports, strict=True)), asked)
    return [
        {
            **record_of(
                row,
                "session_id agent_id boundary_uuid=uuid at trigger pre_tokens post_tokens"
                " next_answer_tokens=next_tokens estimated_next_tokens dropped_tokens"
                " duration_ms kept_messages summary",
            ),
            "precomputed": bool(row.is_precomputed),
            **_report_fields(report),
            "steered": [asdict(item) for item in items] or None,
            **compaction_quality_fields(row, report, snapshot.policies.common.target_reduction),
        }
        for row, report, items in zip(rows, reports, outcomes, strict=True)
    ]


def decode_reports(
    rows: Sequence[CompactionRow],
) -> list[CompactionReport | None]:
    """Decode the reports of compactions; None for one that is missing or cannot be decoded."""
    from ...core.summaries.compaction_report import decode_report

    return work_apart(
        rows,
        lambda some: [decode_report(row.report) for row in some],
        lambda row: f"compaction {row.uuid} of {session_place(row.session_id)}",
        NOT_READ,
        None,
        lambda *_: None,
    )


def compaction_quality_fields(
    row: CompactionRow,
    report: CompactionReport | None,
    target: tuple[float, float],
) -> Record:
    """Return the freed share, where it is seen from the target, and the shares that were kept."""
    reduction = compaction_reduction(row)
    shares = report.kept_shares if report else None
    return {
        "reduction": reduction,
        "reduction_flag": flag_reduction(reduction, target),
        "kept_shares": shares and asdict(shares),
    }


def _report_fields(report: CompactionReport | None) -> Record:
    thrash = report.thrash if report else None
    lost = report.forgotten if report and report.is_known else None
    return {
        "forgotten": lost and artifacts_record(lost) | {"counts": asdict(lost.counts)},
        "thrash": thrash and record_of(thrash, "turns_since_last culprit"),
        "cleared_results": report and report.cleared_results,
    }


def artifacts_record(artifacts: Artifacts | LostArtifacts) -> Record:
    return {
        "files": [each.path for each in artifacts.files],
        "identifiers": [each.text for each in artifacts.names],
        "decisions": records_of(artifacts.decisions, "text line"),
        "todos": records_of(artifacts.todos, "text line"),
        "constraints": records_of(artifacts.constraints, "text line"),
    }


def warning_records(warnings: Iterable[ContextWarning]) -> list[Record]:
    return records_of(
        warnings,
        "session_id agent_id level=warning.level threshold=warning.threshold ratio=warning.ratio"
        " limit_tokens=warning.limit_tokens limit_ratio=warning.limit_ratio"
        " at=warning.at cleared_at=warning.cleared_at",
    )


def policy_record(policy: Policy, notices: Iterable[PolicyNotice]) -> Record:
    return {
        "preset": policy.preset,
        "policy": [
            {
                "key": each.key.name,
                "value": to_json_value(each.value),
                "origin": each.origin.value,
                "where": each.where or None,
                "unit": each.key.unit or None,
                "description": each.key.description,
            }
            for each in policy.values.values()
        ],
        "notices": [
            {"key": each.key or None, **record_of(each, "origin where what remedy=fix")}
            for each in notices
        ],
        "trust": policy.trust.value if policy.trust else None,
        "ignored": records_of(policy.ignored, "key value=value_text where why remedy=fix"),
    }


def summary_record(
    row: SummaryRow, name: str, rule: ListedRule | None, flaws: Sequence[str]
) -> Record:
    """Return an object of `ctxtop summaries`; `name` is what `ctxtop diff` calls it."""
    return {
        **record_of(row, "kind session_id agent_id agent_type at"),
        "tokens": tokens_or_estimate(row.estimated_tokens, row.text),
        "text": row.text,
        "id": name,
        "rule": rule and record_of(rule, "rule_id source path offset state state_at mark"),
        "flaws": list(flaws),
    }


def composition_record(session: Session, agent_id: str | None, found: Composition) -> Record:
    return {
        **record_of(session, "session_id forked_from"),
        "agent_id": agent_id,
        **record_of(found, "total_tokens estimated source later_tokens read_bytes categories"),
        "largest": records_of(found.largest, "kind what=name tokens line superseded oversized"),
        "estimator": found.estimator,
    }


def totals_record(snapshot: StoreSnapshot) -> Record:
    """Return an object of `ctxtop totals`: all answers, those of each model, and a second sum.

    Other tools leave out agents' answers that are only in `progress` lines.
    """
    spent = spending_queries.model_usage(snapshot.db)
    prices = snapshot.policies.common.strings_by_name("price")

    def spent_record(rows: Sequence[ModelUsageRow]) -> Record:
        names = (*_USED_TOKENS, "web_searches", "responses")
        sums = {name: sum(getattr(row, name) for row in rows) for name in names}
        return {**sums, **_cost_fields(estimate_cost(rows, prices))}

    by_model: dict[tuple[str, bool], list[ModelUsageRow]] = {}
    for row in spent:
        by_model.setdefault((row.model, bool(row.rate & PriceRate.FAST)), []).append(row)
    models = [
        {"model": model, "fast": is_fast, **spent_record(rows)}
        for (model, is_fast), rows in by_model.items()
    ]
    return {
        **spent_record(spent),
        "sessions": session_queries.store_counts(snapshot.db)["sessions"],
        "models": sorted(models, key=lambda each: (-(each["cost_usd"] or 0), each["model"])),
        "agent_progress": spent_record([each for each in spent if each.is_progress]),
        "without_agent_progress": spent_record([each for each in spent if not each.is_progress]),
    }


def scan_record(snapshot: StoreSnapshot, seconds: float) -> Record:
    counts = session_queries.store_counts(snapshot.db)
    return {
        **{name: counts[name] for name in ("files", "bytes", "lines", "bad_lines")},
        "unknown_types": session_queries.unknown_types(snapshot.db),
        "sessions": counts["sessions"],
        "agents": agent_queries.count_agents(snapshot.db),
        "seconds": round(seconds, 3),
    }


def unread_records(snapshot: StoreSnapshot) -> Record:
    """Return what `ctxtop scan --bad` adds: every line and every place that was not readable."""
    projects, logs = snapshot.places.folder.projects, own_log_folder(snapshot.places.store)
    return {
        "bad": [
            {"file": str(folder / name), "offset": offset, "length": length, "reason": reason}
            for folder, lines in (
                (projects, session_queries.bad_lines(snapshot.db)),
                (logs, log_queries.bad_log_lines(snapshot.db)),
            )
            for name, offset, length, reason in lines
        ],
        "troubles": records_of(
            session_queries.problems(snapshot.db), "place=where what remedy=fix"
        ),
    }


def _finding_labels(findings: tuple[ComplianceFinding, ...]) -> list[str]:
    from ...core.model.findings import finding_labels  # with all verdicts, which takes 4 ms

    return finding_labels(findings)


def _verdict_fields(verdict: RunVerdict | None) -> Record:
    return {
        **record_of(verdict, "expected_format=expected.format verdict"),
        "violations": _finding_labels(verdict.violations) if verdict else [],
        "warnings": _finding_labels(verdict.warnings) if verdict else [],
        **record_of(verdict, "marker_origin=marker_location blocked"),
    }


def _verdict_reason_fields(verdict: RunVerdict | None) -> Record:
    return {
        **record_of(verdict, "expected_by=expected.source grep_passes stops refires"),
        "findings": _finding_records(verdict) if verdict else [],
    }


def check_record(judgment: Judgment) -> Record:
    return {
        "verdict": judgment.verdict.value,
        "violations": _finding_labels(judgment.violations),
        "warnings": _finding_labels(judgment.warnings),
        "lines": judgment.lines,
        "chars": judgment.chars,
        "findings": _finding_records(judgment),
        "review": msgspec.to_builtins(judgment.review_findings),
    }


def _finding_records(judged: Judgment | RunVerdict) -> list[Record]:
    findings = (*judged.violations, *judged.warnings)
    return records_of(findings, "code=label name=code.name line text why=sentence")


def compliance_record(found: ComplianceSummary) -> Record:
    return {
        **_score_fields(found),
        "min_samples": found.min_samples,
        "types": [_type_record(each) for each in found.types],
        "days": _day_records(found.days),
        "failed": [
            {
                **record_of(each, "session_id agent_id agent_type at=ended_at"),
                **_verdict_fields(each.compliance),
                **_verdict_reason_fields(each.compliance),
            }
            for each in found.noncompliant
        ],
        "reviewed": [
            record_of(each, "session_id agent_id agent_type at") | msgspec.to_builtins(each.finding)
            for each in found.findings
        ],
        "too_wide": records_of(found.oversized_reviews, "session_id agent_id"),
        "force_hooks": records_of(found.force_hooks, "command scope project settings=path"),
    }


def _type_record(agents: AgentTypeCompliance) -> Record:
    sizes = agents.sizes if agents.sizes.results else None
    return {
        **record_of(
            agents, "agent_type=name expected_formats=formats line_limit drift_from_rule=drift"
        ),
        **_score_fields(agents),
        **record_of(agents, "runs running"),
        **record_of(sizes, "median_lines p90_lines median_tokens p90_tokens"),
        "last_verdicts": [each.value for each in agents.last_verdicts],
        "days": _day_records(agents.days),
        "definitions": records_of(
            agents.definitions,
            "scope project path skills missing_skills expected_format=expected model problem",
        ),
    }


def _day_records(days: Iterable[ComplianceDay]) -> list[Record]:
    return [{"day": (iso_time(each.at) or "")[:10], **_score_fields(each)} for each in days]


def _score_fields(scored: ComplianceSummary | AgentTypeCompliance | ComplianceDay) -> Record:
    return {
        **record_of(
            scored.score,
            "verdicts judged=judged_count passed_share first_pass_share forced_share grep_passed"
            " grep_wrong refires codes",
        ),
        **record_of(scored.cost, "result_tokens excess_tokens retry_tokens"),
    }
