"""What programs read: every key of the contract, null where it does not apply."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import asdict

from ...collectors.own_logs.logs import logs_of
from ...core.policy.kinds import plain
from ...core.store import agent_queries, log_queries, queries
from ...core.tokens import count_of
from . import activity_json, compliance_json
from .times import time_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from ...core.activity import Cost
    from ...core.agents import Agent
    from ...core.composition import Composition, Share
    from ...core.context import Context
    from ...core.forecast import Forecast
    from ...core.outlook import Outlook
    from ...core.policy.policy import Policy, PolicyNotice
    from ...core.sessions import Session
    from ...core.store.rows import CompactionRow, SpentRow, SummaryRow
    from ...core.summaries.artifacts import Quote
    from ...core.summaries.forgotten import Forgotten
    from ...core.summaries.todos import Todo
    from ...core.thrash import Refill
    from ...core.warning_log import ContextWarning
    from .checks import Check
    from .reading import Reading

Record = dict[str, Any]

# Below 0x20 json escapes by itself; these a terminal could obey as well.
_UNSAFE: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def dumps(value: object, encoding: str) -> str:
    """Write JSON for people's eyes and for an output of this encoding."""
    is_utf8 = encoding.lower().replace("-", "") == "utf8"
    text = (_quickly(value) if is_utf8 else None) or json.dumps(
        value, ensure_ascii=not is_utf8, indent=2
    )
    return text if _is_safe(text) else "\n".join(map(_made_safe, text.split("\n")))


def _is_safe(text: str) -> bool:
    # Both tests are many times faster than the expression, and most text passes them.
    return text.isascii() and "\x7f" not in text


def _made_safe(line: str) -> str:
    return line if _is_safe(line) else _UNSAFE.sub(_escaped, line)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def _quickly(value: object) -> str | None:
    """Write JSON as json.dumps does, but many times faster; None where a name is no Unicode."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except UnicodeEncodeError:
        # A file's name may be any bytes; json escapes what stands for them.
        return None


def session(found: Session, projects: Path, now_ms: int) -> Record:
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
        **_trigger(context),
        **_outlook(found.outlook),
        "compactions": found.compactions,
        "last_compaction_at": time_of(found.last_compaction_at),
        "agents": found.agents,
        "agents_noncompliant": found.agents_noncompliant,
        "input_tokens": own.input_tokens if own else 0,
        "cache_creation_tokens": own.cache_creation_tokens if own else 0,
        "cache_read_tokens": own.cache_read_tokens if own else 0,
        "output_tokens": own.output_tokens if own else 0,
        "started_at": time_of(found.started_at),
        "last_activity_at": time_of(found.last_activity_at),
        "transcript_path": f"{projects}/{found.path}" if found.path else None,
        "forked_from": found.forked_from,
        **activity_json.of_session(found, now_ms),
        **_numbers(context),
        "contradictions": _contradictions(context),
    }


def agent(found: Agent) -> Record:
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
        "started_at": time_of(found.started_at),
        "ended_at": time_of(found.ended_at),
        "result_lines": result.lines if result else None,
        "result_chars": result.chars if result else None,
        "result_tokens": count_of(result.estimated_tokens, result.text) if result else None,
        **compliance_json.of_agent(found.compliance),
        "context_summary": result.text if result else found.last_message,
        **compliance_json.reasons_of(found.compliance),
        **_trigger(context),
        **_outlook(found.outlook),
        **_numbers(context),
        "contradictions": _contradictions(context),
    }


def _trigger(context: Context) -> Record:
    trigger = context.trigger
    return {
        "trigger_tokens": trigger.tokens if trigger else None,
        "trigger_source": trigger.source.value if trigger else None,
        "trigger_ratio": context.trigger_ratio,
        "trigger_armed": trigger.tokens is not None if trigger else None,
    }


def _outlook(outlook: Outlook) -> Record:
    """Turns and minutes to the trigger, or to the window's end where that is not armed."""
    end, ahead = outlook.end, outlook.next_threshold
    return {
        "turns_left": _turns(end),
        "minutes_left": _minutes(end),
        "next_threshold": ahead
        and {
            "level": ahead.level.value,
            "threshold": ahead.threshold,
            "tokens": ahead.tokens,
            "turns_left": _turns(ahead.forecast),
            "minutes_left": _minutes(ahead.forecast),
        },
    }


def _turns(forecast: Forecast | None) -> Record | None:
    if forecast is None:
        return None
    return {name: int(value) for name, value in asdict(forecast.turns).items()}


def _minutes(forecast: Forecast | None) -> Record | None:
    if forecast is None or forecast.minutes is None:
        return None
    return {name: round(value, 1) for name, value in asdict(forecast.minutes).items()}


def _numbers(context: Context) -> Record:
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


