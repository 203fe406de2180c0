"""The JSON of the commands: every key of the contract, null where it does not apply."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import asdict

from ....core.measure.tokens import tokens_or_estimate
from ....core.policy.value_types import to_json_value
from ....core.store.queries.query_rows import CompactionRow, SummaryRow, UsageRow
from ...text.formats import iso_time
from . import compliance_json

if TYPE_CHECKING:
    from ....core.measure.activity import Activity, PromptCache, SessionCost
    from ....core.measure.compaction_report import Refill
    from ....core.measure.composition import CategoryShare, Composition
    from ....core.measure.forecast import Forecast, Outlook
    from ....core.model.agent import Agent
    from ....core.model.context import Context
    from ....core.model.session import Session
    from ....core.policy.policy import Policy, PolicyNotice
    from ....core.store.warning_log import ContextWarning
    from ....core.summaries.artifacts import LostArtifacts, Quote, Todo


Record = dict[str, Any]

_CACHE_STATES: Final = {True: "warm", False: "cold", None: None}


def activity_fields(found: Session, now_ms: int) -> Record:
    """Return the current activity and the cost, as keys of `ctxtop sessions`."""
    return {
        "doing": _activity_record(found.activity),
        "trail_tokens": list(found.recent_contexts),
        **_cache_fields(found.cache, now_ms),
        **cost_fields(found.cost),
    }


def cost_fields(cost: SessionCost | None) -> Record:
    """Return the cost keys of a record; the cost is in US dollars."""
    return {
        "cost_usd": round(cost.usd, 6) if cost else None,
        "cost_source": cost.source.value if cost else None,
        "cost_estimated": cost.estimated if cost else None,
        "cost_partial": cost.partial if cost else None,
    }


def _activity_record(doing: Activity | None) -> Record | None:
    if doing is None:
        return None
    return {
        "kind": doing.kind.value,
        "what": doing.what,
        "detail": doing.detail,
        "since": iso_time(doing.since),
    }


def _cache_fields(cache: PromptCache, now_ms: int) -> Record:
    is_known = cache.expires_at is not None
    return {
        "cache_state": _CACHE_STATES[cache.is_warm(now_ms)],
        "cache_expires_at": iso_time(cache.expires_at),
        "cache_estimated": cache.estimated if is_known else None,
    }


# Below 0x20 json escapes by itself; these a terminal could obey as well.
_UNSAFE: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


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
    return line if _is_safe(line) else _UNSAFE.sub(_unicode_escape, line)


def _unicode_escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _dump_quickly(value: object) -> str | None:
    """Write JSON as json.dumps does, but many times faster; None where a name is no Unicode."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except UnicodeEncodeError:
        # A file's name may be any bytes; json escapes what stands for them.
        return None


def session_record(found: Session, projects: Path, now_ms: int) -> Record:
    """One object of `ctxtop sessions`."""
    context = found.context
    own = found.usage
    level = context.level
    return {
        "session_id": found.session_id,
        "title": found.title,
        "project": found.project,
        "model": found.model,
        "client_version": found.client_version,
        "live": found.live,
        "status": found.status.value,
        "tmux": found.tmux,
        "context_tokens": context.tokens,
        "context_state": context.state.value,
        "window_tokens": context.window.tokens,
        "window_source": context.window.source.value,
        "used_ratio": context.ratio,
        "level": level.value if level else None,
        **_trigger_fields(context),
        **_forecast_fields(found.outlook),
        "compactions": found.compactions,
        "last_compaction_at": iso_time(found.last_compaction_at),
        "agents": found.agents,
        "agents_noncompliant": found.agents_noncompliant,
        "input_tokens": own.input_tokens if own else 0,
        "cache_creation_tokens": own.cache_creation_tokens if own else 0,
        "cache_read_tokens": own.cache_read_tokens if own else 0,
        "output_tokens": own.output_tokens if own else 0,
        "started_at": iso_time(found.started_at),
        "last_activity_at": iso_time(found.last_activity_at),
        "transcript_path": f"{projects}/{found.path}" if found.path else None,
        "forked_from": found.forked_from,
        **activity_fields(found, now_ms),
        **_number_fields(context),
        "contradictions": _contradictions(context),
    }


