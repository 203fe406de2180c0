"""Runs a command line; a command's module is imported when it runs, `--help` imports none."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click
from ctxtop import __version__

from ..base.command_errors import (
    COMPLETION_VARIABLE,
    DONE,
    FAILED,
    INTERRUPTED,
    USAGE,
    expected_errors,
    print_error,
)
from .command_options import (
    CommandOptions,
    mouse_option,
    options_of,
    refuse_options,
    registry,
    store_options,
)

if TYPE_CHECKING:
    from ...core.model.problem import Problem

COMPLETION_SHELLS: Final = ("bash", "zsh", "fish")
_COMPLETION_REQUESTS: Final = frozenset(
    f"{shell}_{request}" for shell in COMPLETION_SHELLS for request in ("source", "complete")
)

_CLICK_SETTINGS: Final[dict[str, Any]] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}


def run(words: list[str]) -> int:
    """Run one command line; a usage error is one line and code 2.

    If it fails because the store is damaged, the store is rebuilt and the command run once more.
    A fault of ours is one line and code 1; the log has its traceback.
    """
    options = CommandOptions()
    try:
        return _run(words, options)
    except Exception as error:  # noqa: BLE001 -- raised again below, unless a rebuild helps
        failed = error
    # Imported only now: `ctxtop --version` needs nothing of the store.
    from ...core.store.bulkhead import FAILED as FAILED_BY_FAULT
    from ...core.store.bulkhead import bulkhead
    from .command_store import show_faults

    faults: list[Problem] = []
    name = f"ctxtop {words[0]}" if words else "ctxtop"
    with bulkhead(name, FAILED_BY_FAULT, None, faults.append, expected_errors()):
        return _run_after_rebuild(words, options, failed)
    show_faults(options.places, faults)
    return FAILED


def _run_after_rebuild(words: list[str], options: CommandOptions, failed: Exception) -> int:
    """Run the command again if a damaged store made it fail; else raise what it failed with."""
    from .command_store import rebuild_if_damaged

    rebuilt = rebuild_if_damaged(options, failed)
    if rebuilt is None:
        raise failed
    print_error(rebuilt)
    return _run(words, CommandOptions())


def _run(words: list[str], options: CommandOptions) -> int:
    asked = os.environ.get(COMPLETION_VARIABLE)
    if asked and asked not in _COMPLETION_REQUESTS:
        shells = ", ".join(f"{shell}_source" for shell in COMPLETION_SHELLS)
        print_error(f"{COMPLETION_VARIABLE}={asked} is unknown: use one of {shells}")
        return USAGE
    try:
        code = ctxtop.main(words, prog_name="ctxtop", standalone_mode=False, obj=options)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "ctxtop"
        print_error(f"{error.format_message().rstrip('.')}; see `{path} --help`")
        return USAGE
    except click.Abort:
        return INTERRUPTED
    return int(code or DONE)


COMMAND_MODULES: Final = {
    "archive_command": {
        "archive": "Archive the sessions that Claude Code is about to delete.",
    },
    "cache_command": {
        "cache": "Show what was written to the prompt cache again, and why.",
    },
    "compact_commands": {
        "compact": "Plan a compaction; writes nothing without --apply.",
        "history": "List all changes, newest first, or the operations of one.",
        "trigger": "Ask Claude Code to compact a session, and wait for it.",
        "undo": "Undo a change.",
    },
    "compliance_commands": {
        "check": "Check a text against the format of compressed results.",
        "compliance": "Show how well agents compress their results, by type.",
        "findings": "List reviewers' findings by severity and file, each once.",
    },
    "dashboard_commands": {
        "demo": "Open the dashboard on generated data.",
        "serve": "Show the dashboard in a browser on this machine.",
    },
    "export_command": {
        "export": "Export ctxtop's data.",
    },
    "hook_runs_command": {  # the last of the modules that add to this group
        "hooks": "Install, inspect or remove ctxtop's hooks in Claude Code.",
    },
    "hooks_commands": {
        "hook": "Record and answer the event that Claude Code sends on stdin.",
        "statusline": "Print Claude Code's status line.",
    },
    "limits_command": {
        "limits": "Show how much of the plan's limits is used.",
    },
    "policy_commands": {
        "keys": "List the dashboard's keys; set `keys.ID` to change one.",
        "notify": "Show how ctxtop notifies you (settings notify.*).",
        "settings": "Show every setting and where its value comes from.",
        "trust": "Trust a project's .ctxtop.toml.",
    },
    "recover_command": {
        "recover": "Repair a session that the API refuses.",
    },
    "saves_command": {
        "saves": "List the state of claude-memory's saves by project.",
    },
    "search_command": {
        "search": "Search the prompts and answers of all sessions and agents.",
    },
    "session_commands": {
        "context": "Show what fills the context of a session or an agent.",
        "evidence": "Show the sources of a session's numbers.",
        "inject": "Show what a starting agent would be given, and why.",
        "lens": "Show what a compaction kept and lost.",
        "timeline": "Draw the context of a session or an agent over its turns.",
    },
    "store_commands": {
        "agents": "List the agents and their results.",
        "close-agent": "Close an agent that fell silent.",
        "compactions": "List the compactions and what each kept and lost.",
        "doctor": "Check that ctxtop works here.",
        "log": "List events: warnings, compactions, changes and more.",
        "scan": "Update the store and summarize what it contains.",
        "sessions": "List the sessions and how full each context is.",
        "totals": "Add up all tokens in the store.",
        "warnings": "List the warnings.",
    },
    "summaries_command": {
        "diff": "Compare SUMMARY with OTHER, or with what it replaced.",
        "rule": "Pin or drop RULE.",
        "summaries": "List agent results, summaries and plans, or your rules.",
    },
    "terminal_commands": {
        "pause": "Pause idle sessions before a break, while that is cheap.",
        "resume": "Resume a session that is not open, in its folder.",
    },
}
"""By module the first sentence of each command's help, which a test compares with the command."""

