"""Hooks of ctxtop's own in the lab's settings, with the features that they are to answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctxtop.collectors.plugin import installed_commands

if TYPE_CHECKING:
    from .lab import Lab


def hook_command(lab: Lab, event: str, *features: str) -> dict[str, Any]:
    """Write a hook as settings have it; it keeps its store where the lab has its own."""
    return {
        "type": "command",
        "command": installed_commands.hook_command(lab.store, event, features),
    }


def install(lab: Lab, **features: str) -> None:
    """Install our hooks in the client.

    Each keyword is an event; its value lists the features, separated by spaces.
    """
    hooks = {
        event: [{"hooks": [hook_command(lab, event, *named.split())]}]
        for event, named in features.items()
    }
    lab.write_settings({"hooks": hooks})
