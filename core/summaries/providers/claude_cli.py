"""The client itself, asked once with `claude -p`: no session is kept, no tool is there."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Final

import msgspec

from .provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .provider import Request

PROGRAM: Final = "claude"

SHOWN: Final = 200
"""Characters of what the client says of an error: one line."""

_OF_A_SESSION: Final = ("CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID")
"""Variables that a client sets for what it starts: this is no part of that session."""

OPTIONS: Final = (
    "--no-session-persistence",
    "--safe-mode",
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

    def ask(self, request: Request, timeout_s: float) -> str:
        """Give what it prints; raises ProviderError."""
        program = shutil.which(PROGRAM, path=self.environment.get("PATH"))
        if program is None:
            raise ProviderError(f"there is no `{PROGRAM}` on the PATH: install it, or name another")
        words = [program, "-p", "--model", request.model, "--system-prompt", request.system]
        own = {name: each for name, each in self.environment.items() if name not in _OF_A_SESSION}
        with tempfile.TemporaryDirectory(prefix="ctxtop-") as folder:
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
