"""`ctxtop demo` and `serve`: the dashboard on generated data, and in a browser."""

import socket
import sys

import click

from ...collectors.locations.places import Places, find_places
from ...core.host import LOOPBACK, python_command
from ..base.command_errors import DONE, FAILED, USAGE, print_error
from .command_options import common_command, mouse_option, options_of, refuse_options
from .printing import print_result


@common_command()
@mouse_option
@click.option("--once", is_flag=True, help="Generate the data, print its folder and exit.")
def demo(context: click.Context, *, once: bool) -> int:
    """Open the dashboard on generated data."""
    from ..launch import make_demo_folder, run_demo

    reason = "the demo has its own folder and store: omit --config-dir and --db"
    refuse_options(context, config_dir=reason, db=reason, no_scan="the demo always scans")
    if once:
        folder = str(make_demo_folder().root)
        return print_result(context, {"config_dir": folder}, lambda: [folder])
    refuse_options(context, as_json="--json needs --once: use `ctxtop demo --once --json`")
    if not sys.stdout.isatty():
        print_error("the dashboard needs a terminal; `ctxtop demo --once` only generates the data")
        return USAGE
    options = options_of(context)
    return run_demo(policy=options.policy, mouse=not options.no_mouse)


@common_command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    default=0,
    help="The port.  [default: any free port]",
)
def serve(context: click.Context, *, port: int) -> int:
    """Show the dashboard in a browser on this machine.

    It listens on this machine only. The address contains a token that is new each time. Ctrl+C
    stops it.
    """
    try:
        from ..web_server import new_token, serve_dashboard
    except ModuleNotFoundError as error:
        if error.name not in {"aiohttp", "textual_serve"}:
            raise
        print_error("the web extra is not installed: pip install 'ctxtop[web]'")
        return FAILED
    options = options_of(context)
    command = _dashboard_command(find_places(options.config_dir, options.db))
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, port))
            # Before the address is printed: an early request then waits instead of being refused.
            listening.listen()
        except OSError as error:
            print_error(
                f"port {port} cannot be used ({error.strerror}): choose another with --port"
            )
            return FAILED

        def print_address(address: str) -> None:
            print_result(context, {"address": address}, lambda: [address])
            sys.stdout.flush()

        serve_dashboard(command, listening, new_token(), print_address)
    return DONE


def _dashboard_command(places: Places) -> list[str]:
    if not places.exists:
        return python_command("ctxtop", "demo")
    where = ("--config-dir", str(places.config_dir), "--db", str(places.store))
    return python_command("ctxtop", *where)
