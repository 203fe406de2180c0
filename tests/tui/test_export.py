"""`ctxtop export`: five formats of the same facts, harmless to what reads them."""

from __future__ import annotations

import csv
import io
import json
import stat
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.model.session import SessionStatus
from ctxtop.core.model.session_activity import Activity, ActivityKind, SessionCost
from ctxtop.core.model.stored_rows import UsageRow
from ctxtop.tui.export.documents import csv_table
from ctxtop.tui.export.metrics import (
    Metric,
    MetricUnit,
    NotSentError,
    check_endpoint,
    make_metrics,
    otlp_request,
    parse_headers,
    prometheus_text,
)
from ctxtop.tui.text.tables import escape_markdown
from msgspec.structs import replace

from ..transcripts import PROJECT, SESSION, START_MS, assistant, user, write
from .makers import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctxtop.core.model.session import Session

    from .ended import Ended

TITLE = '=cmd|"x" <b>[a](http://e)</b> `y`'
FORMATS = ("json", "csv", "markdown", "prometheus", "otlp")


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call_ctxtop: Callable[..., Ended]
) -> Callable[..., Ended]:
    """One session with a hostile title."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CTXTOP_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_HEADERS", raising=False)
    path = tmp_path / "claude" / "projects" / PROJECT / f"{SESSION}.jsonl"
    named = {"type": "custom-title", "customTitle": TITLE, "sessionId": SESSION}
    write(path, [user("Hi"), assistant("m1", 150_000, model="claude-opus-5-5"), named])
    return lambda *words: call_ctxtop("export", "--format", *words)


def measured(*sessions: Session, **options: Any) -> list[Metric]:  # noqa: ANN401 -- passed on
    spent = {SESSION: UsageRow(SESSION, 1, 2, 3, 4, 5)}
    return make_metrics(sessions, spent, "1.0", START_MS, **options)


def named(metrics: list[Metric], name: str) -> Metric:
    (found,) = [each for each in metrics if each.name == name]
    return found


def test_json_is_everything(run: Callable[..., Ended]) -> None:
    ended = run("json")

    assert (ended.code, ended.err) == (0, "")
    assert list(ended.json) == [
        "exported_at",
        "ctxtop_version",
        "sessions",
        "agents",
        "compactions",
        "warnings",
        "cache",
        "totals",
        "cache_totals",
    ]
    (only,) = ended.json["sessions"]
    assert (only["title"], only["context_tokens"]) == (TITLE, 150_000)
    assert ended.json["totals"]["responses"] == 1


def test_csv_is_a_table_that_no_spreadsheet_runs(run: Callable[..., Ended]) -> None:
    ended = run("csv")
    head, row = csv.reader(io.StringIO(ended.out, newline=""))

    assert ended.out.count("\r\n") == 2
    cells = dict(zip(head, row, strict=True))
    assert cells["title"] == f"'{TITLE}"
    assert (cells["live"], cells["tmux"], cells["context_tokens"]) == ("false", "", "150000")
    for what in ("agents", "compactions", "warnings", "summaries"):
        assert run("csv", "--what", what).code == 0


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a;=cmd()", "a;'=cmd()"),
        ("\uff1dcmd()", "'\uff1dcmd()"),
        ("a\t\uff0b1", "a\t'\uff0b1"),
        ('a; "@SUM(1)"', 'a;\' "@SUM(1)"'),
        ("one\r\n-2", "one\r\n'-2"),
        ("a|\uff20x", "a|'\uff20x"),
        ("a = b, c-d; e@f", "a = b, c-d; e@f"),
    ],
)
def test_a_formula_after_a_separator_of_another_country(text: str, written: str) -> None:
    (_, row) = csv.reader(io.StringIO(csv_table([{"a": text, "b": [text]}]), newline=""))

    assert row[0] == written
    assert json.loads(row[1]) == [written]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_cell_that_begins_as_a_formula(start: str) -> None:
    (_, row) = csv.reader(io.StringIO(csv_table([{"a": f"{start}1", "b": -1, "c": 'q"\r\n,'}])))

    assert row == [f"'{start}1", "-1", 'q"\r\n,']


def test_markdown_shows_words_as_they_are(run: Callable[..., Ended]) -> None:
    ended = run("markdown")

    assert ended.code == 0
    assert "| 11111111 | proj |" in ended.out
    assert escape_markdown(TITLE) in ended.out
    assert escape_markdown("a|b\n<i> *x* https://e @me #1") == (
        "a\\|b \\<i\\> \\*x\\* https\\://e \\@me \\#1"
    )
    assert "None." in ended.out


def test_many_rows_say_how_many_are_left_out(run: Callable[..., Ended], tmp_path: Path) -> None:
    for number in range(120):
        name = f"{number:08}-2222-4333-8444-555555555555"
        write(tmp_path / "claude" / "projects" / PROJECT / f"{name}.jsonl", [user()])

    assert "21 more were left out." in run("markdown").out


def test_prometheus_text_names_units_and_keeps_names_to_itself(
    run: Callable[..., Ended],
) -> None:
    # A transcript of long ago has no values of its own.
    ended = run("prometheus")
    assert f'session="{SESSION}"' not in ended.out
    assert 'ctxtop_sessions{status="ended"} 1' in ended.out
    assert 'ctxtop_spent_tokens_total{kind="cache_read"} 149990' in ended.out

    own = measured(session(title=TITLE, live=True))
    text = prometheus_text(own)
    assert "# TYPE ctxtop_session_context_tokens gauge" in text
    assert "cmd" not in text
    hostile = session(title='a"\\\nb', live=True)
    text = prometheus_text(measured(hostile, labels=["title"]))
    assert 'title="a\\"\\\\\\nb"' in text
    for line in text.splitlines():
        assert line.startswith(("# HELP ctxtop_", "# TYPE ctxtop_", "ctxtop_"))


def test_what_is_measured_of_a_session() -> None:
    asks = Activity(ActivityKind.PERSON, "permission", "Bash")
    known = session(
        live=True, status=SessionStatus.WAITING, activity=asks, cost=SessionCost(1.5), compactions=2
    )
    found = measured(replace(known, session_id=SESSION))

    labels = (("session", SESSION), ("model", known.model or ""))
    for name, value in (
        ("session.waiting", 1),
        ("session.cost", 1.5),
        ("session.cost.estimated", 1),
        ("session.compactions", 2),
    ):
        assert named(found, name).samples == ((labels, value),)
    spent = dict(named(found, "session.spent").samples)
    assert spent[*labels, ("kind", "output")] == 4
    by_status = dict(named(found, "sessions").samples)
    assert by_status[("status", "waiting"),] == 1


def test_few_sessions_have_values_of_their_own() -> None:
    many = [
        replace(
            session(live=number < 3, last_activity_at=START_MS - number), session_id=str(number)
        )
        for number in range(9)
    ]
    old = session(live=False, last_activity_at=START_MS - 25 * 3_600_000)
    found = measured(*many, old, max_sessions=4)

    shown = [dict(labels)["session"] for labels, _ in named(found, "session.live").samples]
    assert shown == ["0", "1", "2", "3"]
    assert named(found, "sessions.left.out").samples == (((), 5.0),)


def test_otlp_follows_its_json_encoding() -> None:
    labels = (("session", "s"),)
    body = otlp_request(
        [
            Metric("a", MetricUnit.TOKENS, "A.", ((labels, 3.0),), is_counter=True),
            Metric("b", MetricUnit.RATIO, "B.", ((labels, 0.5),)),
            Metric("none", MetricUnit.RATIO, "C.", ()),
        ],
        "1.0",
        START_MS,
        START_MS + 1,
        {"host.name": "here"},
    )
    (resource,) = body["resourceMetrics"]
    attributes = {each["key"]: each["value"] for each in resource["resource"]["attributes"]}
    assert attributes["host.name"] == {"stringValue": "here"}
    total, gauge = check_metrics(body)
    (point,) = total["sum"]["dataPoints"]
    assert (point["asInt"], total["sum"]["isMonotonic"]) == ("3", True)
    assert point["startTimeUnixNano"] == f"{START_MS}000000"
    assert gauge["gauge"]["dataPoints"][0]["asDouble"] == 0.5


def check_metrics(body: Any) -> list[Any]:  # noqa: ANN401 -- any JSON
    """Check an OTLP request's structure as a collector would, and return its metrics."""
    assert list(body) == ["resourceMetrics"]
    (resource,) = body["resourceMetrics"]
    assert {"resource", "scopeMetrics"} == set(resource)
    (scope,) = resource["scopeMetrics"]
    assert scope["scope"]["name"] == "ctxtop"
    for metric in scope["metrics"]:
        assert metric["name"].startswith("ctxtop.")
        assert {"name", "description", "unit"} < set(metric)
        kind = metric["sum"] if "sum" in metric else metric["gauge"]
        for point in kind["dataPoints"]:
            assert point["timeUnixNano"].isdecimal()
            assert ("asInt" in point) != ("asDouble" in point)
            assert isinstance(point.get("asInt", ""), str)
            for attribute in point["attributes"]:
                assert set(attribute) == {"key", "value"}
                assert isinstance(attribute["value"]["stringValue"], str)
    found: list[Any] = scope["metrics"]
    return found


