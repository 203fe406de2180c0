"""`ctxtop export`: what ctxtop knows, for other programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from ctxtop import __version__

from ...collectors.collector_thread import Collector
from ...core.readers.fleet_reader import session_place
from ...core.store.bulkhead import NOT_READ, NOT_SHOWN, bulkhead, leave_out_faulty
from ...core.store.queries import session_queries, spending_queries
from ..base.command_errors import DONE, RefusedError, print_error
from ..text.formats import iso_time
from . import json_records
from .cache_command import cache_totals_record, miss_records, read_ledger
from .command_options import CommandOptions, options_of, refuse_options, store_command
from .command_store import StoreSnapshot, open_snapshot
from .summaries_command import read_summaries, summary_records

if TYPE_CHECKING:
    from ...core.model.session import Session
    from ..export.metrics import Metric


# The tables of a csv; JSON has all but the summaries.
_RECORDS: Final[dict[str, Callable[[StoreSnapshot], list[dict[str, Any]]]]] = {
    "sessions": lambda snapshot: json_records.session_records(snapshot, snapshot.sessions()),
    "agents": lambda snapshot: json_records.agent_records(snapshot, snapshot.agents(), None),
    "compactions": lambda snapshot: json_records.compaction_records(
        snapshot, session_queries.compactions(snapshot.db), None
    ),
    "warnings": lambda snapshot: json_records.warning_records(snapshot.warnings()),
    "cache": lambda snapshot: miss_records(read_ledger(snapshot)),
    "summaries": lambda snapshot: summary_records(read_summaries(snapshot, "")),
}


class ExportOptions(msgspec.Struct, frozen=True):
    form: str
    what: str | None = None
    output: Path | None = None
    mode: str | None = None
    serve: int | None = None
    token_file: Path | None = None
    to: str | None = None
    allow_remote: bool = False
    label: tuple[str, ...] = ()
    resource: tuple[str, ...] = ()
    no_redact: bool = False

    def redacted(self, value: Any) -> Any:  # noqa: ANN401 -- any JSON
        """Return a value without the secrets in its texts, unless they were asked for."""
        if self.no_redact:
            return value
        from ...core.transcript.redaction import redact_value

        return redact_value(value)


@store_command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "csv", "markdown", "prometheus", "otlp"]),
    required=True,
    help="json: everything; csv: one table; markdown: a report; prometheus, otlp: metrics.",
)
@click.option(
    "--what",
    type=click.Choice(list(_RECORDS)),
    help="The table to write as csv.  [default: sessions]",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to this file, readable only by you.",
)
@click.option(
    "--mode", metavar="OCTAL", help="The file's permissions, e.g. 0644 for node_exporter."
)
@click.option(
    "--serve",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve Prometheus on this machine until Ctrl+C; 0 picks a free port.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Require `Authorization: Bearer` with the token in this file.",
)
@click.option(
    "--to", metavar="URL", help="POST otlp to this address, e.g. http://127.0.0.1:4318/v1/metrics."
)
@click.option("--allow-remote", is_flag=True, help="Let --to send to another machine.")
@click.option(
    "--label",
    type=click.Choice(["title", "project", "cwd"]),
    multiple=True,
    help="Add this label to session metrics; by default they have only ids and models.",
)
@click.option(
    "--resource", metavar="KEY=VALUE", multiple=True, help="A resource attribute for otlp."
)
@click.option("--no-redact", is_flag=True, help="Do not redact keys, tokens and passwords.")
def export(context: click.Context, /, **given: Any) -> int:  # noqa: ANN401 -- click's
    """Export ctxtop's data.

    Metrics cover live sessions and the last 24 hours, at most 200 sessions. Nothing is
    sent anywhere without --to. In a csv, text that looks like a formula
    (= + - @) gets an apostrophe before it. Secrets in texts are replaced by their kind.
    """
    refuse_options(context, as_json="`ctxtop export --format json` writes JSON")
    chosen = msgspec.convert(given, ExportOptions, strict=False)
    _check_options(context, chosen)
    options = options_of(context)
    if chosen.serve is not None:
        return _serve(options, chosen, chosen.serve)
    if chosen.to is not None:
        return _send(options, chosen, chosen.to)
    text = _make_export(options, chosen)
    if chosen.output is not None:
        _write_file(chosen.output, text, chosen.mode)
    else:
        # A csv ends its lines in its own way, which a text stream would change on some systems.
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    return DONE


_OPTION_FORMATS: Final = {
    "what": "csv",
    "serve": "prometheus",
    "token_file": "prometheus",
    "to": "otlp",
    "allow_remote": "otlp",
    "resource": "otlp",
}


def _check_options(context: click.Context, chosen: ExportOptions) -> None:
    for name, form in _OPTION_FORMATS.items():
        value = getattr(chosen, name)
        # Port 0 is a value too, and equal to False.
        is_set = value is not None and value is not False and value != ()
        if is_set and chosen.form != form:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} needs --format {form}", context)
    if not all(each.partition("=")[0] and "=" in each for each in chosen.resource):
        raise click.UsageError("--resource needs KEY=VALUE", context)
    if chosen.label and chosen.form not in {"prometheus", "otlp"}:
        raise click.UsageError("--label needs --format prometheus or otlp", context)
    for name, needed in (("token_file", "serve"), ("allow_remote", "to"), ("mode", "output")):
        if getattr(chosen, name) and getattr(chosen, needed) is None:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --{needed}", context)
    if chosen.output is not None and (chosen.serve is not None or chosen.to is not None):
        raise click.UsageError(
            "--output cannot be combined with --serve or --to: omit them", context
        )


# What a format needs beside a scan: tokens of results, and what compactions forgot.
_SCANS: Final = {
    "json": Collector.scan_and_report_compactions,
    "markdown": Collector.scan_and_count_tokens,
    "csv": Collector.scan_and_report_compactions,
}


def _make_export(options: CommandOptions, chosen: ExportOptions) -> str:
    from ..export import documents, metrics

    with open_snapshot(options, _SCANS.get(chosen.form, Collector.scan)) as snapshot:
        match chosen.form:
            case "json":
                records = chosen.redacted(_all_records(snapshot))
                return json_records.dump_json(records, "utf-8") + "\n"
            case "markdown":
                return documents.markdown_report(chosen.redacted(_all_records(snapshot)))
            case "csv":
                table = _RECORDS[chosen.what or "sessions"](snapshot)
                return documents.csv_table(chosen.redacted(table))
            case "prometheus":
                return metrics.prometheus_text(_metrics(snapshot, chosen)[0])
            case _:
                measured, since_ms = _metrics(snapshot, chosen)
                resource = dict(each.split("=", 1) for each in chosen.resource)
                body = metrics.otlp_request(
                    measured, __version__, since_ms, snapshot.now_ms, resource
                )
                return json_records.dump_json(body, "utf-8") + "\n"


def _all_records(snapshot: StoreSnapshot) -> dict[str, Any]:
    ledger = read_ledger(snapshot)
    listed: dict[str, list[dict[str, Any]]] = {
        name: [] for name in _RECORDS if name not in {"cache", "summaries"}
    }
    for name in listed:
        with bulkhead(f"the {name} of the export", NOT_READ, snapshot.places.store):
            listed[name] = _RECORDS[name](snapshot)
    return {
        "exported_at": iso_time(snapshot.now_ms),
        "ctxtop_version": __version__,
        **listed,
        "cache": miss_records(ledger),
        "totals": json_records.totals_record(snapshot),
        "cache_totals": cache_totals_record(ledger),
    }


def _metrics(snapshot: StoreSnapshot, chosen: ExportOptions) -> tuple[list[Metric], int]:
    from ...core.readers.limits_reader import read_plan_limits
    from ..export.metrics import make_metrics

    sessions = [
        msgspec.structs.replace(each, title=chosen.redacted(each.title))
        for each in snapshot.sessions()
    ]
    since = min((each.started_at or snapshot.now_ms for each in sessions), default=snapshot.now_ms)
    spent = spending_queries.usage_by_session(spending_queries.model_usage(snapshot.db))
    limits = read_plan_limits(snapshot.db, snapshot.now_ms)

    def make(some: Sequence[Session]) -> list[Metric]:
        return make_metrics(some, spent, __version__, snapshot.now_ms, chosen.label, limits=limits)

    listed = leave_out_faulty(
        sessions, make, lambda each: session_place(each.session_id), NOT_SHOWN
    )
    return make(listed), since


HEADERS_VARIABLE: Final = "OTEL_EXPORTER_OTLP_HEADERS"
"""OpenTelemetry's own variable: a key is never an argument, which every process can read."""


