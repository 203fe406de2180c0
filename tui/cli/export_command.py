"""`ctxtop export`: what ctxtop knows, for other programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from ...collectors.claude_code.collector_thread import Collector
from .command_errors import DONE, RefusedError, print_error
from .command_options import CommandOptions, options_of, refuse_options, store_options

if TYPE_CHECKING:
    from ..export.metrics import Metric
    from .command_store import StoreSnapshot


HEADERS_VARIABLE: Final = "OTEL_EXPORTER_OTLP_HEADERS"
"""OpenTelemetry's own variable: a key is never an argument, which every process can read."""


class ExportFormat(StrEnum):
    """What an export is written as."""

    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    PROMETHEUS = "prometheus"
    OTLP = "otlp"


class ExportTable(StrEnum):
    """Of which records a table is made."""

    SESSIONS = "sessions"
    AGENTS = "agents"
    COMPACTIONS = "compactions"
    WARNINGS = "warnings"
    SUMMARIES = "summaries"


class ExportOptions(msgspec.Struct, frozen=True):
    """What was asked for on the command line."""

    form: ExportFormat
    what: ExportTable | None = None
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


@click.command()
@store_options
@click.option(
    "--format",
    "form",
    type=click.Choice([each.value for each in ExportFormat]),
    required=True,
    help="json is everything; csv one table; markdown a report; prometheus and otlp metrics.",
)
@click.option(
    "--what",
    type=click.Choice([each.value for each in ExportTable]),
    help="The table of a csv.  [default: sessions]",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to a file, whole or not at all, for nobody but you.",
)
@click.option("--mode", metavar="OCTAL", help="The file's rights, e.g. 0644 for node_exporter.")
@click.option(
    "--serve",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Answer Prometheus on this machine until Ctrl-C; 0 takes a free port.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Serve only who sends `Authorization: Bearer` with the file's text.",
)
@click.option("--to", metavar="URL", help="POST otlp there, e.g. http://127.0.0.1:4318/v1/metrics.")
@click.option("--allow-remote", is_flag=True, help="Let --to name another machine.")
@click.option(
    "--label",
    type=click.Choice(["title", "project", "cwd"]),
    multiple=True,
    help="Name sessions of metrics by this too; without, ids and models alone leave.",
)
@click.option("--resource", metavar="KEY=VALUE", multiple=True, help="An attribute for otlp.")
@click.option("--no-redact", is_flag=True, help="Leave keys, tokens and passwords in the texts.")
@click.pass_context
def export(context: click.Context, /, **given: Any) -> int:  # noqa: ANN401 -- click's
    """Write what ctxtop knows for other programs.

    Metrics hold the live sessions and those of the last 24 hours, 200 at the most. Nothing is
    sent anywhere unless --to names the place. In a csv a text that begins as a formula does
    (= + - @) gets an apostrophe before it. Secrets in texts are replaced by what they are.
    """
    refuse_options(context, as_json="`ctxtop export --format json` writes JSON")
    wanted = msgspec.convert(given, ExportOptions, strict=False)
    _check_options(context, wanted)
    options = options_of(context)
    if wanted.serve is not None:
        return _serve(options, wanted, wanted.serve)
    if wanted.to is not None:
        return _send(options, wanted, wanted.to)
    text = make_export(options, wanted)
    if wanted.output is not None:
        _write_file(wanted.output, text, wanted.mode)
    else:
        _write_stdout(text)
    return DONE


def make_export(options: CommandOptions, wanted: ExportOptions) -> str:
    """Bring the store up to date, and write it in a format."""
    from .command_store import open_snapshot

    look = _SCANS.get(wanted.form, Collector.scan)
    with open_snapshot(options, look) as found:
        return _WRITERS[wanted.form](found, wanted)


