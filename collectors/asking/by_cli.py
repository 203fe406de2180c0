"""Asking with a run of its own, for a session nobody has open: `claude -p "/compact"`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..clean import clean_title
from .outcome import NotCompactedError, Via, Why
from .waiting import COMPACT_S

if TYPE_CHECKING:
    from .boundary import BoundaryWatch, NewBoundary
    from .receipts import Asking

PROGRAM: Final = "claude"

SHOWN: Final = 200
"""Characters of what the client says: one line."""

_OF_A_SESSION: Final = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID")
"""Variables that a client sets for what it starts: a run under them keeps no transcript
(reference: claude-code-formats 4.2)."""


def ask(
    asking: Asking, watch: BoundaryWatch, cwd: str | None, config_dir: Path | None
) -> NewBoundary:
    """Run the client to the end; raises NotCompactedError where there is no new boundary.

    `config_dir` is None where it is the client's own default.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise NotCompactedError(Why.FAILED, f"there is no `{PROGRAM}` on the PATH")
    if cwd is None or not Path(cwd).is_dir():
        raise NotCompactedError(
            Why.FAILED, f"its folder {cwd or ''} is gone: the client resumes only from there"
        )
    asking.begin(Via.CLI)
    said = _run(program, asking, cwd, config_dir)
    found = watch.look()
    if found is None:
        raise NotCompactedError(Why.FAILED, f"the client did not compact: {said}")
    return found


def _run(program: str, asking: Asking, cwd: str, config_dir: Path | None) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_SESSION}
    if config_dir is not None:
        environment["CLAUDE_CONFIG_DIR"] = str(config_dir)
    line = f"/compact {asking.text}".strip()
    try:
        ended = subprocess.run(  # noqa: S603 -- no shell; the text is one argument
            [program, "-p", line, "--resume", asking.session_id],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMPACT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotCompactedError(
            Why.FAILED, f"the client took more than {COMPACT_S:.0f} s and was ended"
        ) from error
    said = (ended.stderr or ended.stdout).decode("utf-8", "replace")
    return clean_title(said)[:SHOWN] or f"it said nothing, code {ended.returncode}"