def agent_record(found: Agent) -> Record:
    """One object of `ctxtop agents`."""
    context = found.context
    result = found.result
    return {
        "agent_id": found.agent_id,
        "session_id": found.session_id,
        "parent_agent_id": found.parent_agent_id,
        "agent_type": found.agent_type,
        "description": found.description,
        "model": found.model,
        "status": found.status.value,
        "context_tokens": context.tokens,
        "window_tokens": context.window.tokens,
        "used_ratio": context.ratio,
        "level": context.level.value if context.level else None,
        "tool_uses": found.tool_uses,
        "progress_responses": found.progress_responses,
        "started_at": iso_time(found.started_at),
        "ended_at": iso_time(found.ended_at),
        "result_lines": result.lines if result else None,
        "result_chars": result.chars if result else None,
        "result_tokens": tokens_or_estimate(result.estimated_tokens, result.text)
        if result
        else None,
        **compliance_json.verdict_fields(found.compliance),
        "context_summary": result.text if result else found.last_message,
        **compliance_json.verdict_reason_fields(found.compliance),
        **_trigger_fields(context),
        **_forecast_fields(found.outlook),
        **_number_fields(context),
        "contradictions": _contradictions(context),
    }


def _trigger_fields(context: Context) -> Record:
    trigger = context.trigger
    return {
        "trigger_tokens": trigger.tokens if trigger else None,
        "trigger_source": trigger.source.value if trigger else None,
        "trigger_ratio": context.trigger_ratio,
        "trigger_armed": trigger.tokens is not None if trigger else None,
    }


def _forecast_fields(outlook: Outlook) -> Record:
    """Turns and minutes to the trigger, or to the window's end where that is not armed."""
    end, ahead = outlook.end, outlook.next_threshold
    return {
        "turns_left": _turns_record(end),
        "minutes_left": _minutes_record(end),
        "next_threshold": ahead
        and {
            "level": ahead.level.value,
            "threshold": ahead.threshold,
            "tokens": ahead.tokens,
            "turns_left": _turns_record(ahead.forecast),
            "minutes_left": _minutes_record(ahead.forecast),
        },
    }


def _turns_record(forecast: Forecast | None) -> Record | None:
    if forecast is None:
        return None
    return {name: int(value) for name, value in asdict(forecast.turns).items()}


def _minutes_record(forecast: Forecast | None) -> Record | None:
    if forecast is None or forecast.minutes is None:
        return None
    return {name: round(value, 1) for name, value in asdict(forecast.minutes).items()}


def _number_fields(context: Context) -> Record:
    numbers = context.token_counts
    return {
        "counter_tokens": numbers.counter,
        "hook_tokens": numbers.hook,
        "report_tokens": numbers.report,
    }


def _contradictions(context: Context) -> list[Record]:
    """Evidence that says another window or trigger than what is believed."""
    claims = [("window", claim) for claim in context.window.contradicting]
    if context.trigger:
        claims += [("trigger", claim) for claim in context.trigger.contradicting]
    return [
        {"of": what, "tokens": claim.tokens, "source": claim.source.value} for what, claim in claims
    ]


def compaction_record(row: CompactionRow) -> Record:
    """One object of `ctxtop compactions`."""
    from ....core.measure.compaction_report import (
        decode_report,
        find_thrash,  # with all that telling needs: for this command alone
    )

    told = decode_report(row.report)
    return {
        "session_id": row.session_id,
        "agent_id": row.agent_id,
        "boundary_uuid": row.uuid,
        "at": iso_time(row.at),
        "trigger": row.trigger,
        "pre_tokens": row.pre_tokens,
        "post_tokens": row.post_tokens,
        "next_answer_tokens": row.next_tokens,
        "estimated_next_tokens": row.estimated_next_tokens,
        "dropped_tokens": row.dropped_tokens,
        "duration_ms": row.duration_ms,
        "kept_messages": row.kept_messages,
        "summary": row.summary,
        "forgotten": _lost_record(told.forgotten) if told and told.is_known else None,
        "thrash": _thrash_record(find_thrash(told.refill)) if told else None,
        "cleared_results": told.cleared_results if told else None,
    }


