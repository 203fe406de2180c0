"""`ctxtop timeline`, `sources`, `lens` and `inject`: commands about one session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from ...collectors.claude_code.collector_thread import Collector
from ...core.measure.evidence import AssessedClaim
from ...core.model.session import Session
from ...core.store.queries.query_rows import CompactionRow
from ..tables import Column, TextColumn
from ..text.formats import iso_time
from .command_errors import RefusedError
from .command_options import options_of, store_options
from .command_store import StoreSnapshot, open_snapshot
from .output.printing import print_result

if TYPE_CHECKING:
    from ...core.injection.context_selection import Injection, InjectionLimits
    from ...core.measure.compaction_report import CompactionReport, RetainedAndLost
    from ...core.measure.timeline import Timeline
    from ...core.summaries.artifacts import Artifacts


PICTURE_LINES: Final = 14  # of the terminal: the picture and the table below it fit on a screen
Record = dict[str, Any]


@click.command()
@store_options
@click.argument("session")
@click.option("--agent", metavar="ID", help="Of this agent; the start of its id is enough.")
@click.pass_context
def timeline(context: click.Context, *, session: str, agent: str | None) -> int:
    """Draw a session's context over its turns, or an agent's, and list what happened.

    The start of SESSION's id is enough.
    """
    with open_snapshot(options_of(context)) as found:
        session_id = found.session_id(session) or session
        agent_id = found.agent_id(session_id, agent)
        read = _read_timeline(found, session_id, agent_id)
        return print_result(
            context,
            timeline_record(session_id, agent_id, read),
            lambda: timeline_table(read),
        )


@click.command()
@store_options
@click.argument("session")
@click.pass_context
def evidence(context: click.Context, *, session: str) -> int:
    """Say why a session's numbers, its window and its trigger are believed, and what says no.

    The start of SESSION's id is enough.
    """
    from ...core.store.readers.fleet_reader import read_assessed_claims

    with open_snapshot(options_of(context)) as found:
        session_id = found.session_id(session) or session
        (of,) = found.sessions(session_id)
        reasons = read_assessed_claims(found.db, session_id, found.policies)
        return print_result(
            context, sources_record(of, reasons), lambda: sources_table(of, reasons)
        )


def _read_timeline(found: StoreSnapshot, session_id: str, agent_id: str | None) -> Timeline:
    from ...core.store.readers.timeline_reader import read_timeline

    agents = found.agents(session_id)
    failed = frozenset(
        each.agent_id for each in agents if each.compliance and each.compliance.failed
    )
    (of,) = found.sessions(session_id)
    context = next((each.context for each in agents if each.agent_id == agent_id), of.context)
    return read_timeline(found.db, (session_id, agent_id), context, failed)


def timeline_record(session_id: str, agent_id: str | None, read: Timeline) -> Record:
    """Make the object of `ctxtop timeline`."""
    return {
        "session_id": session_id,
        "agent_id": agent_id,
        "window_tokens": read.window,
        "trigger_tokens": read.trigger,
        "thresholds": [{"level": line.level.value, "ratio": line.at} for line in read.thresholds],
        "turns": [_turn_record(read, place) for place in range(len(read.turns))],
        "compactions": [
            {
                "turn": cut.turns_before,
                "at": iso_time(cut.at),
                "trigger": cut.trigger,
                "pre_tokens": cut.pre_tokens,
                "post_tokens": cut.post_tokens,
                "next_answer_tokens": cut.next_tokens,
                "estimated_next_tokens": cut.estimated_next_tokens,
                "boundary_uuid": cut.uuid,
            }
            for cut in read.compactions
        ],
        "marks": [
            {
                "turn": mark.turn,
                "kind": mark.kind.value,
                "at": iso_time(mark.at),
                "what": mark.what,
                "level": mark.level.value if mark.level else None,
                "saved_tokens": mark.saved_tokens,
            }
            for mark in read.events
        ],
    }


def _turn_record(read: Timeline, place: int) -> Record:
    turn, level = read.turns[place], read.level(place)
    return {
        "at": iso_time(turn.at),
        "model": turn.model,
        "context_tokens": turn.tokens,
        "used_ratio": read.ratio(place),
        "level": level.value if level else None,
        "growth_tokens": read.growth(place),
        "estimated": bool(turn.is_estimate),
        "output_tokens": turn.output_tokens,
        "tool_uses": turn.tool_calls,
        "message_id": turn.message_id,
        "offset": turn.offset,
    }


def timeline_table(read: Timeline) -> list[str]:
    """Draw the picture, and below it what happened, turn by turn."""
    from ..text.timeline_text import timeline_events
    from ..widgets.timeline_picture import TimelineViewport, timeline_lines
    from .output.printing import draw_table, terminal_width

    if not read.turns:
        return ["no answer yet: the timeline begins with the first one"]
    width = terminal_width()
    scope = TimelineViewport().with_count(len(read.turns))
    picture = timeline_lines(read, scope, width, PICTURE_LINES)
    columns: list[TextColumn[Sequence[str]]] = [
        Column("turn", itemgetter(0), right=True),
        Column("time", itemgetter(1), priority=1),
        Column("tokens", itemgetter(2), right=True),
        Column("used", itemgetter(3), right=True),
        Column("what happened", itemgetter(4), flexible=True),
    ]
    events = draw_table(columns, timeline_events(read))
    return [*(line.plain.rstrip() for line in picture), "", *events]


def sources_record(of: Session, reasons: tuple[AssessedClaim, ...]) -> Record:
    """Make the object of `ctxtop evidence`."""
    numbers = of.context.token_counts
    return {
        "session_id": of.session_id,
        "context_tokens": of.context.tokens,
        "context_state": of.context.state.value,
        "counter_tokens": numbers.counter,
        "hook_tokens": numbers.hook,
        "report_tokens": numbers.report,
        "claims": [
            {
                "of": reason.subject.value,
                "tokens": reason.claim.tokens,
                "source": reason.claim.source.value,
                "standing": reason.status.value,
                "sureness": reason.claim.source.certainty.value,
            }
            for reason in reasons
        ],
    }


def sources_table(of: Session, reasons: tuple[AssessedClaim, ...]) -> list[str]:
    """Lay out `ctxtop evidence`."""
    from ..screens.session.context_breakdown import NumberSource, number_sources, standing_sign
    from .output.printing import draw_table

    columns: list[TextColumn[NumberSource]] = [
        Column("", lambda fact: standing_sign(fact.standing)[0]),
        Column("what", lambda fact: fact.name),
        Column("tokens", lambda fact: fact.value, right=True),
        Column("sure", lambda fact: fact.certainty, priority=1),
        Column("how ctxtop knows", lambda fact: fact.source, flexible=True),
    ]
    return draw_table(columns, number_sources(of.context, reasons))


@click.command()
@store_options
@click.argument("session")
@click.option("--boundary", metavar="UUID", help="This compaction; its start is enough.  [newest]")
@click.option("--prompt", is_flag=True, help="Print what was forgotten as a prompt, and no more.")
@click.pass_context
def lens(context: click.Context, *, session: str, boundary: str | None, prompt: bool) -> int:
    """Show what a compaction kept and what it forgot.

    The start of SESSION's id is enough.
    """
    from ...core.measure.compaction_report import decode_report
    from ..text.compaction_text import forgotten_prompt

    with open_snapshot(options_of(context), Collector.scan_and_report_compactions) as found:
        row = _find_compaction(found, session, boundary or "")
        told, halves = decode_report(row.report), _read_retained_and_lost(found, row)
        words = forgotten_prompt(told.forgotten) if told else ""
        return print_result(
            context,
            compaction_detail_record(row, halves, words),
            lambda: words.splitlines() if prompt else _compaction_detail_lines(row, told, halves),
        )


def _find_compaction(found: StoreSnapshot, session: str, start: str) -> CompactionRow:
    from ...core.store.queries.session_queries import compactions

    session_id = found.session_id(session) or session
    rows = compactions(found.db, session_id)
    row = next((row for row in rows if row.uuid.startswith(start)), None)
    if row is None:
        raise RefusedError(
            f"session {session_id} has no such compaction;"
            f" `ctxtop compactions --session {session_id}` lists them"
        )
    return row


def _read_retained_and_lost(found: StoreSnapshot, row: CompactionRow) -> RetainedAndLost | None:
    from ...collectors.claude_code.transcripts.replaced_content import read_retained_and_lost

    try:
        return read_retained_and_lost(found.db, found.places.folder.projects, row)
    except OSError as error:
        raise RefusedError(f"the transcript cannot be read: {error.strerror or error}") from error


def compaction_detail_record(
    row: CompactionRow, halves: RetainedAndLost | None, prompt: str
) -> dict[str, Any]:
    """Make the object of `ctxtop lens`."""
    return {
        "session_id": row.session_id,
        "agent_id": row.agent_id,
        "boundary_uuid": row.uuid,
        "at": iso_time(row.at),
        "pre_tokens": row.pre_tokens,
        "post_tokens": row.post_tokens,
        "next_answer_tokens": row.next_tokens,
        "estimated_next_tokens": row.estimated_next_tokens,
        "kept": _artifacts_record(halves.retained) if halves and halves.is_known else None,
        "forgotten": _artifacts_record(halves.lost) if halves and halves.is_known else None,
        "summary": row.summary,
        "prompt": prompt or None,
    }


def _artifacts_record(found: Artifacts) -> dict[str, Any]:
    return {
        "files": [use.path for use in found.files],
        "identifiers": [name.text for name in found.names],
        "decisions": [{"text": said.text, "line": said.line} for said in found.decisions],
        "todos": [{"text": todo.text, "line": todo.line} for todo in found.todos],
        "constraints": [{"text": said.text, "line": said.line} for said in found.constraints],
    }


def _compaction_detail_lines(
    row: CompactionRow, told: CompactionReport | None, halves: RetainedAndLost | None
) -> list[str]:
    from ..screens.session.compactions import (
        compaction_headline,
        group_compaction_items,
        is_content_known,
        retained_and_lost_listing,
    )
    from ..text.compaction_text import CONTENT_UNKNOWN
    from .output.printing import terminal_width

    empty = "nothing was forgotten" if is_content_known(told, halves) else CONTENT_UNKNOWN
    listing = retained_and_lost_listing(
        group_compaction_items(told, halves, ()), terminal_width(), empty
    )
    rows = [row.content.plain.rstrip() for row in listing.rows]
    return [compaction_headline(row), listing.head.plain, *(rows or [listing.empty])]


CountTokens = Callable[[str], int]

MAX_LEFT_OUT: Final = 30  # lines of what was left out; a project has hundreds of earlier results


@click.command()
@store_options
@click.option(
    "--session",
    metavar="ID",
    required=True,
    help="In which it starts; the start of its id is enough.",
)
@click.option("--agent-type", metavar="NAME", required=True, help="Of the agent that starts.")
@click.option("--prompt", metavar="TEXT", default="", help="Its task: a line `tags: …` counts.")
@click.option(
    "--budget",
    metavar="TOKENS",
    type=click.IntRange(min=0),
    help="At the most.  [default: injection.budget of the policy]",
)
@click.pass_context
def inject(
    context: click.Context, *, session: str, agent_type: str, prompt: str, budget: int | None
) -> int:
    """Show what an agent that starts now would be given, why, and what was left out.

    What the hook gives at SubagentStart where it is installed with `inject`.
    """
    with open_snapshot(options_of(context), Collector.scan_and_count_tokens) as found:
        injection, limits, count = _preview(found, session, agent_type, prompt, budget)
        return print_result(
            context,
            injection_record(injection, limits.budget, count),
            lambda: injection_lines(injection, count),
        )


def injection_record(found: Injection, budget: int, count: CountTokens) -> dict[str, Any]:
    """Return the object of `ctxtop inject`: `tokens` are estimated, `at_most_tokens` a bound."""
    return {
        "context": found.context,
        "tokens": count(found.context),
        "at_most_tokens": found.token_bound,
        "budget_tokens": budget,
        "entries": [
            {
                "stage": each.stage.value,
                "session_id": each.session_id,
                "agent_id": each.agent_id,
                "reason": each.reason,
                "tokens": count(each.text),
                "at_most_tokens": each.token_bound,
            }
            for each in found.entries
        ],
        "excluded": [
            {
                "session_id": each.session_id,
                "agent_id": each.agent_id,
                "agent_type": each.agent_type,
                "reason": each.reason,
            }
            for each in found.excluded
        ],
    }


def injection_lines(found: Injection, count: CountTokens) -> list[str]:
    """Write it for people: the text as it would be given, then what was left out."""
    if not found.context:
        lines = ["nothing would be given"]
    else:
        lines = [*found.context.split("\n"), ""]
        lines.append(f"≈{count(found.context):,} tokens, {found.token_bound:,} at the most")
    if found.excluded:
        lines += ["", "left out"]
        lines += [
            f"  {each.agent_type} {each.agent_id} of {each.session_id[:8]}: {each.reason}"
            for each in found.excluded[:MAX_LEFT_OUT]
        ]
        more = len(found.excluded) - MAX_LEFT_OUT
        lines += [f"  … {more} more; --json has all"] if more > 0 else []
    return lines


def _preview(
    found: StoreSnapshot, start: str, agent_type: str, prompt: str, budget: int | None
) -> tuple[Injection, InjectionLimits, CountTokens]:
    from pathlib import Path

    from ...collectors.claude_code.injection_sources import (
        InjectionRequest,
        gather_injection_sources,
    )
    from ...core.injection.context_selection import injection_limits, select_context
    from ...core.measure.token_estimate import Estimator
    from ...core.transcript.sanitize import sanitize_title

    session = found.sessions(found.session_id(start))[0]
    limits = injection_limits(found.policies.acting.for_project(session.project_root))
    if limits is None:
        raise RefusedError("the policy's disabled_modules name injection: nothing is ever given")
    if budget is not None:
        limits = replace(limits, budget=budget)
    asked = InjectionRequest(
        found.places.folder.projects / session.path,
        sanitize_title(agent_type),
        prompt=prompt.encode("utf-8", "replace").decode(),
        project_root=Path(session.project_root) if session.project_root else None,
    )
    estimator = Estimator({})
    injection = select_context(*gather_injection_sources(asked, found.db, limits), limits)
    return injection, limits, lambda text: estimator.tokens(text, session.model)
