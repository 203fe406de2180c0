"""The Conversation tab of a 100 MB transcript: opening, paging and searching, and memory.

Milliseconds from a key to the frame that shows what it did, at 120x40, each beside the same
measurement of an empty Textual screen that is pushed (the ratio), and of opening also the
milliseconds of a processor in all threads, which a busy machine does not change. Peak memory is
that of the process. Usage: python -m tests.bench.bench_conversation [megabytes] [rounds]
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual.screen import Screen
from textual.widgets import Static

from tests import transcripts

from .bench_burst import SIZE, Frames, press, quantile, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctxtop.tui.app import CtxtopApp
    from ctxtop.tui.conversation.conversation_pane import ConversationPane

MEGABYTE: Final = 1_000_000
TARGET_MS: Final = 150
CONVERSATION_KEY: Final = "7"
PAGES: Final = 60
NEEDLE: Final = "quetzalcoatlus"
NEEDLE_EVERY: Final = 2_000  # turns
WORDS: Final = (  # noqa: SIM905 -- easier to read
    "the parser reads one line at a time and keeps its offset so that a test can fail when the"
    " buffer is empty or the index points behind the last block of a file that was rewritten"
).split()
ANSWER: Final = """\
I looked at **{words}** and found two causes:

1. `{code}` is called before the lock is taken
2. the [index](https://example.org/{code}) is stale

```python
def {code}(line: bytes) -> int:
    return len(line)
```
"""


def turn_lines(number: int, chance: random.Random) -> Iterator[transcripts.JsonLine]:
    """A turn of the kind that long sessions have: a prompt, tool calls, an answer."""
    words = " ".join(chance.choices(WORDS, k=20))
    needle = NEEDLE if number % NEEDLE_EVERY == 0 else ""
    context = 20_000 + number * 97 % 150_000
    yield transcripts.user(f"{words} {needle}", at=number)
    for call in range(chance.randint(1, 4)):
        name = f"toolu_{number}_{call}"
        asked = transcripts.tool("Bash", name, command=f"grep -rn {WORDS[call]} src | head -200")
        yield transcripts.assistant(f"msg_{number}_{call}", context, content=[asked], at=number)
        rows = (" ".join(chance.choices(WORDS, k=9)) for _ in range(chance.randint(5, 120)))
        yield transcripts.tool_result(name, "\n".join(rows), {}, at=number)
    text = ANSWER.format(words=words, code=chance.choice(WORDS))
    content = [transcripts.text(text)]
    yield transcripts.assistant(f"msg_{number}", context + 900, content=content, at=number)


def write_transcript(path: Path, size: int) -> None:
    """Write turns until the file has `size` bytes."""
    chance, number = random.Random(7), 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            number += 1
            for line in turn_lines(number, chance):
                file.write(json.dumps(line, separators=(",", ":")) + "\n")


def find_pane(app: CtxtopApp) -> ConversationPane | None:
    from ctxtop.tui.conversation.conversation_pane import ConversationPane

    return next(iter(app.screen.query(ConversationPane)), None)


async def wait_until(frames: Frames, met: Callable[[], object]) -> None:
    """Wait until something holds, and for the frame after that."""
    while not met():  # noqa: ASYNC110 -- the app is watched from outside
        await asyncio.sleep(0.001)
    moment = time.perf_counter()
    for _ in range(200):
        if frames.after(moment) is not None:
            return
        await asyncio.sleep(0.001)


def shows_rows(app: CtxtopApp) -> bool:
    pane = find_pane(app)
    return (
        pane is not None and pane.is_mounted and bool(pane.view.rows) and pane.view.size.height > 0
    )


async def open_tab(app: CtxtopApp, frames: Frames, key: str) -> tuple[float, float]:
    """Press a key, and return the milliseconds until the rows are there, and of work."""
    began, worked = time.perf_counter(), time.process_time()
    app.simulate_key(key)
    await wait_until(frames, lambda: shows_rows(app))
    return (time.perf_counter() - began) * 1_000, (time.process_time() - worked) * 1_000


async def open_empty_screen(app: CtxtopApp, frames: Frames) -> float:
    class EmptyScreen(Screen[None]):
        def compose(self) -> Iterator[Static]:
            yield Static("empty")

    began = time.perf_counter()
    screen = EmptyScreen()
    app.push_screen(screen)
    await wait_until(frames, lambda: screen.is_mounted and screen.query(Static))
    took = (time.perf_counter() - began) * 1_000
    app.pop_screen()
    await asyncio.sleep(0.05)
    return took


async def open_session_page(app: CtxtopApp, frames: Frames) -> tuple[float, float]:
    """Return the milliseconds of Enter on the fleet, and of the Conversation tab after it."""
    from ctxtop.tui.screens.session.session_screen import SessionScreen

    began = time.perf_counter()
    app.simulate_key("enter")
    await wait_until(
        frames, lambda: isinstance(app.screen, SessionScreen) and app.screen.is_mounted
    )
    took = (time.perf_counter() - began) * 1_000
    await asyncio.sleep(0.5)
    tab, _ = await open_tab(app, frames, CONVERSATION_KEY)
    await asyncio.sleep(0.2)
    while app.screen is not app.fleet:
        await press(app, frames, "escape")
    return took, tab


async def search(app: CtxtopApp, frames: Frames) -> float:
    """Search for a word that stands in few places, and return the milliseconds to the end."""
    await press(app, frames, "slash")
    for key in NEEDLE:
        await press(app, frames, key)
    began = time.perf_counter()
    app.simulate_key("enter")
    pane = find_pane(app)
    await wait_until(frames, lambda: pane and pane.search and pane.search.is_over)
    took = (time.perf_counter() - began) * 1_000
    await press(app, frames, "escape")
    return took


async def measure(root: Path, rounds: int) -> None:
    app, frames = watched(root)
    empty: list[float] = []
    session_pages: list[tuple[float, float]] = []
    opened: list[float] = []
    worked: list[float] = []
    pages: list[float] = []
    searched: list[float] = []
    async with app.run_test(size=SIZE):
        while not (app.view and app.view.scanned):  # noqa: ASYNC110 -- nothing tells of it
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        before = peak_memory()
        empty += [await open_empty_screen(app, frames) for _ in range(rounds)]
        for _ in range(rounds):
            took, work = await open_tab(app, frames, "v")
            opened.append(took)
            worked.append(work)
            await asyncio.sleep(0.2)
            pages += [(await press(app, frames, "pageup"))[0] for _ in range(PAGES)]
            pages += [(await press(app, frames, "pagedown"))[0] for _ in range(PAGES)]
            searched.append(await search(app, frames))
            while app.screen is not app.fleet:
                await press(app, frames, "escape")
            await asyncio.sleep(0.2)
        after = peak_memory()
        session_pages += [await open_session_page(app, frames) for _ in range(rounds)]
        app.exit()
    print_times("empty screen", empty, empty)
    print_times("open the session page", [page for page, _ in session_pages], empty)
    print_times("open its Conversation tab", [tab for _, tab in session_pages], empty)
    print_times("open both from the list", opened, empty)
    print(f"  processor p50 {quantile(worked, 0.5):.0f} ms, p95 {quantile(worked, 0.95):.0f} ms")
    tabs = [tab for _, tab in session_pages]
    print(f"  first {opened[0]:.0f} ms, tab p95/target {quantile(tabs, 0.95) / TARGET_MS:.2f}")
    print_times("page up and down", pages, empty)
    print_times("search to the end", searched, empty)
    print(f"peak memory {after:.0f} MB, {after - before:.0f} MB above the fleet's")


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


def print_times(name: str, times: list[float], empty: list[float]) -> None:
    p50, p95 = quantile(times, 0.5), quantile(times, 0.95)
    ratio = p50 / quantile(empty, 0.5)
    print(f"{name}: p50 {p50:.0f} ms, p95 {p95:.0f} ms, p50/empty screen {ratio:.2f}")


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as top:
        os.environ["HOME"] = top
        root = Path(top) / "claude"
        project = root / "projects" / transcripts.PROJECT
        project.mkdir(parents=True)
        path = project / f"{transcripts.SESSION}.jsonl"
        write_transcript(path, megabytes * MEGABYTE)
        print(f"a transcript of {path.stat().st_size / MEGABYTE:.0f} MB")
        asyncio.run(measure(root, rounds))


if __name__ == "__main__":
    main()
