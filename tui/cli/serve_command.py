"""`ctxtop serve`: the dashboard in a browser on this machine."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Final

import click

from ...core.child_process import python_command
from .emit import emit
from .options import chosen, common
from .report import DONE, FAILED, say
from .start import resolve

if TYPE_CHECKING:
    from ..places import Places

INSTALL: Final = "the browser's part is not installed: pip install 'ctxtop[web]'"


@click.command()
@common
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="A port of your choice; else any."
)
@click.pass_context
def serve(context: click.Context, *, port: int) -> int:
    """Show the dashboard in a browser on this machine, to whoever has its address.

    It listens to this machine alone, and the address holds a token that is new each time. Ctrl+C
    ends it.
    """
    try:
        from ...core.loopback import LOOPBACK
        from ..web.guard import new_token
        from ..web.serve import serve as run
    except ModuleNotFoundError as error:
        if error.name not in {"aiohttp", "textual_serve"}:
            raise
        say(INSTALL)
        return FAILED
    options = chosen(context)
    command = dashboard(resolve(options.config_dir, options.db))
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, port))
            # Before the address is told: what comes early then waits, and is not refused.
            listening.listen()
        except OSError as error:
            say(f"port {port} cannot be used ({error.strerror}): give another with --port")
            return FAILED

        def tell(address: str) -> None:
            emit(context, {"address": address}, lambda: [address])
            sys.stdout.flush()

        run(command, listening, new_token(), tell)
    return DONE


def dashboard(places: Places) -> list[str]:
    """Give the command that opens the dashboard; each page runs it."""
    if not places.exists:
        return python_command("ctxtop", "demo")
    where = ("--config-dir", str(places.config_dir), "--db", str(places.store))
    return python_command("ctxtop", *where)
