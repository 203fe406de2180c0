"""`ctxtop summaries` and `ctxtop diff`: list summaries, and compare them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec.structs import replace

from ...collectors.claude_code.transcripts import replaced_content
from ...collectors.collector_thread import Collector
from ...core.model.rule import ListedRule, RuleMark
from ...core.model.stored_rows import SummaryRow
from ...core.readers.fleet_reader import session_place
from ...core.readers.rule_reader import read_listed_rules
from ...core.readers.summary_reader import find_summaries, read_summary_rows, summary_flaws
from ...core.store.bulkhead import NOT_SHOWN, work_apart
from ...core.store.database import state_folder
from ...core.summaries.rule_choices import mark_rule, read_rule_choices
from ...core.summaries.summary_comparison import ItemFate, ReplacedContent, TextDiff, diff_texts
from ...core.summaries.summary_search import (
    RULE_KIND,
    SUMMARY_KINDS,
    PlanSummary,
    SummaryCriteria,
    parse_summary_query,
)
from ...core.transcript.sanitize import one_line
from ..base.command_errors import DONE, FAILED, RefusedError, print_error, print_errors
from .command_options import options_of, session_option, store_command
from .command_store import StoreSnapshot, open_snapshot
from .json_records import Record, summary_record
from .printing import paint, print_lines, print_result
from .result_tables import summaries_list


class ListedSummaries(msgspec.Struct, frozen=True):
    """The summaries that a command found, with their whole text."""

    rows: tuple[SummaryRow, ...]
    rules: dict[int, ListedRule]  # what is known of the rules among them, by their ids
    plans: tuple[PlanSummary, ...]
    filter_errors: tuple[str, ...]  # filters that were not understood
    session_titles: dict[str, str]  # titles and projects of the sessions
    flaws: dict[int, tuple[str, ...]]  # how summaries differ from what was asked for, by their ids


@store_command()
@session_option
@click.option(
    "--search",
    default="",
    metavar="TEXT",
    help='Words, "a phrase", -not; project:, type:, kind:, since:7d.',
)
@click.option(
    "--kind",
    type=click.Choice(SUMMARY_KINDS),
    help="Only this kind; rules are listed only if they are asked for.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown"]),
    default="text",
    help="The output format.",
)
@click.option("--export", metavar="FILE", help="Write Markdown to a new FILE.")
@click.option("--no-redact", is_flag=True, help="Do not redact keys, tokens and passwords.")
def summaries(
    context: click.Context,
    *,
    session: str | None,
    search: str,
    kind: str | None,
    form: str,
    export: str | None,
    no_redact: bool,
) -> int:
    """List agent results, summaries and plans, or your rules. Newest first."""
    options = options_of(context)
    if options.as_json and (export or form != "text"):
        raise click.UsageError("--json prints JSON: omit --format and --export", context)
    query = search.encode("utf-8", "replace").decode()
    # What compactions lost of the rules is in the reports on them.
    are_rules = RULE_KIND in {kind, *parse_summary_query(query, 0).kinds}
    scan = Collector.scan_and_report_compactions if are_rules else Collector.scan_and_count_tokens
    with open_snapshot(options, scan) as snapshot:
        listed = read_summaries(snapshot, query, snapshot.optional_session_id(session), kind)
        print_errors(listed.filter_errors)
        if export is not None:
            return _export(listed, export, redacting=not no_redact)
        if form == "markdown":
            return _print_markdown(listed, redacting=not no_redact)
        kinds = "rules" if are_rules else "summaries"
        what = f"{kinds} with {query!r}" if query.strip() else kinds
        where = f"in session {session}" if session else f"in {snapshot.places.config_dir}"
        return print_result(
            context,
            summary_records(listed),
            lambda: summaries_list(
                zip(listed.rows, _short_ids(listed), strict=True), listed.rules, listed.flaws
            ),
            f"no {what} yet {where}",
        )


def read_summaries(
    snapshot: StoreSnapshot, query: str, session_id: str | None = None, kind: str | None = None
) -> ListedSummaries:
    """Search as the dashboard's page does, and read the whole texts."""
    sessions = snapshot.sessions()
    projects = {each.session_id: each.project for each in sessions}
    criteria = SummaryCriteria(query=query, session_id=session_id, kind=kind)
    folder = state_folder(snapshot.places.store)
    plans = replaced_content.PlanSummaryReader(folder).read()
    matches = find_summaries(snapshot.db, plans, criteria, projects, snapshot.now_ms)
    rows = tuple(read_summary_rows(snapshot.db, plans, matches.ids))
    roots = {each.session_id: each.project_root for each in sessions}
    policies = snapshot.policies
    flaws = {
        row.summary_id: summary_flaws(row, policies.for_project(roots.get(row.session_id)))
        for row in rows
    }
    return ListedSummaries(
        rows=rows,
        rules=read_listed_rules(snapshot.db, matches.ids, read_rule_choices(folder)),
        plans=plans,
        filter_errors=matches.search.problems,
        session_titles={
            each.session_id: f"{one_line(each.title)} · {one_line(each.project)}"
            for each in sessions
        },
        flaws=flaws,
    )


