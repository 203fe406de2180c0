"""Make the recording of README.md again, from the demo's data: `make recording`."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from animation import Frame, animate
from stage import dress, made, staged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxtop.tui.app import CtxtopApp
    from rich.segment import Segment

SIZE: Final = (110, 32)
THEME: Final = "ctxtop-dark"
BACKGROUND: Final = "#14161f"
RECORDING: Final = Path(__file__).with_name("recording.svg")


@dataclass(frozen=True, slots=True)
class Scene:
    """Keys, one after another, and how long the last of them is looked at."""

    keys: tuple[str, ...]
    seconds: float
    between: float = 0.25
    """Seconds after each of the others."""
    work: float = 0.4
    """Seconds that the screen gets to draw, and to ask what it shows; not in the recording."""


STORY: Final = (
    Scene((), 2.5),
    Scene(("j", "j", "j"), 1.2),
    Scene(("s",), 1.8),
    Scene(("enter",), 3.0, work=2.0),
    Scene(("left", "left", "left", "left", "left", "left"), 1.6, between=0.3, work=0.8),
    Scene(("end", "tab"), 2.5),
    Scene(("c",), 3.0, work=2.5),
    Scene(("j", "j"), 1.5),
    Scene(("space",), 2.0, work=1.2),
    Scene(("f",), 4.0, work=4.0),
    Scene(("u",), 2.5),
    Scene(("right", "enter"), 3.0, work=2.0),
    Scene(("A",), 3.0, work=1.5),
    Scene(("S",), 2.5, work=1.5),
)
"""The fullest session, what fills it, a plan, a fork, and all of it taken back."""


async def record(root: Path) -> list[Frame]:
    """Play the story, and keep what stood on the screen."""
    frames: list[Frame] = []
    async with staged(root, THEME, SIZE) as (app, pilot):
        await pilot.pause(1.0)
        for scene in STORY:
            for key in scene.keys:
                await pilot.press(key)
                await pilot.pause(scene.work)
                frames.append(Frame(tuple(lines(app)), scene.between))
            last = frames.pop().lines if scene.keys else tuple(lines(app))
            frames.append(Frame(last, scene.seconds))
    return frames


def lines(app: CtxtopApp) -> Iterator[tuple[Segment, ...]]:
    """Yield the screen's content line by line."""
    for strip in app.screen._compositor.render_strips():
        yield tuple(strip)


def main() -> None:
    """Make it."""
    with tempfile.TemporaryDirectory() as top:
        dress(Path(top))
        folder = made(Path(top))
        frames = asyncio.run(record(folder.root))
    RECORDING.write_text(animate(frames, SIZE[0], BACKGROUND, "ctxtop"), encoding="utf-8")
    print(f"{RECORDING.name}: {len(frames)} frames, {RECORDING.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
