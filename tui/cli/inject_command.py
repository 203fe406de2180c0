"""`ctxtop inject`: what an agent that starts now would be given, and what not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import replace

from ...collectors.collect import Collector
from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .report import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...core.injection.past import Injection, Limits
    from .reading import Reading

    CountTokens = Callable[[str], int]


LEFT_OUT_SHOWN: Final = 30
"""Lines of what was left out; a project has hundreds of earlier results."""


@click.command()
@reading
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
    with open_reading(chosen(context), Collector.scan_and_count_tokens) as found:
        injection, limits, count = _preview(found, session, agent_type, prompt, budget)
        return emit(
            context,
            injection_record(injection, limits.budget, count),
            lambda: injection_lines(injection, count),
        )


def injection_record(found: Injection, budget: int, count: CountTokens) -> dict[str, Any]:
    """Make the object of `ctxtop inject`; `tokens` are estimated, `at_most_tokens` a bound."""
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
            for each in found.excluded[:LEFT_OUT_SHOWN]
        ]
        more = len(found.excluded) - LEFT_OUT_SHOWN
        lines += [f"  … {more} more; --json has all"] if more > 0 else []
    return lines


def _preview(
    found: Reading, start: str, agent_type: str, prompt: str, budget: int | None
) -> tuple[Injection, Limits, CountTokens]:
    from pathlib import Path

    from ...collectors.clean import clean_title
    from ...collectors.giving import Asked, gather
    from ...core.estimate import Estimator
    from ...core.injection.choose import choose
    from ...core.injection.limits import limits_of

    session = found.sessions(found.session_id(start))[0]
    limits = limits_of(found.policies.acting.for_project(session.project_root))
    if limits is None:
        raise RefusedError("the policy's disabled_modules name injection: nothing is ever given")
    if budget is not None:
        limits = replace(limits, budget=budget)
    asked = Asked(
        found.places.folder.projects / session.path,
        clean_title(agent_type),
        prompt=prompt.encode("utf-8", "replace").decode(),
        project_root=Path(session.project_root) if session.project_root else None,
    )
    estimator = Estimator({})
    injection = choose(*gather(asked, found.db, limits), limits)
    return injection, limits, lambda text: estimator.tokens(text, session.model)
