"""`ctxtop recover`: mends a session that ended because its prompt was too long."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

import click

from ...collectors.asking.client_run import named_folder
from ...collectors.recovering import NothingToMendError, plan_recovery, recover, wanted_of
from ...collectors.resuming import go_on, prompt_to_send
from ...core.compaction.recovery.attempt import NotNowError
from ...core.compaction.recovery.settings import Step, recovery_settings
from ...core.compaction.refused import NotAppliedError
from ...core.sessions import Status
from ...core.store.estimating import read_estimator
from ...core.store.recovery_rows import clean_runs
from ...core.store.writer import Writer
from . import recover_lines
from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .report import LIVE, UNSAFE, USAGE, RefusedError, say
from .undo_command import exit_code, subject_of

if TYPE_CHECKING:
    from ...collectors.recovering import Recovery, Wanted
    from ...collectors.resuming import Resumed
    from ...core.policy.policy import Policy
    from ...core.sessions import Session
    from ..places import Places
    from .reading import Reading

_AT_WORK: Final = frozenset({Status.BUSY, Status.WAITING, Status.ACTIVE})


@click.command("recover")
@reading
@click.argument("session")
@click.option("--apply", "is_asked", is_flag=True, help="Do it, in a session of its own.")
@click.option(
    "--confirm",
    "confirmed",
    multiple=True,
    type=click.Choice([each.value for each in Step]),
    metavar="STEP",
    help="Allow a step that asks first, as `revert` does; may be given again.",
)
@click.pass_context
def recover_session(
    context: click.Context, *, session: str, is_asked: bool, confirmed: tuple[str, ...]
) -> int:
    """Mend a session that ended in "prompt is too long" or in an empty message.

    The start of SESSION's id is enough. Prints the plan; --apply carries it out on a fork, and
    the session itself stays as it is.
    """
    resumed: Resumed | None = None
    try:
        with open_reading(chosen(context)) as found:
            known, policy = _session(found, session)
            wanted = _wanted(found, known, policy, frozenset(map(Step, confirmed)))
            # The estimator reads from the store as long as it is used.
            done = _recover(wanted, found.places) if is_asked else plan_recovery(wanted, found.db)
            if done.receipt:
                resumed = _go_on(done, wanted, policy, found.places)
    except (RefusedError, NothingToMendError) as error:
        return _not_mended(session, str(error), USAGE)
    except _BusyError as error:
        return _not_mended(session, str(error), LIVE)
    except NotNowError as error:
        code = LIVE if error.refusal.check == "in_progress" else UNSAFE
        return _not_mended(session, f"{error.refusal.check}: {error}", code)
    except NotAppliedError as error:
        return _not_mended(session, str(error), exit_code(error.stop))
    emit(
        context,
        recover_lines.as_record(done, resumed),
        lambda: recover_lines.lines_of(done, resumed),
    )
    return UNSAFE if done.choice.plan is None else 0


class _BusyError(Exception):
    """Somebody is at work in the session."""


def _not_mended(session: str, why: str, code: int) -> int:
    say(f"{session} was not mended: {why}")
    return code


def _session(found: Reading, start: str) -> tuple[Session, Policy]:
    session_id = found.session_id(start) or start
    (session,) = found.sessions(session_id)
    if session.status in _AT_WORK:
        raise _BusyError(f"it is {session.status}: wait until it is idle")
    return session, found.policies.of(session.cwd)


def _wanted(found: Reading, session: Session, policy: Policy, confirmed: frozenset[Step]) -> Wanted:
    transcript = found.places.folder.projects / session.path
    subject = subject_of(found.places, session.session_id, transcript, session.cwd)
    counter_of = read_estimator(found.db).of
    return wanted_of(subject, session, policy, counter_of, recovery_settings(policy), confirmed)


def _recover(wanted: Wanted, places: Places) -> Recovery:
    with closing(Writer(places.store)) as writer:
        clean_runs(writer.connection, time.time_ns() // 1_000_000)
        return recover(wanted, writer.connection)


def _go_on(done: Recovery, wanted: Wanted, policy: Policy, places: Places) -> Resumed | None:
    """Ask again in the fork, where the policy says so (T-11)."""
    subject, step, receipt = wanted.subject, done.choice.chosen, done.receipt
    resume = policy.text("recovery.resume")
    prompt = prompt_to_send(resume, subject.transcript, step.prompt if step else None)
    if prompt is None or receipt is None:
        return None
    folder = named_folder(places.folder.root)
    return go_on(prompt, receipt, subject.cwd, folder, wanted.settings.retry)
