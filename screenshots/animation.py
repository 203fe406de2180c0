"""Frames of a terminal as one animated SVG: no script, no font from elsewhere, each line once."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.segment import Segment
    from rich.style import Style

CELL_WIDTH: Final = 8.4
LINE_HEIGHT: Final = 18.0
FONT_SIZE: Final = 14
BASELINE: Final = 13.5
MARGIN: Final = 12.0
FONTS: Final = "'DejaVu Sans Mono', Menlo, 'Cascadia Mono', Consolas, monospace"


@dataclass(frozen=True, slots=True)
class Frame:
    """What stood on the screen, and for how long."""

    lines: tuple[tuple[Segment, ...], ...]
    seconds: float


def animate(frames: Sequence[Frame], columns: int, background: str, title: str) -> str:
    """Draw the frames one after another, again and again."""
    pictures = [[draw_line(line) for line in frame.lines] for frame in frames]
    numbers: dict[str, int] = {}
    for picture in pictures:
        for line in picture:
            numbers.setdefault(line, len(numbers))
    width = columns * CELL_WIDTH + 2 * MARGIN
    height = max(len(picture) for picture in pictures) * LINE_HEIGHT + 2 * MARGIN
    total = sum(frame.seconds for frame in frames)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
            f"<title>{html.escape(title)}</title>",
            "<style>",
            f"text{{font:{FONT_SIZE}px {FONTS};white-space:pre}}",
            (
                f".f{{visibility:hidden;animation-duration:{total:g}s;"
                "animation-iteration-count:infinite;animation-timing-function:step-end}"
            ),
            *_moments(frames, total),
            # Who asked for no movement sees the first frame.
            "@media (prefers-reduced-motion:reduce){.f{animation:none}.f0{visibility:visible}}",
            "</style>",
            "<defs>",
            *(f'<g id="l{number}">{line}</g>' for line, number in numbers.items() if line),
            "</defs>",
            f'<rect width="100%" height="100%" rx="8" fill="{background}"/>',
            *(_picture(place, picture, numbers) for place, picture in enumerate(pictures)),
            "</svg>",
            "",
        ]
    )


def draw_line(segments: Iterable[Segment]) -> str:
    """Draw one line: what lies behind its words, then the words."""
    behind: list[str] = []
    words: list[str] = []
    column = 0
    for text, style, _ in segments:
        cells = cell_len(text)
        x, width = column * CELL_WIDTH, cells * CELL_WIDTH
        column += cells
        if style is None or not cells:
            continue
        front, back = _colors(style)
        if back:
            behind.append(
                f'<rect x="{x:g}" width="{width:g}" height="{LINE_HEIGHT:g}" fill="{back}"/>'
            )
        if text.strip():
            words.append(_words(text, x, width, front, style))
    return "".join(behind + words)


def _words(text: str, x: float, width: float, color: str, style: Style) -> str:
    bold = ' font-weight="bold"' if style.bold else ""
    return (
        f'<text x="{x:g}" y="{BASELINE:g}" textLength="{width:g}" fill="{color}"{bold}>'
        f"{html.escape(text)}</text>"
    )


def _colors(style: Style) -> tuple[str, str]:
    front = style.color.get_truecolor().hex if style.color else "#c8d0e8"
    back = style.bgcolor.get_truecolor().hex if style.bgcolor else ""
    return (back, front) if style.reverse else (front, back)


def _moments(frames: Sequence[Frame], total: float) -> Iterable[str]:
    start = 0.0
    for place, frame in enumerate(frames):
        end = start + frame.seconds
        before = "" if place == 0 else "0%{visibility:hidden}"
        after = f"{end / total:.3%}{{visibility:hidden}}" if place < len(frames) - 1 else ""
        yield (
            f"@keyframes k{place}{{{before}{start / total:.3%}{{visibility:visible}}{after}}}"
            f".f{place}{{animation-name:k{place}}}"
        )
        start = end


def _picture(place: int, lines: Sequence[str], numbers: dict[str, int]) -> str:
    used = "".join(
        f'<use href="#l{numbers[line]}" x="{MARGIN:g}" y="{MARGIN + row * LINE_HEIGHT:g}"/>'
        for row, line in enumerate(lines)
        if line
    )
    return f'<g class="f f{place}">{used}</g>'
