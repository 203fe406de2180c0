"""`ctxtop export`: what ctxtop knows, for other programs."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from ...collectors.collect import Collector
from .options import Options, chosen, reading, refuse
from .report import DONE, RefusedError, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..export.metrics import Metric
    from .reading import Reading

HEADERS: Final = "OTEL_EXPORTER_OTLP_HEADERS"
"""OpenTelemetry's own variable: a key is never an argument, which every process can read."""


class Format(StrEnum):
    """What an export is written as."""

    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    PROMETHEUS = "prometheus"
    OTLP = "otlp"


class What(StrEnum):
    """Of which records a table is made."""

    SESSIONS = "sessions"
    AGENTS = "agents"
    COMPACTIONS = "compactions"
    WARNINGS = "warnings"
    SUMMARIES = "summaries"


class Wanted(msgspec.Struct, frozen=True):
    """What was asked for on the command line."""

    form: Format
    what: What | None = None
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
        from ...core.redaction import redacted

        return redacted(value)


@click.command()
@reading
@click.option(
    "--format",
    "form",
    type=click.Choice([each.value for each in Format]),
    required=True,
    help="json is everything; csv one table; markdown a report; prometheus and otlp metrics.",
)
@click.option(
    "--what",
    type=click.Choice([each.value for each in What]),
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
    refuse(context, as_json="`ctxtop export --format json` writes JSON")
    wanted = msgspec.convert(given, Wanted, strict=False)
    _check(context, wanted)
    options = chosen(context)
    if wanted.serve is not None:
        return _serve(options, wanted, wanted.serve)
    if wanted.to is not None:
        return _send(options, wanted, wanted.to)
    text = make(options, wanted)
    if wanted.output is not None:
        _write(wanted.output, text, wanted.mode)
    else:
        _print(text)
    return DONE


def make(options: Options, wanted: Wanted) -> str:
    """Bring the store up to date, and write it in a format."""
    from .reading import open_reading

    look = _LOOKS.get(wanted.form, Collector.scan)
    with open_reading(options, look) as found:
        return _MAKERS[wanted.form](found, wanted)


_LOOKS: Final = {
    Format.JSON: Collector.scan_and_report_compactions,
    Format.MARKDOWN: Collector.scan_and_count_tokens,
    Format.CSV: Collector.scan_and_report_compactions,
}
"""What a format asks beside a scan: tokens of results, and what compactions forgot."""

_ONLY: Final = {
    "what": Format.CSV,
    "serve": Format.PROMETHEUS,
    "token_file": Format.PROMETHEUS,
    "to": Format.OTLP,
    "allow_remote": Format.OTLP,
    "resource": Format.OTLP,
}


def _check(context: click.Context, wanted: Wanted) -> None:
    for name, form in _ONLY.items():
        said = getattr(wanted, name)
        # Port 0 was said too, and is equal to False.
        is_said = said is not None and said is not False and said != ()
        if is_said and wanted.form is not form:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} is for --format {form}", context)
    if not all(each.partition("=")[0] and "=" in each for each in wanted.resource):
        raise click.UsageError("--resource is KEY=VALUE", context)
    if wanted.label and wanted.form not in {Format.PROMETHEUS, Format.OTLP}:
        raise click.UsageError("--label is for --format prometheus or otlp", context)
    for first, second in (("token_file", "serve"), ("allow_remote", "to"), ("mode", "output")):
        if getattr(wanted, first) and getattr(wanted, second) is None:
            one, other = (f"--{name.replace('_', '-')}" for name in (first, second))
            raise click.UsageError(f"{one} goes with {other}", context)
    if wanted.output is not None and (wanted.serve is not None or wanted.to is not None):
        raise click.UsageError("--output writes a file: leave --serve and --to out", context)


def _json(found: Reading, wanted: Wanted) -> str:
    from . import as_json

    return as_json.dumps(wanted.redacted(_everything(found)), "utf-8") + "\n"


def _markdown(found: Reading, wanted: Wanted) -> str:
    from ..export.as_markdown import report

    return report(wanted.redacted(_everything(found)))


def _csv(found: Reading, wanted: Wanted) -> str:
    from ..export.as_csv import table

    return table(wanted.redacted(_RECORDS[wanted.what or What.SESSIONS](found)))


def _prometheus(found: Reading, wanted: Wanted) -> str:
    from ..export.as_prometheus import exposition

    return exposition(_metrics(found, wanted)[0])


