"""`ctxtop trigger`: ask the client itself to compact a session, and wait until it has."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...collectors.client_compact.compact_outcome import CompactFailure, NotCompactedError, Via
from ...collectors.plugin.compact_requests import instruction_problem, is_session_id
from ...collectors.standard_paths import claude_config_dir
from ..text.formats import iso_time, tokens
from .command_errors import FAILED, LIVE, UNSAFE, USAGE, RefusedError, print_error
from .command_options import options_of, store_options
from .command_store import open_snapshot
from .output.printing import print_result

if TYPE_CHECKING:
    from ...collectors.client_compact.client_compaction import ClientCompactTarget
    from ...collectors.client_compact.compact_outcome import ClientCompactResult


_FAILURE_CODES: Final = {
    CompactFailure.FAILED: FAILED,
    CompactFailure.NOTHING: USAGE,
    CompactFailure.LIVE: LIVE,
    CompactFailure.UNSAFE: UNSAFE,
    CompactFailure.UNTRUSTED: UNSAFE,
}


@click.command()
@store_options
@click.argument("session")
@click.argument("text", nargs=-1)
@click.option(
    "--via",
    type=click.Choice([via.value for via in Via]),
    default=Via.AUTO.value,
    show_default=True,
    help="The plugin's module in the client, keys to its tmux pane, or a run of its own.",
)
@click.pass_context
def trigger(context: click.Context, *, session: str, text: tuple[str, ...], via: str) -> int:
    """Ask the client itself to compact a session, and wait until it has.

    The start of SESSION's id is enough. TEXT tells the summariser what matters.
    """
    from ...collectors.client_compact.client_compaction import ask_to_compact

    words = " ".join(text).strip()
    wrong = instruction_problem(words)
    if wrong:
        raise click.UsageError(wrong, context)
    try:
        subject = _client_target(context, session)
    except RefusedError as error:
        print_error(str(error))
        return USAGE
    try:
        outcome = ask_to_compact(subject, Via(via), words)
    except NotCompactedError as error:
        print_error(f"{subject.session_id[:8]} was not compacted: {error}")
        return _FAILURE_CODES[error.failure]
    return print_result(context, outcome_record(outcome), lambda: _outcome_lines(outcome))


def outcome_record(outcome: ClientCompactResult) -> dict[str, Any]:
    """Return a compaction's outcome as a JSON record (commands.md)."""
    return {
        "via": outcome.via.value,
        "requested_at": iso_time(outcome.requested_at),
        "boundary_uuid": outcome.boundary_uuid,
        "pre_tokens": outcome.pre_tokens,
        "post_tokens": outcome.post_tokens,
        "command": outcome.command or None,
        "folder": outcome.folder,
    }


def _client_target(context: click.Context, start: str) -> ClientCompactTarget:
    from ...collectors.actions.session_target import run_folder
    from ...collectors.client_compact.client_compaction import ClientCompactTarget

    with open_snapshot(options_of(context)) as found:
        session_id = found.session_id(start) or start
        if not is_session_id(session_id):
            raise RefusedError(f"{session_id} is no id that the client resumes")
        (session,) = found.sessions(session_id)
        places = found.places
    default = claude_config_dir(dict(os.environ), Path.home()).absolute()
    return ClientCompactTarget(
        session_id=session_id,
        transcript=places.folder.projects / session.path,
        project_root=run_folder(session),
        folder=places.folder,
        store=places.store,
        config_dir=None if places.config_dir == default else places.config_dir,
    )


def _outcome_lines(outcome: ClientCompactResult) -> list[str]:
    sizes = f"{tokens(outcome.pre_tokens)} → {tokens(outcome.post_tokens)}"
    said = [f"compacted via {outcome.via.value} in {outcome.seconds:.1f} s: {sizes}"]
    if outcome.command:
        said.append(f"ran {shlex.join(outcome.command)} in {outcome.folder}")
    return said
