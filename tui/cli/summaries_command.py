"""`ctxtop summaries`: what was returned, kept and planned, as a table, JSON or Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from ...collectors.collect import Collector
from ...core.summary_list import PlanText, Wanted, read_rows
from ..formats import one_line
from . import as_json
from .emit import emit
from .options import chosen, reading, session
from .reading import open_reading
from .report import DONE, FAILED, say, say_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.store.rows import SummaryRow
    from .reading import Reading


class Summaries(msgspec.Struct, frozen=True):
    """What one command found, whole."""

    rows: tuple[SummaryRow, ...]
    plans: tuple[PlanText, ...]
    filter_errors: tuple[str, ...]
    """Filters that were not understood."""
    session_titles: dict[str, str]
    """Titles and projects of the sessions."""


@click.command()
@reading
@session
@click.option(
    "--search",
    default="",
    metavar="TEXT",
    help='Words, "a phrase", -not; project:, type:, kind:, since:7d.',
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown"]),
    default="text",
    help="How to print them.",
)
@click.option("--export", metavar="FILE", help="Write them as Markdown into a new FILE.")
@click.option("--no-redact", is_flag=True, help="Leave keys and passwords in the Markdown.")
@click.pass_context
def summaries(
    context: click.Context,
    *,
    session: str | None,
    search: str,
    form: str,
    export: str | None,
    no_redact: bool,
) -> int:
    """List what agents returned, what compactions kept, and plans. Newest first."""
    options = chosen(context)
    if options.as_json and (export or form != "text"):
        raise click.UsageError("--json prints JSON: leave out --format and --export", context)
    words = search.encode("utf-8", "replace").decode()
    with open_reading(options, Collector.scan_and_count_tokens) as found:
        listed = read_summaries(found, words, found.session_id(session))
        say_all(listed.filter_errors)
        if export is not None:
            return _export(listed, export, redacting=not no_redact)
        if form == "markdown":
            return _print_markdown(listed, redacting=not no_redact)
        what = f"summaries with {words!r}" if words.strip() else "summaries"
        where = f"of session {session}" if session else f"in {found.places.config_dir}"
        return emit(
            context,
            records_of(listed),
            lambda: _lines(listed.rows) or [f"no {what} yet {where}"],
        )


def read_summaries(found: Reading, words: str, session_id: str | None = None) -> Summaries:
    """Find what is searched for, as the dashboard's page does, and read it whole."""
    from ..summary_source import SummarySource

    sessions = found.sessions()
    projects = {each.session_id: each.project for each in sessions}
    wanted = Wanted(query=words, session_id=session_id)
    source = SummarySource(found.places.store)
    listing = source.list(found.db, wanted, projects, found.now_ms)
    return Summaries(
        rows=tuple(read_rows(found.db, listing.plans, listing.found.ids)),
        plans=listing.plans,
        filter_errors=listing.found.search.problems,
        session_titles={
            each.session_id: f"{one_line(each.title)} · {one_line(each.project)}"
            for each in sessions
        },
    )


def records_of(listed: Summaries) -> list[dict[str, Any]]:
    """Say them for programs (commands.md)."""
    return [as_json.summary(each, id_of(each, listed.plans)) for each in listed.rows]


def id_of(row: SummaryRow, plans: Sequence[PlanText]) -> str:
    """Name a summary for `ctxtop diff`: its number, or a plan's receipt and operation."""
    plan = next((each for each in plans if each.row.summary_id == row.summary_id), None)
    return str(row.summary_id) if plan is None else f"{plan.receipt_id}.{plan.operation_number + 1}"


def _lines(rows: Sequence[SummaryRow]) -> list[str]:
    from . import as_table

    return as_table.summaries(rows)


def _print_markdown(listed: Summaries, *, redacting: bool) -> int:
    from ...core.redaction import redact
    from ..summary_markdown import summaries_markdown
    from .columns import put

    text = "".join(summaries_markdown(listed.rows, listed.session_titles)).removesuffix("\n")
    put((redact(text) if redacting else text).split("\n"))
    return DONE


def _export(listed: Summaries, named: str, *, redacting: bool) -> int:
    from ..export_file import ExportError, named_path, write_export
    from ..summary_markdown import summaries_markdown

    if not listed.rows:
        say("no summaries to export: nothing was written")
        return FAILED
    try:
        path = named_path(named, Path.cwd())
        parts = summaries_markdown(listed.rows, listed.session_titles)
        size = write_export(path, parts, redacting=redacting)
    except ExportError as error:
        say(str(error))
        return FAILED
    count = len(listed.rows)
    print(f"{count:,} summar{'y' if count == 1 else 'ies'}, {size:,} bytes: {one_line(str(path))}")
    return DONE
