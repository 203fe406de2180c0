"""The dashboard in a browser: who may see it, a process for each page, and the server."""

from __future__ import annotations

import asyncio
import contextlib
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


TOKEN_BYTES: Final = 24  # 192 bits: nobody guesses them, and the address still fits a line
_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " font-src 'self'; img-src 'self' data:; connect-src 'self' {sockets};"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing from elsewhere is loaded, and nothing is told to anybody."""


class AccessGuard(msgspec.Struct, frozen=True):
    """The port that is listened to, and the secret part of the address."""

    port: int
    token: str

    @property
    def origin(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def address(self) -> str:
        """Return the URL that the user opens; it contains the token."""
        return f"{self.origin}/{self.token}/"

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

        A page of another site can open a socket to this server, but its Origin header names that
        site.
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
    """Make a token for one run."""
    return secrets.token_urlsafe(TOKEN_BYTES)


MAX_COLUMNS: Final = 1000
MAX_ROWS: Final = 400
"""Cells of a page. A screen of 3840 by 2160 pixels has 480 by 135 at our font's size; the
dashboard keeps every cell in memory, and a page can ask for any number of them."""

QUIT_TIMEOUT_S: Final = 2.0  # how long a dashboard has to end by itself when its page is closed
_decode: Final = msgspec.json.Decoder().decode


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
        """Ask the dashboard to quit, and kill it where it does not in QUIT_S seconds."""
        with suppress(asyncio.TimeoutError, OSError):
            await asyncio.wait_for(super().stop(), QUIT_TIMEOUT_S)
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def relay(self) -> None:
        """Pass on what the page says until its socket closes; what is malformed is ignored."""
        async for message in self._socket:
            if message.type is WSMsgType.TEXT:
                await self._take(message.data)

    async def _take(self, text: str) -> None:
        try:
            envelope = _decode(text)
        except msgspec.DecodeError:
            return
        match envelope:
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
    """Return the nearest size that a page may have."""
    return min(max(columns, 1), MAX_COLUMNS), min(max(rows, 1), MAX_ROWS)


MAX_PAGES: Final = 8
"""Pages at once: each is a process that reads, and a forgotten tab keeps its own."""

SHUTDOWN_TIMEOUT_S: Final = 3.0  # how long the pages' processes have to end when the server does
PAGE_TEMPLATE: Final = Path(__file__).with_name("page.html")
PAGE_TITLE: Final = "ctxtop"
FONT_SIZE: Final = 15  # pixels; `?fontsize=` behind the address asks for another
FONT_SIZES: Final = range(6, 65)  # beyond these nothing can be read, or nothing fits
DEFAULT_COLUMNS, DEFAULT_ROWS = 80, 24  # of a page that does not say how large it is
MAX_DIGITS: Final = 9  # of a number in an address; Python refuses to read one of thousands
HEARTBEAT_S: Final = 15.0  # between two questions whether a page is still there
MAX_MESSAGE_BYTES: Final = 1 << 20
"""The longest message of a page: a large text that somebody pastes."""


class PageServer:
    """The pages that are open, each a socket with a process behind it."""

    def __init__(self, command: Sequence[str], guard: AccessGuard) -> None:
        self._guard: Final = guard
        # Its own application loads a font from elsewhere: we take its socket and its files.
        self._server: Final = Server("", host=LOOPBACK, port=guard.port, title=PAGE_TITLE)
        self._command: Final = command
        self._open: Final[set[asyncio.Task[object]]] = set()

    def application(self) -> web.Application:
        """Make the application: everything stands below the token."""
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
        """Answer with the page; the rest comes through its socket."""
        asked = request.query.get("fontsize", "")
        size = _parse_number(asked) if asked else FONT_SIZE
        if size not in FONT_SIZES:
            sizes = f"{FONT_SIZES[0]} to {FONT_SIZES[-1]}"
            raise web.HTTPBadRequest(text=f"fontsize is not a number from {sizes}\n")
        page = Template(PAGE_TEMPLATE.read_text(encoding="utf-8"))
        text = page.substitute(
            title=PAGE_TITLE,
            # By the name that the page was asked for: the other would be another origin.
            socket=html.escape(f"ws://{request.host}/{self._guard.token}/ws"),
            font_size=size,
        )
        return web.Response(text=text, content_type="text/html")

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """Run a dashboard for as long as its page is open."""
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
        """End the pages' processes; else their sockets would be waited for."""
        pages = list(self._open)
        for page in pages:
            page.cancel()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(
                asyncio.gather(*pages, return_exceptions=True), SHUTDOWN_TIMEOUT_S
            )


def serve_dashboard(
    command: Sequence[str], listening: socket.socket, token: str, ready: Callable[[str], None]
) -> None:
    """Serve `command` until it is interrupted; `ready` is told the address at the start."""
    guard = AccessGuard(listening.getsockname()[1], token)
    application = PageServer(command, guard).application()

    async def tell(_: web.Application) -> None:
        ready(guard.address)

    application.on_startup.append(tell)
    web.run_app(
        application,
        sock=listening,
        print=None,
        access_log=None,
        shutdown_timeout=SHUTDOWN_TIMEOUT_S,
    )


def _parse_number(text: str) -> int | None:
    """Read a number of an address; None for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    return int(text) if is_number else None
