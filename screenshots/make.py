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
from stage import NOW, dress, made, rested, staged

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


FULLEST: Final = ("j",)
LEADER: Final = ("j",) * 5
"""Down to the session whose agents are told."""
COLD: Final = ("j",) * 7
"""Down to the session whose prompt cache has expired."""

SHOTS: Final = (
    Shot("fleet", (120, 40), LEADER),
    Shot("fleet-80x24", (80, 24), LEADER),
    Shot("fleet-grouped", (120, 40), ("o", *LEADER)),
    Shot("fleet-filter", (120, 30), ("slash", *"level:notice+ !draft", "enter")),
    Shot("session", (120, 40), (*FULLEST, "enter")),
    Shot("session-80x24", (80, 24), (*FULLEST, "enter")),
    Shot("session-evidence", (120, 40), (*FULLEST, "enter", "5")),
    Shot("cache", (120, 40), (*COLD, "enter", "8", "j", "j")),
    Shot("limits", (120, 40), ("U",)),
    Shot("conversation", (120, 40), (*LEADER, "v")),
    Shot("search", (120, 40), ("F", *"wishlist page")),
    Shot("agents", (120, 40), ("j", "j", "j", "j", "A", "j", "j")),
    Shot("agents-types", (120, 34), ("A", "2", "a", "a")),
    Shot("agents-findings", (120, 34), ("A", "3", "a", "a")),
    Shot("summaries", (120, 40), ("S",)),
    Shot("summaries-search", (120, 40), ("S", "slash", *"wishlist", "enter")),
    Shot("summaries-compare", (120, 40), ("S", "j", "space", "j", "space", "equals_sign")),
    Shot("compact", (120, 40), (*FULLEST, "c", "j")),
    Shot("compact-80x24", (80, 24), (*FULLEST, "c", "j")),
    Shot("receipt", (120, 40), (*FULLEST, "c", "f")),
    Shot("receipts", (120, 24), ("R",)),
    Shot("settings", (120, 40), ("P",)),
    Shot("settings-all", (120, 40), ("P", "2")),
    Shot("log", (120, 40), ("L",)),
    Shot("doctor", (120, 40), ("D",)),
    Shot("palette", (120, 30), ("colon", *"agents")),
    Shot("help", (120, 40), ("question_mark",)),
)
"""In this order: what one writes, those after it show."""

SAVES: Final = Shot("saves", (120, 24), ("M",))
"""Of a folder that has sessions of a plugin as well: the last one."""


async def take(shot: Shot, theme: str, root: Path) -> str:
    """Drive the dashboard to a shot and return the SVG."""
    async with staged(root, theme, shot.size) as (app, pilot):
        for key in shot.keys:
            await pilot.press(key)
            await pilot.pause(0.3)
        await rested(app, pilot)
        app.clear_notifications()
        await pilot.pause(0.2)
        return app.export_screenshot(title="ctxtop")


def with_true_widths(svg: str) -> str:
    """Widen wide characters to two cells: Rich's SVG export counts characters."""

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
    from ctxtop.collectors.demo import make_demo_saves

    wanted = set(sys.argv[1:])
    with tempfile.TemporaryDirectory() as top:
        dress(Path(top))
        folder = made(Path(top))
        for shot in (*SHOTS, SAVES):
            if wanted and shot.name not in wanted:
                continue
            if shot is SAVES:
                make_demo_saves(folder.root, Path(top) / "work", NOW)
            for suffix, theme in THEMES.items():
                save(f"{shot.name}-{suffix}", asyncio.run(take(shot, theme, folder.root)))
                print(f"{shot.name}-{suffix}")


if __name__ == "__main__":
    main()