def _otlp(found: Reading, wanted: Wanted) -> str:
    from ctxtop import __version__

    from ..export.as_otlp import request
    from . import as_json

    metrics, since_ms = _metrics(found, wanted)
    said = (each.partition("=") for each in wanted.resource)
    resource = {key: value for key, _, value in said}
    body = request(metrics, __version__, since_ms, found.now_ms, resource)
    return as_json.dumps(body, "utf-8") + "\n"


_MAKERS: Final[dict[Format, Callable[[Reading, Wanted], str]]] = {
    Format.JSON: _json,
    Format.CSV: _csv,
    Format.MARKDOWN: _markdown,
    Format.PROMETHEUS: _prometheus,
    Format.OTLP: _otlp,
}


def _everything(found: Reading) -> dict[str, Any]:
    from ctxtop import __version__

    from . import records
    from .times import time_of

    return {
        "exported_at": time_of(found.now_ms),
        "ctxtop_version": __version__,
        **{what.value: _RECORDS[what](found) for what in What if what is not What.SUMMARIES},
        "totals": records.of_totals(found),
    }


def _sessions(found: Reading) -> list[dict[str, Any]]:
    from . import records

    return records.of_sessions(found, found.sessions())


def _agents(found: Reading) -> list[dict[str, Any]]:
    from . import records

    return records.of_agents(found, found.agents(), None)


def _compactions(found: Reading) -> list[dict[str, Any]]:
    from ...core.store import queries
    from . import records

    return records.of_compactions(found, queries.compactions(found.db), None)


def _warnings(found: Reading) -> list[dict[str, Any]]:
    from . import as_json

    return [as_json.warning(each) for each in found.warnings()]


def _summaries(found: Reading) -> list[dict[str, Any]]:
    from .summaries_command import read_summaries, records_of

    return records_of(read_summaries(found, ""))


_RECORDS: Final[dict[What, Callable[[Reading], list[dict[str, Any]]]]] = {
    What.SESSIONS: _sessions,
    What.AGENTS: _agents,
    What.COMPACTIONS: _compactions,
    What.WARNINGS: _warnings,
    What.SUMMARIES: _summaries,
}


def _metrics(found: Reading, wanted: Wanted) -> tuple[list[Metric], int]:
    from ctxtop import __version__

    from ..export.metrics import Measured, Named, metrics_of
    from . import records

    sessions = [
        msgspec.structs.replace(each, title=wanted.redacted(each.title)) for each in found.sessions()
    ]
    since = min((each.started_at or found.now_ms for each in sessions), default=found.now_ms)
    spent = records.spent_by_session(found)
    measured = Measured(sessions, spent, __version__, found.now_ms, since)
    return metrics_of(measured, [Named(each) for each in wanted.label]), since


def _send(options: Options, wanted: Wanted, to: str) -> int:
    from ..export.send import NotSentError, check_endpoint, parse_headers, send

    try:
        check_endpoint(to, allow_remote=wanted.allow_remote)
        headers = parse_headers(os.environ.get(HEADERS, ""))
        refused = send(to, msgspec.json.decode(make(options, wanted)), headers)
    except NotSentError as error:
        raise RefusedError(str(error)) from error
    if refused:
        raise RefusedError(f"the collector took all but {refused:,} values: its log says why")
    return DONE


def _serve(options: Options, wanted: Wanted, port: int) -> int:
    from ..export.scraped import MetricsServer

    token = _token(wanted.token_file) if wanted.token_file else None
    make(options, wanted)  # what is wrong with the store is said now, not to the first scrape
    with MetricsServer(port, token, lambda: make(options, wanted), say) as server:
        say(f"metrics at {server.address}; Ctrl-C ends it")
        try:
            server.serve_forever(poll_interval=0.5)
        except KeyboardInterrupt:
            return DONE
    return DONE


def _token(path: Path) -> str:
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise RefusedError(f"{path} holds no token: write one line of letters and digits")
    return token


def _write(path: Path, text: str, mode: str | None) -> None:
    from ...collectors.plugin.log import FILE_MODE
    from ...collectors.plugin.whole import write_whole

    try:
        rights = FILE_MODE if mode is None else int(mode, 8)
    except ValueError:
        rights = -1
    if not 0 <= rights <= 0o777:
        raise RefusedError(f"--mode {mode} is none: give octal digits, e.g. 0644")
    write_whole(str(path), text.encode(), rights)


def _print(text: str) -> None:
    import sys

    # A csv ends its lines in its own way, which a text stream would change on some systems.
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()
