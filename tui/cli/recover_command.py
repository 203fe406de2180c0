"""`ctxtop recover`: mends a session that ended because its prompt was too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...collectors.recovering import NothingToMendError
from ...core.compaction.recovery.attempt import NotNowError
from ...core.compaction.recovery.settings import Step
from ...core.compaction.refused import NotAppliedError
from ..mending import BusyError, Patient, mend, plan_mending
from . import recover_lines
from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .report import LIVE, UNSAFE, USAGE, RefusedError, say
from .undo_command import exit_code

if TYPE_CHECKING:
    from ...collectors.resuming import Resumed
    from .reading import Reading


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
            patient = _patient(found, session, frozenset(map(Step, confirmed)))
            if is_asked:
                done, resumed = mend(patient)
            else:
                done = plan_mending(patient)
    except (RefusedError, NothingToMendError) as error:
        return _not_mended(session, str(error), USAGE)
    except BusyError as error:
        return _not_mended(session, str(error), LIVE)
    except NotNowError as error:
        code = LIVE if error.refusal.check == "in_progress" else UNSAFE
        return _not_mended(session, f"{error.refusal.check}: {error}", code)
    except NotAppliedError as error:
        return _not_mended(session, str(error), exit_code(error.kind))
    emit(
        context,
        recover_lines.as_record(done, resumed),
        lambda: recover_lines.lines_of(done, resumed),
    )
    return UNSAFE if done.choice.plan is None else 0


def _not_mended(session: str, why: str, code: int) -> int:
    say(f"{session} was not mended: {why}")
    return code


def _patient(found: Reading, start: str, confirmed: frozenset[Step]) -> Patient:
    session_id = found.session_id(start) or start
    (session,) = found.sessions(session_id)
    policy = found.policies.acting.for_project(session.project_root)
    return Patient(found.db, found.places, session, policy, confirmed)
