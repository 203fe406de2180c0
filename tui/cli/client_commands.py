"""What Claude Code itself runs, as commands for a person's own settings.

`ctxtop hooks install` writes faster ones: see collectors/plugin/command_line.py.
"""

from __future__ import annotations

import shlex

import click

from .options import chosen, common
from .report import DONE, FAILED, say
from .start import resolve


@click.command(context_settings={"ignore_unknown_options": True})
@common
@click.argument("words", nargs=-1, metavar="EVENT [FEATURE]...")
@click.pass_context
def hook(context: click.Context, *, words: tuple[str, ...]) -> int:
    """Record the event that Claude Code tells on stdin, and answer it.

    Only the features that are named answer: enforce, inject, steer, remember,
    prompts, confirm.
    """
    from ...collectors.plugin.hook import main

    if not words:
        # Not 2, as for every other command: that would hold up what the client does.
        say("name the event, as in `ctxtop hook SubagentStop`")
        return FAILED
    main([_store(context), *words])
    return DONE


@click.command()
@common
@click.argument("wrapped", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG]...]")
@click.pass_context
def statusline(context: click.Context, *, wrapped: tuple[str, ...]) -> int:
    """Print Claude Code's status line: how full, compacted when, who did not comply.

    COMMAND is one that stood there before: what it prints stands above ours.
    """
    from ...collectors.plugin.statusline import WRAP, main

    # One word is a shell's whole command, as Claude Code keeps it.
    command = wrapped[0] if len(wrapped) == 1 else shlex.join(wrapped)
    main([_store(context), *([WRAP, command] if wrapped else [])])
    return DONE


def _store(context: click.Context) -> str:
    options = chosen(context)
    return str(resolve(options.config_dir, options.db).store)