_SCANS: Final = {
    ExportFormat.JSON: Collector.scan_and_report_compactions,
    ExportFormat.MARKDOWN: Collector.scan_and_count_tokens,
    ExportFormat.CSV: Collector.scan_and_report_compactions,
}
"""What a format asks beside a scan: tokens of results, and what compactions forgot."""

_OPTION_FORMATS: Final = {
    "what": ExportFormat.CSV,
    "serve": ExportFormat.PROMETHEUS,
    "token_file": ExportFormat.PROMETHEUS,
    "to": ExportFormat.OTLP,
    "allow_remote": ExportFormat.OTLP,
    "resource": ExportFormat.OTLP,
}


def _check_options(context: click.Context, wanted: ExportOptions) -> None:
    for name, form in _OPTION_FORMATS.items():
        said = getattr(wanted, name)
        # Port 0 was said too, and is equal to False.
        is_said = said is not None and said is not False and said != ()
        if is_said and wanted.form is not form:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} is for --format {form}", context)
    if not all(each.partition("=")[0] and "=" in each for each in wanted.resource):
        raise click.UsageError("--resource is KEY=VALUE", context)
    if wanted.label and wanted.form not in {ExportFormat.PROMETHEUS, ExportFormat.OTLP}:
        raise click.UsageError("--label is for --format prometheus or otlp", context)
    for first, second in (("token_file", "serve"), ("allow_remote", "to"), ("mode", "output")):
        if getattr(wanted, first) and getattr(wanted, second) is None:
            one, other = (f"--{name.replace('_', '-')}" for name in (first, second))
            raise click.UsageError(f"{one} goes with {other}", context)
    if wanted.output is not None and (wanted.serve is not None or wanted.to is not None):
        raise click.UsageError("--output writes a file: leave --serve and --to out", context)


def _json_text(found: StoreSnapshot, wanted: ExportOptions) -> str:
    from .output import json_records

    return json_records.dump_json(wanted.redacted(_all_records(found)), "utf-8") + "\n"


def _markdown_text(found: StoreSnapshot, wanted: ExportOptions) -> str:
    from ..export.documents import markdown_report

    return markdown_report(wanted.redacted(_all_records(found)))


def _csv_text(found: StoreSnapshot, wanted: ExportOptions) -> str:
    from ..export.documents import csv_table

    return csv_table(wanted.redacted(_RECORDS[wanted.what or ExportTable.SESSIONS](found)))


def _prometheus(found: StoreSnapshot, wanted: ExportOptions) -> str:
    from ..export.metric_exporters import prometheus_text

    return prometheus_text(_metrics(found, wanted)[0])


def _otlp(found: StoreSnapshot, wanted: ExportOptions) -> str:
    from ctxtop import __version__

    from ..export.metric_exporters import otlp_request
    from .output import json_records

    metrics, since_ms = _metrics(found, wanted)
    said = (each.partition("=") for each in wanted.resource)
    resource = {key: value for key, _, value in said}
    body = otlp_request(metrics, __version__, since_ms, found.now_ms, resource)
    return json_records.dump_json(body, "utf-8") + "\n"


_WRITERS: Final[dict[ExportFormat, Callable[[StoreSnapshot, ExportOptions], str]]] = {
    ExportFormat.JSON: _json_text,
    ExportFormat.CSV: _csv_text,
    ExportFormat.MARKDOWN: _markdown_text,
    ExportFormat.PROMETHEUS: _prometheus,
    ExportFormat.OTLP: _otlp,
}


def _all_records(found: StoreSnapshot) -> dict[str, Any]:
    from ctxtop import __version__

    from ..text.formats import iso_time
    from .output import snapshot_records

    return {
        "exported_at": iso_time(found.now_ms),
        "ctxtop_version": __version__,
        **{
            what.value: _RECORDS[what](found)
            for what in ExportTable
            if what is not ExportTable.SUMMARIES
        },
        "totals": snapshot_records.totals_of_snapshot(found),
    }


