"""The records of a store snapshot, as the commands print them and as an export holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from ....collectors.claude_code.own_files import own_log_folder
from ....core.measure.activity import estimate_cost
from ....core.measure.compaction_report import decode_report, steering_outcomes
from ....core.store.log_records import AnswerItemRecord
from ....core.store.queries import activity_queries, agent_queries, log_queries, session_queries
from ....core.store.queries.agent_queries import answer_items
from ....core.store.queries.query_rows import CompactionRow, UsageRow
from . import json_records
from .json_records import Record

if TYPE_CHECKING:
    from ....core.model.agent import Agent
    from ....core.model.session import Session
    from ..command_store import StoreSnapshot


def steering_records(
    rows: Sequence[CompactionRow], asked: Sequence[AnswerItemRecord]
) -> list[list[Record] | None]:
    """Make the value of `steered` for each compaction, None where nothing was asked.

    The rows stand newest first.
    """
    found = steering_outcomes([(row, decode_report(row.report)) for row in rows], asked)
    return [[asdict(item) for item in items] or None for items in found]


def spent_by_session(found: StoreSnapshot) -> dict[str, UsageRow]:
    """Return what each session's answers spent; each answer counts once."""
    return activity_queries.usage_by_session(activity_queries.model_usage(found.db))


def session_records(found: StoreSnapshot, listed: Sequence[Session]) -> list[Record]:
    """Return the JSON records of `ctxtop sessions`."""
    projects = found.places.folder.projects
    return [json_records.session_record(each, projects, found.now_ms) for each in listed]


def agent_records(
    found: StoreSnapshot, listed: Sequence[Agent], session_id: str | None
) -> list[Record]:
    """Return the JSON records of `ctxtop agents`."""
    injected: dict[tuple[str, str | None], list[Record]] = {}
    for row in answer_items(found.db, "inject", session_id):
        if row.agent_id:
            injected.setdefault((row.session_id, row.agent_id), []).append(_injected_record(row))
    return [
        json_records.agent_record(agent)
        | {"injected": injected.get((agent.session_id, agent.agent_id))}
        for agent in listed
    ]


def _injected_record(row: AnswerItemRecord) -> Record:
    return {
        "stage": row.kind,
        "session_id": row.from_session_id,
        "agent_id": row.from_agent_id,
        "reason": row.text,
        "at_most_tokens": row.tokens,
    }


def compaction_records(
    found: StoreSnapshot, listed: Sequence[CompactionRow], session_id: str | None
) -> list[Record]:
    """Return the JSON records of `ctxtop compactions`."""
    asked = steering_records(listed, answer_items(found.db, "steer", session_id))
    return [
        json_records.compaction_record(each) | {"steered": items}
        for each, items in zip(listed, asked, strict=True)
    ]


def totals_of_snapshot(found: StoreSnapshot) -> Record:
    """Return the JSON record of `ctxtop totals`."""
    prices = found.policies.common.strings_by_name("price")
    spent = activity_queries.model_usage(found.db)
    progress = activity_queries.progress_model_usage(found.db)
    every = [*spent, *progress]
    sessions = session_queries.store_counts(found.db)["sessions"]
    return {
        **json_records.totals_record(spent, sessions, estimate_cost(spent, prices)),
        "agent_progress": json_records.sums_record(progress, estimate_cost(progress, prices)),
        "with_agent_progress": json_records.sums_record(every, estimate_cost(every, prices)),
    }


def scan_record(reading: StoreSnapshot, seconds: float) -> Record:
    """The object of `ctxtop scan`: what the whole store holds."""
    counts = session_queries.store_counts(reading.db)
    return {
        "files": counts["files"],
        "bytes": counts["bytes"],
        "lines": counts["lines"],
        "bad_lines": counts["bad_lines"],
        "unknown_types": session_queries.unknown_types(reading.db),
        "sessions": counts["sessions"],
        "agents": agent_queries.count_agents(reading.db),
        "seconds": round(seconds, 3),
    }


def unread_records(reading: StoreSnapshot) -> Record:
    """What `ctxtop scan --bad` adds: every line and every place that could not be read."""
    projects, logs = reading.places.folder.projects, own_log_folder(reading.places.store)
    return {
        "bad": [
            {"file": str(folder / name), "offset": offset, "length": length, "reason": reason}
            for folder, lines in (
                (projects, session_queries.bad_lines(reading.db)),
                (logs, log_queries.bad_log_lines(reading.db)),
            )
            for name, offset, length, reason in lines
        ],
        "troubles": [
            {"place": trouble.where, "what": trouble.what, "remedy": trouble.fix}
            for trouble in session_queries.problems(reading.db)
        ],
    }
