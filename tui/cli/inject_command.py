"""`ctxtop inject`: what would be injected into an agent that starts now, and what not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from ...collectors.claude_code.collector_thread import Collector
from .command_errors import RefusedError
from .command_options import options_of, store_options
from .command_store import StoreSnapshot, open_snapshot
from .output.printing import print_result

CountTokens = Callable[[str], int]

if TYPE_CHECKING:
    from ...core.injection.injection_candidates import Injection, InjectionLimits


MAX_LEFT_OUT: Final = 30
"""Lines of what was left out; a project has hundreds of earlier results."""


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
    from ...core.injection.context_selection import select_context
    from ...core.injection.injection_candidates import injection_limits
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
