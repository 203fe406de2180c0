"""Asking with a run of its own, for a session nobody has open: `claude -p "/compact"`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .client_run import NotRunError, NotTrustedError, prepare_run
from .outcome import NotCompactedError, Via, Why
from .waiting import COMPACT_S

if TYPE_CHECKING:
    from .ask import Subject
    from .boundary import BoundaryWatch, NewBoundary
    from .receipts import Asking


def ask(request: Asking, watch: BoundaryWatch, target: Subject) -> NewBoundary:
    """Run the client to the end; raises NotCompactedError where there is no new boundary."""
    line = f"/compact {request.text}".strip()
    try:
        prepared = prepare_run(target.project_root, target.config_dir)
        target.before_run()
        request.note_command(prepared.command(line, request.session_id), str(prepared.folder))
        request.begin(Via.CLI)
        ran = prepared.run(line, request.session_id, COMPACT_S)
    except NotTrustedError as error:
        raise NotCompactedError(Why.UNTRUSTED, str(error)) from error
    except NotRunError as error:
        raise NotCompactedError(Why.FAILED, str(error)) from error
    request.note_command(ran.command, ran.folder)
    found = watch.poll()
    if found is None:
        raise NotCompactedError(Why.FAILED, f"the client did not compact: {ran.output}")
    return found
