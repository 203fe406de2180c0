"""Where a command starts: its places, and the dashboard or the demo where none is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .command_errors import USAGE, RefusedError, print_error

if TYPE_CHECKING:
    from ...collectors.places import Places


TEXTUAL_DRIVER: Final = "TEXTUAL_DRIVER"
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
    if not (sys.stdout.isatty() or TEXTUAL_DRIVER in os.environ):
        print_error("the dashboard needs a terminal; `ctxtop sessions` prints the same")
        return USAGE
    places = resolve_places(config, store, policy)
    if places.exists:
        from ..launch import run_dashboard

        return run_dashboard(places, mouse=mouse, welcomes=True)
    notice = (
        f"no Claude Code folder at {places.config_dir}: this is the demo;"
        " name a folder with --config-dir"
    )
    print_error(notice)
    from ..launch import run_demo

    return run_demo(notice, policy, mouse=mouse)


def resolve_places(
    config: Path | None, store: Path | None, policy: Sequence[tuple[str, str]] = ()
) -> Places:
    """Find the places of this run; raises PlaceError or RefusedError where that is not possible."""
    from ...collectors.places import find_places

    try:
        return find_places(config, store, policy)
    except RuntimeError as error:
        # pathlib's word for a ~ without a home and for links in a circle.
        raise RefusedError(
            f"{str(error).rstrip('.')}: name the places in full with --config-dir and --db"
        ) from error
