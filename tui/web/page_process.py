"""The dashboard behind one page: started with it, of a bounded size, and ended with it."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import WSMsgType
from textual_serve.app_service import AppService
from typing_extensions import override

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Sequence

    from aiohttp import web
    from textual_serve.download_manager import DownloadManager

MAX_COLUMNS: Final = 1000
MAX_ROWS: Final = 400
"""Cells of a page. A screen of 3840 by 2160 pixels has 480 by 135 at our font's size; the
dashboard keeps every cell in memory, and a page can ask for any number of them."""

QUIT_S: Final = 2.0
"""How long a dashboard has to end by itself when its page is closed."""

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
        await super().set_terminal_size(*bounded(width, height))

    @override
    async def stop(self) -> None:
        """Ask the dashboard to quit, and kill it where it does not in QUIT_S seconds."""
        with suppress(asyncio.TimeoutError, OSError):
            await asyncio.wait_for(super().stop(), QUIT_S)
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


def bounded(columns: int, rows: int) -> tuple[int, int]:
    """Return the nearest size that a page may have."""
    return min(max(columns, 1), MAX_COLUMNS), min(max(rows, 1), MAX_ROWS)
