"""ASCII for our signs and for everything that Textual draws, for terminals that know no more."""

from typing import Final

# No two signs that can occur in one column share an ASCII sign.
_SIGNS: Final = {
    "*": "●★•",
    "o": "○◌◯☆⭘",
    "!": "▲△⚠",
    "! ": "⚡",
    "x": "✗✘×",
    "t": "†",
    "c": "¢",
    "&": "◆",
    "@": "↻⟳",
    "0": "∅⊘◐",
    "+": "✓✔▒",
    "%": "◇▚▞",
    "=": "⏸≡▖▗",
    "~": "≈±…",  # not a dot: a path that was cut would look like another path
    ".": "▂",
    ":": "▃",
    "-": "·–—‑−↔░",
    "_": "□▁",
    "/": "÷",
    "/ ": "🔎",
    "<": "≤‹«←↵⏎⌫◂◄◀",
    ">": "▶≥›»❯→↳▸▹►",
    "^": "↑",
    "v": "↓▾▿▼▽",
    "|": "↕▐▌▏▕▎▍",
    "#": "■▪▄▅▆▇█▋▊▉▙▛▜▟▓",
    '"': "“”„▀▔▘▝",
    "'": "‘’",
    "Y": "⑂",
    " ": "\N{NO-BREAK SPACE}\u2800",
}
_STRAIGHT_LINES: Final = {
    "-": "─━┄┅┈┉╌╍═╴╶╸╺╼╾⎯",
    "|": "│┃┆┇┊┋╎╏║╵╷╹╻╽╿┊",
    "/": "╱",
    "\\": "╲",
    "X": "╳✂",  # not %: numbers are beside it
}


def _ascii_table() -> dict[str, str]:
    # Box drawing: what is no straight line is a corner or a crossing.
    table = {chr(code): "+" for code in range(0x2500, 0x2580)}
    # Braille: a cell with one or two dots, with some, with many.
    table |= {
        chr(0x2800 + dots): ".:#"[min(dots.bit_count() - 1, 5) // 2] for dots in range(1, 256)
    }
    table |= dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True))
    for groups in (_STRAIGHT_LINES, _SIGNS):
        table |= {sign: plain for plain, signs in groups.items() for sign in signs}
    return table


ASCII_TABLE: Final = str.maketrans(_ascii_table())
"""Each sign by ASCII of the same width; letters of any language stay."""


def to_ascii(text: str) -> str:
    return text if text.isascii() else text.translate(ASCII_TABLE)