def compaction(row: CompactionRow) -> Record:
    """One object of `ctxtop compactions`."""
    from ...core.thrash import thrash  # with all that telling needs: for this command alone
    from ...core.told import unpack

    told = unpack(row.report)
    return {
        "session_id": row.session_id,
        "agent_id": row.agent_id,
        "boundary_uuid": row.uuid,
        "at": time_of(row.at),
        "trigger": row.trigger,
        "pre_tokens": row.pre_tokens,
        "post_tokens": row.post_tokens,
        "next_answer_tokens": row.next_tokens,
        "estimated_next_tokens": row.estimated_next_tokens,
        "dropped_tokens": row.dropped_tokens,
        "duration_ms": row.duration_ms,
        "kept_messages": row.kept_messages,
        "summary": row.summary,
        "forgotten": _forgotten(told.forgotten) if told and told.is_known else None,
        "thrash": _thrash(thrash(told.refill)) if told else None,
        "cleared_results": told.cleared_results if told else None,
    }


def _forgotten(found: Forgotten) -> Record:
    return {
        "files": [each.path for each in found.files],
        "identifiers": [each.text for each in found.identifiers],
        "decisions": _said(found.decisions),
        "todos": _said(found.todos),
        "constraints": _said(found.constraints),
        "counts": asdict(found.counts),
    }


def _said(listed: Sequence[Quote | Todo]) -> list[Record]:
    return [{"text": each.text, "line": each.line} for each in listed]


def _thrash(found: Refill | None) -> Record | None:
    if found is None:
        return None
    return {
        "turns_since_last": found.turns_since_last,
        "culprit": asdict(found.culprit) if found.culprit else None,
    }


def warning(found: ContextWarning) -> Record:
    """One object of `ctxtop warnings`."""
    return {
        "session_id": found.session_id,
        "agent_id": found.agent_id,
        "level": found.warning.level.value,
        "threshold": found.warning.threshold,
        "ratio": found.warning.ratio,
        "at": time_of(found.warning.at),
        "cleared_at": time_of(found.warning.cleared_at),
    }


def policy(found: Policy, notices: Iterable[PolicyNotice]) -> Record:
    """The object of `ctxtop policy`."""
    return {
        "preset": found.preset,
        "policy": [
            {
                "key": each.key.name,
                "value": plain(each.value),
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


def summary(row: SummaryRow, name: str) -> Record:
    """One object of `ctxtop summaries`; `named` is what `ctxtop diff` calls it."""
    return {
        "kind": row.kind,
        "session_id": row.session_id,
        "agent_id": row.agent_id,
        "agent_type": row.agent_type,
        "at": time_of(row.at),
        "tokens": count_of(row.estimated_tokens, row.text),
        "text": row.text,
        "id": name,
    }


def composition(of: Session, agent_id: str | None, found: Composition) -> Record:
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
        "categories": [_share(each) for each in found.categories],
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


def _share(found: Share) -> Record:
    return {
        "name": found.name,
        "tokens": found.tokens,
        "share": found.share,
        "estimated": found.estimated,
        "parts": [_share(each) for each in found.parts],
    }


def totals(spent: Collection[SpentRow], sessions: int, cost: Cost | None) -> Record:
    """The object of `ctxtop totals`, without the answers that only `progress` lines hold."""
    return {**_sums(spent), "sessions": sessions, **activity_json.of_cost(cost)}


def sums(rows: Collection[SpentRow], cost: Cost | None) -> Record:
    """Tokens and answers of several sessions, and what they make in dollars."""
    return {**_sums(rows), **activity_json.of_cost(cost)}


def _sums(rows: Collection[SpentRow]) -> Record:
    return {
        "input_tokens": sum(row.input_tokens for row in rows),
        "cache_creation_tokens": sum(row.cache_creation_tokens for row in rows),
        "cache_read_tokens": sum(row.cache_read_tokens for row in rows),
        "output_tokens": sum(row.output_tokens for row in rows),
        "responses": sum(row.responses for row in rows),
    }


def scanned(reading: Reading, seconds: float) -> Record:
    """The object of `ctxtop scan`: what the whole store holds."""
    counts = queries.counts(reading.db)
    return {
        "files": counts["files"],
        "bytes": counts["bytes"],
        "lines": counts["lines"],
        "bad_lines": counts["bad_lines"],
        "unknown_types": queries.unknown_types(reading.db),
        "sessions": counts["sessions"],
        "agents": agent_queries.count(reading.db),
        "seconds": round(seconds, 3),
    }


def set_aside(reading: Reading) -> Record:
    """What `ctxtop scan --bad` adds: every line and every place that could not be read."""
    projects, logs = reading.places.folder.projects, logs_of(reading.places.store)
    return {
        "bad": [
            {"file": str(folder / name), "offset": offset, "length": length, "reason": reason}
            for folder, lines in (
                (projects, queries.bad_lines(reading.db)),
                (logs, log_queries.bad_lines(reading.db)),
            )
            for name, offset, length, reason in lines
        ],
        "troubles": [
            {"place": trouble.where, "what": trouble.what, "remedy": trouble.fix}
            for trouble in queries.troubles(reading.db)
        ],
    }


def check(found: Check) -> Record:
    """One check of `ctxtop doctor`."""
    return {"name": found.name, "ok": found.ok, "detail": found.detail, "fix": found.fix}
