"""`ctxtop serve`: the dashboard in a real browser, and nobody else let in."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import psutil
import pytest
from ctxtop.collectors.demo import make_demo
from ctxtop.tui.web_server import MAX_COLUMNS, MAX_ROWS, AccessGuard, bounded_size, new_token

from .browser import CHROMIUM, browser
from .support import NOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATIENCE_S: Final = 60.0
READ: Final = b"19 sessions"
"""What stands on the screen once the demo's folder was read."""

FOOTER: Final = b"Quit"
"""What stands in the key line alone."""

ENDS_S: Final = 4.0
"""A dashboard without a server ends within two seconds, on a machine that does nothing else."""

MOST_BYTES: Final = 500 * 1024 * 1024
"""Of a dashboard's memory: one of the usual size takes 80 MB."""

GUARD: Final = AccessGuard(8765, "secret")
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@dataclass
class Served:
    """A server of our own."""

    process: asyncio.subprocess.Process
    address: str

    @property
    def dashboards(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [each for each in children if is_dashboard(each)]

    async def until_dashboards(self, count: int) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while len(self.dashboards) != count:
            assert asyncio.get_running_loop().time() < end, self.dashboards
            await asyncio.sleep(0.05)


def is_dashboard(process: psutil.Process) -> bool:
    try:
        return "--config-dir" in process.cmdline()
    except psutil.Error:
        # It ended meanwhile.
        return False


@asynccontextmanager
async def served(folder: Path, cwd: Path | None = None) -> AsyncIterator[Served]:
    make_demo(folder / "claude", NOW)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "ctxtop", "serve"),
        *("--config-dir", str(folder / "claude"), "--db", str(folder / "state" / "s.db")),
        stdout=asyncio.subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, "HOME": str(folder), "CTXTOP_POLICY_UI__WELCOME": "false"},
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        yield Served(process, line.decode().strip())
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.wait(), PATIENCE_S)


@asynccontextmanager
async def page(it: Served, query: str = "") -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Open the socket that a page opens."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{it.address}ws{query}".replace("http:", "ws:")) as socket,
    ):
        yield socket


async def until_drawn(socket: aiohttp.ClientWebSocketResponse) -> None:
    await until_heard(socket, READ.decode())


async def until_heard(socket: aiohttp.ClientWebSocketResponse, words: str) -> None:
    heard = ""
    while words not in heard:
        message = await asyncio.wait_for(socket.receive(), PATIENCE_S)
        assert message.type in {aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT}, heard[-500:]
        data = message.data
        heard += data if isinstance(data, str) else data.decode("utf-8", "replace")


def status(address: str, **headers: str) -> int:
    try:
        asked = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.mark.parametrize(
    ("host", "origin", "path"),
    [
        ("127.0.0.1:8765", None, "/secret/"),
        ("localhost:8765", "http://localhost:8765", "/secret/ws"),
    ],
)
def test_who_has_the_address_is_let_in(host: str, origin: str | None, path: str) -> None:
    assert GUARD.allows(host, origin, path)


@pytest.mark.parametrize(
    ("host", "origin", "path"),
    [
        ("127.0.0.1:8765", None, "/"),
        ("127.0.0.1:8765", None, "/secre/"),
        ("127.0.0.1:8765", None, "/Secret/"),
        ("127.0.0.1:8765", None, ""),
        ("127.0.0.1:8766", None, "/secret/"),
        ("evil.example:8765", None, "/secret/"),
        ("127.0.0.1:8765", "http://evil.example", "/secret/ws"),
        ("127.0.0.1:8765", "null", "/secret/ws"),
    ],
)
def test_nobody_else_is(host: str, origin: str | None, path: str) -> None:
    assert not GUARD.allows(host, origin, path)


def test_a_token_is_new_each_time() -> None:
    assert len({new_token() for _ in range(100)}) == 100