class Received(HTTPServer):
    """A collector that remembers what it was sent."""

    answer: tuple[int, bytes] = (200, b"{}")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Collector)
        self.requests: list[tuple[str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/metrics"


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Received)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers, body))
        status, answer = self.server.answer
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base's name
        pass


@contextmanager
def collector() -> Iterator[Received]:
    with Received() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_a_collector_is_sent_what_it_takes(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret, y=2")
    with collector() as server:
        ended = run("otlp", "--to", server.url, "--resource", "host.name=here")
        assert (ended.code, ended.out, ended.err) == (0, "", "")
        ((path, headers, body),) = server.requests
    assert path == "/v1/metrics"
    assert (headers["content-type"], headers["x-key"]) == ("application/json", "secret")
    names = {each["name"] for each in check_metrics(body)}
    assert {"ctxtop.sessions", "ctxtop.spent", "ctxtop.cost"} <= names
    # Neither titles nor paths leave.
    assert "cmd" not in json.dumps(body)
    assert PROJECT not in json.dumps(body)
    assert "/home/dev/proj" not in json.dumps(body)


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (200, b'{"partialSuccess":{"rejectedDataPoints":"7"}}', "rejected 7 values"),
        (503, b"busy", "answered 503: busy"),
        (302, b"", "answered 302"),
        (200, b"<html>", "JSON object"),
    ],
)
def test_a_collector_that_refuses(
    run: Callable[..., Ended], status: int, answer: bytes, said: str
) -> None:
    with collector() as server:
        server.answer = (status, answer)
        ended = run("otlp", "--to", server.url)

    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "url",
    ["http://example.org:4318/v1/metrics", "http://10.0.0.7/x", "https://localhost.evil.org/"],
)
def test_another_machine_is_sent_nothing_unasked(url: str) -> None:
    with pytest.raises(NotSentError, match="--allow-remote"):
        check_endpoint(url, allow_remote=False)
    check_endpoint(url, allow_remote=True)


