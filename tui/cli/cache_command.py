"""`ctxtop cache`: what sessions wrote to the prompt cache again, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from ...core.measure.prompt_cache.cache_ledger import (
    CacheLedger,
    CacheMiss,
    CacheTotals,
    add_up,
    ratio,
    rewrite_factor,
    totals_by,
    totals_by_cause,
)
from ...core.transcript.filter_language import TIME_CHOICES, parse_time
from ..text import cache_text, formats
from ..text.formats import iso_time
from .command_options import options_of, store_command
from .command_store import StoreSnapshot, open_snapshot
from .json_records import Record, record_of, records_of
from .printing import draw_table, paint, print_result

if TYPE_CHECKING:
    from ...core.model.session import Session

MAX_DEAREST: Final = 10  # misses of all sessions below the totals; --json has all


@store_command("cache")
@click.argument("session", required=False)
@click.option("--since", metavar="TIME", help="Only requests since then: today, 24h, 7d, a date.")
def cache(context: click.Context, *, session: str | None, since: str | None) -> int:
    """Show what was written to the prompt cache again, and why.

    With SESSION (an id or its start), lists each miss. Without, adds them up by cause, project,
    model and client version. ≈ marks what is inferred and what is priced by list prices.
    """
    with open_snapshot(options_of(context)) as snapshot:
        since_ms = _parse_since(context, since, snapshot.now_ms)
        if session is None:
            return _show_all(context, snapshot, since_ms)
        return _show_session(context, snapshot, snapshot.session(session), since_ms)


def _parse_since(context: click.Context, since: str | None, now_ms: int) -> int | None:
    if since is None:
        return None
    at = parse_time(since, now_ms)
    if at is None:
        choices = ", ".join(TIME_CHOICES[:-1])
        raise click.UsageError(
            f"--since {since} is not valid: use {choices} or {TIME_CHOICES[-1]}", context
        )
    return at


def read_ledger(
    snapshot: StoreSnapshot, session: Session | None = None, since_ms: int | None = None
) -> CacheLedger:
    """Read the ledger of a session at its project's prices, or of all at the common ones."""
    from ...collectors.claude_code.cache_ledger_reader import read_cache_ledger

    policies = snapshot.policies
    policy = policies.for_project(session.project_root) if session else policies.common
    return read_cache_ledger(
        snapshot.db,
        snapshot.places.folder.projects,
        snapshot.places.store,
        policy.strings_by_name("price"),
        session_ids=[session.session_id] if session else None,
        since_ms=since_ms,
    )


def _show_session(
    context: click.Context, snapshot: StoreSnapshot, session: Session, since_ms: int | None
) -> int:
    ledger = read_ledger(snapshot, session, since_ms)
    record = {
        "session_id": session.session_id,
        "since": iso_time(since_ms),
        **_warm_fields(session, snapshot.now_ms),
        "totals": totals_record(add_up(ledger)),
        "rewrite_factor": rewrite_factor(ledger),
        "causes": _cause_records(ledger),
        "misses": miss_records(ledger),
        "requests": records_of(
            ledger.requests,
            "at agent_id model client_version input_tokens read_tokens written_5m_tokens"
            " written_1h_tokens",
        ),
    }

    def lines() -> list[str]:
        head = cache_text.warm_texts(session, snapshot.now_ms)[0]
        factor = cache_text.rewrite_factor_text(rewrite_factor(ledger))
        drawn = [head, *cache_text.totals_lines(add_up(ledger)), *([factor] if factor else [])]
        return [*drawn, "", *_miss_table(ledger.misses)]

    return print_result(context, record, lines)


def _warm_fields(session: Session, now_ms: int) -> Record:
    return {
        "warm": session.cache.is_warm(now_ms),
        **record_of(
            session.cache, "expires_at expires_estimated=estimated cached_tokens=tokens lifetime_ms"
        ),
    }


