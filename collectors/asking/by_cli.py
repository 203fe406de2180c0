"""Asking with a run of its own, for a session nobody has open: `claude -p "/compact"`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .client_run import NotRunError, find_program, run_client
from .outcome import NotCompactedError, Via, Why
from .waiting import COMPACT_S

if TYPE_CHECKING:
    from .boundary import BoundaryWatch, NewBoundary
    from .receipts import Asking


def ask(
    asking: Asking, watch: BoundaryWatch, cwd: str | None, config_dir: Path | None
) -> NewBoundary:
    """Run the client to the end; raises NotCompactedError where there is no new boundary.

    `config_dir` is None where it is the client's own default.
    """
    try:
        find_program()
    except NotRunError as error:
        raise NotCompactedError(Why.FAILED, str(error)) from error
    if cwd is None or not Path(cwd).is_dir():
        raise NotCompactedError(
            Why.FAILED, f"its folder {cwd or ''} is gone: the client resumes only from there"
        )
    asking.begin(Via.CLI)
    line = f"/compact {asking.text}".strip()
    try:
        said = run_client(line, asking.session_id, Path(cwd), config_dir, COMPACT_S)
    except NotRunError as error:
        raise NotCompactedError(Why.FAILED, str(error)) from error
    found = watch.look()
    if found is None:
        raise NotCompactedError(Why.FAILED, f"the client did not compact: {said}")
    return found
