"""A headless Chromium in a test's hands, by its debugging protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import signal
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

CHROMIUM: Final = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
PATIENCE_S: Final = 30.0
_LISTENS: Final = re.compile(r"DevTools listening on (ws://\S+)")


@dataclass
class Tab:
    """One page; what came through its sockets, and what it asked of other places."""

    socket: aiohttp.ClientWebSocketResponse
    received: bytearray = field(default_factory=bytearray)
    asked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _session: str = ""
    _number: int = 0
    _answers: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)

    async def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        answer = asyncio.get_running_loop().create_future()
        self._answers[self._number] = answer
        await self.socket.send_json(message)
        return await asyncio.wait_for(answer, PATIENCE_S)

    async def listen(self) -> None:
        async for message in self.socket:
            told = json.loads(message.data)
            if "id" in told:
                assert "error" not in told, told
                self._answers.pop(told["id"]).set_result(told["result"])
            else:
                self._note(told["method"], told["params"])

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Network.webSocketFrameReceived":
            frame = told["response"]
            data = frame["payloadData"]
            self.received += base64.b64decode(data) if frame["opcode"] == 2 else data.encode()
        elif method == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.asked.append(told["url"])
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.problems.append(told["entry"]["text"])

    async def open(self, address: str) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Network", "Page", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        size = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        await self.call("Page.navigate", url=address)

    async def click(self, x: int, y: int) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            where = {"x": x, "y": y, "button": "left", "clickCount": 1}
            await self.call("Input.dispatchMouseEvent", type=kind, **where)

    async def press(self, key: str) -> None:
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def until(self, met: Callable[[Tab], bool]) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not met(self):
            if asyncio.get_running_loop().time() > end:
                raise AssertionError(f"{self.problems}; the last of it: {self.received[-2000:]!r}")
            await asyncio.sleep(0.05)

    async def picture(self) -> bytes:
        shot = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(shot["data"])


@asynccontextmanager
async def browser(home: Path) -> AsyncIterator[Tab]:
    """Run Chromium with a home of its own; it ends with the test."""
    assert CHROMIUM is not None
    words = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run")
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *words,
        *quiet,
        f"--user-data-dir={home / 'chromium'}",
        "--remote-debugging-port=0",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": str(home)},
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        address = None
        while address is None:
            line = await asyncio.wait_for(process.stderr.readline(), PATIENCE_S)
            assert line, "chromium ended at once"
            found = _LISTENS.search(line.decode(errors="replace"))
            address = found[1] if found else None
        draining = asyncio.create_task(process.stderr.read())
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address, max_msg_size=0) as socket,
        ):
            tab = Tab(socket)
            listening = asyncio.create_task(tab.listen())
            yield tab
            listening.cancel()
        draining.cancel()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
