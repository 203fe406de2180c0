"""`ctxtop check` and `ctxtop compliance`: whether agents compress what they return."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from ...collectors.clean import clean_text
from ...collectors.collect import Collector
from ...core.compliance.codes import Format
from ...core.compliance.expected import terms_of
from ...core.compliance.judge import judge
from ...core.compliance_summary import sum_up
from ...core.store import queries
from . import compliance_json, compliance_lines
from .cells import shorten
from .commands import group
from .emit import emit
from .options import chosen, reading, session
from .reading import open_reading, policy_of
from .report import RefusedError

_FORMATS: Final = (Format.OUTPUT.value, Format.REVIEW.value)


@group.command()
@reading
@click.argument("file", default="-")
@click.option(
    "--format",
    "expected",
    type=click.Choice(_FORMATS),
    default=Format.OUTPUT.value,
    show_default=True,
    help="What the text is expected to be.",
)
@click.option("--agent-type", metavar="T", help="The type that the text must name.")
@click.pass_context
def check(context: click.Context, *, file: str, expected: str, agent_type: str | None) -> int:
    """Judge one text by the grammar of compressed results. FILE is - for the input."""
    policy, _ = policy_of(chosen(context), None)
    limits = terms_of(policy).limits
    judged = judge(_read(file), Format(expected), agent_type, limits)
    return emit(context, compliance_json.checked(judged), lambda: compliance_lines.checked(judged))


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        why = error.strerror or error
        raise RefusedError(f"{file} cannot be read ({why}): name a file with the text") from error
    # As the store keeps it: a text is judged the same wherever it comes from.
    return clean_text(data.decode("utf-8", "replace"))


@group.command()
@reading
@session
@click.option("--type", "agent_type", metavar="T", help="Only agents of this type.")
@click.pass_context
def compliance(context: click.Context, *, session: str | None, agent_type: str | None) -> int:
    """Say how well agents compress what they return, by type and over time."""
    with open_reading(chosen(context), Collector.scan_and_count_tokens) as found:
        agents = [
            each
            for each in found.agents(found.session_id(session))
            if agent_type in {None, each.agent_type}
        ]
        summed = sum_up(agents, terms_of(found.policies.common))
        short = shorten(queries.find_sessions(found.db, ""))
        return emit(
            context,
            compliance_json.summed(summed),
            lambda: compliance_lines.summed(summed, short) or ["no agents yet"],
        )
