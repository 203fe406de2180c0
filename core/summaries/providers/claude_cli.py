"""The client itself, asked once with `claude -p`: no session is kept, no tool is there."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ...child_process import client_environment, find_program
from .provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .provider import Request

PROGRAM: Final = "claude"

SHOWN: Final = 200
"""Characters of what the client says of an error: one line."""

OPTIONS: Final = (
    "--no-session-persistence",
    "--safe-mode",
    "--setting-sources",
    "user",
    "--tools",
    "",
    "--output-format",
    "json",
)
"""No transcript of its own, no hooks, skills, memory or plugins, no tools (2.1.329, `--help`)."""


class _Said(msgspec.Struct):
    result: str = ""
    is_error: bool = False


class ClaudeCli(msgspec.Struct, frozen=True):
    """A run of the client in an empty folder; the conversation goes in by stdin."""

    environment: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ClaudeCli({self.name})"

    @property
    def name(self) -> str:
        """The command."""
        return f"{PROGRAM} -p"

    def generate(self, request: Request, timeout_s: float) -> str:
        """Give what it prints; raises ProviderError."""
        program = find_program(PROGRAM, self.environment)
        if program is None:
            raise ProviderError(f"there is no `{PROGRAM}` on the PATH: install it, or name another")
        words = [program, "-p", "--model", request.model, "--system-prompt", request.system]
        own = client_environment(self.environment)
        with tempfile.TemporaryDirectory(prefix="ctxtop-") as folder:
            # Above it stands a folder that others may write to: nothing is looked for there.
            own["GIT_CEILING_DIRECTORIES"] = str(Path(folder).parent)
            try:
                ended = subprocess.run(  # noqa: S603 -- no shell; nothing of the text is a word
                    [*words, *OPTIONS],
                    cwd=folder,
                    env=own,
                    input=request.text.encode("utf-8", "replace"),
                    capture_output=True,
                    timeout=timeout_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                why = f"the client took more than {timeout_s:.0f} s and was ended"
                raise ProviderError(why, passing=True) from None
            except OSError as error:
                raise ProviderError(f"{program} cannot be run: {error.strerror}") from None
        return _answer(ended)


def _answer(ended: subprocess.CompletedProcess[bytes]) -> str:
    try:
        said = msgspec.json.decode(ended.stdout, type=_Said)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = _Said(is_error=True)
    if ended.returncode or said.is_error:
        words = said.result or (ended.stderr or ended.stdout).decode("utf-8", "replace")
        shown = " ".join(words.split())[:SHOWN] or f"it said nothing, code {ended.returncode}"
        raise ProviderError(f"the client gave no summary: {shown}", passing=True)
    return said.result