def summary_records(listed: ListedSummaries) -> list[Record]:
    def record(row: SummaryRow) -> Record:
        return summary_record(
            row,
            _diff_name(row, listed.plans),
            listed.rules.get(row.summary_id),
            listed.flaws[row.summary_id],
        )

    return work_apart(
        listed.rows,
        lambda some: list(map(record, some)),
        lambda row: f"a summary of {session_place(row.session_id)}",
        NOT_SHOWN,
    )


def _diff_name(row: SummaryRow, plans: Sequence[PlanSummary]) -> str:
    """Name a summary for `ctxtop diff`: its number, or a plan's receipt and operation."""
    plan = next((each for each in plans if each.row.summary_id == row.summary_id), None)
    return str(row.summary_id) if plan is None else f"{plan.receipt_id}.{plan.operation_number + 1}"


def _print_markdown(listed: ListedSummaries, *, redacting: bool) -> int:
    from ...core.transcript.redaction import redact
    from ..text.summary_text import summaries_markdown

    text = "".join(summaries_markdown(listed.rows, listed.session_titles)).removesuffix("\n")
    print_lines((redact(text) if redacting else text).split("\n"))
    return DONE


def _export(listed: ListedSummaries, name: str, *, redacting: bool) -> int:
    from ..export.documents import ExportError, parse_path, write_export
    from ..text.summary_text import summaries_markdown

    if not listed.rows:
        print_error("no summaries to export: nothing was written")
        return FAILED
    try:
        path = parse_path(name, Path.cwd())
        parts = summaries_markdown(listed.rows, listed.session_titles)
        size = write_export(path, parts, redacting=redacting)
    except ExportError as error:
        print_error(str(error))
        return FAILED
    count = len(listed.rows)
    print(f"{count:,} summar{'y' if count == 1 else 'ies'}, {size:,} bytes: {one_line(str(path))}")
    return DONE


@store_command()
@click.argument("rule")
@click.argument("mark", type=click.Choice([each.value for each in RuleMark]))
def rule(context: click.Context, *, rule: str, mark: str) -> int:
    """Pin or drop RULE. MARK none undoes it.

    RULE is an id that `ctxtop summaries --kind rule` prints.
    """
    with open_snapshot(options_of(context)) as snapshot:
        listed = read_summaries(snapshot, "", kind=RULE_KIND)
        row = _find_summary(listed, rule)
        known = listed.rules[row.summary_id]
        mark_rule(state_folder(snapshot.places.store), known.rule_id, RuleMark(mark))
        marked = replace(known, mark=RuleMark(mark))
        record = summary_record(row, rule, marked, ())
        return print_result(
            context, record, lambda: summaries_list([(row, rule)], {row.summary_id: marked}, {})
        )