def _lost_record(found: LostArtifacts) -> Record:
    return {
        "files": [each.path for each in found.files],
        "identifiers": [each.text for each in found.names],
        "decisions": _quote_records(found.decisions),
        "todos": _quote_records(found.todos),
        "constraints": _quote_records(found.constraints),
        "counts": asdict(found.counts),
    }


def _quote_records(listed: Sequence[Quote | Todo]) -> list[Record]:
    return [{"text": each.text, "line": each.line} for each in listed]


def _thrash_record(found: Refill | None) -> Record | None:
    if found is None:
        return None
    return {
        "turns_since_last": found.turns_since_last,
        "culprit": asdict(found.culprit) if found.culprit else None,
    }


def warning_record(found: ContextWarning) -> Record:
    """One object of `ctxtop warnings`."""
    return {
        "session_id": found.session_id,
        "agent_id": found.agent_id,
        "level": found.warning.level.value,
        "threshold": found.warning.threshold,
        "ratio": found.warning.ratio,
        "at": iso_time(found.warning.at),
        "cleared_at": iso_time(found.warning.cleared_at),
    }


def policy_record(found: Policy, notices: Iterable[PolicyNotice]) -> Record:
    """The object of `ctxtop policy`."""
    return {
        "preset": found.preset,
        "policy": [
            {
                "key": each.key.name,
                "value": to_json_value(each.value),
                "origin": each.origin.value,
                "where": each.where or None,
                "unit": each.key.unit or None,
                "description": each.key.description,
            }
            for each in found.values.values()
        ],
        "notices": [
            {
                "key": each.key or None,
                "origin": each.origin.value,
                "where": each.where,
                "what": each.what,
                "remedy": each.fix,
            }
            for each in notices
        ],
        "trust": found.trust.value if found.trust else None,
        "ignored": [
            {
                "key": each.key,
                "value": each.value_text,
                "where": each.where,
                "why": each.why,
                "remedy": each.fix,
            }
            for each in found.ignored
        ],
    }


def summary_record(row: SummaryRow, name: str) -> Record:
    """Return an object of `ctxtop summaries`; `name` is what `ctxtop diff` calls it."""
    return {
        "kind": row.kind,
        "session_id": row.session_id,
        "agent_id": row.agent_id,
        "agent_type": row.agent_type,
        "at": iso_time(row.at),
        "tokens": tokens_or_estimate(row.estimated_tokens, row.text),
        "text": row.text,
        "id": name,
    }


def composition_record(of: Session, agent_id: str | None, found: Composition) -> Record:
    """The object of `ctxtop context`."""
    return {
        "session_id": of.session_id,
        "forked_from": of.forked_from,
        "agent_id": agent_id,
        "total_tokens": found.total_tokens,
        "estimated": found.estimated,
        "source": found.source.value,
        "later_tokens": found.later_tokens,
        "read_bytes": found.read_bytes,
        "categories": [_share_record(each) for each in found.categories],
        "largest": [
            {
                "kind": item.kind,
                "what": item.name,
                "tokens": item.tokens,
                "line": item.line,
                "superseded": item.superseded,
            }
            for item in found.largest
        ],
    }


def _share_record(found: CategoryShare) -> Record:
    return {
        "name": found.name,
        "tokens": found.tokens,
        "share": found.share,
        "estimated": found.estimated,
        "parts": [_share_record(each) for each in found.parts],
    }


def totals_record(spent: Collection[UsageRow], sessions: int, cost: SessionCost | None) -> Record:
    """The object of `ctxtop totals`, without the answers that only `progress` lines hold."""
    return {**_sum_fields(spent), "sessions": sessions, **cost_fields(cost)}


def sums_record(rows: Collection[UsageRow], cost: SessionCost | None) -> Record:
    """Tokens and answers of several sessions, and what they make in dollars."""
    return {**_sum_fields(rows), **cost_fields(cost)}


def _sum_fields(rows: Collection[UsageRow]) -> Record:
    return {
        "input_tokens": sum(row.input_tokens for row in rows),
        "cache_creation_tokens": sum(row.cache_creation_tokens for row in rows),
        "cache_read_tokens": sum(row.cache_read_tokens for row in rows),
        "output_tokens": sum(row.output_tokens for row in rows),
        "responses": sum(row.responses for row in rows),
    }
