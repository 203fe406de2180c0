"""ASCII for our signs and for everything that Textual draws, for terminals that know no more."""

from __future__ import annotations

from typing import Final

_SIGNS: Final = {
    # What a session, an agent or a line is doing. No two that can stand in one column are alike.
    "●": "*",
    "○": "o",
    "◌": "o",
    "◯": "o",
    "▲": "!",
    "△": "!",
    "⚠": "!",
    "⏸": "=",
    "▶": ">",
    "✓": "+",
    "✔": "+",
    "✗": "x",
    "✘": "x",
    "†": "t",
    "★": "*",
    "☆": "o",
    "◆": "&",
    "◇": "%",
    "■": "#",
    "□": "_",
    "▪": "#",
    "↻": "@",
    "✂": "%",
    "⟳": "@",
    "∅": "0",
    "⊘": "0",
    # Words and numbers.
    "≡": "=",
    "≈": "~",
    "…": ".",
    "·": "-",
    "•": "*",
    "–": "-",
    "—": "-",
    "‑": "-",
    "−": "-",
    "×": "x",
    "÷": "/",
    "±": "~",
    "≤": "<",
    "≥": ">",
    "›": ">",
    "‹": "<",
    "»": ">",
    "«": "<",
    "❯": ">",
    "“": '"',
    "”": '"',
    "„": '"',
    "‘": "'",
    "’": "'",
    "¹": "1",
    "²": "2",
    "³": "3",
    "⁴": "4",
    "⁵": "5",
    "⁶": "6",
    "⁷": "7",
    "⁸": "8",
    "⁹": "9",
    "⁰": "0",
    "⚡": "! ",
    "\N{NO-BREAK SPACE}": " ",
    # Where something opens, leads, or can be turned.
    "→": ">",
    "←": "<",
    "↑": "^",
    "↓": "v",
    "↔": "-",
    "↕": "|",
    "↵": "<",
    "⏎": "<",
    "⌫": "<",
    "↳": ">",
    "▸": ">",
    "▹": ">",
    "▾": "v",
    "▿": "v",
    "◂": "<",
    "►": ">",
    "◄": "<",
    "▼": "v",
    "▽": "v",
    "◀": "<",
    "⭘": "o",
    "🔎": "/ ",
    # Bars and sparklines: the lower, the lighter.
    "▁": "_",
    "▂": ".",
    "▃": ":",
    "▄": "#",
    "▅": "#",
    "▆": "#",
    "▇": "#",
    "█": "#",
    "▀": '"',
    "▔": '"',
    "▐": "|",
    "▌": "|",
    "▏": "|",
    "▕": "|",
    "▎": "|",
    "▍": "|",
    "▋": "#",
    "▊": "#",
    "▉": "#",
    "▖": "=",
    "▗": "=",
    "▘": '"',
    "▝": '"',
    "▙": "#",
    "▚": "%",
    "▛": "#",
    "▜": "#",
    "▞": "%",
    "▟": "#",
    "░": "-",
    "▒": "+",
    "▓": "#",
}

_STRAIGHT_LINES: Final = {
    "-": "─━┄┅┈┉╌╍═╴╶╸╺╼╾⎯",
    "|": "│┃┆┇┊┋╎╏║╵╷╹╻╽╿┊",
    "/": "╱",
    "\\": "╲",
    "X": "╳",
}


def _box_drawing() -> dict[str, str]:
    """Borders and trees: what is no straight line is a corner or a crossing."""
    box = {chr(code): "+" for code in range(0x2500, 0x2580)}
    return box | {sign: plain for plain, signs in _STRAIGHT_LINES.items() for sign in signs}


def _braille() -> dict[str, str]:
    """Graphs of dots: a cell with one or two, with some, with many."""
    cells = {chr(0x2800 + dots): ".:#"[min(dots.bit_count() - 1, 5) // 2] for dots in range(1, 256)}
    return cells | {"\u2800": " "}


ASCII_TABLE: Final = str.maketrans(_box_drawing() | _braille() | _SIGNS)
"""Each sign by ASCII of the same width; letters of any language are not signs and stay."""


def to_ascii(text: str) -> str:
    """Write a text with ASCII's signs."""
    return text if text.isascii() else text.translate(ASCII_TABLE)
