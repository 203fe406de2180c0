"""`ctxtop resume`: open a session again in its folder."""

import sys
from typing import Final

import click

from ...collectors.client_terminal.session_resume import (
    NotResumedError,
    ResumeFailure,
    ResumePlace,
    ResumePlan,
    plan_resume,
    resume_here,
    resume_in_tmux,
)
from .command_errors import FAILED, LIVE, USAGE, RefusedError, print_error
from .command_options import options_of, store_command
from .command_store import open_snapshot
from .printing import print_result

_FAILURE_CODES: Final = {
    ResumeFailure.LIVE: LIVE,
    ResumeFailure.NOTHING: USAGE,
    ResumeFailure.FAILED: FAILED,
}


@store_command()
@click.argument("session")
@click.option(
    "--print", "is_printed", is_flag=True, help="Print the command instead of running it."
)
@click.option(
    "--tmux",
    "place",
    type=click.Choice([place.value for place in ResumePlace]),
    help="Open it in a new tmux window, or in a pane beside this one.",
)
def resume(context: click.Context, *, session: str, is_printed: bool, place: str | None) -> int:
    """Resume a session that is not open, in its folder.

    SESSION is an id or its start. Without an option, Claude Code takes over this terminal.
    """
    if is_printed and place:
        raise click.UsageError("--print and --tmux cannot be combined: omit one", context)
    if not (is_printed or place) and (options_of(context).as_json or not sys.stdout.isatty()):
        raise click.UsageError("not a terminal: pass --print or --tmux", context)
    try:
        with open_snapshot(options_of(context)) as snapshot:
            (found,) = snapshot.sessions(snapshot.session_id(session))
            plan = plan_resume(snapshot.places.folder, found)
        if not (is_printed or place):
            resume_here(plan)
        pane = resume_in_tmux(plan, ResumePlace(place)) if place else None
    except RefusedError as error:
        print_error(str(error))
        return USAGE
    except NotResumedError as error:
        print_error(f"{session} was not resumed: {error}")
        return _FAILURE_CODES[error.failure]
    return print_result(context, _record(plan, pane), lambda: [pane or plan.command])


def _record(plan: ResumePlan, pane: str | None) -> dict[str, object]:
    return {
        "session_id": plan.session_id,
        "folder": plan.folder,
        "command": plan.command,
        "tmux": pane,
    }
