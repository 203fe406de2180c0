"""Go to the terminal in which a session is open."""

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..claude_code.registry import list_open_sessions
from .tmux_panes import (
    PaneError,
    TmuxPane,
    default_socket,
    find_surrounding_pane,
    is_same_server,
    own_pane,
)

if TYPE_CHECKING:
    from ...core.model.transcript_records import LiveSession
    from ..locations.discover import ClaudeFolder

NOT_OPEN: Final = "it is not open in Claude Code: resume it instead"


class NoTerminalError(Exception):
    """ctxtop cannot go there; one line says where the session is, and what to do."""


class ElsewhereError(NoTerminalError):
    """The session is in a tmux pane that this terminal does not show."""

    def __init__(self, address: str, command: str) -> None:
        super().__init__(f"it is in the tmux pane {address}: {command}")
        self.command = command  # shows that pane in any terminal


def jump_to_session(
    folder: "ClaudeFolder", session_id: str, environ: Mapping[str, str] = os.environ
) -> str:
    """Show the session's pane in this tmux client, and return its address.

    Raises ElsewhereError, NoTerminalError.
    """
    opened = (live for live in list_open_sessions(folder) if live.session_id == session_id)
    live = next(opened, None)
    if live is None:
        raise NoTerminalError(NOT_OPEN)
    pane = find_surrounding_pane(live.pid)
    if pane is None:
        raise NoTerminalError(f"it is not in one of your tmux panes: look {_place(live)}")
    try:
        return _show_pane(pane, own_pane(environ))
    except PaneError as error:
        raise NoTerminalError(str(error)) from error


def _show_pane(pane: TmuxPane, own: TmuxPane | None) -> str:
    address = pane.address()
    if own is None or not is_same_server(own, pane):
        raise ElsewhereError(address, _attach_command(pane, address))
    target = ("-t", pane.pane_id)
    pane.run("select-window", *target, ";", "select-pane", *target)
    if own.session_id() != pane.session_id():
        pane.run("switch-client", *target)
    return address


def _attach_command(pane: TmuxPane, address: str) -> str:
    server = [] if pane.socket == default_socket() else ["-S", pane.socket]
    return shlex.join(["tmux", *server, "attach", "-t", address])


def _place(live: "LiveSession") -> str:
    import psutil

    try:
        terminal = psutil.Process(live.pid).terminal()
    except (psutil.Error, OSError):
        terminal = None
    return f"at process {live.pid} on {terminal}" if terminal else f"at process {live.pid}"