ALIASES: Final = {"policy": "policy_commands", "receipts": "compact_commands"}
"""Earlier names, which no help lists."""


def load_command(name: str) -> click.Command:
    """Import a command's module and return the command; raises KeyError for an unknown name."""
    if name not in registry.commands:
        import_module(f".{_MODULE_OF[name]}", __package__)
    return registry.commands[name]


_MODULE_OF: Final = ALIASES | {
    name: module for module, helps in COMMAND_MODULES.items() for name in helps
}


def _placeholders() -> dict[str, click.Command]:
    listed = {name: text for helps in COMMAND_MODULES.values() for name, text in helps.items()}
    return {name: click.Command(name, help=text) for name, text in listed.items()} | {
        name: click.Command(name, hidden=True) for name in ALIASES
    }


class CommandGroup(click.Group):
    """Has a placeholder for each command, for help and completion; running one replaces it."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 -- click's
        super().__init__(**settings, commands=_placeholders())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(name or ""), rest

    def load_all(self) -> dict[str, click.Command]:
        """Import every command, for what describes them all."""
        return {name: load_command(name) for name in self.commands}


@click.group(cls=CommandGroup, invoke_without_command=True, context_settings=_CLICK_SETTINGS)
@click.version_option(__version__, prog_name="ctxtop", message="%(prog)s %(version)s")
@store_options
@mouse_option
@click.pass_context
def ctxtop(context: click.Context) -> int:
    """Like top, for Claude Code's context windows: how full every session and agent is.

    Without a command, opens the dashboard.
    """
    if context.invoked_subcommand not in {None, "demo"}:
        refuse_options(context, no_mouse="--no-mouse only applies to the dashboard: omit it")
    if context.invoked_subcommand is not None:
        return DONE
    refuse_options(
        context,
        as_json="--json needs a command, such as `ctxtop sessions --json`",
        no_scan="the dashboard always scans; use `ctxtop sessions --no-scan`",
    )
    from ..launch import open_dashboard

    options = options_of(context)
    return open_dashboard(
        options.config_dir, options.db, options.policy, mouse=not options.no_mouse
    )
