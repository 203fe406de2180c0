"""`ctxtop context`, `timeline`, `evidence`, `lens` and `inject`: commands about one session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from ...collectors.collector_thread import Collector
from ...core.store.queries import session_queries
from ...core.summaries.compaction_report import CompactionReport, RetainedAndLost, decode_report
from ..base.command_errors import RefusedError
from ..text import compaction_text
from ..text.tables import Column, TextColumn
from . import printing
from .cache_command import read_ledger
from .command_options import options_of, store_command
from .command_store import StoreSnapshot, open_snapshot
from .json_records import (
    COUNT_KEYS,
    Record,
    artifacts_record,
    compaction_quality_fields,
    composition_record,
    counting_fields,
    record_of,
    records_of,
)
from .result_tables import composition_tables

if TYPE_CHECKING:
    from ...core.injection.context_selection import Injection, InjectionLimits
    from ...core.measure.evidence import AssessedClaim
    from ...core.measure.timeline import Timeline
    from ...core.model.context import Context
    from ...core.model.session import Session
    from ...core.model.stored_rows import CompactionRow


_agent_option: Final = click.option(
    "--agent", metavar="ID", help="Only this agent (an id or its start)."
)


@store_command("context")
@click.argument("session")
@_agent_option
def composition(context: click.Context, *, session: str, agent: str | None) -> int:
    """Show what fills the context of a session or an agent.

    Also lists its largest items and marks oversized results. SESSION is an id or its start.
    """
    from ...collectors.claude_code.transcript_details import (
        TranscriptUnavailableError,
        read_composition,
    )
    from ...core.actions.session_access import archived_reason

    with open_snapshot(options_of(context)) as snapshot:
        session_id = snapshot.session_id(session)
        agent_id = snapshot.agent_id(session_id, agent)
        (of,) = snapshot.sessions(session_id)
        policy = snapshot.policies.for_project(of.project_root)
        window = _context_of(snapshot, session_id, agent_id).window.tokens
        try:
            composed = read_composition(
                snapshot.db,
                snapshot.places.folder.projects,
                session_id,
                agent_id,
                counting=of.context.counting,
                warn_result_chars=policy.count("tools.warn_result_chars"),
            )
        except TranscriptUnavailableError as error:
            raise RefusedError(archived_reason(of) or str(error)) from error
        return printing.print_result(
            context,
            composition_record(of, agent_id, composed) | {"window_tokens": window},
            lambda: composition_tables(composed, window),
        )


@store_command()
@click.argument("session")
@_agent_option
def timeline(context: click.Context, *, session: str, agent: str | None) -> int:
    """Draw the context of a session or an agent over its turns.

    Also lists its events. SESSION is an id or its start.
    """
    with open_snapshot(options_of(context)) as snapshot:
        session_id = snapshot.session_id(session)
        agent_id = snapshot.agent_id(session_id, agent)
        read = _read_timeline(snapshot, session_id, agent_id)
        record = {"session_id": session_id, "agent_id": agent_id, **_timeline_fields(read)}
        return printing.print_result(context, record, lambda: _timeline_lines(read))


def _context_of(snapshot: StoreSnapshot, session_id: str, agent_id: str | None) -> Context:
    (session,) = snapshot.sessions(session_id)
    agents = snapshot.agents(session_id) if agent_id else []
    return next((each.context for each in agents if each.agent_id == agent_id), session.context)


def _read_timeline(snapshot: StoreSnapshot, session_id: str, agent_id: str | None) -> Timeline:
    from ...core.measure.timeline import with_events
    from ...core.readers.timeline_reader import read_timeline
    from ..text.cache_text import miss_events

    agents = snapshot.agents(session_id)
    failed = frozenset(
        each.agent_id for each in agents if each.compliance and each.compliance.failed
    )
    (session,) = snapshot.sessions(session_id)
    context = _context_of(snapshot, session_id, agent_id)
    read = read_timeline(snapshot.db, (session_id, agent_id), context, failed)
    return with_events(read, miss_events(read, read_ledger(snapshot, session), agent_id))


def _timeline_fields(read: Timeline) -> Record:
    return {
        "window_tokens": read.window,
        "limit_tokens": read.limit,
        "trigger_tokens": read.trigger,
        "thresholds": records_of(read.thresholds, "level ratio=at"),
        "turns": [_turn_record(read, place) for place in range(len(read.turns))],
        "compactions": records_of(
            read.compactions,
            "turn=turns_before at trigger pre_tokens post_tokens next_answer_tokens=next_tokens"
            " estimated_next_tokens boundary_uuid=uuid",
        ),
        "marks": records_of(read.events, "turn kind at what level saved_tokens"),
    }


def _turn_record(read: Timeline, place: int) -> Record:
    turn, level = read.turns[place], read.level(place)
    return {
        **record_of(turn, "at model context_tokens=tokens"),
        "used_ratio": read.ratio(place),
        "level": level.value if level else None,
        "growth_tokens": read.growth(place),
        "estimated": bool(turn.is_estimate),
        **record_of(turn, "output_tokens tool_uses=tool_calls message_id offset"),
    }


PICTURE_LINES: Final = 14  # of the terminal: the picture and the table below it fit on a screen


def _timeline_lines(read: Timeline) -> list[str]:
    from ..entities.timeline_picture import TimelineViewport, timeline_lines
    from ..entities.timeline_text import timeline_events

    if not read.turns:
        return ["no answers yet: the timeline begins with the first one"]
    viewport = TimelineViewport().with_count(len(read.turns))
    picture = timeline_lines(read, viewport, printing.terminal_width(), PICTURE_LINES)
    columns: list[TextColumn[Sequence[str]]] = [
        Column("turn", itemgetter(0), right=True),
        Column("time", itemgetter(1), priority=1),
        Column("tokens", itemgetter(2), right=True),
        Column("used", itemgetter(3), right=True),
        Column("what happened", itemgetter(4), flexible=True),
    ]
    events = printing.draw_table(columns, timeline_events(read))
    return [*(line.plain.rstrip() for line in picture), "", *events]


@store_command()
@click.argument("session")
def evidence(context: click.Context, *, session: str) -> int:
    """Show the sources of a session's numbers.

    Also shows what contradicts them. SESSION is an id or its start.
    """
    from ...core.readers.fleet_reader import read_assessed_claims

    with open_snapshot(options_of(context)) as snapshot:
        of = snapshot.session(session)
        claims = read_assessed_claims(snapshot.db, of.session_id, snapshot.policies)
        record = {
            **record_of(of, "session_id context_tokens=context.tokens context_state=context.state"),
            **counting_fields(of.context.counting),
            "spent_tokens": of.spent_tokens,
            **record_of(of.context.token_counts, COUNT_KEYS),
            "claims": records_of(
                claims,
                "of=subject tokens=claim.tokens source=claim.source standing=status"
                " sureness=claim.source.certainty detail=claim.detail",
            ),
        }
        return printing.print_result(context, record, lambda: _evidence_table(of, claims))


def _evidence_table(session: Session, claims: tuple[AssessedClaim, ...]) -> list[str]:
    from ..entities.context_breakdown import NumberSource, number_sources, status_sign

    columns: list[TextColumn[NumberSource]] = [
        Column("", lambda source: status_sign(source.status)[0]),
        Column("what", lambda source: source.name),
        Column("tokens", lambda source: source.value, right=True),
        Column("certainty", lambda source: source.certainty, priority=1),
        Column("how ctxtop knows", lambda source: source.source, flexible=True),
    ]
    return printing.draw_table(
        columns, number_sources(session.context, claims, session.spent_tokens)
    )


@store_command()
@click.argument("session")
@click.option(
    "--boundary", metavar="UUID", help="The compaction (a uuid or its start).  [default: newest]"
)
@click.option("--prompt", is_flag=True, help="Print only what was lost, as a prompt.")
def lens(context: click.Context, *, session: str, boundary: str | None, prompt: bool) -> int:
    """Show what a compaction kept and lost.

    SESSION is an id or its start.
    """
    with open_snapshot(options_of(context), Collector.scan_and_report_compactions) as snapshot:
        row = _find_compaction(snapshot, session, boundary or "")
        report, content = decode_report(row.report), _read_retained_and_lost(snapshot, row)
        restoring = compaction_text.forgotten_prompt(report.forgotten) if report else ""
        known = content if content and content.is_known else None
        target = snapshot.policies.common.target_reduction
        record = {
            **record_of(
                row,
                "session_id agent_id boundary_uuid=uuid at pre_tokens post_tokens"
                " next_answer_tokens=next_tokens estimated_next_tokens",
            ),
            "kept": artifacts_record(known.retained) if known else None,
            "forgotten": artifacts_record(known.lost) if known else None,
            "summary": row.summary,
            "prompt": restoring or None,
            **compaction_quality_fields(row, report, target),
        }
        return printing.print_result(
            context,
            record,
            lambda: restoring.splitlines() if prompt else _lens_lines(row, report, content, target),
        )


def _find_compaction(snapshot: StoreSnapshot, session: str, start: str) -> CompactionRow:
    session_id = snapshot.session_id(session)
    rows = session_queries.compactions(snapshot.db, session_id)
    row = next((row for row in rows if row.uuid.startswith(start)), None)
    if row is None:
        raise RefusedError(
            f"session {session_id} has no such compaction;"
            f" `ctxtop compactions --session {session_id}` lists them"
        )
    return row


def _read_retained_and_lost(snapshot: StoreSnapshot, row: CompactionRow) -> RetainedAndLost | None:
    from ...collectors.claude_code.transcripts.replaced_content import read_retained_and_lost

    try:
        return read_retained_and_lost(snapshot.db, snapshot.places.folder.projects, row)
    except OSError as error:
        raise RefusedError(f"the transcript cannot be read: {error.strerror or error}") from error


def _lens_lines(
    row: CompactionRow,
    report: CompactionReport | None,
    content: RetainedAndLost | None,
    target: tuple[float, float],
) -> list[str]:
    from ..entities.compactions import (
        ReportedCompaction,
        compaction_headline,
        group_compaction_items,
        is_content_known,
        retained_and_lost_listing,
    )

    is_known = is_content_known(report, content)
    listing = retained_and_lost_listing(
        group_compaction_items(report, content, ()),
        printing.terminal_width(),
        "nothing was lost" if is_known else compaction_text.CONTENT_UNKNOWN,
    )
    lines = [each.content.plain.rstrip() for each in listing.rows] or [listing.empty]
    compaction = ReportedCompaction(row, report, target=target)
    return [compaction_headline(compaction), listing.head.plain, *lines]


CountTokens = Callable[[str], int]


@store_command()
@click.option(
    "--session",
    metavar="ID",
    required=True,
    help="The session that it starts in (an id or its start).",
)
@click.option("--agent-type", metavar="NAME", required=True, help="The type of the agent.")
@click.option("--prompt", metavar="TEXT", default="", help="Its task; a line `tags: …` counts.")
@click.option(
    "--budget",
    metavar="TOKENS",
    type=click.IntRange(min=0),
    help="Maximum size in tokens.  [default: injection.budget]",
)
def inject(
    context: click.Context, *, session: str, agent_type: str, prompt: str, budget: int | None
) -> int:
    """Show what a starting agent would be given, and why.

    Also shows what was left out. The hook adds this at SubagentStart if installed with `inject`.
    """
    with open_snapshot(options_of(context), Collector.scan_and_count_tokens) as snapshot:
        injection, limits, count = _preview(snapshot, session, agent_type, prompt, budget)
        # `tokens` are estimated, `at_most_tokens` is a bound.
        record = {
            "context": injection.context,
            "tokens": count(injection.context),
            "at_most_tokens": injection.token_bound,
            "budget_tokens": limits.budget,
            "entries": [
                {
                    **record_of(each, "stage session_id agent_id reason"),
                    "tokens": count(each.text),
                    "at_most_tokens": each.token_bound,
                }
                for each in injection.entries
            ],
            "excluded": records_of(injection.excluded, "session_id agent_id agent_type reason"),
        }
        return printing.print_result(context, record, lambda: _injection_lines(injection, count))


MAX_LEFT_OUT: Final = 30  # lines of what was left out; a project has hundreds of earlier results


def _injection_lines(injection: Injection, count: CountTokens) -> list[str]:
    if not injection.context:
        lines = ["nothing would be injected"]
    else:
        lines = [*injection.context.split("\n"), ""]
        lines.append(f"≈{count(injection.context):,} tokens, {injection.token_bound:,} at most")
    if injection.excluded:
        lines += ["", "left out"]
        lines += [
            f"  {each.agent_type} {each.agent_id} of {each.session_id[:8]}: {each.reason}"
            for each in injection.excluded[:MAX_LEFT_OUT]
        ]
        more = len(injection.excluded) - MAX_LEFT_OUT
        lines += [f"  … {more} more; --json has all"] if more > 0 else []
    return lines


def _preview(
    snapshot: StoreSnapshot, start: str, agent_type: str, prompt: str, budget: int | None
) -> tuple[Injection, InjectionLimits, CountTokens]:
    from ...collectors.claude_code.injection_sources import (
        InjectionRequest,
        gather_injection_sources,
    )
    from ...core.injection.context_selection import injection_limits, select_context
    from ...core.measure.token_estimate import Estimator
    from ...core.transcript.sanitize import sanitize_title

    session = snapshot.session(start)
    limits = injection_limits(snapshot.policies.acting.for_project(session.project_root))
    if limits is None:
        raise RefusedError("injection is disabled (disabled_modules)")
    if budget is not None:
        limits = replace(limits, budget=budget)
    request = InjectionRequest(
        snapshot.places.folder.projects / session.path,
        sanitize_title(agent_type),
        prompt=prompt.encode("utf-8", "replace").decode(),
        project_root=Path(session.project_root) if session.project_root else None,
    )
    estimator = Estimator({})
    injection = select_context(*gather_injection_sources(request, snapshot.db, limits), limits)
    return injection, limits, lambda text: estimator.tokens(text, session.model)