def _show_all(context: click.Context, snapshot: StoreSnapshot, since_ms: int | None) -> int:
    ledger = read_ledger(snapshot, None, since_ms)
    projects = {each.session_id: each.project for each in snapshot.sessions()}
    groups = group_totals(ledger, projects)
    record = {
        "since": iso_time(since_ms),
        "totals": totals_record(add_up(ledger)),
        "causes": _cause_records(ledger),
        **{
            f"{header}s": [{header: name or None, **totals_record(of)} for name, of in by.items()]
            for header, by in groups.items()
        },
        "misses": miss_records(ledger),
    }
    return print_result(
        context, record, lambda: _all_lines(ledger, groups), "no requests with a cache yet"
    )


def group_totals(
    ledger: CacheLedger, projects: Mapping[str, str]
) -> dict[str, dict[str, CacheTotals]]:
    return {
        "project": totals_by(ledger, lambda of: projects.get(of.session_id, "")),
        "model": totals_by(ledger, lambda of: of.model),
        "client_version": totals_by(ledger, lambda of: of.client_version or ""),
    }


def _all_lines(ledger: CacheLedger, groups: Mapping[str, Mapping[str, CacheTotals]]) -> list[str]:
    if not ledger.requests:
        return []
    total = add_up(ledger)
    causes = {
        cache_text.cause_name(*key): totals for key, totals in totals_by_cause(ledger).items()
    }
    lines = [*cache_text.totals_lines(total)]
    lines += _totals_table("cause", causes, total, with_ratio=False)
    groups = {**groups, "model": totals_by(ledger, lambda of: formats.model_name(of.model))}
    for header, totals in groups.items():
        named = {name or formats.NOTHING: of for name, of in totals.items()}
        lines += _totals_table(header.replace("_", " "), named, total, with_ratio=True)
    dearest = sorted(ledger.misses, key=lambda miss: -(miss.cost_usd or 0.0))[:MAX_DEAREST]
    if dearest:
        lines += ["", paint("dearest misses", "bold"), *_miss_table(dearest)]
    return lines


def _totals_table(
    header: str, by: Mapping[str, CacheTotals], total: CacheTotals, *, with_ratio: bool
) -> list[str]:
    if not by:
        return []
    rows = [cache_text.NamedTotals(name, of, total.written_tokens) for name, of in by.items()]
    return ["", *draw_table(cache_text.totals_columns(header, with_ratio=with_ratio), rows)]


def _miss_table(misses: Sequence[CacheMiss]) -> list[str]:
    if not misses:
        return ["no misses"]
    return draw_table(cache_text.miss_columns(misses), misses)


def cache_totals_record(ledger: CacheLedger) -> Record:
    return {**totals_record(add_up(ledger)), "causes": _cause_records(ledger)}


def totals_record(totals: CacheTotals) -> Record:
    return record_of(
        totals,
        "requests read_tokens written_tokens written_5m_tokens written_1h_tokens input_tokens"
        " read_ratio misses rewritten_tokens rewritten_ratio cost_usd extra_usd unpriced",
    )


def _cause_records(ledger: CacheLedger) -> list[Record]:
    written = add_up(ledger).written_tokens
    return [
        {
            "cause": cause.value,
            "cause_source": source.value,
            "cause_text": cache_text.cause_name(cause, source),
            **record_of(totals, "misses rewritten_tokens cost_usd extra_usd unpriced"),
            "share_of_writes": ratio(totals.rewritten_tokens, written),
        }
        for (cause, source), totals in totals_by_cause(ledger).items()
    ]


def miss_records(ledger: CacheLedger) -> list[Record]:
    return [
        {
            **record_of(
                miss,
                "at=request.at session_id=request.session_id agent_id=request.agent_id"
                " model=request.model client_version=request.client_version cause"
                " cause_source=source client_reason=request.reason"
                " client_missed_tokens=request.missed_tokens inferred_cause=inferred",
            ),
            "cause_text": cache_text.cause_text(miss),
            **record_of(
                miss, "read_end=rewrite.read_end.part read_end_request=rewrite.read_end.request"
            ),
            "changed": records_of(miss.changes, "kind what"),
            **record_of(
                miss,
                "rewritten_tokens=tokens read_tokens=request.cache_read_tokens"
                " written_tokens=request.cache_creation_tokens cost_usd extra_usd"
                " idle_ms=rewrite.idle_ms lifetime_ms=rewrite.lifetime_ms",
            ),
        }
        for miss in ledger.misses
    ]
