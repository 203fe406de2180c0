"""`ctxtop timeline` and `ctxtop evidence`: what a session's page says, for programs too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .times import time_of

if TYPE_CHECKING:
    from ...core.reasons import Reason
    from ...core.sessions import Session
    from ...core.timeline import Timeline
    from .reading import Reading

PICTURE_LINES: Final = 14
"""Of the terminal: the picture and the table below it fit on a screen."""

Record = dict[str, Any]


@click.command()
@reading
@click.argument("session")
@click.option("--agent", metavar="ID", help="Of this agent; the start of its id is enough.")
@click.pass_context
def timeline(context: click.Context, *, session: str, agent: str | None) -> int:
    """Draw a session's context over its turns, or an agent's, and list what happened.

    The start of SESSION's id is enough.
    """
    with open_reading(chosen(context)) as found:
        session_id = found.session_id(session) or session
        agent_id = found.agent_id(session_id, agent)
        read = _timeline(found, session_id, agent_id)
        return emit(
            context,
            timeline_record(session_id, agent_id, read),
            lambda: timeline_table(read),
        )


@click.command()
@reading
@click.argument("session")
@click.pass_context
def evidence(context: click.Context, *, session: str) -> int:
    """Say why a session's numbers, its window and its trigger are believed, and what says no.

    The start of SESSION's id is enough.
    """
    from ...core.reasons import read_reasons

    with open_reading(chosen(context)) as found:
        session_id = found.session_id(session) or session
        (of,) = found.sessions(session_id)
        reasons = read_reasons(found.db, session_id, found.policies)
        return emit(context, evidence_record(of, reasons), lambda: evidence_table(of, reasons))


def _timeline(found: Reading, session_id: str, agent_id: str | None) -> Timeline:
    from ...core.timeline import read_timeline

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
        "turns": [_turn(read, place) for place in range(len(read.turns))],
        "compactions": [
            {
                "turn": cut.turns_before,
                "at": time_of(cut.at),
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
                "at": time_of(mark.at),
                "what": mark.what,
                "level": mark.level.value if mark.level else None,
                "saved_tokens": mark.saved_tokens,
            }
            for mark in read.events
        ],
    }


def _turn(read: Timeline, place: int) -> Record:
    turn, level = read.turns[place], read.level(place)
    return {
        "at": time_of(turn.at),
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
    from ..happened_rows import happened
    from ..timeline_lines import timeline_lines
    from ..timeline_scope import Scope
    from .columns import Column, draw, terminal_width

    if not read.turns:
        return ["no answer yet: the timeline begins with the first one"]
    width = terminal_width()
    scope = Scope().with_count(len(read.turns))
    picture = timeline_lines(read, scope, width, PICTURE_LINES)
    listed = happened(read)
    columns = [
        Column("turn", right=True),
        Column("time", priority=1),
        Column("tokens", right=True),
        Column("used", right=True),
        Column("what happened", flexible=True),
    ]
    return [*(line.plain.rstrip() for line in picture), "", *draw(columns, listed, width)]


def evidence_record(of: Session, reasons: tuple[Reason, ...]) -> Record:
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
                "sureness": reason.certainty.value,
            }
            for reason in reasons
        ],
    }


def evidence_table(of: Session, reasons: tuple[Reason, ...]) -> list[str]:
    """Lay out `ctxtop evidence`."""
    from ..evidence_rows import facts_of, sign_of
    from .columns import Column, draw, terminal_width

    columns = [
        Column(""),
        Column("what"),
        Column("tokens", right=True),
        Column("sure", priority=1),
        Column("how ctxtop knows", flexible=True),
    ]
    rows = [
        [sign_of(fact.standing)[0], fact.name, fact.value, fact.certainty, fact.source]
        for fact in facts_of(of.context, reasons)
    ]
    return draw(columns, rows, terminal_width())
