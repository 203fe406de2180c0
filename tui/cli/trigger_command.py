"""`ctxtop trigger`: asks the client itself to compact a session, and waits until it has."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...collectors.asking.outcome import NotCompactedError, Via, Why
from ...collectors.config_dir import config_dir
from ...collectors.plugin.exchange import is_session, unfit
from ..formats import tokens
from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .report import FAILED, LIVE, UNSAFE, USAGE, RefusedError, say
from .times import time_of

if TYPE_CHECKING:
    from ...collectors.asking.ask import Subject
    from ...collectors.asking.outcome import Outcome

_CODES: Final = {
    Why.FAILED: FAILED,
    Why.NOTHING: USAGE,
    Why.LIVE: LIVE,
    Why.UNSAFE: UNSAFE,
    Why.UNTRUSTED: UNSAFE,
}


@click.command()
@reading
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
    from ...collectors.asking.ask import ask_to_compact

    words = " ".join(text).strip()
    wrong = unfit(words)
    if wrong:
        raise click.UsageError(wrong, context)
    try:
        subject = _subject(context, session)
    except RefusedError as error:
        say(str(error))
        return USAGE
    try:
        outcome = ask_to_compact(subject, Via(via), words)
    except NotCompactedError as error:
        say(f"{subject.session_id[:8]} was not compacted: {error}")
        return _CODES[error.failure]
    return emit(context, as_record(outcome), lambda: _lines(outcome))


def as_record(outcome: Outcome) -> dict[str, Any]:
    """Say a compaction for programs (commands.md)."""
    return {
        "via": outcome.via.value,
        "requested_at": time_of(outcome.requested_at),
        "boundary_uuid": outcome.boundary_uuid,
        "pre_tokens": outcome.pre_tokens,
        "post_tokens": outcome.post_tokens,
        "command": outcome.command or None,
        "folder": outcome.folder,
    }


def _subject(context: click.Context, start: str) -> Subject:
    from ...collectors.asking.ask import Subject
    from ...collectors.subjects import run_folder

    with open_reading(chosen(context)) as found:
        session_id = found.session_id(start) or start
        if not is_session(session_id):
            raise RefusedError(f"{session_id} is no id that the client resumes")
        (session,) = found.sessions(session_id)
        places = found.places
    default = config_dir(dict(os.environ), Path.home()).absolute()
    return Subject(
        session_id=session_id,
        transcript=places.folder.projects / session.path,
        project_root=run_folder(session),
        folder=places.folder,
        store=places.store,
        config_dir=None if places.config_dir == default else places.config_dir,
    )


def _lines(outcome: Outcome) -> list[str]:
    sizes = f"{tokens(outcome.pre_tokens)} → {tokens(outcome.post_tokens)}"
    said = [f"compacted via {outcome.via.value} in {outcome.seconds:.1f} s: {sizes}"]
    if outcome.command:
        said.append(f"ran {shlex.join(outcome.command)} in {outcome.folder}")
    return said
