"""A run of the client without a screen, for one prompt in a session that nobody has open."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from ..clean import clean_title
from ..config_dir import config_dir as default_folder

PROGRAM: Final = "claude"

SHOWN: Final = 200
"""Characters of what the client says: one line."""

_OF_A_SESSION: Final = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID")
"""Variables that a client sets for what it starts: a run under them keeps no transcript
(reference: claude-code-formats 4.2)."""


class NotRunError(Exception):
    """The client could not be run to its end; the message says why."""


def find_program() -> str:
    """Find the client; raises NotRunError where there is none."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise NotRunError(f"there is no `{PROGRAM}` on the PATH")
    return program


def run_client(
    prompt: str, session_id: str, cwd: Path, config_dir: Path | None, at_most_s: float
) -> str:
    """Resume a session for one prompt, and give the client's words as one line.

    `config_dir` is None where it is the client's own default. Raises NotRunError; what the
    client's words mean is for others to say: only the transcript tells whether it worked.
    """
    program = find_program()
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_SESSION}
    if config_dir is not None:
        environment["CLAUDE_CONFIG_DIR"] = str(config_dir)
    try:
        ended = subprocess.run(  # noqa: S603 -- no shell; the prompt is one argument
            [program, "-p", prompt, "--resume", session_id],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=at_most_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotRunError(f"the client took more than {at_most_s:.0f} s and was ended") from error
    said = (ended.stderr or ended.stdout).decode("utf-8", "replace")
    return clean_title(said)[:SHOWN] or f"it said nothing, code {ended.returncode}"


def named_folder(root: Path) -> Path | None:
    """Give a folder of the client's as `run_client` takes it: None where it is the default.

    A client that is told of its own default keeps its settings elsewhere.
    """
    default = default_folder(os.environ, Path.home()).expanduser()
    return None if default.resolve() == root.resolve() else root
