"""`ctxtop saves`: where each project's claude-memory save stands, and what saves cost."""

from __future__ import annotations

import click

from ...collectors.collect import Collector
from .emit import emit
from .options import chosen, reading
from .reading import open_reading


@click.command()
@reading
@click.pass_context
def saves(context: click.Context) -> int:
    """Say how claude-memory's saves stand, project by project. Newest first.

    It looks into every place that a version of the plugin ever used, and changes nothing.
    """
    from ...core.saves.report import read_saves
    from . import saves_lines

    with open_reading(chosen(context), Collector.scan_and_measure_saves) as found:
        report = read_saves(found.db, found.sessions(), found.now_ms, found.policies)
        return emit(
            context,
            [saves_lines.record(each, report, found.now_ms) for each in report.projects],
            lambda: (
                saves_lines.table(report, found.now_ms)
                or [f"no saves of claude-memory yet in {found.places.config_dir}"]
            ),
        )
