"""Serves the dashboard to a browser on this machine: one ctxtop for each page that is open."""

from __future__ import annotations

import asyncio
import contextlib
import html
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

from aiohttp import web
from textual_serve.server import Server

from ...core.loopback import LOOPBACK
from .guard import Guard
from .page_process import PageProcess, bounded

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

MOST_PAGES: Final = 8
"""Pages at once: each is a process that reads, and a forgotten tab keeps its own."""

GOODBYE_S: Final = 3.0
"""How long the pages' processes have to end when the server does."""

PAGE: Final = Path(__file__).with_name("page.html")
TITLE: Final = "ctxtop"
FONT_SIZE: Final = 15
"""Pixels; `?fontsize=` behind the address asks for another."""

FONT_SIZES: Final = range(6, 65)
"""Beyond these nothing can be read, or nothing fits."""

COLUMNS, ROWS = 80, 24
"""Of a page that does not say how large it is."""

DIGITS: Final = 9
"""Of a number in an address; Python refuses to read one of thousands."""

HEARTBEAT_S: Final = 15.0
"""Between two questions whether a page is still there."""

MESSAGE_BYTES: Final = 1 << 20
"""The longest message of a page: a large text that somebody pastes."""


class Pages:
    """The pages that are open, each a socket with a process behind it."""

    def __init__(self, command: Sequence[str], guard: Guard) -> None:
        self._guard: Final = guard
        # Its own application loads a font from elsewhere: we take its socket and its files.
        self._server: Final = Server("", host=LOOPBACK, port=guard.port, title=TITLE)
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
        size = _number(asked) if asked else FONT_SIZE
        if size not in FONT_SIZES:
            sizes = f"{FONT_SIZES[0]} to {FONT_SIZES[-1]}"
            raise web.HTTPBadRequest(text=f"fontsize is not a number from {sizes}\n")
        page = Template(PAGE.read_text(encoding="utf-8"))
        text = page.substitute(
            title=TITLE,
            # By the name that the page was asked for: the other would be another origin.
            socket=html.escape(f"ws://{request.host}/{self._guard.token}/ws"),
            font_size=size,
        )
        return web.Response(text=text, content_type="text/html")

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """Run a dashboard for as long as its page is open."""
        if len(self._open) >= MOST_PAGES:
            raise web.HTTPServiceUnavailable(text=f"{MOST_PAGES} pages are open: close one\n")
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        size = bounded(
            _number(request.query.get("width", "")) or COLUMNS,
            _number(request.query.get("height", "")) or ROWS,
        )
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MESSAGE_BYTES)
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
            await asyncio.wait_for(asyncio.gather(*pages, return_exceptions=True), GOODBYE_S)


def serve(
    command: Sequence[str], listening: socket.socket, token: str, ready: Callable[[str], None]
) -> None:
    """Serve `command` until it is interrupted; `ready` is told the address at the start."""
    guard = Guard(listening.getsockname()[1], token)
    application = Pages(command, guard).application()

    async def tell(_: web.Application) -> None:
        ready(guard.address)

    application.on_startup.append(tell)
    web.run_app(
        application,
        sock=listening,
        print=None,
        access_log=None,
        shutdown_timeout=GOODBYE_S,
    )


def _number(text: str) -> int | None:
    """Read a number of an address; None for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) <= DIGITS
    return int(text) if is_number else None
