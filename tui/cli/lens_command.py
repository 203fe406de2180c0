"""`ctxtop lens`: what a compaction kept and what it forgot, and that as a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...collectors.collect import Collector
from .emit import emit
from .options import chosen, reading
from .reading import open_reading
from .report import RefusedError
from .times import time_of

if TYPE_CHECKING:
    from ...core.kept_at import Halves
    from ...core.store.rows import CompactionRow
    from ...core.summaries.artifacts import Artifacts
    from ...core.told import Told
    from .reading import Reading


@click.command()
@reading
@click.argument("session")
@click.option("--boundary", metavar="UUID", help="This compaction; its start is enough.  [newest]")
@click.option("--prompt", is_flag=True, help="Print what was forgotten as a prompt, and no more.")
@click.pass_context
def lens(context: click.Context, *, session: str, boundary: str | None, prompt: bool) -> int:
    """Show what a compaction kept and what it forgot.

    The start of SESSION's id is enough.
    """
    from ...core.told import unpack
    from ..forgotten_prompt import forgotten_prompt

    with open_reading(chosen(context), Collector.scan_and_report_compactions) as found:
        row = _compaction(found, session, boundary or "")
        told, halves = unpack(row.report), _halves(found, row)
        words = forgotten_prompt(told.forgotten) if told else ""
        return emit(
            context,
            lens_record(row, halves, words),
            lambda: words.splitlines() if prompt else _lines(row, told, halves),
        )


def _compaction(found: Reading, session: str, start: str) -> CompactionRow:
    from ...core.store.queries import compactions

    session_id = found.session_id(session) or session
    rows = compactions(found.db, session_id)
    row = next((row for row in rows if row.uuid.startswith(start)), None)
    if row is None:
        raise RefusedError(
            f"session {session_id} has no such compaction;"
            f" `ctxtop compactions --session {session_id}` lists them"
        )
    return row


def _halves(found: Reading, row: CompactionRow) -> Halves | None:
    from ...collectors.halves import read_halves

    try:
        return read_halves(found.db, found.places.folder.projects, row)
    except OSError as error:
        raise RefusedError(f"the transcript cannot be read: {error.strerror or error}") from error


def lens_record(row: CompactionRow, halves: Halves | None, prompt: str) -> dict[str, Any]:
    """Make the object of `ctxtop lens`."""
    return {
        "session_id": row.session_id,
        "agent_id": row.agent_id,
        "boundary_uuid": row.uuid,
        "at": time_of(row.at),
        "pre_tokens": row.pre_tokens,
        "post_tokens": row.post_tokens,
        "next_answer_tokens": row.next_tokens,
        "estimated_next_tokens": row.estimated_next_tokens,
        "kept": _artifacts(halves.retained) if halves and halves.is_known else None,
        "forgotten": _artifacts(halves.lost) if halves and halves.is_known else None,
        "summary": row.summary,
        "prompt": prompt or None,
    }


def _artifacts(found: Artifacts) -> dict[str, Any]:
    return {
        "files": [use.path for use in found.files],
        "identifiers": [name.text for name in found.names],
        "decisions": [{"text": said.text, "line": said.line} for said in found.decisions],
        "todos": [{"text": todo.text, "line": todo.line} for todo in found.todos],
        "constraints": [{"text": said.text, "line": said.line} for said in found.constraints],
    }


def _lines(row: CompactionRow, told: Told | None, halves: Halves | None) -> list[str]:
    from ..compaction_rows import cut_words
    from ..lens_rows import is_known, kinds_of, lens_listing
    from ..told_lines import UNKNOWN
    from .columns import terminal_width

    empty = "nothing was forgotten" if is_known(told, halves) else UNKNOWN
    listing = lens_listing(kinds_of(told, halves, ()), terminal_width(), empty)
    rows = [row.content.plain.rstrip() for row in listing.rows]
    return [cut_words(row), listing.head.plain, *(rows or [listing.empty])]
