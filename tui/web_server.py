"""The dashboard in a browser: access, a process for each page, and the server."""

from __future__ import annotations

import asyncio
import html
import secrets
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.server import Server
from typing_extensions import override

from ..core.host import LOOPBACK, loopback_hosts

if TYPE_CHECKING:
    import socket
    from asyncio.subprocess import Process

    from aiohttp.typedefs import Handler, Middleware
    from textual_serve.download_manager import DownloadManager


_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " font-src 'self'; img-src 'self' data:; connect-src 'self' {sockets};"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing is loaded from other hosts or sent to them."""


class AccessGuard(msgspec.Struct, frozen=True):
    """Allows requests that know the token of the address."""

    port: int
    token: str

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    @property
    def middleware(self) -> Middleware:
        """Return a middleware that answers 404 to requests that `allows` rejects."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not self.allows(request.host, request.headers.get("Origin"), request.path):
                raise web.HTTPNotFound(text="not found\n", headers=self._headers)
            try:
                response = await handler(request)
            except web.HTTPException as refused:
                refused.headers.update(self._headers)
                raise
            if not response.prepared:
                response.headers.update(self._headers)
            return response

        return check

    def allows(self, host: str, origin: str | None, path: str) -> bool:
        """Whether a request has the token and a loopback host and origin.

        Pages of other sites can open a socket here, but their Origin header names the site.
        """
        hosts = loopback_hosts(self.port)
        token = path.split("/", 2)[1] if path.startswith("/") else ""
        return (
            host in hosts
            and (origin is None or origin in {f"http://{each}" for each in hosts})
            and secrets.compare_digest(token.encode(), self.token.encode())
        )

    @property
    def _headers(self) -> dict[str, str]:
        sockets = " ".join(f"ws://{host}" for host in loopback_hosts(self.port))
        return {
            "Content-Security-Policy": _CONTENT_SECURITY_POLICY.format(sockets=sockets),
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
        }


def new_token() -> str:
    """Make a token for one run: 192 bits, which nobody guesses."""
    return secrets.token_urlsafe(24)


MAX_COLUMNS: Final = 1000
MAX_ROWS: Final = 400
"""A screen of 3840 by 2160 pixels has 480 by 135 cells at our font's size; the dashboard keeps
every cell in memory, and a page can ask for any number of them."""

QUIT_TIMEOUT_S: Final = 2.0  # for a dashboard to end by itself when its page is closed


class PageProcess(AppService):
    """Runs the dashboard for one socket."""

    def __init__(
        self, command: Sequence[str], socket: web.WebSocketResponse, downloads: DownloadManager
    ) -> None:
        async def close() -> None:
            await socket.close()

        super().__init__(
            shlex.join(command),
            write_bytes=socket.send_bytes,
            write_str=socket.send_str,
            close=close,
            download_manager=downloads,
        )
        self._command: Final = command
        self._socket: Final = socket

    @override
    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        # No shell in between: a signal would end the shell, and leave the dashboard.
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._build_environment(width=width, height=height),
        )
        self._process, self._stdin = process, process.stdin
        return process

    @override
    async def set_terminal_size(self, width: int, height: int) -> None:
        await super().set_terminal_size(*bounded_size(width, height))

    @override
    async def stop(self) -> None:
        """Ask the dashboard to quit, and kill it after QUIT_TIMEOUT_S."""
        with suppress(asyncio.TimeoutError, OSError):
            await asyncio.wait_for(super().stop(), QUIT_TIMEOUT_S)
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def relay(self) -> None:
        """Handle the page's messages until its socket closes; malformed ones are ignored."""
        async for message in self._socket:
            if message.type is WSMsgType.TEXT:
                with suppress(msgspec.DecodeError):
                    await self._handle(msgspec.json.decode(message.data))

    async def _handle(self, message: object) -> None:
        match message:
            case ["stdin", str(keys)]:
                await self.send_bytes(keys.encode("utf-8", "replace"))
            case ["resize", {"width": int(width), "height": int(height)}]:
                await self.set_terminal_size(width, height)
            case ["ping", data]:
                await self._socket.send_json(["pong", data])
            case ["focus", *_]:
                await self.focus()
            case ["blur", *_]:
                await self.blur()
            case _:
                pass