async def test_without_the_token_nothing_is_there(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        base, token = it.address.rstrip("/").rsplit("/", 1)
        assert await asyncio.to_thread(status, it.address) == 200
        wrong = f"{base}/{token[::-1]}"
        for address in (f"{base}/", f"{wrong}/", f"{wrong}/ws", f"{wrong}/static/js/textual.js"):
            assert await asyncio.to_thread(status, address) == 404
        assert await asyncio.to_thread(status, it.address, Host="evil.example") == 404
        assert await asyncio.to_thread(status, f"{it.address}ws", Origin="http://a.example") == 404


async def test_it_listens_to_this_machine_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        port = int(it.address.split(":")[2].split("/")[0])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        # One that listens to every address answers to this one as well.
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection("127.0.0.2", port)


@pytest.mark.slow
@in_a_browser
async def test_the_dashboard_in_a_browser(tmp_path: Path) -> None:
    async with served(tmp_path) as it, browser(tmp_path) as tab:
        await tab.open(it.address)
        # Without a click: the terminal has the keyboard, and the key line shows the keys.
        await tab.until(lambda tab: READ in tab.received and FOOTER in tab.received)
        await tab.press("?")
        await tab.until(lambda tab: b"Help" in tab.received)
        await it.until_dashboards(1)
        asked = {address.split("/", 3)[2] for address in tab.asked if "://" in address}
        assert asked == {it.address.split("/")[2]}
        assert tab.problems == []
        if folder := os.environ.get("CTXTOP_PICTURES"):
            picture = await tab.picture()
            await asyncio.to_thread(Path(folder, "browser.png").write_bytes, picture)
        await tab.call("Page.navigate", url="about:blank")
        await it.until_dashboards(0)


@pytest.mark.slow
@in_a_browser
async def test_the_pages_end_with_the_server(tmp_path: Path) -> None:
    async with browser(tmp_path) as tab:
        async with served(tmp_path) as it:
            await tab.open(it.address)
            await tab.until(lambda tab: READ in tab.received)
            await it.until_dashboards(1)
            dashboards = it.dashboards
        assert it.process.returncode == 0
        assert not [each for each in dashboards if each.is_running()]


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        port = it.address.split(":")[2].split("/")[0]
        second = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ctxtop", "serve", "--port", port),
            *("--config-dir", str(tmp_path / "claude"), "--db", str(tmp_path / "other.db")),
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        _, told = await asyncio.wait_for(second.communicate(), PATIENCE_S)
        assert second.returncode == 1
        refusal = "cannot be used (Address already in use): choose another with --port"
        assert told.decode().splitlines() == [f"ctxtop: port {port} {refusal}"]


async def test_a_cloned_repository_s_modules_are_not_run(tmp_path: Path) -> None:
    hostile = tmp_path / "clone"
    hostile.mkdir()
    for name in ("ctxtop", "json", "msgspec", "textual", "sqlite3"):
        text = f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n"
        (hostile / f"{name}.py").write_text(text, encoding="utf-8")
    async with served(tmp_path, cwd=hostile) as it, page(it) as socket:
        await until_drawn(socket)
    assert not (tmp_path / "ran").exists()


async def test_a_page_is_of_a_bounded_size_whatever_it_asks_for(tmp_path: Path) -> None:
    async with served(tmp_path) as it, page(it, "?width=99999999&height=99999999") as socket:
        await until_drawn(socket)
        (dashboard,) = it.dashboards
        environ = dashboard.environ()
        assert (environ["COLUMNS"], environ["ROWS"]) == (str(MAX_COLUMNS), str(MAX_ROWS))
        for envelope in (
            ["resize", {"width": 99_999_999, "height": 99_999_999}],
            ["resize", {"width": -1, "height": "x"}],
            ["resize", []],
            ["stdin", 7],
            {"no": "envelope"},
        ):
            await socket.send_json(envelope)
        await socket.send_str("no JSON")
        await socket.send_json(["ping", "still there"])
        await until_heard(socket, "pong")
        assert dashboard.memory_info().rss < MOST_BYTES


@pytest.mark.parametrize(("asked", "expected"), [((1, 1), (1, 1)), ((0, -5), (1, 1))])
def test_a_size_is_brought_into_its_bounds(asked: tuple[int, int], expected: object) -> None:
    assert bounded_size(*asked) == expected
    assert bounded_size(99_999_999, 99_999_999) == (MAX_COLUMNS, MAX_ROWS)


async def test_a_font_size_that_is_none_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        for size in ("9" * 5000, "99999999", "5", "-1", "x", "٣"):
            address = f"{it.address}?fontsize={urllib.parse.quote(size)}"
            assert await asyncio.to_thread(status, address) == 400, size
        assert await asyncio.to_thread(status, f"{it.address}?fontsize=20") == 200


async def test_a_page_ends_with_a_server_that_was_killed(tmp_path: Path) -> None:
    async with served(tmp_path) as it:
        began = time.monotonic()
        async with page(it) as socket:
            await until_drawn(socket)
            started_s = time.monotonic() - began
            (dashboard,) = it.dashboards
            it.process.kill()
            await it.process.wait()
        # On a busy machine it takes as long to end as to start.
        await asyncio.to_thread(dashboard.wait, ENDS_S + started_s)


async def test_a_page_that_does_not_end_is_killed_with_its_server(tmp_path: Path) -> None:
    async with served(tmp_path) as it, page(it) as socket:
        await until_drawn(socket)
        (dashboard,) = it.dashboards
        dashboard.suspend()
        it.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(it.process.wait(), PATIENCE_S)
        assert not dashboard.is_running()