def _send(options: CommandOptions, chosen: ExportOptions, to: str) -> int:
    from ..export.metrics import NotSentError, check_endpoint, parse_headers, send_metrics

    try:
        check_endpoint(to, allow_remote=chosen.allow_remote)
        headers = parse_headers(os.environ.get(HEADERS_VARIABLE, ""))
        refused = send_metrics(to, msgspec.json.decode(_make_export(options, chosen)), headers)
    except NotSentError as error:
        raise RefusedError(str(error)) from error
    if refused:
        raise RefusedError(f"the collector rejected {refused:,} values: see its log")
    return DONE


def _serve(options: CommandOptions, chosen: ExportOptions, port: int) -> int:
    from ..export.metrics import MetricsServer

    token = _read_token(chosen.token_file) if chosen.token_file else None
    _make_export(options, chosen)  # reports a problem of the store now, not to the first scrape
    with MetricsServer(port, token, lambda: _make_export(options, chosen), print_error) as server:
        print_error(f"metrics at {server.address}; Ctrl+C stops it")
        try:
            server.serve_forever(poll_interval=0.5)
        except KeyboardInterrupt:
            return DONE
    return DONE


def _read_token(path: Path) -> str:
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise RefusedError(f"{path} contains no token: write one line of letters and digits")
    return token


def _write_file(path: Path, text: str, mode: str | None) -> None:
    from ...collectors.plugin_files.plugin_log import FILE_MODE
    from ...collectors.plugin_files.state_files import write_atomically

    try:
        rights = FILE_MODE if mode is None else int(mode, 8)
    except ValueError:
        rights = -1
    if not 0 <= rights <= 0o777:
        raise RefusedError(f"--mode {mode} is not valid: use octal digits, e.g. 0644")
    write_atomically(str(path), text.encode(), rights)
