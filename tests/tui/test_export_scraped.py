"""A real Prometheus scrapes `ctxtop export --serve`, where there is one on this machine."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from ..transcripts import MODEL, PROJECT, SESSION, assistant, user, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S: Final = 60.0
TOKEN: Final = "of-this-test-alone"

CONFIG: Final = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: ctxtop
    metrics_path: /metrics
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ["{target}"]}}]
"""


@contextmanager
def running(*command: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the test is over; it is ended by its own handle."""
    with subprocess.Popen(
        command,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Serve one session that writes now; give host and port."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    path = tmp_path / "claude" / "projects" / PROJECT / f"{SESSION}.jsonl"
    lines = [user("a title that stays here"), assistant("m1", 150_000)]
    write(path, [line | {"timestamp": now} for line in lines])
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    words = ("export", "--format", "prometheus", "--serve", "0", "--label", "project")
    places = ("--config-dir", str(tmp_path / "claude"), "--db", str(tmp_path / "s" / "ctxtop.db"))
    guarded = ("--token-file", str(tmp_path / "token"))
    command = (sys.executable, "-m", "ctxtop", *words, *places, *guarded)
    with running(*command, HOME=str(tmp_path)) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert "metrics at http://127.0.0.1:" in said
        yield urllib.parse.urlsplit(said.split()[3].rstrip(";")).netloc


def get(at: str, path: str = "/metrics", **headers: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(at, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


def test_who_may_scrape(served: str) -> None:
    known = {"Authorization": f"Bearer {TOKEN}"}
    status, kind, text = get(served, **known)
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert f'ctxtop_session_context_tokens{{session="{SESSION}"' in text
    assert "a title that stays here" not in text
    assert get(served)[0] == 401
    assert get(served, Authorization="Bearer other")[0] == 401
    assert get(served, "/", **known)[0] == 404
    # A page of another site whose name was made to lead here.
    assert get(served, Host="evil.example", **known)[0] == 403
    # Nobody but this machine reaches it.
    host, _, port = served.partition(":")
    assert host == "127.0.0.1"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", int(port)), timeout=5).close()

    if promtool := shutil.which("promtool"):
        checked = subprocess.run(
            [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def ask(port: int, query: str) -> list[dict[str, Any]]:
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found
    except OSError:
        # It is not up yet.
        return []


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="there is no prometheus here")
def test_prometheus_has_the_series(served: str, tmp_path: Path) -> None:
    config, port = tmp_path / "prometheus.yml", free_port()
    config.write_text(CONFIG.format(target=served, token=tmp_path / "token"))
    command = (
        str(shutil.which("prometheus")),
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with running(*command, HOME=str(tmp_path)):
        end = time.monotonic() + PATIENCE_S
        query = f'ctxtop_session_context_tokens{{session="{SESSION}"}}'
        while not (found := ask(port, query)) and time.monotonic() < end:
            time.sleep(0.2)
        (series,) = found
        assert series["value"][1] == "150000"
        labels = series["metric"]
        assert (labels["job"], labels["project"], labels["model"]) == ("ctxtop", "proj", MODEL)
        (up,) = ask(port, "up")
        assert up["value"][1] == "1"
        (spent,) = ask(port, 'sum(ctxtop_spent_tokens_total{kind!="output"})')
        assert spent["value"][1] == "150000"
        (known,) = ask(port, 'count({__name__=~"ctxtop_.+"})')
        assert int(known["value"][1]) > 30
