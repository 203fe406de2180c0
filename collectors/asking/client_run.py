"""A run of the client without a screen, for one prompt in a session that nobody has open.

It is started only in the folder in which the session began, and only where the client itself
trusts that folder: without a screen it asks nobody, and runs what the project's settings name.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.child_process import client_environment, find_program
from ..clean import clean_path, clean_title
from ..config_dir import config_dir as default_folder
from ..plugin.exchange import is_session
from .client_trust import is_trusted, state_file

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM: Final = "claude"

SHOWN: Final = 200
"""Characters of what the client says: one line."""

USER_SETTINGS: Final = ("--setting-sources", "user")
"""Neither the project's settings nor its local ones are read, and so none of its hooks is run."""

_UNKNOWN: Final = b"unknown option"


class NotRunError(Exception):
    """The client could not be run to its end; the message says why."""


class NotTrustedError(NotRunError):
    """The client must not be run there; the message says where, and what a person can do."""


class Ran(msgspec.Struct, frozen=True):
    """A run that ended, for a receipt."""

    command: tuple[str, ...]
    folder: str
    output: str
    """The client's own words, one line."""


class ClientRun(msgspec.Struct, frozen=True):
    """What may be run, and where; made by `prepare_run`."""

    program: str
    folder: Path
    environment: Mapping[str, str]

    def command(self, prompt: str, session_id: str) -> tuple[str, ...]:
        """Return the words that are run."""
        return self._command_line(prompt, session_id, USER_SETTINGS)

    def run(self, prompt: str, session_id: str, timeout_s: float) -> Ran:
        """Resume a session for one prompt.

        Raises NotRunError; what the client's words mean is for others to say: only the
        transcript tells whether it worked.
        """
        if not is_session(session_id):
            raise NotRunError(f"{clean_title(session_id)} is no id that the client resumes")
        command = self.command(prompt, session_id)
        ended = self._run(command, timeout_s)
        if (
            ended.returncode
            and _UNKNOWN in ended.stderr
            and USER_SETTINGS[0].encode() in (ended.stderr)
        ):
            # An older client, in a folder that it trusts: it has done nothing yet.
            command = self._command_line(prompt, session_id, ())
            ended = self._run(command, timeout_s)
        said = clean_title((ended.stderr or ended.stdout).decode("utf-8", "replace"))[:SHOWN]
        said = said or f"it said nothing, code {ended.returncode}"
        return Ran(command, clean_path(str(self.folder)), said)

    def _command_line(
        self, prompt: str, session_id: str, settings: tuple[str, ...]
    ) -> tuple[str, ...]:
        # Behind the dashes: a prompt out of a transcript may begin like an option.
        return (self.program, "-p", "--resume", session_id, *settings, "--", prompt)

    def _run(
        self, command: tuple[str, ...], timeout_s: float
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(  # noqa: S603 -- no shell; the prompt is one argument
                command,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            why = f"the client took more than {timeout_s:.0f} s and was ended"
            raise NotRunError(why) from error
        except OSError as error:
            raise NotRunError(f"{command[0]} cannot be run: {error.strerror}") from error


def prepare_run(project_root: str | None, config_dir: Path | None) -> ClientRun:
    """Look whether the client may be run for a session that began in `project_root`.

    `config_dir` is None where it is the client's own default. Raises NotRunError,
    NotTrustedError.
    """
    program = find_program(PROGRAM)
    if program is None:
        raise NotRunError(f"there is no `{PROGRAM}` on the PATH")
    if project_root is None or not Path(project_root).is_absolute():
        raise NotTrustedError(
            "the folder in which it began is not known: resume it yourself with `claude --resume`"
        )
    folder = Path(os.path.realpath(project_root))
    if not folder.is_dir():
        raise NotRunError(f"its folder {project_root} is gone: the client resumes only from there")
    if not is_trusted(folder, state_file(config_dir, os.environ, Path.home())):
        raise NotTrustedError(
            f"Claude Code does not trust {clean_path(str(folder))}, so ctxtop starts nothing there:"
            " run `claude` there once and accept its trust dialog"
        )
    environment = client_environment(os.environ)
    if config_dir is not None:
        environment["CLAUDE_CONFIG_DIR"] = str(config_dir)
    return ClientRun(program, folder, environment)


def named_folder(root: Path) -> Path | None:
    """Return a folder of the client's as `prepare_run` takes it: None where it is the default.

    A client that is told of its own default keeps its settings elsewhere.
    """
    default = default_folder(os.environ, Path.home()).expanduser()
    return None if default.resolve() == root.resolve() else root
