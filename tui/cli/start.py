"""Opening the dashboard: on Claude Code's folder, or on the demo where there is none."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from .report import USAGE, RefusedError, say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..places import Places


DRIVER: Final = "TEXTUAL_DRIVER"
"""Textual's name for what stands in for a terminal, as a page in a browser does."""


def open_dashboard(
    config: Path | None,
    store: Path | None,
    policy: Sequence[tuple[str, str]] = (),
    *,
    mouse: bool = True,
) -> int:
    """Run the dashboard until a person leaves it; the code is the command's.

    Raises PlaceError or RefusedError where a named place cannot be used.
    """
    if not (sys.stdout.isatty() or DRIVER in os.environ):
        say("the dashboard needs a terminal; `ctxtop sessions` prints the same")
        return USAGE
    places = resolve(config, store, policy)
    if places.exists:
        from ..app import run_dashboard

        return run_dashboard(places, mouse=mouse, welcomes=True)
    notice = (
        f"no Claude Code folder at {places.config_dir}: this is the demo;"
        " name a folder with --config-dir"
    )
    say(notice)
    from ..demo import run_demo

    return run_demo(notice, policy, mouse=mouse)


def resolve(
    config: Path | None, store: Path | None, policy: Sequence[tuple[str, str]] = ()
) -> Places:
    """Find the places of this run; raises PlaceError or RefusedError where that is not possible."""
    from ..places import find_places

    try:
        return find_places(config, store, policy)
    except RuntimeError as error:
        # pathlib's word for a ~ without a home and for links in a circle.
        raise RefusedError(
            f"{str(error).rstrip('.')}: name the places in full with --config-dir and --db"
        ) from error
