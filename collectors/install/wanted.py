"""What is to stand in Claude Code's settings: which events, with which features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..plugin.command_line import hook_command
from ..plugin.features import FEATURES

if TYPE_CHECKING:
    from pathlib import Path

RECORDED: Final = (
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "Notification",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PostModelSwitch",
    "TaskCreated",
    "TaskCompleted",
    "TeammateIdle",
)
"""Events that change who runs, how full it is or what it waits for. Tools are not among them:
the transcript has each of their calls, and a hook would run before every one; nor is
WorktreeCreate, as who subscribes to it has to make the worktree (claude-code-formats 4.1)."""

TIMEOUT_S: Final = 10
"""How long the client waits for a hook of ours; its own default is ten minutes."""

WITHOUT_TIMEOUT: Final = frozenset({"SessionEnd"})
"""The client would wait as long for everybody's hooks there (claude-code-formats 4.1)."""

Handler = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person asked for."""

    store: Path
    features: tuple[str, ...] = ()
    """In the order of FEATURES."""
    as_plugin: bool = False
    status_line: bool = False


def handlers(options: Wanted) -> dict[str, Handler]:
    """Write the handler of each event that is to have one."""
    answered = {event for name in options.features for event in FEATURES[name]}
    events = [*RECORDED, *sorted(answered.difference(RECORDED))]
    return {event: _handler(options, event) for event in events}


def _handler(options: Wanted, event: str) -> Handler:
    features = tuple(name for name in options.features if event in FEATURES[name])
    command = hook_command(options.store, event, features)
    handler: Handler = {"type": "command", "command": command}
    return handler if event in WITHOUT_TIMEOUT else handler | {"timeout": TIMEOUT_S}
