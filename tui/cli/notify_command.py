"""`ctxtop notify --test`: tries the ways in which ctxtop tells a person of something."""

from __future__ import annotations

import sys
import time

import click

from .emit import emit
from .options import chosen, common
from .reading import policy_of
from .report import RefusedError


@click.command()
@common
@click.option("--test", is_flag=True, help="Send a notice for trying it.")
@click.pass_context
def notify(context: click.Context, *, test: bool) -> int:
    """Say how ctxtop tells you of things, by the policy's notify.*; --test tries it."""
    from .. import channels, notices

    policy, _ = policy_of(chosen(context), None)
    wanted, environ = notices.wanted_of(policy), channels.environment()
    how = channels.choose(wanted.desktop, environ)
    said = channels.said_of(how, environ)
    failure = ""
    if test:
        notice = notices.of_test(time.time_ns() // 1_000_000)
        way = channels.way_of(notice, how, environ)
        if isinstance(way, channels.Program):
            failure = channels.run(way)
        elif sys.stderr.isatty():
            bell = "\a" if wanted.bell else ""
            # Beside the output, which a program may read.
            print(bell + (way.text if way else ""), end="", file=sys.stderr, flush=True)
    if failure:
        raise RefusedError(failure)
    record = {
        "toast": wanted.toast,
        "bell": wanted.bell,
        "desktop": how,
        "condition": said or None,
        "quiet": str(wanted.quiet_hours) if wanted.quiet_hours else None,
        "tested": test,
    }
    return emit(context, record, lambda: [notices.ways_in_words(wanted, how, said)])