@store_command()
@click.argument("summary")
@click.argument("other", required=False)
def diff(context: click.Context, *, summary: str, other: str | None) -> int:
    """Compare SUMMARY with OTHER, or with what it replaced.

    Each is an id that `ctxtop summaries` prints, or its start.
    """
    with open_snapshot(options_of(context), Collector.scan_and_count_tokens) as snapshot:
        listed = read_summaries(snapshot, "")
        left = _find_summary(listed, summary)
        if other is None:
            replaced = _read_replaced(snapshot, left, listed.plans)
            named = _diff_name(left, listed.plans)
            record = {"summary": named, "kind": left.kind} | msgspec.to_builtins(replaced)
            return print_result(context, record, lambda: _coverage_lines(left, replaced))
        right = _find_summary(listed, other)
        texts = diff_texts(left.text, right.text)
        record = {
            "left": _diff_name(left, listed.plans),
            "right": _diff_name(right, listed.plans),
            "same_lines": texts.same,
            "left_lines": texts.only_left,
            "right_lines": texts.only_right,
            "uncompared_lines": texts.left_cut + texts.right_cut,
            "pairs": [msgspec.to_builtins(each) for each in texts.pairs],
        }
        return print_result(context, record, lambda: _difference_lines(texts))


SHORT_RECEIPT_CHARS: Final = 8  # of a plan's receipt in a short id, or more if others begin so too
MAX_NAMED_IDS: Final = 5  # of those that a start of an id fits


def _short_ids(listed: ListedSummaries) -> list[str]:
    """Shorten the ids of all listed summaries; each still names one alone."""
    names = [_diff_name(row, listed.plans) for row in listed.rows]
    receipts = {name.rpartition(".")[0] for name in names} - {""}
    cells = SHORT_RECEIPT_CHARS
    while len({receipt[:cells] for receipt in receipts}) < len(receipts):
        cells += 1
    return [
        f"{receipt[:cells]}.{operation}" if receipt else operation
        for receipt, _, operation in (name.rpartition(".") for name in names)
    ]


def _find_summary(listed: ListedSummaries, name: str) -> SummaryRow:
    """Find a summary by its id, by the start of it, or by the start of its plan's receipt."""
    rows = {_diff_name(row, listed.plans): row for row in listed.rows}
    if name in rows:
        return rows[name]
    receipt, _, operation = name.rpartition(".")
    fitting = [
        each
        for each in rows
        if each.startswith(name)
        or (receipt and each.startswith(receipt) and each.endswith(f".{operation}"))
    ]
    if len(fitting) > 1:
        shown = ", ".join(fitting[:MAX_NAMED_IDS]) + " …" * (len(fitting) > MAX_NAMED_IDS)
        raise RefusedError(f"summary {name!r} is ambiguous: {shown}")
    if not fitting or not name:
        raise RefusedError(f"no summary {name!r}; `ctxtop summaries` lists them with their ids")
    return rows[fitting[0]]


def _read_replaced(
    snapshot: StoreSnapshot, row: SummaryRow, plans: tuple[PlanSummary, ...]
) -> ReplacedContent:
    try:
        return replaced_content.read_replaced(
            snapshot.db, snapshot.places.folder.projects, row, plans
        )
    except replaced_content.NotReadableError as error:
        raise RefusedError(str(error)) from error


def _difference_lines(texts: TextDiff) -> list[str]:
    lines = []
    for pair in texts.pairs:
        if pair.same and pair.left is not None:
            lines.append(f"  {one_line(pair.left.text)}")
            continue
        if pair.left is not None:
            lines.append(paint(f"- {one_line(pair.left.text)}", "bad"))
        if pair.right is not None:
            lines.append(paint(f"+ {one_line(pair.right.text)}", "ok"))
    return lines


def _coverage_lines(row: SummaryRow, replaced: ReplacedContent) -> list[str]:
    from ..text.summary_text import COVERAGE_SIGNS, coverage_headline

    colors = {ItemFate.SUMMARY: "ok", ItemFate.STAYS: "notice", ItemFate.LOST: "bad"}
    lines = coverage_headline(row, replaced)
    for tally in replaced.tallies:
        lines += ["", paint(tally.sort.value, "notice")]
        for item in replaced.things:
            if item.sort is tally.sort:
                text = f"  {COVERAGE_SIGNS[item.where]} {one_line(item.text)} (line {item.line})"
                lines.append(paint(text, colors[item.where]))
    return lines