@pytest.mark.parametrize("url", ["", "localhost:4318", "ftp://127.0.0.1/", "http://[", "file:///x"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(NotSentError, match="is not an address"):
        check_endpoint(url, allow_remote=True)


def test_headers_are_pairs() -> None:
    assert parse_headers(" A=b=c , d= ,") == {"a": "b=c", "d": ""}
    for text in ("a", "=b", "a=b\nx", "a\rb=c"):
        with pytest.raises(NotSentError, match="OTEL_EXPORTER_OTLP_HEADERS"):
            parse_headers(text)


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_is_written_whole_and_for_one_person(
    run: Callable[..., Ended], tmp_path: Path, form: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    victim, file = tmp_path / "victim", folder / "export.prom"
    victim.write_text("mine")
    file.symlink_to(victim)

    ended = run(form, "--output", str(file))
    assert (ended.code, ended.out) == (0, "")
    assert victim.read_text() == "mine"
    assert not file.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in folder.iterdir()] == ["export.prom"]
    assert run(form, "--output", str(file), "--mode", "0644").code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["json", "--json"], 2, "writes JSON"),
        (["json", "--what", "agents"], 2, "--what needs --format csv"),
        (["csv", "--serve", "0"], 2, "--serve needs --format prometheus"),
        (["prometheus", "--to", "http://127.0.0.1/"], 2, "--to needs --format otlp"),
        (["prometheus", "--token-file", "x"], 2, "--token-file needs --serve"),
        (["otlp", "--allow-remote"], 2, "--allow-remote needs --to"),
        (["json", "--mode", "0644"], 2, "--mode needs --output"),
        (["csv", "--label", "title"], 2, "--label needs"),
        (["otlp", "--resource", "x"], 2, "KEY=VALUE"),
        (["otlp", "--to", "http://127.0.0.1/", "--output", "x"], 2, "--output cannot be combined"),
        (["json", "--output", "/nowhere/x"], 1, "/nowhere/x"),
        (["json", "--output", "x", "--mode", "9"], 1, "octal"),
        (["otlp", "--to", "http://10.1.2.3/"], 1, "--allow-remote"),
        (["prometheus", "--serve", "0", "--token-file", "/nowhere"], 1, "/nowhere"),
    ],
)
def test_what_does_not_go_together(
    run: Callable[..., Ended], words: list[str], code: int, said: str
) -> None:
    ended = run(*words)

    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1