def _session_records(found: StoreSnapshot) -> list[dict[str, Any]]:
    from .output import snapshot_records

    return snapshot_records.session_records(found, found.sessions())


def _agent_records(found: StoreSnapshot) -> list[dict[str, Any]]:
    from .output import snapshot_records

    return snapshot_records.agent_records(found, found.agents(), None)


def _compaction_records(found: StoreSnapshot) -> list[dict[str, Any]]:
    from ...core.store.queries import session_queries
    from .output import snapshot_records

    return snapshot_records.compaction_records(found, session_queries.compactions(found.db), None)


def _warning_records(found: StoreSnapshot) -> list[dict[str, Any]]:
    from .output import json_records

    return [json_records.warning_record(each) for each in found.warnings()]


def _summary_records(found: StoreSnapshot) -> list[dict[str, Any]]:
    from .summaries_command import read_summaries, summary_records

    return summary_records(read_summaries(found, ""))


_RECORDS: Final[dict[ExportTable, Callable[[StoreSnapshot], list[dict[str, Any]]]]] = {
    ExportTable.SESSIONS: _session_records,
    ExportTable.AGENTS: _agent_records,
    ExportTable.COMPACTIONS: _compaction_records,
    ExportTable.WARNINGS: _warning_records,
    ExportTable.SUMMARIES: _summary_records,
}


def _metrics(found: StoreSnapshot, wanted: ExportOptions) -> tuple[list[Metric], int]:
    from ctxtop import __version__

    from ..export.metrics import MetricsInput, SessionLabel, make_metrics
    from .output import snapshot_records

    sessions = [
        msgspec.structs.replace(each, title=wanted.redacted(each.title))
        for each in found.sessions()
    ]
    since = min((each.started_at or found.now_ms for each in sessions), default=found.now_ms)
    spent = snapshot_records.spent_by_session(found)
    measured = MetricsInput(sessions, spent, __version__, found.now_ms, since)
    return make_metrics(measured, [SessionLabel(each) for each in wanted.label]), since


def _send(options: CommandOptions, wanted: ExportOptions, to: str) -> int:
    from ..export.metric_exporters import NotSentError, check_endpoint, parse_headers, send_metrics

    try:
        check_endpoint(to, allow_remote=wanted.allow_remote)
        headers = parse_headers(os.environ.get(HEADERS_VARIABLE, ""))
        refused = send_metrics(to, msgspec.json.decode(make_export(options, wanted)), headers)
    except NotSentError as error:
        raise RefusedError(str(error)) from error
    if refused:
        raise RefusedError(f"the collector took all but {refused:,} values: its log says why")
    return DONE


def _serve(options: CommandOptions, wanted: ExportOptions, port: int) -> int:
    from ..export.metric_exporters import MetricsServer

    token = _read_token(wanted.token_file) if wanted.token_file else None
    make_export(
        options, wanted
    )  # what is wrong with the store is said now, not to the first scrape
    with MetricsServer(port, token, lambda: make_export(options, wanted), print_error) as server:
        print_error(f"metrics at {server.address}; Ctrl-C ends it")
        try:
            server.serve_forever(poll_interval=0.5)
        except KeyboardInterrupt:
            return DONE
    return DONE


def _read_token(path: Path) -> str:
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise RefusedError(f"{path} holds no token: write one line of letters and digits")
    return token


def _write_file(path: Path, text: str, mode: str | None) -> None:
    from ...collectors.plugin.plugin_log import FILE_MODE
    from ...collectors.plugin.state_files import write_atomically

    try:
        rights = FILE_MODE if mode is None else int(mode, 8)
    except ValueError:
        rights = -1
    if not 0 <= rights <= 0o777:
        raise RefusedError(f"--mode {mode} is none: give octal digits, e.g. 0644")
    write_atomically(str(path), text.encode(), rights)


def _write_stdout(text: str) -> None:
    import sys

    # A csv ends its lines in its own way, which a text stream would change on some systems.
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()
