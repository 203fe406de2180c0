"""Slash commands: what a person typed, and which of them ask nothing of the model."""

import re
from typing import Final, NamedTuple

from ..lazy_pattern import lazy_pattern

_CLIENT_COMMANDS_TEXT: Final = (
    "add-dir advisor agents allowed-tools autocompact bashes bug checkpoint checkup clear"
    " color compact config context copy cost desktop doctor effort exit export extra-usage fast"
    " feedback fork heapdump help hooks ide install install-github-app install-slack-app"
    " keybindings login logout mcp memory mobile model new output-style passes permissions plugin"
    " plugins privacy-settings quit rate-limit-options release-notes reload reload-plugins"
    " reload-skills remote-control remote-env rename reset resume rewind sandbox scroll-speed"
    " settings setup-bedrock setup-vertex skills stats status stickers tasks teleport"
    " terminal-setup theme todos tui undo upgrade usage usage-credits vim voice web-setup"
)
_CLIENT_COMMANDS: Final = frozenset(_CLIENT_COMMANDS_TEXT.split())
"""Commands of the client itself that ask nothing of the model: those of types `local` and
`local-jsx` in client 2.1.329 with their other names, and those of earlier clients. A name that a
person's own command is likely to have (`branch`, `import`, `session`) is left out."""

_MODE_COMMANDS: Final = frozenset({"plan"})  # ask something of the model only by their arguments

_COMMAND: Final = lazy_pattern(
    r"<command-name>\s*/?([^<\s]{1,80})\s*</command-name>"
    r"(?:.{0,500}?<command-args>(.*?)</command-args>)?",
    re.DOTALL,
)


class SlashCommand(NamedTuple):
    name: str
    arguments: str

    def __str__(self) -> str:
        """Write it as the person typed it."""
        return f"/{self.name} {self.arguments}".strip()

    @property
    def asks_model(self) -> bool:
        if self.name in _MODE_COMMANDS:
            return bool(self.arguments)
        return self.name not in _CLIENT_COMMANDS


def find_slash_command(text: str) -> SlashCommand | None:
    """Find the command in a user's message as the client records it."""
    found = _COMMAND.search(text)
    return SlashCommand(found[1], (found[2] or "").strip()) if found else None