def bounded_size(columns: int, rows: int) -> tuple[int, int]:
    return min(max(columns, 1), MAX_COLUMNS), min(max(rows, 1), MAX_ROWS)


MAX_PAGES: Final = 8  # at once: each is a process that reads, and a forgotten tab keeps its own
SHUTDOWN_TIMEOUT_S: Final = 3.0  # for the pages' processes to end when the server does
PAGE_TITLE: Final = "ctxtop"
FONT_SIZE: Final = 15  # pixels; `?fontsize=` behind the address asks for another
FONT_SIZES: Final = range(6, 65)  # others are not readable, or nothing fits
DEFAULT_COLUMNS, DEFAULT_ROWS = 80, 24  # of a page that does not send its size
HEARTBEAT_S: Final = 15.0  # between two checks whether a page is still there
MAX_MESSAGE_BYTES: Final = 1 << 20  # of a page: a large text that is pasted


class PageServer:
    def __init__(self, command: Sequence[str], guard: AccessGuard) -> None:
        self._guard: Final = guard
        # Its own application loads a font from another host: we use its socket and its files.
        self._server: Final = Server("", host=LOOPBACK, port=guard.port, title=PAGE_TITLE)
        self._command: Final = command
        self._open: Final[set[asyncio.Task[object]]] = set()

    def application(self) -> web.Application:
        inside = web.Application()
        inside.router.add_get("/", self.show)
        inside.router.add_get("/ws", self.connect, name="socket")
        inside.router.add_get("/download/{key}", self._server.handle_download)
        inside.router.add_static("/static", self._server.statics_path)
        outside = web.Application(middlewares=[self._guard.middleware])
        outside.add_subapp(f"/{self._guard.token}/", inside)
        outside.on_shutdown.append(self.close)
        return outside

    async def show(self, request: web.Request) -> web.Response:
        query = request.query.get("fontsize", "")
        size = _parse_number(query) if query else FONT_SIZE
        if size not in FONT_SIZES:
            sizes = f"{FONT_SIZES[0]} to {FONT_SIZES[-1]}"
            raise web.HTTPBadRequest(text=f"fontsize is not a number from {sizes}\n")
        page = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
        text = Template(page).substitute(
            title=PAGE_TITLE,
            # With the host of the request: another loopback name is another origin.
            socket=html.escape(f"ws://{request.host}/{self._guard.token}/ws"),
            font_size=size,
        )
        return web.Response(text=text, content_type="text/html")

    async def connect(self, request: web.Request) -> web.StreamResponse:
        if len(self._open) >= MAX_PAGES:
            raise web.HTTPServiceUnavailable(text=f"{MAX_PAGES} pages are open: close one\n")
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        size = bounded_size(
            _parse_number(request.query.get("width", "")) or DEFAULT_COLUMNS,
            _parse_number(request.query.get("height", "")) or DEFAULT_ROWS,
        )
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES)
        await socket.prepare(request)
        page = PageProcess(self._command, socket, self._server.download_manager)
        try:
            await page.start(*size)
            await page.relay()
        finally:
            await page.stop()
            await socket.close()
        return socket

    async def close(self, _: web.Application) -> None:
        """End the pages' processes, for whose sockets the server would wait."""
        pages = list(self._open)
        for page in pages:
            page.cancel()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(
                asyncio.gather(*pages, return_exceptions=True), SHUTDOWN_TIMEOUT_S
            )


def serve_dashboard(
    command: Sequence[str], listening: socket.socket, token: str, ready: Callable[[str], None]
) -> None:
    """Serve `command` until it is interrupted; `ready` gets the address at the start."""
    guard = AccessGuard(listening.getsockname()[1], token)
    application = PageServer(command, guard).application()

    async def report_address(_: web.Application) -> None:
        ready(guard.address)

    application.on_startup.append(report_address)
    web.run_app(
        application,
        sock=listening,
        print=None,
        access_log=None,
        shutdown_timeout=SHUTDOWN_TIMEOUT_S,
    )


def _parse_number(text: str) -> int | None:
    """Parse a number of up to 9 digits; Python raises ValueError for one of thousands."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
