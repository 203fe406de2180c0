"""Make every picture again, from the demo's data: `make screenshots`.

Nothing here is drawn by hand: the dashboard runs without a terminal, is driven by
its keys, and is written down as SVG, and as PNG for pages that show no SVG.
"""

from __future__ import annotations

import asyncio
import html
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.cells import cell_len
from stage import NOW, dress, staged

HERE: Final = Path(__file__).parent
FONT: Final = "DejaVu Sans Mono"
"""It has every sign that we use; Textual's own choice is fetched by the browser."""

THEMES: Final = {"dark": "ctxtop-dark", "light": "ctxtop-light"}


_TEXT: Final = re.compile(
    r'(?P<head><text [^>]*)textLength="(?P<length>[\d.]+)"(?P<rest>[^>]*)>(?P<text>[^<]+)</text>'
)


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture: its size, and the keys that lead to it."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()


DOWN_TO_THE_LEADER: Final = ("j",) * 5
SHOTS: Final = (
    Shot("fleet", (120, 40), DOWN_TO_THE_LEADER),
    Shot("fleet-80x24", (80, 24), DOWN_TO_THE_LEADER),
    Shot("sessions", (120, 26), ("z",)),
    Shot("agents", (120, 14), (*"jjjj", "2", "z")),
    Shot("summaries", (120, 30), ("3", "z")),
    Shot("search", (120, 30), ("3", "slash", *"tests", "enter", "z")),
    Shot("session", (100, 44), ("j", "enter")),
    Shot("agent", (100, 36), (*"jjjj", "2", "j", "j", "enter")),
    Shot("summary", (100, 36), ("3", "j", "j", "enter")),
    Shot("help", (100, 40), ("question_mark",)),
)
SAVES: Final = Shot("saves", (120, 40), ("m",))
"""Of a folder that has sessions of a plugin as well: the last one."""


async def take(shot: Shot, theme: str, root: Path) -> str:
    """Drive the dashboard to a shot and return the SVG."""
    async with staged(root, theme, shot.size) as (app, pilot):
        for key in shot.keys:
            await pilot.press(key)
            await pilot.pause(0.2)
        await pilot.pause(0.5)
        return app.export_screenshot(title="ctxtop")


def with_true_widths(svg: str) -> str:
    """Give wide characters their two cells: Rich's export counts characters."""

    def widen(found: re.Match[str]) -> str:
        text = html.unescape(found["text"])
        length = float(found["length"]) * cell_len(text) / len(text)
        return f'{found["head"]}textLength="{length:.1f}"{found["rest"]}>{found["text"]}</text>'

    return _TEXT.sub(widen, svg)


def save(name: str, svg: str) -> None:
    """Write a picture as SVG and PNG."""
    import resvg_py

    stable = with_true_widths(re.sub(r"terminal-\d+", "terminal", svg))
    (HERE / f"{name}.svg").write_text(stable, encoding="utf-8")
    drawn = resvg_py.svg_to_bytes(svg_string=stable.replace("Fira Code", FONT))
    (HERE / f"{name}.png").write_bytes(bytes(drawn))


def main() -> None:
    """Make all of them, or those that are named."""
    from ctxtop.collectors.demo import make_demo, make_saves

    wanted = set(sys.argv[1:])
    with tempfile.TemporaryDirectory() as top:
        dress(Path(top))
        folder = make_demo(Path(top) / "claude", NOW)
        for shot in (*SHOTS, SAVES):
            if wanted and shot.name not in wanted:
                continue
            if shot is SAVES:
                make_saves(folder.root, Path(top) / "work", NOW)
            for suffix, theme in THEMES.items():
                save(f"{shot.name}-{suffix}", asyncio.run(take(shot, theme, folder.root)))
                print(f"{shot.name}-{suffix}")


if __name__ == "__main__":
    main()
